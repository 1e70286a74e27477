"""A trained model of a user's data: calibrated predictions, also for rows that lack modalities, and ``needs_both``."""

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
ROWS = 4096  # rows combined at a time


@dataclass(frozen=True)
class Predictor:
    """A trained model of a user's data: see :func:`synib.own.fit.fit` and :func:`synib.own.saved.load`.

    Args:
        answers: The model in parts, or the class frequencies.
        method: Name of the method that trained it.
        settings: How it was trained.
        widths: Modality → its width.
        classes: Names of the classes or labels; none if a number is predicted.
        missing: The modalities that some training rows lacked.
        learned: Those of them that enough training rows lacked for the model to learn to predict without them.
        scaling: The scaling of features, and of a numeric target.
        temperature: Factor that divides the logits, or multiplies a number's standard deviation; fitted on out-of-fold
            predictions.
        background: For each modality its latents in up to 64 training rows.
        about: Provenance and scores, as plain values.
        bias: Added to the logits after the temperature, one per output; 0 for numbers.
        kind: ``"classification"``, ``"ordinal"`` (ordered classes), ``"multilabel"`` or ``"regression"``.
        raw: Modalities computed from texts, images, sounds or tables, with their columns and encoders.
        second: The second model, for rows that lack modalities.
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
        """Number of outputs per row."""
        return family_of(self.kind, self.classes)[1]

    def predict(self, modalities: Rows, present: Rows | None = None) -> Numbers:
        """Calibrated predictions.

        A row may lack modalities. Then two predictions are combined with weights from held-out rows
        (:class:`~synib.own.second.SecondModel`): that of a model trained with modality dropout, and this model's, averaged
        over 64 training values of the missing modalities (as probabilities). If at least 32 training rows lacked the same
        modality, this model has learned to predict without it, and predicts alone.

        Args:
            modalities: Name → ``(rows, width)``. A modality that is left out is missing in every row; a row of NaN lacks the
                modality.
            present: Name → ``(rows,)`` of booleans, if missing rows are not marked by NaN.

        Returns:
            Probabilities of the classes ``(rows, classes)``; of labels, each its own probability ``(rows, labels)``; of a
            number, mean and standard deviation ``(rows, 2)``.
        """
        encoded, has = self._encoded(modalities, present)
        return self._probabilities(self._parameters(encoded, has, self._seen_by_second(modalities, has)))

    def needs_both(self, modalities: Rows, present: Rows | None = None) -> Numbers:
        r"""How much the confidence in each answer exceeds that of every single modality, ``(rows,)``, from 0 to 1.

        With :math:`q` the prediction and :math:`q_m` the one from modality m alone,

        .. math:: \max\big(0,\; q(\hat y) - \max_m q_m(\hat y)\big), \qquad \hat y = \arg\max_y q(y):

        the probability of the answer given all modalities of the row, minus the largest given a single one. It is 0 if one
        modality is as confident of the same answer, or if the row has only one modality. It is 1/2 for an XOR of two bits,
        and apart from noise at most 1 - 1/K for K classes. For a number it is the smallest squared Hellinger distance between
        :math:`q` and any :math:`q_m`, which is 0 if one modality gives the same mean and deviation. For labels it is the
        maximum over labels.

        Two noisy views of the same information are also more confident together, so the score does not show an interaction;
        :func:`synib.measure.interaction_gain` does.

        Args:
            modalities, present: As for :meth:`predict`.
        """
        encoded, has = self._encoded(modalities, present)
        second = self._seen_by_second(modalities, has, always=True)
        together = self._probabilities(self._parameters(encoded, has, second))
        none_present = {name: torch.zeros_like(rows) for name, rows in has.items()}
        gain = {"multilabel": _more_confident_labels, "regression": _hellinger}.get(self.kind, _more_confident)
        score = np.full((len(together), together.shape[1] if self.kind == "multilabel" else 1), np.inf)
        for name, rows in has.items():
            unimodal = self._probabilities(
                self._parameters(encoded, {**none_present, name: rows}, second, learned=False)
            )
            score = np.where(rows.numpy()[:, None], np.minimum(score, gain(together, unimodal)), score)
        several = torch.stack(list(has.values())).sum(0).numpy() > 1
        return np.where(several, np.maximum(score.max(1), 0.0), 0.0)

    def read(
        self, data: Any, columns: Mapping[str, str] | None = None, **options: Any
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """Read the modalities of new rows: ``model.predict(*model.read("new.csv"))``.

        Raw columns are encoded as in training.

        Args:
            data: A path, as for :func:`synib.read`, or a pandas DataFrame.
            columns: Modality → its column, if its name differs from that in training.
            **options: ``root``, ``strict``, ``allow_download`` and ``device``, as for :func:`synib.read`; and ``encoders``,
                modality → the folder or hub id of its transformers encoder, if that was moved since training.

        Returns:
            Name → ``(rows, width)``, and name → which rows have the modality.
        """
        from synib.own.new_rows import new_rows
        from synib.own.raw.embed import RawOptions

        moved = options.pop("encoders", None)
        return new_rows(self, data, columns, RawOptions(**options, moved=moved))[:2]

    def save(self, folder: str | Path) -> Path:
        """Write ``model.json``, ``model.safetensors`` and a model card; other files are never overwritten."""
        from synib.own.saved import save

        return save(self, Path(folder))

    def export(self, folder: str | Path, to: str = "onnx") -> Path:
        """Write the model as one graph that maps vectors and table columns to the result of :meth:`predict`.

        The graph includes scaling, missing values, the encoding of tables and the calibration. ``export.json`` and
        ``README.md`` describe its inputs, its outputs, and the encoders that must run before it.

        Args:
            folder: The folder to write; it must be empty or hold an earlier export, which is replaced.
            to: ``"onnx"`` (``model.onnx``, needs ``synib[export]``), or ``"torch"`` for a program of ``torch.export``
                (``model.pt2``).
        """
        from synib.own.export.write import export

        export(self, Path(folder), to)
        return Path(folder)

    def _encoded(self, modalities: Rows, present: Rows | None) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """The latents of each modality, and which rows have it."""
        inputs = checked(self.widths, modalities, present)
        count = len(next(iter(inputs.values()))[0])
        encoded, has = {}, {}
        self.answers.eval()
        with torch.no_grad():
            for name, width in self.widths.items():
                x, rows = inputs.get(name, (np.zeros((count, width), np.float32), np.zeros(count, bool)))
                has[name] = torch.from_numpy(rows)
                encoded[name] = self.encode(name, x, rows)
        return encoded, has

    def encode(self, name: str, x: NDArray[Any], present: NDArray[np.bool_]) -> Tensor:
        """The latents of a modality, ``(rows, latent)``.

        Args:
            name: The modality.
            x: ``(rows, width)`` in the user's own units.
            present: Which rows have it.
        """
        # If its absence was not learned, rows without it are encoded too, and replaced by the background later.
        shown_present = torch.from_numpy(present if name in self.learned else np.ones_like(present))
        scaled = self.scaling(name, np.where(present[:, None], x, 0.0)).double()
        pieces = zip(scaled.split(ROWS), shown_present.split(ROWS), strict=True)
        return torch.cat([
            self.answers.encode(name, optional(a, b) if name in self.missing else a) for a, b in pieces
        ] or [self.background[name][:0]])  # fmt: skip

    def combine(self, encoded: Mapping[str, Tensor]) -> Tensor:
        """The calibrated parameters of the prediction from the latents of each modality."""
        raw = self.scaling.undo(self.family, self.answers.combine(encoded).double().numpy())
        return torch.from_numpy(tempered(self.family, raw, self.temperature) + np.array(self.bias))

    def scaled(self, modalities: Rows) -> dict[str, Tensor]:
        """Modalities in the model's units; missing ones are 0."""
        return {name: self.scaling(name, np.nan_to_num(np.asarray(x))).double() for name, x in modalities.items()}

    def averaged(self, modalities: Rows, present: Rows | None = None) -> Tensor:
        """The calibrated parameters of this model without the second, averaged over missing modalities: ``(rows, outputs)``."""
        return torch.from_numpy(self._parameters(*self._encoded(modalities, present)))

    def _seen_by_second(self, modalities: Rows, has: Mapping[str, Tensor], always: bool = False) -> Latents | None:
        """The latents of the second model, if there is one and any row lacks a modality."""
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
        """Calibrated parameters; for rows that lack modalities (unless learned), the combination of both models."""
        usable = {name: rows | (learned and name in self.learned) for name, rows in has.items()}
        patterns, of_row = torch.stack(list(usable.values()), 1).unique(dim=0, return_inverse=True)
        draws = max(len(b) for b in self.background.values())
        result = torch.zeros(len(of_row), self.outputs, dtype=torch.float64)
        with torch.no_grad():
            for i, pattern in enumerate(patterns.tolist()):
                lacking = [name for name, is_usable in zip(usable, pattern, strict=True) if not is_usable]
                repeats = draws if lacking else 1
                for rows in (of_row == i).nonzero().flatten().split(max(1, ROWS // repeats)):
                    mixed = {name: z[rows].repeat(repeats, 1) for name, z in encoded.items()}
                    for name in lacking:
                        values = self.background[name]
                        mixed[name] = values[torch.arange(draws) % len(values)].repeat_interleave(len(rows), 0)
                    result[rows] = self.family.average(self.combine(mixed).unflatten(0, (repeats, len(rows))))
            incomplete = ~torch.stack(list(usable.values())).all(0) & torch.stack(list(has.values())).any(0)
            if self.second is not None and second is not None and incomplete.any():
                has_incomplete = {name: rows[incomplete] for name, rows in has.items()}
                second_latents = {name: torch.cat([z[:-1][incomplete], z[-1:]]) for name, z in second.items()}
                second_parameters = self.scaling.undo(
                    self.family, self.second.parameters(second_latents, has_incomplete).numpy()
                )
                result[incomplete] = self.second.combine(
                    result[incomplete], torch.from_numpy(second_parameters), has_incomplete
                )
        return result.numpy()

    def _probabilities(self, parameters: Numbers) -> Numbers:
        """Probabilities of the classes or labels, or mean and standard deviation of a number."""
        if self.kind == "regression":
            return np.stack([parameters[:, 0], np.exp(parameters[:, 1] / 2)], 1)
        logits = torch.from_numpy(parameters)
        if self.kind == "multilabel":
            return logits.sigmoid().numpy()
        full = torch.cat([torch.zeros_like(logits), logits], 1) if logits.shape[1] == 1 else logits
        return full.softmax(1).numpy()

    def __repr__(self) -> str:
        target = {"multilabel": f"{len(self.classes)} labels", "regression": "a number"}.get(
            self.kind, f"{len(self.classes)} {'ordered ' * (self.kind == 'ordinal')}classes"
        )
        modalities = ", ".join(f"{name} ({width})" for name, width in self.widths.items())
        return f"Predictor({self.method}: {target} from {modalities})"


def _more_confident(together: Numbers, unimodal: Numbers) -> Numbers:
    """The increase of the predicted class's probability."""
    label = together.argmax(1)[:, None]
    return np.take_along_axis(together, label, 1) - np.take_along_axis(unimodal, label, 1)


def _more_confident_labels(together: Numbers, unimodal: Numbers) -> Numbers:
    """The same for each label: the increase of the probability of its predicted value."""
    return np.where(together > 0.5, together - unimodal, unimodal - together)


def _hellinger(a: Numbers, b: Numbers) -> Numbers:
    """The squared Hellinger distance of two Gaussians, given by mean and standard deviation."""
    variances = a[:, 1] ** 2 + b[:, 1] ** 2
    overlap = np.sqrt(2 * a[:, 1] * b[:, 1] / variances) * np.exp(-((a[:, 0] - b[:, 0]) ** 2) / (4 * variances))
    return np.asarray(1 - overlap)[:, None]
