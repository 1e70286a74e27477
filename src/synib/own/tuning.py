"""``fit --tune``: encoders trained together with the model, compared with frozen encoders on held-out rows."""

import copy
import math
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from synib.data import Dataset, Split
from synib.methods import Experts
from synib.objective import Gaussian
from synib.own.answers import Answers
from synib.own.behaviour import behaviour
from synib.own.crossfit import Calibration, calibrate
from synib.own.finish import background_of, temperature_of
from synib.own.fit import AUTO, fit
from synib.own.fit_scores import in_words
from synib.own.fitting import answers_of, expert_scales
from synib.own.folds import Fold, Rows, held_out
from synib.own.incomplete import SecondTrainer, TrainedPart
from synib.own.near_copies import dependence_groups
from synib.own.predictor import Predictor
from synib.own.raw.catalogue import MINILM, is_network
from synib.own.raw.encoders.base import EncoderState
from synib.own.raw.spec import RawModality
from synib.own.recipe import TableRecipe
from synib.own.search_space import recommended
from synib.own.table import Table
from synib.own.tuned_model import SharedNetwork, attach, detach, vectors_of
from synib.own.tuning_scores import compare, in_plain_values
from synib.tokens import Modality, Tokens
from synib.training import Learner
from synib.training.device import choose_device
from synib.training.plan import Plan

RATE, DECAY, CLIP, BATCH = 5e-4, 0.0, 1.0, 32
STEPS, FEWEST, MOST = 200, 3, 10  # training steps, at least, within this range of epochs
LEAST = 40  # rows, at least
TUNED = ("experts", "stacked", "synib-marginal", "vanilla", "additive")
Progress = Callable[[float, float], None]


def check_tunable(table: Table, method: str = AUTO) -> dict[str, RawModality]:
    """The modalities whose encoder can be tuned.

    Args:
        table: The data.
        method: The requested method.

    Raises:
        ValueError: If no modality or the method cannot be tuned, with advice.
    """
    raw = {} if table.raw is None else {n: m for n, m in table.raw.modalities.items() if m.kind != "table"}
    if not raw:
        raise ValueError("--tune trains encoders of texts, images and sounds, but this file has none of these.")
    tunable = {name: m for name, m in raw.items() if len(m.encoders) == 1 and is_network(m.kind, m.encoders[0].name)}
    if not tunable:
        name, modality = next(iter(raw.items()))
        used = " and ".join(state.name for state in modality.encoders)
        example = MINILM if modality.kind == "text" else "FOLDER"
        raise ValueError(
            f"--tune needs one transformers encoder per modality, but {name} is encoded by {used}. Name an encoder by its "
            f"folder or hub id: --encoder {name}={example}."
        )
    if method not in (AUTO, "synib", *TUNED) and method.removeprefix("unimodal-") not in tunable:
        raise ValueError(
            f"--tune supports the methods synib, {', '.join(TUNED)}, and unimodal- of {', '.join(tunable)}; got {method}: "
            "leave out --tune."
        )
    if find_spec("lightning") is None:
        raise ValueError('--tune trains with Lightning, which is not installed: pip install "synib[solo]".')
    rows = _trained_rows(table)
    if len(rows) < LEAST:
        raise ValueError(
            f"--tune needs at least {LEAST} rows for training, calibration and evaluation; there are {len(rows)}."
        )
    return tunable


def tune(
    model: Predictor,
    table: Table,
    *,
    epochs: int | None = None,
    seed: int = 0,
    device: str = "auto",
    download: bool = False,
    on_progress: Progress = lambda done, total: None,
) -> tuple[Predictor, Table]:
    """Tune the encoders of a model, and keep the tuned model if it is better on held-out rows.

    One fifth of the rows is held out for evaluation, and one fifth of the others for calibration. On the rest the model is
    trained on frozen vectors. Then its encoders get low-rank updates of their attention (LoRA), which are trained together
    with the model by the same objective, with Lightning. If that lowers the log-loss of the held-out rows, it is repeated on
    all rows.

    Args:
        model: The model fitted to the table by :func:`synib.own.fit.fit`. If it chose among methods, the encoders are trained
            with SynIB; otherwise with the requested method.
        table: The data. Test rows of a split column are not used.
        epochs: Passes over the training rows; by default 3, or more if these are fewer than 200 steps.
        seed: Seed for the choice of rows and for training.
        device: ``"auto"``, ``"cpu"`` or ``"cuda"``.
        download: Whether an encoder may be downloaded from the hub.
        on_progress: Called with the epochs done and their total.

    Returns:
        The tuned model and the table with the vectors of its encoders; or the given model and table, if these are better.
    """
    requested = str(model.about.get("asked", AUTO))
    raw = check_tunable(table, requested)
    method = recommended(table) if requested == AUTO else model.method
    parts = _parts(table, seed)
    job = _Job(table, raw, seed, choose_device(device), download, epochs)
    total = 2 * job.epochs()
    judged_table = _split(table, parts)
    fit_frozen = partial(fit, budget=int(model.about["budget"]), seed=seed, device=device, baselines=False)
    frozen = fit_frozen(judged_table, model.method)
    start = frozen if method == model.method else fit_frozen(judged_table, method)
    with tempfile.TemporaryDirectory(prefix="synib-tune-") as folder:
        trial = job.run(start, parts.train, Path(folder), lambda done: on_progress(done, total))
        calibration = trial.calibration(parts.validation)
        tuned = trial.predictor(start, calibration, parts.train)
        comparison = compare(judged_table, frozen, tuned, trial.table, parts.test)
        record = in_plain_values(comparison, table.kind, raw, model.method, method, parts) | {"epochs": job.epochs()}
        about = dict(model.about) | {"tuned": record}
        if comparison.loss_difference.value >= 0:
            on_progress(total, total)
            return replace(model, about=about), table
        base = model if method == model.method else fit_frozen(table, method)
        rows = _trained_rows(table)
        final = job.run(base, rows, Path(folder), lambda done: on_progress(total / 2 + done, total))
        everything = np.sort(np.concatenate([parts.validation, parts.test]))
        result = final.predictor(base, trial.calibration(everything), rows)
        part = TrainedPart(trial.table, tuned, parts.train, everything)
        trainer = SecondTrainer(seed=seed, device=job.device)
        result = trainer.complete([part], TrainedPart(final.table, result, rows, rows[:0]))
        on_progress(total, total)
    about |= {
        "scores": comparison.tuned,
        "of_methods": {f"{in_words(model.method, model.kind)} with frozen encoders": comparison.frozen},
        "judged": f"{len(parts.test):,} held-out rows, which were not used for training, tuning or calibration",
        "choice": record["words"],
        "folds": 1,
        "rows": dict(model.about["rows"]) | {"train": len(rows)},
    }
    result = replace(result, about=about)
    return replace(result, about=about | {"behaviour": behaviour(result, final.table, rows)}), final.table


@dataclass
class _Job:
    """Settings shared by all tuning runs of a model."""

    table: Table
    raw: Mapping[str, RawModality]
    seed: int
    device: str
    download: bool
    given_epochs: int | None

    def epochs(self) -> int:
        steps = math.ceil(len(self.table.target) / BATCH)
        return self.given_epochs or min(MOST, max(FEWEST, math.ceil(STEPS / steps)))

    def run(self, start: Predictor, rows: Rows, folder: Path, on_epoch: Callable[[int], None]) -> "_Tuned":
        """Tune on some rows, starting from a model trained on the same rows with frozen encoders."""
        from synib.own.raw.encoders.adapters import RANK, add_adapters
        from synib.own.raw.encoders.pretrained import Pretrained
        from synib.own.raw.rows import RawRows
        from synib.training.solo import train_learner

        assert self.table.raw is not None
        assert isinstance(start.answers, Answers)
        numbers = self.table.row_numbers
        file_rows = np.arange(len(self.table.target)) if numbers is None else numbers
        shared: dict[str, SharedNetwork] = {}
        for name, modality in self.raw.items():
            encoder = Pretrained(modality.kind, modality.encoders[0].name, self.download, "cpu")
            with torch.random.fork_rng(devices=[]):
                torch.default_generator.manual_seed(self.seed)
                add_adapters(encoder.name, encoder.network, RANK)
            shared[name] = SharedNetwork(RawRows(self.table.raw, name, encoder, file_rows.tolist(), folder))
        learner = copy.deepcopy(start.answers.learner).float()
        data = Dataset(self._split(start, rows, shared), self._split(start, rows[:BATCH], shared), None)
        objective = attach(learner, shared, start.scaling.columns)
        epochs = self.epochs()
        steps = epochs * math.ceil(len(rows) / BATCH)
        precision: Any = "bf16-mixed" if self.device == "cuda" and torch.cuda.is_bf16_supported() else "32-true"
        plan = Plan(
            RATE, DECAY, epochs, BATCH, self.seed, precision, warmup=max(1, steps // 10), schedule="cosine", clip=CLIP
        )
        train_learner(learner, data, plan, self.device, lambda epoch: on_epoch(epoch + 1))
        detach(learner, objective)
        present = {name: np.asarray(self.table.present[name], dtype=bool) for name in shared}
        for name in shared:
            shared[name].to(self.device)
        vectors = {name: vectors_of(shared[name], present[name]) for name in shared}
        table = replace(self.table, modalities={**self.table.modalities, **vectors})
        states = {name: _state(network.rows.encoder) for name, network in shared.items()}
        return _Tuned(table, learner.eval(), start, states, rows)

    def _split(self, start: Predictor, rows: Rows, shared: Mapping[str, SharedNetwork]) -> Split:
        """Input rows of the tuned model, with row numbers in place of raw modalities."""
        plain = _Recipe(self.table, rows, start).split(0, rows)
        modalities: dict[str, Modality] = dict(plain.modalities)
        for name in shared:
            x = torch.from_numpy(rows)[:, None]
            lacks = torch.from_numpy(~np.asarray(self.table.present[name], dtype=bool)[rows])[:, None]
            modalities[name] = Tokens(x[:, None], lacks) if name in start.missing else x
        return Split(modalities, plain.target, sample_weight=plain.sample_weight)


@dataclass(frozen=True)
class _Tuned:
    """A tuned model in parts.

    Args:
        table: The data with the vectors of the tuned encoders.
        learner: The model on these vectors.
        start: The model before tuning, whose scaling is kept.
        states: Modality → its tuned encoder.
        rows: The rows it was trained on.
    """

    table: Table
    learner: Learner
    start: Predictor
    states: Mapping[str, EncoderState]
    rows: Rows

    def calibration(self, rows: Rows) -> Calibration:
        """The calibration fitted to rows that were not used for training."""
        recipe = _Recipe(self.table, self.rows, self.start)
        answers = answers_of(self.learner, recipe.split(0, rows)) / self._scales()[:, None, None]
        own_units = torch.from_numpy(self.start.scaling.undo(recipe.family, answers.numpy()))
        weight = None if self.table.weight is None else torch.as_tensor(self.table.weight[rows])
        return calibrate(recipe.family, own_units, torch.as_tensor(self.table.target[rows]), weight)

    def predictor(self, start: Predictor, calibration: Calibration, rows: Rows) -> Predictor:
        """The calibrated model, with the background for missing modalities."""
        recipe = _Recipe(self.table, rows, start)
        learner, gaussian = copy.deepcopy(self.learner), isinstance(recipe.family, Gaussian)
        method = learner.method
        stacked = isinstance(method, Experts)
        if isinstance(method, Experts):
            method.weights = (calibration.weights / self._scales()).to(method.weights)
            method.bias = calibration.bias.to(method.bias)
        answers = Answers(learner, recipe.outputs).double()
        raw = {n: replace(m, encoders=(self.states[n],)) if n in self.states else m for n, m in start.raw.items()}
        return replace(
            start,
            answers=answers,
            raw=raw,
            temperature=temperature_of(calibration, gaussian, stacked),
            bias=tuple([0.0] * recipe.outputs if stacked or gaussian else calibration.bias.tolist()),
            background=background_of(recipe, answers, start.scaling, rows),
            second=None,
        )

    def _scales(self) -> torch.Tensor:
        return expert_scales(self.learner, _Recipe(self.table, self.rows, self.start).split(0, self.rows[:4096]))


class _Recipe(TableRecipe):
    """Recipe with the scaling of an existing model."""

    def __init__(self, table: Table, rows: Rows, start: Predictor) -> None:
        super().__init__(table, [Fold(rows, rows[:2], rows[:0])])
        self._scalings[0] = start.scaling
        self.missing = start.missing


def _state(encoder: Any) -> EncoderState:
    """The state of a tuned encoder for a saved model: its updates, and its new revision."""
    from synib.own.raw.encoders.adapters import RANK, adapters_of

    encoder.adapt({"rank": RANK}, adapters_of(encoder.network))
    state: EncoderState = encoder.state()
    return state


def _trained_rows(table: Table) -> Rows:
    """All rows, or the training rows of a split column."""
    if table.split is None:
        return np.arange(len(table.target))
    split = np.asarray(table.split)
    return np.flatnonzero(split == "train")


def _parts(table: Table, seed: int) -> Fold:
    """Rows for training, calibration and evaluation; copies of a row, and groups, stay together."""
    if table.group is None and (dependent := dependence_groups(table)) is not None:
        table = replace(table, group=dependent.astype(str))
    rows = _trained_rows(table)
    named = np.flatnonzero(np.asarray(table.split) == "validation") if table.split is not None else rows[:0]
    rest, judged = (rows, named) if len(named) else held_out(table, rows, seed=seed)
    train, validation = held_out(table, rest, seed=seed + 1)
    return Fold(train, validation, judged)


def _split(table: Table, parts: Fold) -> Table:
    """The table with these parts as its split; all other rows are test rows."""
    split: NDArray[np.str_] = np.full(len(table.target), "test", dtype="<U10")
    split[parts.train], split[parts.validation] = "train", "validation"
    return replace(table, split=split)
