"""Train the shards of a run: halve those that do not fit into memory, and train again those that were lost."""

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

from synib.training.cells import Cell, cut, digest
from synib.training.folder import Folder

Progress = Callable[[float, float], None]

ATTEMPTS = 3  # times that a shard may end its process


class Failure(Enum):
    """Why a shard came back without a result."""

    OUT_OF_MEMORY = "out of memory"
    NODE_LOST = "node lost"
    PROCESS_ENDED = "process ended"


class Workers(Protocol):
    """Whoever trains shards: this process, or the nodes of a cluster."""

    @property
    def memory_of(self) -> str:
        """Whose memory a shard has to fit into, in words."""

    def room(self) -> int:
        """How many more shards can be submitted now."""

    def submit(self, shard: list[Cell], on_epoch: Callable[[], None]) -> None:
        """Accept a shard for training; ``on_epoch`` is called after each epoch, where that can be known."""

    def results(self) -> Iterable[tuple[list[Cell], dict[str, Any] | Failure]]:
        """Shards that came back, each with its content for :meth:`Folder.write` or with its failure."""


@dataclass
class ShardTraining:
    """Trains every shard that is not finished, and writes each to the folder as soon as it comes back.

    A shard that runs out of memory is halved, together with the waiting shards of its program that are as large. A shard
    whose node is lost is trained again as often as needed; one whose process ended, up to three times.

    Args:
        folder: Where results are written.
        workers: Who trains.
        costs: Program → cost of an epoch of one model, in epochs of a vanilla model.
        on_progress: Called with the work done and the total work, in epochs of a vanilla model.
        say: Called with messages for the user.
    """

    folder: Folder
    workers: Workers
    costs: Mapping[str, float]
    on_progress: Progress
    say: Callable[[str], None]

    def __post_init__(self) -> None:
        """Begin without shards."""
        self.waiting: deque[list[Cell]] = deque()
        self.ended_processes: Counter[str] = Counter()
        self.halvings = 0
        self.done = self.total = 0.0

    def run(self, shards: Sequence[list[Cell]]) -> None:
        """Train all shards of a run; finished ones are skipped."""
        self.waiting = deque(shard for shard in shards if not self.folder.finished(shard))
        self.total = sum(map(self._work, shards))
        self.done = self.total - sum(map(self._work, self.waiting))
        self.on_progress(self.done, self.total)
        in_training = 0
        while self.waiting or in_training:
            while self.waiting and self.workers.room() > 0:
                shard = self.waiting.popleft()
                self.workers.submit(shard, self._epoch_counter(shard))
                in_training += 1
            for shard, result in self.workers.results():
                in_training -= 1
                if result is Failure.OUT_OF_MEMORY:
                    self._halve(shard)
                elif isinstance(result, Failure):
                    self._retry(shard, result)
                else:
                    result["timing"]["halvings"] = self.halvings  # in this process
                    self.folder.write(shard, result)
                    self.done += self._work(shard)
                self.on_progress(self.done, self.total)

    def _work(self, shard: Sequence[Cell]) -> float:
        """Cost of training a shard, in epochs of a vanilla model."""
        return self.costs[shard[0].program] * len(shard) * float(shard[0].settings["epochs"])

    def _epoch_counter(self, shard: Sequence[Cell]) -> Callable[[], None]:
        """Reports the progress within a shard each time it is called."""
        done, epoch = self.done, self._work(shard) / shard[0].settings["epochs"]

        def on_epoch() -> None:
            nonlocal done
            done += epoch
            self.on_progress(done, self.total)

        return on_epoch

    def _retry(self, shard: list[Cell], failure: Failure) -> None:
        if failure is Failure.NODE_LOST:
            self.say(f"A node was lost while it trained {len(shard)} models; they are trained again on another.")
        else:
            key = digest([cell.id for cell in shard])
            self.ended_processes[key] += 1
            if self.ended_processes[key] == ATTEMPTS:
                raise ValueError(
                    f"The process that trains {len(shard)} {shard[0].method} models ended {ATTEMPTS} times, as happens when "
                    "the system runs out of memory; train fewer models together. What is finished is kept."
                )
            self.say(f"The process that trained {len(shard)} models ended; they are trained again.")
        self.waiting.appendleft(shard)

    def _halve(self, shard: list[Cell]) -> None:
        """Halve a shard that did not fit, and the waiting shards of its program that are as large."""
        if len(shard) == 1:
            raise ValueError(
                f"One {shard[0].method} model alone does not fit into the memory of {self.workers.memory_of}; use a smaller "
                "model or batch_size, or a device with more memory."
            )
        halves: list[list[Cell]] = []
        others: list[list[Cell]] = []
        for candidate in (shard, *self.waiting):
            if candidate[0].program == shard[0].program and len(candidate) >= len(shard):
                halves += cut(candidate, -(-len(candidate) // 2))
            else:
                others.append(candidate)
        self.waiting = deque([*self.folder.regroup(halves), *others])
        self.halvings += 1
        self.say(
            f"Out of memory with {len(shard)} models at once on {self.workers.memory_of}; shards of that size are halved and "
            "training goes on. What is finished is kept."
        )
