"""Shards in training: longest first where several are trained at once, halved if they do not fit, repeated if lost."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Protocol

from synib.training.cells import Cell, cut, digest
from synib.training.folder import Folder

Progress = Callable[[float, float], None]


class Failure(Enum):
    """Why a shard was returned without a result."""

    OUT_OF_MEMORY = "out of memory"
    NODE_LOST = "node lost"
    PROCESS_ENDED = "process ended"


@dataclass(frozen=True)
class Written:
    """A shard that the worker itself has written to the folder.

    Args:
        seconds: How long its training took.
    """

    seconds: float


class Workers(Protocol):
    """What trains shards: this process, several processes of this machine, or the nodes of a cluster.

    Attributes:
        tries: How often a shard may end its process.
        in_order: Whether shards are trained in their order instead of the longest first.
    """

    tries: int
    in_order: bool

    @property
    def memory_of(self) -> str:
        """Description of the memory that a shard has to fit into."""

    def room(self) -> int:
        """The number of shards that can be submitted now."""

    def submit(self, shard: list[Cell], on_epoch: Callable[[], None], halvings: int) -> None:
        """Accept a shard for training.

        Args:
            shard: The shard.
            on_epoch: Called after each epoch if the workers can report it.
            halvings: How often shards were halved before, for workers that write shards themselves.
        """

    def results(self) -> Iterable[tuple[list[Cell], dict[str, Any] | Written | Failure]]:
        """Returned shards, each with its content for :meth:`Folder.write`, as written, or with its failure."""


@dataclass
class ShardTraining:
    """Trains every unfinished shard, and writes each to the folder as soon as it is returned.

    Where several are trained at once, the one that is expected to take longest is next: as long as the others of its
    program took, or as its cost suggests before one is finished. A shard that runs out of memory is halved, together
    with the waiting shards of its program of the same size. A shard whose node is lost is trained again as often as
    needed; one whose process ended, as often as the workers allow.

    Args:
        folder: Folder for the results.
        workers: What trains the shards.
        costs: Program → cost of an epoch of one model, in epochs of a vanilla model.
        on_progress: Called with the work done and the total work, in epochs of a vanilla model.
        say: Called with messages for the user.
    """

    folder: Folder
    workers: Workers
    costs: Mapping[str, float]
    on_progress: Progress
    say: Callable[[str], None]
    waiting: deque[list[Cell]] = field(default_factory=deque, init=False)
    ended_processes: Counter[str] = field(default_factory=Counter, init=False)
    halvings: int = field(default=0, init=False)
    done: float = field(default=0.0, init=False)
    in_training: dict[str, float] = field(default_factory=dict, init=False)  # shard → the part of its work that is done
    rates: dict[str, float] = field(default_factory=dict, init=False)  # program → seconds for a unit of work
    total: float = field(default=0.0, init=False)

    def run(self, shards: Sequence[list[Cell]]) -> None:
        """Train all shards of a run; finished ones are skipped."""
        self.waiting = deque(self.folder.unfinished(shards, self.say))
        self.total = sum(map(self._work, shards))
        self.done = self.total - sum(map(self._work, self.waiting))
        self._order()
        self._report()
        while self.waiting or self.in_training:
            while self.waiting and self.workers.room() > 0:
                shard = self.waiting.popleft()
                self.in_training[_name(shard)] = 0.0
                self.workers.submit(shard, self._epoch_counter(shard), self.halvings)
            for shard, result in self.workers.results():
                del self.in_training[_name(shard)]
                if result is Failure.OUT_OF_MEMORY:
                    self._halve(shard)
                elif isinstance(result, Failure):
                    self._retry(shard, result)
                else:
                    seconds = result.seconds if isinstance(result, Written) else result["timing"]["seconds"]
                    if not isinstance(result, Written):
                        result["timing"]["halvings"] = self.halvings  # in this process
                        self.folder.write(shard, result)
                    self.done += self._work(shard)
                    self._measured(shard, seconds)
                self._report()

    def _report(self) -> None:
        self.on_progress(self.done + sum(self.in_training.values()), self.total)

    def _measured(self, shard: Sequence[Cell], seconds: float) -> None:
        """Expect that the other shards of a program take as long as its first one."""
        if shard[0].program not in self.rates:
            self.rates[shard[0].program] = seconds / self._work(shard)
            self._order()

    def _order(self) -> None:
        """Put the longest shards first, unless the workers train them in their order."""
        if not self.workers.in_order:
            typical = sum(self.rates.values()) / len(self.rates) if self.rates else 1.0
            expected = [self._work(shard) * self.rates.get(shard[0].program, typical) for shard in self.waiting]
            order = sorted(range(len(expected)), key=lambda i: -expected[i])  # equal ones stay in their order
            self.waiting = deque(self.waiting[i] for i in order)

    def _work(self, shard: Sequence[Cell]) -> float:
        """The cost of training a shard, in epochs of a vanilla model."""
        return self.costs[shard[0].program] * len(shard) * float(shard[0].settings["epochs"])

    def _epoch_counter(self, shard: Sequence[Cell]) -> Callable[[], None]:
        """Reports the progress within a shard each time it is called."""
        name, epoch = _name(shard), self._work(shard) / shard[0].settings["epochs"]

        def on_epoch() -> None:
            self.in_training[name] += epoch
            self._report()

        return on_epoch

    def _retry(self, shard: list[Cell], failure: Failure) -> None:
        if failure is Failure.NODE_LOST:
            self.say(f"A node was lost while training {len(shard)} models; they are trained again on another node.")
        else:
            self.ended_processes[_name(shard)] += 1
            times = self.ended_processes[_name(shard)]
            if times == self.workers.tries:
                raise ValueError(
                    f"The process that trains {len(shard)} {shard[0].method} models ended {times} times, as happens when "
                    "the system runs out of memory: train fewer models together. Finished models are kept."
                )
            self.say(f"The process that trained {len(shard)} models ended; they are trained again.")
        self.waiting.appendleft(shard)

    def _halve(self, shard: list[Cell]) -> None:
        """Halve a shard that did not fit, and the waiting shards of its program of the same size."""
        if len(shard) == 1:
            raise ValueError(
                f"A single {shard[0].method} model does not fit into the memory of {self.workers.memory_of}: use a "
                "smaller model or batch_size, or a device with more memory."
            )
        halves: list[list[Cell]] = []
        others: list[list[Cell]] = []
        for candidate in (shard, *self.waiting):
            if candidate[0].program == shard[0].program and len(candidate) >= len(shard):
                halves += cut(candidate, -(-len(candidate) // 2))
            else:
                others.append(candidate)
        self.waiting = deque([*self.folder.regroup(halves), *others])
        self._order()
        self.halvings += 1
        self.say(
            f"Out of memory with {len(shard)} models at once on {self.workers.memory_of}: shards of that size "
            "are halved and training continues. Finished models are kept."
        )


def _name(shard: Sequence[Cell]) -> str:
    return digest([cell.id for cell in shard])
