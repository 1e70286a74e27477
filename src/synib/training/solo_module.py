"""One model and its method as a LightningModule: every hook of a method, in Lightning's loop."""

import contextlib
import copy
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule
from torch import Tensor, nn
from torch.func import functional_call

from synib import keys
from synib.data import Dataset, Split
from synib.files import write_csv
from synib.masks import Noise
from synib.measure import accuracies, correct
from synib.models import Dropout
from synib.objective import Batch, Objective
from synib.tokens import Modality
from synib.training import solo_state
from synib.training.learner import Learner
from synib.training.solo_data import Batches, Piece, on, rows_of
from synib.training.solo_parallel import add_up, agree, by_kind, clip, shard
from synib.training.solo_plan import Place, Plan, Wanted
from synib.training.solo_state import Progress, Tally, config

CHECKPOINT, BEST, METRICS = "checkpoint.pt", "best.pt", "metrics.csv"
GROW = 2000  # updates without an overflow after which losses in 16-bit floats are scaled up


class Solo(LightningModule):
    """Trains a learner by its method's own gradients; what it does is what ``synib.training.loop.fit`` does.

    Lightning gives devices, processes, loggers and the progress bar. Gradients are the method's (``backward``), so the
    accumulation over pieces of a batch and over devices is done here.
    """

    def __init__(
        self,
        learner: Learner,
        data: Dataset,
        plan: Plan,
        place: Place,
        wanted: Wanted,
        saved: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        self.automatic_optimization = False
        # Sharding changes modules for good: it is done to a copy.
        self.learner = copy.deepcopy(learner) if place.sharded else learner
        self.source, self.data, self.plan, self.place, self.wanted = learner, data, plan, place, wanted
        self.saved = saved
        self._check_monitor()
        self.progress = Progress() if saved is None else solo_state.progress_of(saved)
        self.key = keys.key(plan.seed)
        self.steps = -(-len(data.train) // plan.batch_size) * plan.epochs
        self.initial: dict[str, Tensor] = {}
        if any(learner.method.revises(epoch) for epoch in range(plan.epochs)):
            self.initial = {name: p.detach().clone() for name, p in learner.model.named_parameters()}
        self.best: dict[str, Tensor] | None = None
        self.good: dict[str, Tensor] | None = None
        self.whole: dict[str, Batch] = {}
        self.tally = Tally(self.progress)
        self.added: dict[str, Tensor] = {}
        self.shared = 0.0

    def _check_monitor(self) -> None:
        known = ["validation_loss"]
        if self.learner.method.family.discrete:
            known += ["validation_accuracy", *(f"validation_accuracy_{group}" for group in self.data.validation.groups)]
        if self.plan.monitored and self.plan.monitor not in known:
            raise ValueError(f"monitor is one of {', '.join(known)}; got {self.plan.monitor!r}.")

    # What Lightning asks for.

    def configure_model(self) -> None:
        if self.world > 1:
            agree(self.learner, self.trainer.strategy.root_device)
        if self.place.sharded:
            shard(self.learner, cast(Any, self).device_mesh["data_parallel"])

    def configure_optimizers(self) -> torch.optim.Optimizer:
        groups = [{"params": same} for same in by_kind(self.learner.parameters())]  # one, unless some are sharded
        self.optimiser = torch.optim.Adam(groups, lr=self.plan.lr, weight_decay=self.plan.weight_decay)
        return self.optimiser

    def train_dataloader(self) -> Batches:
        pin = self.device.type == "cuda"
        at = lambda: (self.progress.epoch, self.progress.at)  # noqa: E731
        return Batches(self.data.train, self.plan, self.global_rank, self.world, at, pin, self.place.ahead)

    def transfer_batch_to_device(self, batch: Any, device: torch.device, dataloader_idx: int) -> Any:
        return batch.to(device) if device.type != "cpu" else batch

    def on_fit_start(self) -> None:
        self.initial = {name: p.to(self.device) for name, p in self.initial.items()}
        if self.saved is not None:
            self._restore(self.saved)
        if self.saved is None or self.place.folder is None:
            self.good = solo_state.tensors(self.learner)
        self.saved = None

    def on_train_epoch_start(self) -> None:
        self.learner.method.begin(self.progress.epoch)
        self.learner.train()

    def training_step(self, piece: Piece, batch_idx: int) -> None:
        key = keys.fold(self.key, "step", self.progress.step)
        if piece.number is not None:
            key = keys.fold(key, "piece", piece.number)
        self._seed(key)
        # A piece that does not count is passed too: the other devices may wait in theirs, and counters stay alike.
        with self.place.products(), self._autocast(), self._own_draws(piece):
            total, parts = self._backward(piece, key)
        if piece.share:
            self.tally.note({"loss": total, **parts}, piece.share)
        if piece.number is not None:
            self._add(piece.share)
        if piece.last:
            self._update()

    def on_train_epoch_end(self) -> None:
        plan, progress, method = self.plan, self.progress, self.learner.method
        epoch, revised = progress.epoch, False
        last = epoch == plan.epochs - 1
        self.learner.eval()
        self._check_finite()
        if not last and method.revises(epoch):
            self._revise(epoch)
            revised = True
        if last and not plan.monitored:
            self._settle()
        measured: dict[str, float] = {}
        if self.wanted.curves or last or plan.monitored:
            measured = self._measure()
            progress.measured.append(measured)
        row = {"epoch": epoch + 1, "step": progress.step, "lr": plan.rate(progress.step - 1, self.steps)}
        row |= self.tally.means(self.world) | measured
        progress.history.append(row)
        progress.epoch, progress.at = epoch + 1, 0
        worse = self._no_better(measured, epoch)
        if last or (worse and not revised):  # weights that the method has just changed are no place to stop
            self._finish(measured)
            self.trainer.should_stop = True
        self._keep()
        self._log(row)
        self.place.on_epoch(epoch)

    def _check_finite(self) -> None:
        """Stop where a parameter is no finite number any more; the model is put back to its last good state."""
        if self._finite():
            return
        kept = ""
        if self.good is None:
            place = cast(Path, self.place.folder) / CHECKPOINT
            self.good = cast(dict[str, Any], solo_state.load(place))["tensors"]
            kept = f", which {place} holds too"
        solo_state.put(self.learner, self.good)
        if self.place.sharded:
            solo_state.put(self.source, self.good)
        rate = self.plan.rate(self.progress.step - 1, self.steps)
        raise solo_state.Diverged(self.progress.epoch, self.plan.epochs, rate, kept)

    def _finite(self) -> bool:
        """Whether all parameters are numbers: a loss that is none makes its gradient none, and Adam the parameters."""
        own: list[Any] = [p.to_local() if hasattr(p, "to_local") else p for p in self.learner.parameters()]
        fine = torch.stack([p.isfinite().all() for p in own]).all().float()
        if self.world > 1:
            dist.all_reduce(fine, dist.ReduceOp.MIN)
        return bool(fine)

    # A step.

    def _seed(self, key: Tensor) -> None:
        """Torch's own generators, for models that draw from them: each step's draws follow from its key, on each device."""
        seed = int(keys.fold(key, "torch"))
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index or 0].manual_seed(seed)

    @contextlib.contextmanager
    def _own_draws(self, piece: Piece) -> Iterator[None]:
        """Keys of dropout that are this piece's own, whichever device has it; noise counts no rows that another device has."""
        drops = [m for m in self.learner.modules() if isinstance(m, Dropout)] if piece.number is not None else []
        idle = [m for m in self.learner.method.modules() if isinstance(m, Noise) and not piece.share]
        before = [drop.key for drop in drops]
        for drop in drops:
            drop.key = keys.fold(drop.key, "piece", cast(int, piece.number))
        for noise in idle:
            noise.counts = False
        yield
        for drop, key in zip(drops, before, strict=True):
            drop.key = keys.fold(key, "batch") if piece.last else key
        for noise in idle:
            noise.counts = True

    def _autocast(self) -> contextlib.AbstractContextManager[Any]:
        if self.plan.precision == "32-true":
            return contextlib.nullcontext()
        kind = torch.bfloat16 if self.plan.precision == "bf16-mixed" else torch.float16
        return torch.autocast(self.device.type, dtype=kind)

    def _backward(self, piece: Piece, key: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        model, method = self.learner.model, self.learner.method
        what = (model, piece.modalities, piece.target)
        if self.place.sharded:
            total, parts = method(*what, key=key, examples=piece.rows)
            # The backward pass averages over devices, and the shares of all of them sum to 1.
            (total * (piece.share * self.world)).backward()
            return total.detach(), parts
        if self.plan.precision != "16-mixed":
            return method.backward(*what, key=key, examples=piece.rows)
        with scaled(method, self.progress.scale):
            total, parts = method.backward(*what, key=key, examples=piece.rows)
        return total / self.progress.scale, parts

    def _add(self, share: float) -> None:
        """Gradients of a piece go to those of its batch, by its share of it."""
        self.shared += share
        for name, p in self.learner.named_parameters():
            if p.grad is not None:
                grad = p.grad if self.place.sharded else p.grad * share
                self.added[name] = self.added[name] + grad if name in self.added else grad
                p.grad = None

    def _update(self) -> None:
        plan, progress = self.plan, self.progress
        parameters = dict(self.learner.named_parameters())
        for name, grad in self.added.items():
            parameters[name].grad = grad
        if self.world > 1:
            self._exchange(parameters)
        self.added, self.shared = {}, 0.0
        trained = [p for p in parameters.values() if p.grad is not None]
        for group in self.optimiser.param_groups:
            group["lr"] = plan.rate(progress.step, self.steps)
        if plan.clip is not None:
            clip(trained, plan.clip)
        if plan.precision != "16-mixed" or self._fits(trained):
            self.optimiser.step()
        self.optimiser.zero_grad()
        progress.step += 1
        progress.at += 1
        if progress.step % self.place.log_every == 0:
            self._log_step()
        every = self.place.checkpoint_every
        if every is not None and progress.step % every == 0 and self.place.folder is not None and self._finite():
            self._save()

    def _fits(self, trained: Sequence[nn.Parameter]) -> bool:
        """Whether no gradient overflowed; the scale of losses follows."""
        progress = self.progress
        norms = torch.stack(torch._foreach_norm([cast(Tensor, p.grad) for p in trained]))
        fine = bool(norms.isfinite().all())
        progress.calm = progress.calm + 1 if fine else 0
        if not fine:
            progress.scale /= 2
        elif progress.calm == GROW:
            progress.scale, progress.calm = progress.scale * 2, 0
        return fine

    def _exchange(self, parameters: Mapping[str, nn.Parameter]) -> None:
        """Add up gradients over devices, and average what method and model remember, by how much of the batch each had."""
        if self.place.sharded:
            # The sharded ones are averages already.
            own = [p for p in parameters.values() if p.grad is not None and not hasattr(p, "full_tensor")]
            add_up([cast(Tensor, p.grad) for p in own], 1 / self.world)
        else:
            add_up([p.grad for p in parameters.values() if p.grad is not None])
        buffers = [b for b in self.learner.buffers() if b.is_floating_point()]
        # A buffer may hold infinities, and 0 times those is no number.
        kept = [b.detach() * self.shared if self.shared else torch.zeros_like(b) for b in buffers]
        add_up(kept)
        for b, value in zip(buffers, kept, strict=True):
            b.data = value

    # Between epochs.

    def _revise(self, epoch: int) -> None:
        train, validation = self._all("train"), self._all("validation")
        key = keys.fold(self.key, "revise", epoch)
        parameters = dict(self.learner.model.named_parameters())
        with torch.no_grad():
            changed = self.learner.method.revise(self.learner.model, train, validation, self.initial, key)
            for name, value in changed.items():
                parameters[name].copy_(value)
        self._forget()

    def _settle(self) -> None:
        if type(self.learner.method).settle is not Objective.settle:
            with torch.no_grad():
                self.learner.method.settle(self.learner.model, self._all("validation"))
            self._forget()

    def _all(self, part: Literal["train", "validation"]) -> Batch:
        """All examples of a split on the device, for methods that ask for them."""
        if part not in self.whole:
            split: Split = getattr(self.data, part)
            seen = {name: on(x, self.device) for name, x in split.modalities.items()}
            self.whole[part] = Batch(seen, split.target.to(self.device))
        return self.whole[part]

    def _forget(self) -> None:
        if self.wanted.watching is None:  # who watches needs them after every epoch
            self.whole.clear()

    def _no_better(self, measured: Mapping[str, float], epoch: int) -> bool:
        """Whether patience is at its end; what the best epoch left is kept."""
        plan, progress = self.plan, self.progress
        if not plan.monitored:
            return False
        value = measured[str(plan.monitor)]
        if plan.better(value, progress.best) or progress.best_epoch is None:
            progress.best, progress.best_epoch = value if value == value else None, epoch
            if plan.select == "best":
                self._keep_best()
        return plan.patience is not None and epoch - progress.best_epoch >= plan.patience

    def _finish(self, measured: Mapping[str, float]) -> None:
        """The model as it is to be left, and what is measured of it."""
        if self.plan.monitored:
            back = self.plan.select == "best" and self.progress.best_epoch != self.progress.epoch - 1
            if back:
                solo_state.put(self.learner, self._best())
            self._settle()
            if back or type(self.learner.method).settle is not Objective.settle:
                measured = self._measure()
        tested = self._accuracies(self.data.test, "test") if self.wanted.test and self.data.test is not None else {}
        self.progress.metrics = {**measured, **tested}
        self.progress.finished = True
        if self.place.sharded:
            solo_state.put(self.source, solo_state.tensors(self.learner))

    # Measuring.

    def _measure(self) -> dict[str, float]:
        found = self._accuracies(self.data.train, "train") if self.wanted.train else {}
        found |= self._accuracies(self.data.validation, "validation")
        watching = self.wanted.watching
        if watching is not None and self.wanted.curves:
            train, validation = self._split("train"), self._split("validation")
            with torch.no_grad():
                seen = watching.watch(self._watched, dict(self.learner.named_parameters()), train, validation)
            found |= {name: float(value) for name, value in seen.items()}
        return found

    def _watched(self, changed: Mapping[str, Tensor], modalities: Mapping[str, Modality]) -> Tensor:
        def predict(learner: Learner) -> Tensor:
            return learner.method.predict(learner.model, modalities)

        return cast(Tensor, functional_call(self.learner, dict(changed), (predict,)))

    def _split(self, part: Literal["train", "validation"]) -> Split:
        split, there = getattr(self.data, part), self._all(part)
        groups = {name: members.to(self.device) for name, members in split.groups.items()}
        return Split(there.modalities, there.target, groups)

    def _accuracies(self, split: Split, name: str) -> dict[str, float]:
        """Loss and, of classes, accuracy; overall and for each group. Devices share the examples among them."""
        method, family = self.learner.method, self.learner.method.family
        n, size = len(split), 4 * -(-self.plan.batch_size // self.plan.accumulate)
        found = torch.zeros(2, n, dtype=torch.float32, device=self.device)
        chunks = torch.arange(n).split(size)
        with torch.no_grad():
            for turn in range(-(-len(chunks) // self.world)):
                mine = turn * self.world + self.global_rank
                rows = chunks[mine] if mine < len(chunks) else chunks[0]
                seen = {k: on(rows_of(x, rows), self.device) for k, x in split.modalities.items()}
                target = split.target[rows.to(split.target.device)].to(self.device)
                prediction = method.predict(self.learner.model, seen)
                if mine >= len(chunks):  # it kept the other devices company
                    continue
                at = rows.to(self.device)
                found[0, at] = family.nll(prediction, target).float()
                if family.discrete:
                    found[1, at] = correct(family, prediction, target)
        if self.world > 1:
            dist.all_reduce(found)
        losses, hits = found.cpu()
        groups = {group: members.cpu() for group, members in split.groups.items()}
        measured = {f"{name}_loss": losses.mean()}
        if family.discrete:
            measured |= accuracies(hits, groups, f"{name}_accuracy")
        return {metric: float(value) for metric, value in measured.items()}

    # Writing down.

    def _log(self, row: Mapping[str, float]) -> None:
        if self.global_rank:
            return
        for logger in self.trainer.loggers:
            logger.log_metrics({k: v for k, v in row.items() if k != "step"}, step=self.progress.step)
        if self.place.folder is not None:
            write_csv(self.place.folder / METRICS, self.progress.history)

    def _log_step(self) -> None:
        if not self.trainer.loggers and not self.trainer.progress_bar_callback:
            return
        means = {f"step/{name}": total / of for name, (total, of) in self.tally.sums().items()}
        for logger in self.trainer.loggers if self.global_rank == 0 else []:
            logger.log_metrics(means | {"step/lr": self.optimiser.param_groups[0]["lr"]}, step=self.progress.step)
        if self.trainer.progress_bar_callback and "step/loss" in means:
            self.log("loss", means["step/loss"], prog_bar=True, logger=False)

    def _keep(self) -> None:
        if self.place.folder is not None:
            self._save()
            self.good = None
        else:
            self.good = solo_state.tensors(self.learner)

    def _save(self) -> None:
        """A checkpoint. Where parameters are sharded all devices gather them, and one writes."""
        sums = self.tally.sums(self.world)
        self.progress.sums = {} if self.global_rank else sums  # the first device writes them down, for all
        content = {
            "config": config(self.plan, self.data, self.world, self.place),
            "tensors": solo_state.tensors(self.learner),
            "optimiser": solo_state.optimiser_state(self.optimiser),
            "initial": {name: p.cpu() for name, p in self.initial.items()},
            "progress": solo_state.plain(self.progress),
        }
        if self.global_rank == 0:
            solo_state.save(cast(Path, self.place.folder) / CHECKPOINT, content, keep_before=True)
        self.trainer.strategy.barrier()  # a process that goes on to read it must find what the others find

    def _restore(self, saved: Mapping[str, Any]) -> None:
        solo_state.put(self.learner, saved["tensors"])
        solo_state.put_optimiser(self.optimiser, saved["optimiser"])
        self.initial = {name: p.to(self.device) for name, p in saved["initial"].items()}
        if self.global_rank:
            self.progress.sums = {}

    def _keep_best(self) -> None:
        found = solo_state.tensors(self.learner)
        if self.place.folder is None:
            self.best = found
        elif self.global_rank == 0:
            solo_state.save(self.place.folder / BEST, {"tensors": found})

    def _best(self) -> Mapping[str, Tensor]:
        if self.place.folder is None:
            return cast(dict[str, Tensor], self.best)
        self.trainer.strategy.barrier()
        found = solo_state.load(self.place.folder / BEST)
        if found is None:
            raise ValueError(f"{self.place.folder / BEST} is gone, which held the best epoch's weights: train anew.")
        return cast(dict[str, Tensor], found["tensors"])

    @property
    def world(self) -> int:
        """How many devices train this model."""
        return self.trainer.world_size


@contextlib.contextmanager
def scaled(method: Objective, scale: float) -> Iterator[None]:
    """Losses multiplied before their gradients are taken, so that small ones survive in 16 bits, and divided after."""
    losses, direction = method.losses, method.direction

    def larger(*arguments: Any) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        found, parts = losses(*arguments)
        return {name: loss * scale for name, loss in found.items()}, parts

    def back(gradients: Mapping[str, Tensor], *rest: Any) -> dict[str, Tensor]:
        return direction({name: g / scale for name, g in gradients.items()}, *rest)

    vars(method).update(losses=larger, direction=back)
    try:
        yield
    finally:
        del vars(method)["losses"], vars(method)["direction"]
