"""A trained model of a user's data: calibrated predictions, also for rows that lack a modality, and a score of their need."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.measure.stats import tempered
from synib.objective import Family
from synib.own.answers import Answers, Frequencies
from synib.own.given_rows import Rows, as_array, checked
from synib.own.raw.spec import RawModality
from synib.own.recipe import family_of
from synib.own.scaling import Scaling
from synib.own.second import SecondModel
from synib.tokens import optional

Numbers = NDArray[np.float64]
Latents = Mapping[str, Tensor]
ROWS = 4096  # combined at a time


@dataclass(frozen=True)
class Predictor:
    """A trained model of a user's data: see :func:`synib.own.fit.fit` and :func:`synib.own.saved.load`.

    Args:
        answers: The model in parts, or the class frequencies.
        method: Name of the method that trained it.
        settings: How it was trained.
        widths: Modality → its width.
        classes: Names of the classes or labels; none if a number is predicted.
        missing: The modalities that some row lacked in training.
        learned: Those of them whose absence was learned from enough rows.
        scaling: From the user's numbers to the model's, and back.
        temperature: What divides the logits, or multiplies a number's standard deviation; fitted on out-of-fold predictions.
        background: For each modality what up to 64 training rows bring to the fusion.
        about: How it came to be, in plain values.
        bias: What is added to the logits after the temperature, one number each; none of a number's prediction.
        kind: ``"classification"``, ``"ordinal"`` (ordered classes), ``"multilabel"`` or ``"regression"``.
        raw: Modalities that are computed from texts, images, sounds or tables: from which columns, by which encoders.
        second: The model that was trained for rows that lack modalities.
    """

    answers: Answers | Frequencies
    method: str
    settings: Mapping[str, Any]
    widths: Mapping[str, int]
    classes: tuple[str, ...]
    missing: tuple[str, ...]
    learned: tuple[str, ...]
    scaling: Scaling
    temperature: float
    background: Mapping[str, Tensor]
    about: Mapping[str, Any] = field(default_factory=dict)
    bias: tuple[float, ...] = ()
    kind: str = "classification"
    raw: Mapping[str, RawModality] = field(default_factory=dict)
    second: SecondModel | None = None

    def __post_init__(self) -> None:
        if not self.classes:
            object.__setattr__(self, "kind", "regression")
        if not self.bias:
            object.__setattr__(self, "bias", (0.0,) * self.outputs)

    @property
    def family(self) -> Family:
        return family_of(self.kind, self.classes)[0]

    @property
    def outputs(self) -> int:
        """How many numbers the model makes of a row."""
        return family_of(self.kind, self.classes)[1]

    def predict(self, modalities: Rows, present: Rows | None = None) -> Numbers:
        """Calibrated probabilities of the classes, ``(rows, classes)``; of a number, mean and standard deviation ``(rows, 2)``.

        Of several labels each has its own probability, ``(rows, labels)``.

        A row may lack modalities. Then two predictions are combined, with weights from held-out rows
        (:class:`~synib.own.second.SecondModel`): that of a model that was trained with modality dropout, and this model's,
        averaged over 64 values that the missing ones had in training (as probabilities). Where at least 32 training rows
        lacked the same modality, its absence was learned, and this model predicts alone.

        Args:
            modalities: Name → ``(rows, width)``. A modality that is left out is missing in every row, and one that is NaN
                throughout a row in that row.
            present: Name → ``(rows,)`` of booleans, where missing rows are not marked by NaN.
        """
        encoded, has = self._encoded(modalities, present)
        return self._probabilities(self._parameters(encoded, has, self._seen_by_second(modalities, has)))

    def needs_both(self, modalities: Rows, present: Rows | None = None) -> Numbers:
        r"""How much of each answer no modality gives alone, ``(rows,)``, from 0 to 1.

        With :math:`q` the prediction and :math:`q_m` the one from modality m alone,

        .. math:: \max\big(0,\; q(\hat y) - \max_m q_m(\hat y)\big), \qquad \hat y = \arg\max_y q(y):

        how much surer of the answer the row's modalities are together than the surest of them alone. It is 0 where one of them
        alone is as sure of the same answer, and where a row has only one; for an XOR of two bits 1/2, for K classes at most
        1 - 1/K but for noise. For a number it is the least squared Hellinger distance between :math:`q` and a :math:`q_m`,
        which is 0 where one modality alone gives the same mean and deviation. Of several labels it is the largest of them.

        Two noisy views that say the same are surer together, too: this is about what an answer rests on, and not yet about
        interaction (:func:`synib.measure.interaction_gain` is).

        Args:
            modalities, present: As for :meth:`predict`.
        """
        encoded, has = self._encoded(modalities, present)
        second = self._seen_by_second(modalities, has, always=True)
        together = self._probabilities(self._parameters(encoded, has, second))
        nothing = {name: torch.zeros_like(rows) for name, rows in has.items()}
        more = {"multilabel": _more_confident_labels, "regression": _hellinger}.get(self.kind, _more_confident)
        score = np.full((len(together), together.shape[1] if self.kind == "multilabel" else 1), np.inf)
        for name, rows in has.items():
            alone = self._probabilities(self._parameters(encoded, {**nothing, name: rows}, second, learned=False))
            score = np.where(rows.numpy()[:, None], np.minimum(score, more(together, alone)), score)
        several = torch.stack(list(has.values())).sum(0).numpy() > 1
        return np.where(several, np.maximum(score.max(1), 0.0), 0.0)

    def read(
        self, data: Any, columns: Mapping[str, str] | None = None, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Modalities of new rows, and which rows have them: ``model.predict(*model.read("new.csv"))``.

        Raw columns are encoded as those that the model was fitted to.

        Args:
            data: A path, as for :func:`synib.read`, or a pandas DataFrame.
            columns: Modality → its column, where it is called otherwise than in training.
            **options: ``root``, ``strict``, ``allow_download`` and ``device``, as for :func:`synib.read`.
        """
        from synib.own.new_rows import new_rows
        from synib.own.raw.embed import RawOptions

        return new_rows(self, data, columns, RawOptions(**options))[:2]

    def save(self, folder: str | Path) -> Path:
        """Write ``model.json``, ``model.safetensors`` and a model card; files that are not a model's are never overwritten."""
        from synib.own.saved import save

        return save(self, Path(folder))

    def export(self, folder: str | Path, to: str = "onnx") -> Path:
        """Write the model as one graph from vectors and columns of tables to what :meth:`predict` gives.

        Beside the graph are ``export.json`` and ``README.md``, which say its inputs, its outputs, and which encoders must run
        before it. Scaling, missing values, the encoding of tables and the calibration are inside.

        Args:
            folder: Where to write; empty, or an earlier export, which is replaced.
            to: ``"onnx"`` (``model.onnx``, needs ``synib[export]``), or ``"torch"`` for a program of ``torch.export``
                (``model.pt2``).
        """
        from synib.own.export.write import export

        export(self, Path(folder), to)
        return Path(folder)

    def _encoded(self, modalities: Rows, present: Rows | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What each modality brings to the fusion, and which rows have it."""
        given = checked(self.widths, modalities, present)
        count = len(next(iter(given.values()))[0])
        encoded, has = {}, {}
        self.answers.eval()
        with torch.no_grad():
            for name, width in self.widths.items():
                x, rows = given.get(name, (np.zeros((count, width), np.float32), np.zeros(count, bool)))
                has[name] = torch.from_numpy(rows)
                encoded[name] = self.encode(name, x, rows)
        return encoded, has

    def encode(self, name: str, x: NDArray[Any], present: NDArray[np.bool_]) -> Tensor:
        """What a modality brings to the fusion, ``(rows, latent)``.

        Args:
            name: The modality.
            x: ``(rows, width)`` in the user's own units.
            present: Which rows have it.
        """
        # Where its absence was not learned, rows without it are encoded too, and replaced by the background later.
        shown_present = torch.from_numpy(present if name in self.learned else np.ones_like(present))
        scaled = self.scaling(name, np.where(present[:, None], x, 0.0)).double()
        pieces = zip(scaled.split(ROWS), shown_present.split(ROWS), strict=True)
        return torch.cat([
            self.answers.encode(name, optional(a, b) if name in self.missing else a) for a, b in pieces
        ] or [self.background[name][:0]])  # fmt: skip

    def combine(self, encoded: Mapping[str, Tensor]) -> Tensor:
        """The calibrated parameters of the prediction from what each modality brings to the fusion."""
        raw = self.scaling.undo(self.family, self.answers.combine(encoded).double().numpy())
        return torch.from_numpy(tempered(self.family, raw, self.temperature) + np.array(self.bias))

    def scaled(self, modalities: Rows) -> dict[str, Tensor]:
        """Modalities of rows in the model's units; what a row lacks is 0."""
        return {name: self.scaling(name, np.nan_to_num(np.asarray(x))).double() for name, x in modalities.items()}

    def averaged(self, modalities: Rows, present: Rows | None = None) -> Tensor:
        """The calibrated parameters of this model alone, averaged over values of what a row lacks, ``(rows, outputs)``."""
        return torch.from_numpy(self._parameters(*self._encoded(modalities, present)))

    def _seen_by_second(self, modalities: Rows, has: Mapping[str, Tensor], always: bool = False) -> Latents | None:
        """What modalities bring to the second model, if there is one and any row lacks something."""
        lacks = any(not bool(rows.all()) for name, rows in has.items() if name not in self.learned)
        if self.second is None or not (lacks or always):
            return None
        count = len(next(iter(has.values())))
        x = {n: modalities[n] if n in modalities else np.zeros((count, w)) for n, w in self.widths.items()}
        with torch.no_grad():
            return self.second.encode(
                self.scaled({name: as_array(name, x[name], w) for name, w in self.widths.items()})
            )

    def _parameters(
        self, encoded: Latents, has: Mapping[str, Tensor], second: Latents | None = None, learned: bool = True
    ) -> Numbers:
        """Calibrated parameters; of rows that lack modalities (unless this was learned) what both models say together."""
        known = {name: rows | (learned and name in self.learned) for name, rows in has.items()}
        patterns, of_row = torch.stack(list(known.values()), 1).unique(dim=0, return_inverse=True)
        draws = max(len(b) for b in self.background.values())
        result = torch.zeros(len(of_row), self.outputs, dtype=torch.float64)
        with torch.no_grad():
            for i, pattern in enumerate(patterns.tolist()):
                lacking = [name for name, is_known in zip(known, pattern, strict=True) if not is_known]
                each = draws if lacking else 1
                for rows in (of_row == i).nonzero().flatten().split(max(1, ROWS // each)):
                    mixed = {name: z[rows].repeat(each, 1) for name, z in encoded.items()}
                    for name in lacking:
                        other = self.background[name]
                        mixed[name] = other[torch.arange(draws) % len(other)].repeat_interleave(len(rows), 0)
                    result[rows] = self.family.average(self.combine(mixed).unflatten(0, (each, len(rows))))
            some = ~torch.stack(list(known.values())).all(0) & torch.stack(list(has.values())).any(0)
            if self.second is not None and second is not None and some.any():
                of_some = {name: rows[some] for name, rows in has.items()}
                kept = {name: torch.cat([z[:-1][some], z[-1:]]) for name, z in second.items()}
                own = self.scaling.undo(self.family, self.second.parameters(kept, of_some).numpy())
                result[some] = self.second.combine(result[some], torch.from_numpy(own), of_some)
        return result.numpy()

    def _probabilities(self, parameters: Numbers) -> Numbers:
        """Probabilities of the classes or labels; of a number, mean and standard deviation."""
        if self.kind == "regression":
            return np.stack([parameters[:, 0], np.exp(parameters[:, 1] / 2)], 1)
        logits = torch.from_numpy(parameters)
        if self.kind == "multilabel":
            return logits.sigmoid().numpy()
        full = torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits
        return full.softmax(1).numpy()

    def __repr__(self) -> str:
        of = {"multilabel": f"{len(self.classes)} labels", "regression": "a number"}.get(
            self.kind, f"{len(self.classes)} {'ordered ' * (self.kind == 'ordinal')}classes"
        )
        modalities = ", ".join(f"{name} ({width})" for name, width in self.widths.items())
        return f"Predictor({self.method}: {of} from {modalities})"


def _more_confident(together: Numbers, alone: Numbers) -> Numbers:
    """By how much the probability of the predicted class is larger."""
    label = together.argmax(1)[:, None]
    return np.take_along_axis(together, label, 1) - np.take_along_axis(alone, label, 1)


def _more_confident_labels(together: Numbers, alone: Numbers) -> Numbers:
    """The same for each label: by how much the probability that it is predicted right is larger."""
    return np.where(together > 0.5, together - alone, alone - together)


def _hellinger(a: Numbers, b: Numbers) -> Numbers:
    """The squared Hellinger distance of two Gaussians, given by mean and standard deviation."""
    variances = a[:, 1] ** 2 + b[:, 1] ** 2
    overlap = np.sqrt(2 * a[:, 1] * b[:, 1] / variances) * np.exp(-((a[:, 0] - b[:, 0]) ** 2) / (4 * variances))
    return np.asarray(1 - overlap)[:, None]
