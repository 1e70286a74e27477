"""Many models of one architecture as one: parameters, buffers and optimiser state stacked, one row per model."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.func import functional_call, vmap

from synib import fused, keys
from synib.data import Dataset, Split
from synib.measure import accuracies, correct
from synib.methods.hooks import FitsAtEnd, RevisesWeights, TrainsInStages
from synib.models import Dropout
from synib.objective import Batch
from synib.tokens import Modality, take
from synib.training.batches import batches, side_by_side, whole
from synib.training.cells import VARYING, Cell, Learner, Recipe, Watching, check_layers, learner
from synib.training.compiled import CompiledGradient
from synib.training.lazy_rows import LazyRows
from synib.training.recorded import CudaGraphs, Recorded
from synib.training.step import step, trained
from synib.training.tape import Tapes

OF_OPTIMISER = ("lr", "weight_decay")


class StackedModels:
    """Parameters, buffers and optimiser state of many models of one program, one row per model.

    Args:
        recipe: Provides each cell's model and method.
        cells: Cells of one program.
        data: The data of each cell.
        device: Device to train on.
    """

    def __init__(self, recipe: Recipe, cells: Sequence[Cell], data: Sequence[Dataset], device: torch.device) -> None:
        self.device = device
        self.batch_size: int = cells[0].settings["batch_size"]
        seeds = list(dict.fromkeys(cell.seed for cell in cells))
        # Initial weights depend on the program and the seed alone: one model for each seed will do.
        first = {seed: next(i for i, cell in enumerate(cells) if cell.seed == seed) for seed in seeds}
        of_seed = {seed: learner(recipe, cells[i], data[i]) for seed, i in first.items()}
        self.template = of_seed[seeds[0]]
        check_layers(self.template.model)
        row = torch.tensor([seeds.index(cell.seed) for cell in cells], device=device)
        started = [dict(start.named_parameters()) for start in of_seed.values()]
        self.parameters = {
            name: torch.stack([s[name].detach() for s in started]).to(device)[row] for name in started[0]
        }
        self.buffers: dict[str, Tensor] = {}
        if any(True for _ in self.template.buffers()):
            own: dict[Any, dict[str, Tensor]] = {}
            which = [(*_of_method(cell), id(d)) for cell, d in zip(cells, data, strict=True)]
            for key, cell, d in zip(which, cells, data, strict=True):
                if key not in own:
                    own[key] = dict(learner(recipe, cell, d, model=of_seed[cell.seed].model).named_buffers())
            each = [own[key] for key in which]
            self.buffers = {name: torch.stack([b[name] for b in each]).to(device) for name in each[0]}
        self._check_varying(recipe, cells, data)
        self.seeds = torch.stack([keys.key(cell.seed) for cell in cells]).to(device)
        self.steps = 0
        fused.prepare(device)
        lr, decay = ([cell.settings[name] for cell in cells] for name in ("lr", "weight_decay"))
        self.optimiser = fused.Adam(self.parameters, lr, decay)
        self.good = {name: t.clone() for name, t in (self.parameters | self.buffers).items()}
        self.failed = torch.zeros(len(cells), dtype=torch.bool, device=device)
        self.good_for = torch.zeros(len(cells), dtype=torch.long, device=device)
        method = self.template.method
        revises = isinstance(method, RevisesWeights) and any(map(method.revises, range(cells[0].settings["epochs"])))
        self.initial = {name: p.clone() for name, p in self.parameters.items()} if revises else {}
        whole_batches = len(data[0].train.target) // self.batch_size * cells[0].settings["epochs"]
        self.compiled = CompiledGradient(whole_batches, device)
        self.recorded: Recorded | None = Recorded(CudaGraphs(device) if device.type == "cuda" else Tapes())

    def _check_varying(self, recipe: Recipe, cells: Sequence[Cell], data: Sequence[Dataset]) -> None:
        """Raise ``ValueError`` for a method that stores a setting which differs between models as a plain number."""
        first = cells[0]
        for name in VARYING:
            other = next((i for i, c in enumerate(cells) if c.settings.get(name) != first.settings.get(name)), None)
            if other is None or name in OF_OPTIMISER:
                continue
            changed = replace(first, settings={**first.settings, name: cells[other].settings.get(name)})
            ours, theirs = (plain(recipe.method(cell, data[0])) for cell in (first, changed))
            if ours != theirs:
                raise ValueError(
                    f"{first.method} keeps {name} as a plain number, but models trained together differ in it: store it as a "
                    f'buffer, self.register_buffer("{name}", torch.tensor({name})).'
                )

    def stack(self, splits: Sequence[Split]) -> Split:
        """The same split of all cells, as tensors with the cells in the first dimension."""
        sizes = {len(split.target) for split in splits}
        if len(sizes) > 1:
            raise ValueError(f"Cells trained together need splits of equal size; got {sorted(sizes)} examples.")
        first, uses = splits[0], self.template.method.uses
        names = [name for name, x in first.modalities.items() if uses(name) or not isinstance(x, LazyRows)]
        weights = [s.sample_weight for s in splits if s.sample_weight is not None]
        return Split(
            {name: side_by_side([s.modalities[name] for s in splits], self.device) for name in names},
            torch.stack([s.target for s in splits]).to(self.device),
            {name: torch.stack([s.groups[name] for s in splits]).to(self.device) for name in first.groups},
            sample_weight=torch.stack(weights).to(self.device) if weights else None,
        )

    def epoch(self, split: Split, epoch: int) -> None:
        """One pass over the training examples, in each cell's order; the smaller last batch is included."""
        n = split.target.shape[1]
        order = vmap(keys.permutation, in_dims=(0, None))(keys.fold(self.seeds, "order", epoch), n)
        cell = torch.arange(len(order), device=self.device)[:, None]
        target = split.target[cell, order]
        weight = None if split.sample_weight is None else split.sample_weight[cell, order]
        self.template.train()
        self.begin(epoch)
        steps = torch.arange(self.steps, self.steps + -(-n // self.batch_size), device=self.device)
        step_keys = keys.fold(keys.fold(self.seeds, "step")[:, None], steps)
        for number, batch in enumerate(batches(split.modalities, order, self.batch_size)):
            rows = slice(number * self.batch_size, (number + 1) * self.batch_size)
            weights = () if weight is None else (weight[:, rows],)
            self.step(batch, target[:, rows], order[:, rows], step_keys[:, number], *weights)
            self.steps += 1

    def begin(self, epoch: int) -> None:
        """Notify the method of a new epoch, which may change its steps."""
        method = self.template.method
        if isinstance(method, TrainsInStages):
            before = stage_of(self.template)
            method.begin(epoch)
            if self.recorded is not None and stage_of(self.template) != before:
                self.recorded.forget()

    def step(
        self, batch: Mapping[str, Modality], target: Tensor, examples: Tensor, key: Tensor, *weight: Tensor
    ) -> None:
        """One step of every model."""
        if self.recorded is None:
            self._step(batch, target, examples, key, *weight)
            return
        before = plain(self.template, private=True) if not self.steps else None
        self.recorded(self._step, batch, target, examples, key, *weight)
        if before is not None and plain(self.template, private=True) != before:
            self.recorded = None  # it counts where a recorded step would not

    def _step(
        self, batch: Mapping[str, Modality], target: Tensor, examples: Tensor, key: Tensor, *weight: Tensor
    ) -> None:
        """The same step in place, so that it can be recorded."""
        gradient, left = self.gradient(self.parameters, self.buffers, batch, target, examples, key, *weight)
        self.optimiser.step(gradient)
        where = {buffer.untyped_storage().data_ptr() for buffer in self.buffers.values()}
        changed = {name: b for name, b in left.items() if not b.is_set_to(self.buffers[name])}
        # One that becomes what another was, or part of it, must have it before that one changes.
        new = {n: b.clone() if b.untyped_storage().data_ptr() in where else b for n, b in changed.items()}
        for name, buffer in new.items():
            self.buffers[name].copy_(buffer)

    def hold_failed(self) -> None:
        """Restore models that failed in this or an earlier epoch to their last finite state, without synchronisation.

        A loss that is not finite makes its gradient, and through Adam the parameters, not finite.
        """
        numbers = [p.flatten(1) for p in self.parameters.values() if p.numel()]
        largest = [torch.linalg.vector_norm(p, torch.inf, 1) for p in numbers]  # what is not a number stays so
        self.failed |= ~torch.stack(largest).isfinite().all(0)
        self.good_for += ~self.failed
        with torch.no_grad():
            for name, good in self.good.items():
                now = self.parameters[name] if name in self.parameters else self.buffers[name]
                fused.keep_finite(now, good, self.failed)  # in place: the optimiser, or a recorded step, holds it

    def good_epochs(self) -> list[int]:
        """The number of epochs after which each model was last finite."""
        return cast(list[int], self.good_for.tolist())

    def revise(self, train: Split, validation: Split, epoch: int) -> None:
        """Let the method change parameters between epochs, if this epoch requires it."""
        method = self.template.method
        if not isinstance(method, RevisesWeights) or not method.revises(epoch):
            return
        self.template.eval()
        with torch.no_grad():
            changed, left = vmap(partial(self._call, _revise), randomness="error")(
                self.parameters, self.buffers, whole(train), train.target, whole(validation), validation.target,
                self.initial, keys.fold(self.seeds, "revise", epoch),
            )  # fmt: skip
            frozen = {name for name, p in self.template.model.named_parameters() if not p.requires_grad}
            for name, value in changed.items():
                if name not in frozen:
                    self.parameters[f"model.{name}"].copy_(value)
            for name, buffer in left.items():
                self.buffers[name].copy_(buffer)  # a recorded step holds it

    def settle(self, validation: Split) -> None:
        """Let the method fit its final buffers after training."""
        if not isinstance(self.template.method, FitsAtEnd):
            return
        self.template.eval()
        weight = () if validation.sample_weight is None else (validation.sample_weight,)
        with torch.no_grad():
            self.buffers = vmap(partial(self._call, _settle), randomness="error")(
                self.parameters, self.buffers, whole(validation), validation.target, *weight
            )

    def accuracies(self, split: Split, name: str, rows: int = 512) -> dict[str, Tensor]:
        """The accuracy of every cell, overall and for each group, in batches of rows, because test sets are large."""
        self.template.eval()
        family = self.template.method.family
        hits = []
        with torch.no_grad():
            for start in range(0, split.target.shape[1], rows):
                part = slice(start, start + rows)
                seen = {modality: take(x, (slice(None), part)) for modality, x in split.modalities.items()}
                prediction = self.predict(self.parameters, self.buffers, seen)
                target = split.target[:, part]
                right = correct(family, prediction.flatten(0, 1), target.flatten(0, 1))
                hits.append(right.view(*target.shape[:2], -1).mean(-1))  # of several labels the share that is right
            counted = family.counts(split.target) if family.weighs_examples else None
            return accuracies(torch.cat(hits, 1), split.groups, name, None if counted is None else counted > 0)

    def watched(self, recipe: Watching, train: Split, validation: Split) -> dict[str, Tensor]:
        """The metrics that a recipe records of every cell besides accuracies."""
        self.template.eval()

        def of_cell(parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], *splits: Any) -> dict[str, Tensor]:
            def predict(changed: Mapping[str, Tensor], modalities: Mapping[str, Modality]) -> Tensor:
                return cast(Tensor, self._call(_predict, {**parameters, **changed}, buffers, modalities))

            return recipe.watch(predict, parameters, Split(*splits[:3]), Split(*splits[3:]))

        parts = [part for s in (train, validation) for part in (s.modalities, s.target, s.groups)]
        with torch.no_grad():
            return vmap(of_cell, randomness="error")(self.parameters, self.buffers, *parts)

    def learner(self, i: int) -> Learner:
        """The model and method of cell ``i`` as a separate module on the CPU."""
        own = copy.deepcopy(self.template)
        state = {name: tensor[i].cpu() for name, tensor in (self.parameters | self.buffers).items()}
        with torch.no_grad():
            for name, tensor in [*own.named_parameters(), *own.named_buffers()]:
                tensor.copy_(state[name])
        for part in own.modules():
            if isinstance(part, Dropout):
                part.forget_key()
        return own

    def retire(self) -> None:
        """Keep only the models, on the CPU: training is over, and the device is needed for other work."""
        self.parameters = {name: tensor.cpu() for name, tensor in self.parameters.items()}
        self.buffers = {name: tensor.cpu() for name, tensor in self.buffers.items()}
        if self.recorded is not None:
            self.recorded.forget()
        self.good, self.initial, self.recorded = {}, {}, None
        del self.optimiser

    # No attribute of a fleet leads back to it, or its memory would wait for Python to look for garbage.
    def gradient(self, *arguments: Any) -> Any:
        """The gradient of every model for the optimiser, and its buffers after the step."""
        return self.compiled(vmap(self._gradient, randomness="error"), *arguments)

    def predict(
        self, parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], modalities: Mapping[str, Modality]
    ) -> Tensor:
        """The predictions of all models for their examples, ``(models, examples, outputs)``."""
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
        weight: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        done = step(self.template, parameters, buffers, Batch(modalities, target, examples, weight), key)
        return done.gradient, done.buffers

    def _call(
        self, what: Callable[..., Any], parameters: Mapping[str, Tensor], buffers: Mapping[str, Tensor], *rest: Any
    ) -> Any:
        return functional_call(self.template, {**parameters, **buffers}, (what, *rest))


def _of_method(cell: Cell) -> tuple[str, int]:
    """What determines a cell's buffers, besides its data: everything but the settings of the optimiser."""
    settings = {name: x for name, x in cell.settings.items() if name not in OF_OPTIMISER}
    return repr((cell.method, sorted(cell.factors.items()), sorted(settings.items()))), cell.seed


def stage_of(own: Learner) -> tuple[Any, list[str]]:
    """What determines a step besides tensors: the method's plain values, and the parameters that it currently trains."""
    return plain(own.method, private=True), list(trained(own.method, own.named_parameters()))


def plain(module: nn.Module, private: bool = False) -> list[tuple[str, dict[str, Any]]]:
    """All numbers, strings and flags that a module and its submodules store outside of tensors."""
    kinds = (bool, int, float, str, tuple)
    return [
        (name, {k: v for k, v in vars(part).items() if isinstance(v, kinds) and (private or not k.startswith("_"))})
        for name, part in module.named_modules()
    ]


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
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    train, validation = Batch(modalities, target), Batch(validation_modalities, validation_target)
    before = {name.removeprefix("model."): p for name, p in initial.items() if name.startswith("model.")}
    changed = cast(RevisesWeights, learner.method).revise(learner.model, train, validation, before, key)
    return changed, dict(learner.named_buffers())


def _settle(
    learner: Learner, modalities: Mapping[str, Modality], target: Tensor, weight: Tensor | None = None
) -> dict[str, Tensor]:
    cast(FitsAtEnd, learner.method).settle(learner.model, Batch(modalities, target, sample_weight=weight))
    return dict(learner.named_buffers())
