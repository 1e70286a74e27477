"""One model and its method as a LightningModule, with all training hooks that the method declares."""

import contextlib
import copy
import logging
from collections.abc import Mapping
from typing import Any, cast

import torch
import torch.distributed as dist
from lightning.pytorch import LightningModule
from torch import Tensor

from synib import keys
from synib.data import Dataset
from synib.files import write_csv
from synib.methods.hooks import RevisesWeights, TrainsInStages, WeighsGradients
from synib.training import checkpoints
from synib.training.cells import Learner
from synib.training.loop import revise
from synib.training.plan import Plan
from synib.training.solo_data import Piece, loader
from synib.training.solo_measure import Outputs, measured
from synib.training.solo_step import SoloStep
from synib.training.stacked import stage_of
from synib.training.step import backward, trained

log = logging.getLogger(__name__)
CHECKPOINT, METRICS = "checkpoint.ckpt", "metrics.csv"


class SoloModule(LightningModule):
    """Trains a learner; Lightning provides devices, precision, accumulation, clipping, checkpoints, early stopping, loggers.

    A method with one loss uses automatic optimisation. A method that combines gradients computes them itself
    (:func:`backward`), with Lightning's manual optimisation, and so does a step that is recorded as a CUDA graph.

    Args:
        learner: The model and its method.
        data: Data for training and measurement.
        plan: The training plan.
        outputs: What to measure and to store.
        sharded: Whether parameters are sharded over the devices.
        obstacle: Why steps cannot be recorded (:func:`synib.training.solo_step.obstacle`).
        recorded: Whether to record steps that can be.
    """

    def __init__(
        self,
        learner: Learner,
        data: Dataset,
        plan: Plan,
        outputs: Outputs,
        sharded: bool = False,
        obstacle: str = "",
        recorded: bool = True,
    ) -> None:
        super().__init__()
        # Sharding changes modules for good: it is done to a copy.
        self.learner = copy.deepcopy(learner) if sharded else learner
        self.data, self.plan, self.outputs, self.sharded = data, plan, outputs, sharded
        self.obstacle, self.recorded = obstacle, recorded and not obstacle
        self.automatic_optimization = not (isinstance(learner.method, WeighsGradients) or self.recorded)
        self.step: SoloStep | None = None
        self.key = keys.key(plan.seed)
        self.steps = -(-len(data.train) // plan.batch_size) * plan.epochs
        revises = isinstance(learner.method, RevisesWeights)
        self.initial = {n: p.detach().clone() for n, p in learner.model.named_parameters()} if revises else {}
        self.history: list[dict[str, float]] = []
        self.measured: list[dict[str, float]] = []
        self.revised = False
        self.good: dict[str, Tensor] = {}  # after the last epoch that left finite parameters
        self.best: dict[str, Tensor] | None = None  # of the best epoch, where that is selected
        self.sums: dict[str, tuple[Tensor, float]] = {}

    # What Lightning asks for.

    def configure_model(self) -> None:
        if self.sharded and not any(hasattr(p, "full_tensor") for p in self.learner.parameters()):
            shard(self.learner, cast(Any, self).device_mesh["data_parallel"])

    def configure_optimizers(self) -> Any:
        trained = [p for p in self.learner.parameters() if p.requires_grad]
        lr: Any = self.plan.lr
        if not self.obstacle:  # whether they are recorded or not, so that the results are the same
            lr = torch.tensor(lr, dtype=torch.float32, device=self.device)
        optimiser = torch.optim.Adam(
            trained, lr=lr, weight_decay=self.plan.weight_decay, fused=None if self.obstacle else True
        )
        for group in optimiser.param_groups:
            group["initial_lr"] = self.plan.lr  # a number, which a schedule multiplies without waiting for the device
        rates = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda n: self.plan.rate(n, self.steps) / self.plan.lr)
        return {"optimizer": optimiser, "lr_scheduler": {"scheduler": rates, "interval": "step"}}

    def train_dataloader(self) -> Any:
        pin = self.device.type == "cuda"
        trainer = self.trainer
        return loader(self.data.train, self.plan, trainer.global_rank, trainer.world_size, pin, self.outputs.ahead)

    def on_fit_start(self) -> None:
        self.initial = {name: p.to(self.device) for name, p in self.initial.items()}
        self.good = self.good or checkpoints.tensors(self.learner)

    def on_train_start(self) -> None:
        if self.recorded:  # after a checkpoint has been loaded
            optimiser = cast(Any, self.optimizers(use_pl_optimizer=False))
            self.step = SoloStep(self.learner, optimiser, self.plan.clip, self.device)

    def on_train_epoch_start(self) -> None:
        if isinstance(self.learner.method, TrainsInStages):
            before = stage_of(self.learner)
            self.learner.method.begin(self.current_epoch)
            if self.step is not None and stage_of(self.learner) != before:
                self.step.forget()
        self.learner.train()

    def training_step(self, piece: Piece, batch_idx: int) -> Tensor | None:
        method, model, place = self.learner.method, self.learner.model, piece.place
        key = keys.fold(self.key, "step", self.global_step)
        if place.number is not None:
            key = keys.fold(key, "piece", place.number)
        self._seed(key)
        if self.step is not None:
            self._recorded_step(self.step, piece, key)
            return None
        batch = (piece.modalities, piece.target)
        # A piece that does not count is passed too, since the other devices wait: its rows weigh nothing.
        nothing = None if place.share else torch.zeros(len(piece.target), device=piece.target.device)
        weight = piece.sample_weight if nothing is None else nothing
        options = {"key": key, "examples": place.rows, "sample_weight": weight}
        if not self.automatic_optimization:
            total, parts = backward(method, model, *batch, **options)  # type: ignore[arg-type]
            self._note(total, parts, place.share)
            self._step_by_hand(place.share, batch_idx)
            return None
        group = dist.group.WORLD if self.trainer.world_size > 1 else None
        total, parts = method(model, *batch, group=group, **options)
        self._note(total, parts, place.share)
        # Lightning averages over pieces and devices, and the shares of all of them sum to 1.
        return cast(Tensor, total * (place.share * self.plan.accumulate * self.trainer.world_size))

    def on_before_optimizer_step(self, optimizer: Any) -> None:
        changing = trained(self.learner.method, self.learner.named_parameters())
        for name, p in self.learner.named_parameters():
            if name not in changing:
                p.grad = None  # Adam leaves alone what has no gradient

    def on_train_epoch_end(self) -> None:
        plan, method, epoch = self.plan, self.learner.method, self.current_epoch
        last = epoch == plan.epochs - 1
        self.learner.eval()
        self._check_finite()
        self.revised = isinstance(method, RevisesWeights) and not last and method.revises(epoch)
        if self.revised:
            revise(self.learner, self.data, self.initial, keys.fold(self.key, "revise", epoch), self.device)
        rate = plan.rate(self.global_step - 1, self.steps)
        row = {"epoch": epoch + 1, "step": self.global_step, "lr": rate, **self._means()}
        if self.outputs.curves or last or plan.monitored:
            self.measured.append(self.measure())
            row |= self.measured[-1]
            self.log_dict(self.measured[-1], logger=False)
        self.history.append(row)
        for logger in self.trainer.loggers if self.global_rank == 0 else []:
            logger.log_metrics({k: v for k, v in row.items() if k != "step"}, step=self.global_step)
        if self.outputs.folder is not None and self.global_rank == 0:
            write_csv(self.outputs.folder / METRICS, self.history)
        self.good = checkpoints.tensors(self.learner)
        if plan.select == "best" and plan.best(self.measured) == epoch:
            self.best = self.good
        self.outputs.on_epoch(epoch)

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        checkpoint["synib"] = {
            "config": dict(self.outputs.config),
            "tensors": checkpoints.tensors(self.learner),
            "best": self.best,
            "initial": {name: p.cpu() for name, p in self.initial.items()},
            "history": self.history,
            "measured": self.measured,
            "finished": self.trainer.should_stop or self.current_epoch == self.plan.epochs - 1,
        }

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        saved = checkpoint["synib"]
        checkpoints.count_steps(checkpoint)
        self.initial, self.history, self.measured = saved["initial"], saved["history"], saved["measured"]
        self.best, self.good = saved["best"], saved["tensors"]
        checkpoints.put(self.learner, saved["tensors"])  # some of them are in no state_dict

    # A step.

    def _seed(self, key: Tensor) -> None:
        """Seed torch's generators for models that draw from them: the seed of each step follows from its key, on
        each device.
        """
        seed = int(keys.fold(key, "torch"))
        torch.default_generator.manual_seed(seed)
        if self.device.type == "cuda":
            torch.cuda.default_generators[self.device.index or 0].manual_seed(seed)

    def _recorded_step(self, step: SoloStep, piece: Piece, key: Tensor) -> None:
        """A step of Adam that may be replayed; Lightning counts it."""
        before, optimiser = step.reason, cast(Any, self.optimizers())
        options = {"key": key, "examples": piece.place.rows, "sample_weight": piece.sample_weight}
        optimiser._on_before_step()
        total, parts = step(piece.modalities, piece.target, **options)
        optimiser._on_after_step()
        self._note(total, parts, piece.place.share)
        cast(Any, self.lr_schedulers()).step()
        if step.reason != before:
            log.info("Steps are not recorded: %s.", step.reason)

    @property
    def not_recorded(self) -> str:
        """Why steps were not recorded; empty if they were."""
        if self.step is not None:
            return self.step.reason
        return self.obstacle or ("" if self.recorded else "recorded=False")

    def _step_by_hand(self, share: float, batch_idx: int) -> None:
        """Sum the gradients of the micro-batches, weighted by their shares, over all devices; then take a step of Adam."""
        named = dict(self.learner.named_parameters())
        before = getattr(self, "_added", {})
        self._added = {}
        for name, p in named.items():
            if p.grad is not None:
                self._added[name] = p.grad * share + before[name] if name in before else p.grad * share
                p.grad = None
        if (batch_idx + 1) % self.plan.accumulate:
            return
        for name, gradient in self._added.items():
            if self.trainer.world_size > 1:
                dist.all_reduce(gradient)
            named[name].grad = gradient
        self._added = {}
        optimiser = cast(Any, self.optimizers())
        if self.plan.clip is not None:
            self.clip_gradients(optimiser, gradient_clip_val=self.plan.clip)
        optimiser.step()
        optimiser.zero_grad()
        cast(Any, self.lr_schedulers()).step()

    def _note(self, total: Tensor, parts: Mapping[str, Tensor], share: float) -> None:
        """Sum the losses weighted by each micro-batch's share of a batch, without synchronising with the device."""
        if not share:
            return
        for name, value in {"loss": total.detach(), **parts}.items():
            before, steps = self.sums.get(name, (torch.zeros((), device=value.device), 0.0))
            self.sums[name] = before + (value.detach() if share == 1 else value.detach() * share), steps + share
        if self.trainer.loggers or self.trainer.progress_bar_callback:
            self.log("loss", total.detach(), prog_bar=True, logger=bool(self.trainer.loggers), batch_size=1)

    def _means(self) -> dict[str, float]:
        """Mean losses of the epoch, over all devices."""
        mine = {name: (float(total), steps) for name, (total, steps) in self.sums.items()}
        self.sums = {}
        everyones = [mine]
        if self.trainer.world_size > 1:
            everyones = [{} for _ in range(self.trainer.world_size)]
            dist.all_gather_object(everyones, mine)
        names = dict.fromkeys(name for of_device in everyones for name in of_device)
        sums = {
            name: [sum(of_device[name][i] for of_device in everyones if name in of_device) for i in (0, 1)]
            for name in names
        }
        return {f"train_{name}": total / steps for name, (total, steps) in sums.items()}

    # Between epochs.

    def measure(self) -> dict[str, float]:
        """Loss and accuracy of the current model, in full precision."""
        size, trainer = 4 * -(-self.plan.batch_size // self.plan.accumulate), self.trainer
        with full_precision(self.device.type):
            return measured(
                self.learner, self.data, self.outputs, size, self.device, trainer.global_rank, trainer.world_size
            )

    def _check_finite(self) -> None:
        """Stop if a parameter is not finite; the model is restored to its last finite state."""
        own: list[Any] = [p.to_local() if hasattr(p, "to_local") else p for p in self.learner.parameters()]
        fine = torch.stack([p.isfinite().all() for p in own]).all().float()
        if self.trainer.world_size > 1:
            dist.all_reduce(fine, dist.ReduceOp.MIN)
        if fine:
            return
        checkpoints.put(self.learner, self.good)
        rate = self.plan.rate(self.global_step - 1, self.steps)
        raise checkpoints.Diverged(self.current_epoch, self.plan.epochs, rate)


@contextlib.contextmanager
def full_precision(device: str) -> Any:
    """Evaluate in 32-bit precision, whatever the training precision."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    try:
        with torch.autocast(device, enabled=False):
            yield
    finally:
        torch.set_float32_matmul_precision(before)


def shard(learner: Learner, mesh: Any) -> None:
    """Shard the parameters of every encoder, head and fusion over the devices (FSDP2)."""
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    for model in (m for m in learner.modules() if hasattr(m, "encoders") and hasattr(m, "fusion")):
        for part in (*model.encoders.values(), *model.heads.values(), model.fusion):  # type: ignore[operator, union-attr]
            if part is None or not any(True for _ in part.parameters()):
                continue
            fully_shard(part, mesh=mesh)
            for name in ("project", "combine"):
                if hasattr(part, name):
                    register_fsdp_forward_method(part, name)
    for part in learner.method.modules():  # such as a mask network, whose gradients are to be averaged too
        own = list(part.parameters(recurse=False))
        if own and not any(hasattr(p, "full_tensor") for p in own):
            fully_shard(part, mesh=mesh)
