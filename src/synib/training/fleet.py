"""The fleet: many small models trained at once on one device, each as if it were alone."""

import copy
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from synib import keys
from synib.data import Dataset, Split
from synib.measure import accuracies, correct
from synib.objective import Batch, Objective
from synib.tokens import Modality, move, stack, take, values
from synib.training.cells import VARYING, Cell
from synib.training.device import Precision, matrix_products, without_denormals
from synib.training.learner import Examining, Learner, Recipe, Watching, learner
from synib.training.recorded import CudaGraphs, Recorded
from synib.training.solo_plan import DEFAULTS

Metrics = dict[str, float]

ON_CPU = 24  # models at once, where memory is not the question
PROBED = 4  # models trained to learn what one takes
ORDERED = (
    1 << 28
)  # bytes of an epoch's examples up to which they are put in order at once, which saves a kernel in each step
USED = 0.85  # of the free memory; the rest is for what the allocator cannot place


@dataclass(frozen=True)
class Trained:
    """What training a shard gave, in the order of its cells.

    Args:
        metrics: For each cell, metric → value at the end of training; none for one that failed.
        curves: For each cell, metric → value after each epoch; none for one that failed.
        fleet: The trained parameters and buffers; of a cell that failed those of its last good epoch.
        failures: Number of a cell that failed → why.
    """

    metrics: list[Metrics]
    curves: list[dict[str, list[float]]]
    fleet: "Fleet"
    failures: Mapping[int, str] = field(default_factory=dict)

    @property
    def learners(self) -> list[Learner]:
        """The trained models with their methods, one module for each cell."""
        return [self.fleet.learner(i) for i in range(len(self.metrics))]


def train(
    recipe: Recipe,
    cells: Sequence[Cell],
    device: torch.device | str = "cpu",
    on_epoch: Callable[[], None] = lambda: None,
    precision: Precision = "float32",
) -> Trained:
    """Train cells that share a program, together.

    Parameters of all models are stacked, a row for each; the step is the cell's own step under ``torch.func.vmap``.
    Every draw is keyed by the cell's seed and its step, so a cell's result does not depend on its neighbours beyond the
    order in which a matrix product adds up. Nothing waits for the device before the last epoch, but to record a step on CUDA. A
    model with a parameter that is no number any more after an epoch has failed: it stays as the epoch before left it, and the
    others go on.

    Args:
        recipe: Gives each cell's data, model and method.
        cells: Cells of one program.
        device: Where to train.
        on_epoch: Called after each epoch.
        precision: Of matrix products in training: full, or on CUDA TensorFloat-32 or bfloat16 autocast. Evaluation is
            always in full precision.
    """
    check_together(cells)
    with ThreadPoolExecutor() as pool:
        data = list(pool.map(recipe.data, cells))
    fleet = Fleet(recipe, cells, data, torch.device(device))
    training, validation = fleet.stack([d.train for d in data]), fleet.stack([d.validation for d in data])
    epochs = cells[0].settings["epochs"]
    curves: list[dict[str, Tensor]] = []
    for epoch in range(epochs):
        with matrix_products(precision, fleet.device), without_denormals():
            fleet.epoch(training, epoch)
        fleet.hold_failed()
        if epoch < epochs - 1:
            fleet.revise(training, validation, epoch)
        else:
            fleet.settle(validation)
        if recipe.curves or epoch == epochs - 1:
            train_now = fleet.accuracies(training, "train_accuracy")
            now = train_now | fleet.accuracies(validation, "validation_accuracy")
            if isinstance(recipe, Watching) and recipe.curves:
                now |= fleet.watched(recipe, training, validation)
            curves.append(now)
        on_epoch()
    history = {name: torch.stack([c[name] for c in curves], 1).tolist() for name in curves[0]}
    tests = [d.test for d in data if d.test is not None]  # a search does not look at them
    found = fleet.accuracies(fleet.stack(tests), "test_accuracy") if tests else {}
    tested = {name: v.tolist() for name, v in found.items()}
    each = range(len(cells))
    final = [{name: h[i][-1] for name, h in history.items() if "accuracy_" not in name} for i in each]
    failures = {i: not_finite(cells[i], good) for i, good in enumerate(fleet.good_epochs()) if good < epochs}
    metrics = [{} if i in failures else final[i] | {name: v[i] for name, v in tested.items()} for i in each]
    if isinstance(recipe, Examining):
        for i in each:
            if i not in failures:
                metrics[i] |= recipe.examine(cells[i], fleet.learner(i).eval(), data[i])
    kept = history if recipe.curves else {}
    curves_of = [{name: h[i] for name, h in kept.items()} if i not in failures else {} for i in each]
    return Trained(metrics, curves_of, fleet, failures)


def not_finite(cell: Cell, good: int) -> str:
    """Why a cell failed that was good for so many epochs."""
    return (
        f"{cell.method} with seed {cell.seed} had a loss or a parameter that is no finite number in epoch {good + 1} of "
        f"{cell.settings['epochs']}, at learning rate {cell.settings['lr']:g}: try a smaller one."
    )


def capacity(recipe: Recipe, cells: Sequence[Cell], device: torch.device | str, precision: Precision) -> int:
    """How many models of this program fit into the memory that is free, measured on a few of them for an epoch.

    On a CPU it is a number that was found to be fast (``benchmarks/fleet_cpu.py``): caches, not memory, decide there.
    """
    device = torch.device(device)
    if device.type != "cuda":
        return ON_CPU
    few = [replace(cell, settings={**cell.settings, "epochs": 1}) for cell in cells[:PROBED]]
    torch.cuda.init()
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    try:
        trained = train(recipe, few, device, precision=precision)
    except torch.OutOfMemoryError:
        return max(1, len(few) // 2)  # whoever trains them finds out whether that fits
    held, peak = (use(device) - before for use in (torch.cuda.memory_allocated, torch.cuda.max_memory_allocated))
    del trained
    # A recorded step keeps what it took beside the models, and evaluation takes its own.
    each = (2 * peak - held) / len(few)
    torch.cuda.empty_cache()
    free, _ = torch.cuda.mem_get_info(device)
    return max(1, int(USED * free / each))


def check_together(cells: Sequence[Cell]) -> None:
    """Raise ``ValueError`` if cells cannot be trained together."""
    count = len({cell.program for cell in cells})
    if count != 1:
        raise ValueError(
            f"Cells that are trained together share a program; these have {count}: group them with "
            "synib.training.cells.programs."
        )
    missing = [name for name in ("lr", "weight_decay", "epochs", "batch_size") if name not in cells[0].settings]
    if missing:
        raise ValueError(
            f"A cell's settings need {', '.join(missing)}; it has {', '.join(cells[0].settings) or 'none'}."
        )
    # The metric to monitor is nobody's business where nothing is selected by it.
    alone = [k for k, v in DEFAULTS.items() if k != "monitor" and cells[0].settings.get(k, v) != v]
    if alone:
        raise ValueError(
            f"The fleet trains all epochs at one learning rate, and these cells have {', '.join(alone)}: train them with "
            "--engine solo."
        )


class Fleet:
    """Parameters, buffers and optimiser state of many models of one program, a row for each.

    Args:
        recipe: Gives each cell's model and method.
        cells: Cells of one program.
        data: The data of each.
        device: Where to train.
    """

    def __init__(self, recipe: Recipe, cells: Sequence[Cell], data: Sequence[Dataset], device: torch.device) -> None:
        self.device = device
        self.batch_size: int = cells[0].settings["batch_size"]
        seeds = list(dict.fromkeys(cell.seed for cell in cells))
        # Initial weights depend on the program and the seed alone: one model for each seed will do.
        first = {seed: next(i for i, cell in enumerate(cells) if cell.seed == seed) for seed in seeds}
        of_seed = {seed: learner(recipe, cells[i], data[i]) for seed, i in first.items()}
        self.template = of_seed[seeds[0]]
        row = torch.tensor([seeds.index(cell.seed) for cell in cells], device=device)
        started = [dict(one.named_parameters()) for one in of_seed.values()]
        self.parameters = {
            name: torch.stack([s[name].detach() for s in started]).to(device)[row] for name in started[0]
        }
        self.buffers: dict[str, Tensor] = {}
        if any(True for _ in self.template.buffers()):
            own = [
                dict(learner(recipe, cell, d, model=of_seed[cell.seed].model).named_buffers())
                for cell, d in zip(cells, data, strict=True)
            ]
            self.buffers = {name: torch.stack([b[name] for b in own]).to(device) for name in own[0]}
        self._check_varying(recipe, cells, data)
        self.seeds = torch.stack([keys.key(cell.seed) for cell in cells]).to(device)
        self.steps = 0
        self.optimiser = self._optimiser(cells)
        self.good = {name: t.clone() for name, t in (self.parameters | self.buffers).items()}
        self.failed = torch.zeros(len(cells), dtype=torch.bool, device=device)
        self.good_for = torch.zeros(len(cells), dtype=torch.long, device=device)
        self.initial = {} if not self._ever_revises(cells[0]) else {k: v.clone() for k, v in self.parameters.items()}
        self.recorded = Recorded(CudaGraphs(device)) if device.type == "cuda" else None

    def _check_varying(self, recipe: Recipe, cells: Sequence[Cell], data: Sequence[Dataset]) -> None:
        """Refuse a method that keeps as a plain number what may differ between the models: all would get the first's."""
        first = cells[0]
        for name in VARYING:
            other = next((i for i, c in enumerate(cells) if c.settings.get(name) != first.settings.get(name)), None)
            if other is None or name in ("lr", "weight_decay"):  # the optimiser's
                continue
            changed = replace(first, settings={**first.settings, name: cells[other].settings.get(name)})
            ours, theirs = (plain(recipe.method(cell, data[0])) for cell in (first, changed))
            if ours != theirs:
                raise ValueError(
                    f"{first.method} keeps {name} as a plain number, and models trained together differ in it: keep it as a "
                    f'buffer, self.register_buffer("{name}", torch.tensor({name})).'
                )

    def _optimiser(self, cells: Sequence[Cell]) -> torch.optim.Adam:
        """One fused Adam for all; neighbours with the same learning rate and weight decay form a group."""
        groups = []
        at = 0
        for (lr, decay), same in groupby(cells, lambda cell: (cell.settings["lr"], cell.settings["weight_decay"])):
            rows = slice(at, at := at + len(list(same)))
            own = {name: p[rows] for name, p in self.parameters.items()}
            groups.append({"params": list(own.items()), "lr": lr, "weight_decay": decay, "rows": rows})
        return torch.optim.Adam(groups, fused=True, capturable=self.device.type == "cuda")

    def _update(self, gradient: Mapping[str, Tensor]) -> None:
        for group in self.optimiser.param_groups:
            for name, p in zip(group["param_names"], group["params"], strict=True):
                if name in gradient:  # the others are not trained now, and Adam leaves alone what has no gradient
                    p.grad = gradient[name][group["rows"]].contiguous()  # the fused kernel does not look at strides
        self.optimiser.step()
        self.optimiser.zero_grad()

    def stack(self, splits: Sequence[Split]) -> Split:
        """The same split of all cells, as tensors with the cells in front."""
        sizes = {len(split) for split in splits}
        if len(sizes) > 1:
            raise ValueError(f"Cells trained together need splits of one size; got {sorted(sizes)} examples.")
        first = splits[0]
        return Split(
            {name: move(stack([s.modalities[name] for s in splits]), self.device) for name in first.modalities},
            torch.stack([s.target for s in splits]).to(self.device),
            {name: torch.stack([s.groups[name] for s in splits]).to(self.device) for name in first.groups},
        )

    def epoch(self, split: Split, epoch: int) -> None:
        """One pass over the training examples, in each cell's own order; the last, smaller batch counts too."""
        n = split.target.shape[1]
        order = vmap(keys.permutation, in_dims=(0, None))(keys.fold(self.seeds, "order", epoch), n)
        cell = torch.arange(len(order), device=self.device)[:, None]
        target = split.target[cell, order]
        at_once = sum(values(x).nbytes for x in split.modalities.values()) <= ORDERED
        ordered = {name: take(x, (cell, order)) for name, x in split.modalities.items()} if at_once else {}
        self.template.train()
        self.begin(epoch)
        steps = torch.arange(self.steps, self.steps + -(-n // self.batch_size), device=self.device)
        step_keys = keys.fold(keys.fold(self.seeds, "step")[:, None], steps)
        for step, start in enumerate(range(0, n, self.batch_size)):
            rows = slice(start, start + self.batch_size)
            if at_once:
                batch = {name: take(x, (slice(None), rows)) for name, x in ordered.items()}
            else:
                batch = {name: take(x, (cell, order[:, rows])) for name, x in split.modalities.items()}
            self.step(batch, target[:, rows], order[:, rows], step_keys[:, step])
            self.steps += 1

    def begin(self, epoch: int) -> None:
        """Tell the method that an epoch begins, with which its steps may become others."""
        method = self.template.method
        method.begin(epoch)
        if self.recorded is not None and type(method).begin is not Objective.begin:
            self.recorded.forget()

    def step(self, batch: Mapping[str, Modality], target: Tensor, examples: Tensor, key: Tensor) -> None:
        """A step of every model."""
        if self.recorded is None:
            self._step(batch, target, examples, key)
            return
        before = plain(self.template, private=True) if not self.steps else None
        self.recorded(self._step, batch, target, examples, key)
        if before is not None and plain(self.template, private=True) != before:
            self.recorded = None  # it counts where a recorded step would not

    def _step(self, batch: Mapping[str, Modality], target: Tensor, examples: Tensor, key: Tensor) -> None:
        """The same in place, so that it can be recorded."""
        gradient, left = self.gradient(self.parameters, self.buffers, batch, target, examples, key)
        self._update(gradient)
        where = {buffer.untyped_storage().data_ptr() for buffer in self.buffers.values()}
        changed = {name: b for name, b in left.items() if not _same(b, self.buffers[name])}
        # One that becomes what another was, or part of it, must have it before that one changes.
        new = {n: b.clone() if b.untyped_storage().data_ptr() in where else b for n, b in changed.items()}
        for name, buffer in new.items():
            self.buffers[name].copy_(buffer)

    def hold_failed(self) -> None:
        """Put models back to their last good epoch that have failed in this one or before; nothing waits for the device.

        A loss that is no number makes its gradient none, and Adam the parameters.
        """
        fine = [p.flatten(1).isfinite().all(1) for p in self.parameters.values()]
        self.failed |= ~torch.stack(fine).all(0)
        self.good_for += ~self.failed
        with torch.no_grad():
            for name, good in self.good.items():
                now = self.parameters[name] if name in self.parameters else self.buffers[name]
                held = torch.where(self.failed.view(-1, *[1] * (now.ndim - 1)), good, now)
                good.copy_(held)
                now.copy_(held)  # the optimiser, or a recorded step, holds it

    def good_epochs(self) -> list[int]:
        """After how many epochs each model was last good."""
        return cast(list[int], self.good_for.tolist())

    def revise(self, train: Split, validation: Split, epoch: int) -> None:
        """Let the method change parameters between epochs, if this is the time."""
        if not self.template.method.revises(epoch):
            return
        self.template.eval()
        with torch.no_grad():
            changed = vmap(partial(self._call, _revise), randomness="error")(
                self.parameters, self.buffers, train.modalities, train.target, validation.modalities, validation.target,
                self.initial, keys.fold(self.seeds, "revise", epoch),
            )  # fmt: skip
            for name, value in changed.items():
                self.parameters[f"model.{name}"].copy_(value)

    def settle(self, validation: Split) -> None:
        """Let the method fit what it fits when training is over."""
        self.template.eval()
        with torch.no_grad():
            self.buffers = vmap(partial(self._call, _settle), randomness="error")(
                self.parameters, self.buffers, validation.modalities, validation.target
            )

    def accuracies(self, split: Split, name: str, rows: int = 512) -> dict[str, Tensor]:
        """Accuracy of every cell, overall and for each group; a few rows at a time, since test sets are large."""
        self.template.eval()
        family = self.template.method.family
        hits = []
        with torch.no_grad():
            for start in range(0, split.target.shape[1], rows):
                part = slice(start, start + rows)
                seen = {modality: take(x, (slice(None), part)) for modality, x in split.modalities.items()}
                prediction = self.predict(self.parameters, self.buffers, seen)
                target = split.target[:, part]
                hits.append(correct(family, prediction.flatten(0, 1), target.flatten(0, 1)).view(target.shape))
            return accuracies(torch.cat(hits, 1), split.groups, name)

    def watched(self, recipe: Watching, train: Split, validation: Split) -> dict[str, Tensor]:
        """What a recipe records of every cell besides accuracies."""
        self.template.eval()

        def one(parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], *splits: Any) -> dict[str, Tensor]:
            def predict(changed: Mapping[str, Tensor], modalities: Mapping[str, Modality]) -> Tensor:
                return cast(Tensor, self._call(_predict, {**parameters, **changed}, buffers, modalities))

            return recipe.watch(predict, parameters, Split(*splits[:3]), Split(*splits[3:]))

        parts = [part for s in (train, validation) for part in (s.modalities, s.target, s.groups)]
        with torch.no_grad():
            return vmap(one, randomness="error")(self.parameters, self.buffers, *parts)

    def learner(self, i: int) -> Learner:
        """The model and method of cell ``i`` as a module of its own, on the CPU."""
        one = copy.deepcopy(self.template)
        state = {name: tensor[i].cpu() for name, tensor in (self.parameters | self.buffers).items()}
        with torch.no_grad():
            for name, tensor in [*one.named_parameters(), *one.named_buffers()]:
                tensor.copy_(state[name])
        return one

    def retire(self) -> None:
        """Keep the models alone, on the CPU: training is over, and the device has other work."""
        self.parameters = {name: tensor.cpu() for name, tensor in self.parameters.items()}
        self.buffers = {name: tensor.cpu() for name, tensor in self.buffers.items()}
        self.good, self.initial, self.recorded = {}, {}, None
        del self.optimiser

    def _ever_revises(self, cell: Cell) -> bool:
        return any(self.template.method.revises(epoch) for epoch in range(cell.settings["epochs"]))

    # No attribute of a fleet leads back to it, or its memory would wait for Python to look for garbage.
    def gradient(self, *arguments: Any) -> Any:
        """Of every model, what its optimiser is given, and its buffers as the step leaves them."""
        return vmap(self._gradient, randomness="error")(*arguments)

    def predict(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], modalities: Mapping[str, Modality]
    ) -> Tensor:
        """What every model says of its examples, ``(models, examples, outputs)``."""
        run = vmap(partial(self._call, _predict), randomness="error")
        return cast(Tensor, run(parameters, buffers, modalities))

    def _gradient(
        self,
        parameters: Mapping[str, Tensor],
        buffers: Mapping[str, Tensor],
        modalities: Mapping[str, Modality],
        target: Tensor,
        examples: Tensor,
        key: Tensor,
    ) -> Any:
        return self.template.gradient(parameters, buffers, Batch(modalities, target, examples), key)

    def _call(
        self, what: Callable[..., Any], parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], *rest: Any
    ) -> Any:
        return functional_call(self.template, {**parameters, **buffers}, (what, *rest))


def plain(module: nn.Module, private: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """Every number, text or flag that a module and its parts hold outside of tensors."""
    kinds = (bool, int, float, str, tuple)
    return [
        (name, {k: v for k, v in vars(part).items() if isinstance(v, kinds) and (private or not k.startswith("_"))})
        for name, part in module.named_modules()
    ]


def _same(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors are the same numbers in the same memory."""
    return a.data_ptr() == b.data_ptr() and a.shape == b.shape and a.stride() == b.stride()


def _predict(learner: Learner, modalities: Mapping[str, Modality]) -> Tensor:
    return learner.method.predict(learner.model, modalities)


def _revise(
    learner: Learner,
    modalities: Mapping[str, Modality],
    target: Tensor,
    validation_modalities: Mapping[str, Modality],
    validation_target: Tensor,
    initial: Mapping[str, Tensor],
    key: Tensor,
) -> dict[str, Tensor]:
    train, validation = Batch(modalities, target), Batch(validation_modalities, validation_target)
    before = {name.removeprefix("model."): p for name, p in initial.items() if name.startswith("model.")}
    return learner.method.revise(learner.model, train, validation, before, key)


def _settle(learner: Learner, modalities: Mapping[str, Modality], target: Tensor) -> dict[str, Tensor]:
    learner.method.settle(learner.model, Batch(modalities, target))
    return dict(learner.named_buffers())
