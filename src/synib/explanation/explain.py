"""``synib.explain``: locate the synergy of a model in rows and parts of rows."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from torch import Tensor

from synib import tokens
from synib.checks import check_whole, shown
from synib.explanation.answers import Readout
from synib.explanation.kinds import Kinds, kinds
from synib.explanation.partition import PartsOf, partition
from synib.explanation.parts import PartScores, RowParts, part_scores
from synib.explanation.rows import Numbers, RowEvidence, row_evidence
from synib.explanation.subject import Subject
from synib.explanation.views import Columns, View
from synib.measure.encoded import CHUNK, Modalities, Model, evaluated
from synib.measure.stats import check_resampling
from synib.objective import Family
from synib.own.predictor import Predictor

SHOWN = 10  # rows of a page or of a notebook's output


@dataclass(frozen=True)
class Explanation:
    """The result of :func:`explain`.

    A notebook displays it as HTML: for each of the most synergistic rows the evidence of each modality alone and the synergy,
    and the contributions of the parts of the row.

    Args:
        rows: The decomposed evidence of every row.
        parts: Modality → contributions of its parts, for the requested rows.
        ids: Names of the rows.
        classes: Names of the classes, if given.
        values: Modality → the values of the rows, for pictures.
        views: Modality → its view, which draws the parts.
    """

    rows: RowEvidence
    parts: Mapping[str, PartScores]
    ids: tuple[str, ...]
    classes: tuple[str, ...] = ()
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    views: Mapping[str, View] = field(default_factory=dict, repr=False)

    def __len__(self) -> int:
        return len(self.rows)

    def top(self, count: int = SHOWN) -> list[int]:
        """The most synergistic rows, by how much synergy exceeds the evidence of the strongest single modality.

        Rows with a single modality come last.
        """
        check_whole("count", count)
        return [int(i) for i in np.lexsort((-self.rows.lead, ~self.rows.several))[:count]]

    def kinds(self, of: int | None = None, clusters: int = 4, seed: int = 0) -> Kinds:
        """Clusters and directions of the modalities that interact, with typical rows (:func:`synib.explanation.kinds`).

        Args:
            of: The output whose interaction is described, from 0. Default: the last class or label, or the first predicted
                number.
            clusters: Number of clusters per modality.
            seed: Seed for the clusters.
        """
        interaction = self.rows.interaction_parameters[:, self._output(of)]
        return kinds(interaction, self.values, clusters=clusters, seed=seed)

    def output(self, of: int | None = None) -> str:
        """The name of the output that :meth:`kinds` describes."""
        number = self._output(of)
        if self.rows.kind == "number":
            return f"predicted number {number}"
        if self.rows.kind == "class" and self.rows.interaction_parameters.shape[1] == 1:
            number = 1  # a single log-odds is that of the second class
        return self.classes[number] if number < len(self.classes) else str(number)

    def _output(self, of: int | None) -> int:
        outputs = self.rows.interaction_parameters.shape[1]
        if of is None:
            return 0 if self.rows.kind == "number" else outputs - 1
        if check_whole("of", of, least=0) >= outputs:
            raise ValueError(f"of must be the number of an output, from 0 to {outputs - 1}; got {of}.")
        return of

    def answer(self, row: int) -> str:
        """The name of the answer whose evidence is explained."""
        number = int(self.rows.answer[row])
        return self.classes[number] if number < len(self.classes) else str(number)

    def records(self) -> Iterator[dict[str, str | float]]:
        """A flat record for each row, for a table or a CSV file."""
        e = self.rows
        columns: dict[str, Numbers] = {"evidence": e.evidence, "baseline": e.baseline}
        for name in e.names:
            columns[f"unique_{name}"] = e.unique[name].value
        for what, scores in (("shared", e.shared), ("synergy", e.synergy), ("interaction", e.interaction)):
            columns |= {what: scores.value, f"{what}_low": scores.low, f"{what}_high": scores.high}
        for name in e.names:
            columns |= {f"alone_{name}": e.alone[name].value, f"probability_{name}": e.probability_alone[name]}
        columns |= {"probability": e.probability, "needs_both": e.needs_both, "lead": e.lead, "gain_nats": e.gain}
        for row in range(len(self)):
            yield {"row": self.ids[row], "answer": self.answer(row)} | {k: float(v[row]) for k, v in columns.items()}

    def __repr__(self) -> str:
        e = self.rows
        lines = [f"Explanation of {len(self)} rows from {' x '.join(e.names)}, {e.draws} background draws"]
        for row in self.top(5):
            alone = ", ".join(f"{name} {e.unique[name].value[row]:+.2f}" for name in e.names)
            synergy = f"{e.synergy.value[row]:+.2f} [{e.synergy.low[row]:+.2f}, {e.synergy.high[row]:+.2f}]"
            lines.append(
                f"  row {self.ids[row]}: answer {self.answer(row)}, evidence {e.evidence[row]:+.2f} = baseline "
                f"{e.baseline[row]:+.2f}, {alone}, shared {e.shared.value[row]:+.2f}, synergy {synergy}"
            )
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from synib.explanation.html import explanation_html

        return explanation_html(self, self.top())


def explain(
    model: Model | Predictor,
    rows: Modalities,
    *,
    background: Modalities | None = None,
    parts: bool | Mapping[str, PartsOf | RowParts] = False,
    of: Sequence[int] | None = None,
    answer: ArrayLike | Tensor | None = None,
    family: Family | None = None,
    draws: int = 128,
    part_draws: int = 32,
    seed: int = 0,
    level: float = 0.95,
    chunk: int = CHUNK,
    ids: Sequence[Any] | None = None,
    classes: Sequence[str] | None = None,
    views: Mapping[str, View] | None = None,
) -> Explanation:
    r"""Locate a model's synergy: in which rows, and in which parts of a row.

    The evidence for each row's answer (see :class:`~synib.explanation.answers.Readout`) is decomposed exactly,

    evidence = baseline + evidence of each modality alone + interaction
    = baseline + unique + shared + synergy,

    where an absent modality takes the values of other rows, averaged over draws, as ``ShuffledNoise`` fills it in training (see
    :class:`~synib.explanation.rows.RowEvidence`). With all rows as background, evidence minus interaction is the projection
    of :func:`synib.measure.emap`, and with ``answer=target`` the mean ``gain`` is its ``log_loss_added``.

    It explains *this model*, not the data: synergy that the model has not learned is not found, and a wrong answer may have
    synergy too. Rows mixed from other rows may be unlike any real row. *Shared* compares the size and direction of the
    modalities' evidence, not its origin. Evidence is measured in log-odds; on the scale of probabilities, a sum of log-odds
    is an interaction.

    Args:
        model: A fitted model of :func:`synib.fit` or :func:`synib.load`; a :class:`~synib.FusionModel` (wrapped or not),
            whose modalities are encoded once; or any callable from modalities to the family's parameters.
        rows: Name → tensor, array or :class:`~synib.Tokens`, batch first.
        background: Other rows, whose values replace absent modalities. Default: the rows themselves; for a fitted model the
            training rows stored with it.
        parts: Whether to compute the contributions of parts, or modality → its parts: ``"coordinates"``, ``"tokens"``, a
            dict of named blocks, an array of part numbers (:func:`~synib.explanation.partition.patches`), or a custom
            :class:`~synib.explanation.parts.RowParts`, which takes at most ``draws`` rows as background.
        of: The rows whose parts are explained. Default: the ten most synergistic rows.
        answer: Explain the evidence for these classes. Default: the predicted classes.
        family: The predictive distribution. Default: ``Categorical()``; a fitted model has its own.
        draws: Background rows that replace an absent modality, at most.
        part_draws: Background rows and orders for the parts of a row.
        seed: Seed for all draws.
        level: Confidence level of the intervals, which are over draws.
        chunk: Rows passed through the model at a time.
        ids: Names of the rows. Default: their numbers from 0.
        classes: Names of the classes.
        views: Modality → the view that draws its parts (:mod:`synib.explanation.views`). Default: bars.

    Example:
        >>> import torch, synib
        >>> x = {"a": torch.tensor([[1.0], [1.0], [-1.0], [-1.0]]), "b": torch.tensor([[1.0], [-1.0]]).repeat(2, 1)}
        >>> xor = lambda x: -3 * x["a"] * x["b"]
        >>> synib.explain(xor, x, family=synib.Bernoulli()).rows.synergy.value
        array([3., 3., 3., 3.])
    """
    check_resampling(seed, level)
    check_whole("draws", draws, least=2)
    check_whole("part_draws", part_draws, least=2)
    network: Any = model.answers if isinstance(model, Predictor) else model
    with evaluated(network):
        subject = Subject(model, rows, background, family, draws, seed, chunk)
        readout = Readout(subject.family, subject.predictions(), answer)
        evidence = row_evidence(
            subject.encoded, subject.background(seed), readout, subject.size, subject.present, level
        )
        names = _ids(ids, subject.size)
        if not classes and isinstance(model, Predictor):
            classes = model.classes
        result = Explanation(
            evidence, {}, names, tuple(classes or ()), subject.values(rows), _views(views, evidence.names)
        )
        requested = _requested_parts(parts, subject)
        if not requested:
            return result
        chosen = subject.whole_rows(result.top(subject.size) if of is None else _rows(of, subject.size))
        chosen = chosen[:SHOWN] if of is None else chosen
        scores = {
            name: part_scores(
                subject.encoded, readout,
                kind if isinstance(kind, RowParts) else partition(kind, subject.encoded.modalities[name], name),
                name, chosen, first=subject.first, draws=part_draws, seed=seed, level=level,
            )
            for name, kind in requested.items()
        }  # fmt: skip
    return Explanation(evidence, scores, result.ids, result.classes, result.values, result.views)


def _requested_parts(parts: Any, subject: Subject) -> dict[str, PartsOf | RowParts]:
    """Modality → its parts, for the modalities whose parts are requested."""
    if parts is False:
        return {}
    if not subject.has_inputs:
        raise ValueError("Parts of a row are replaced by those of other rows: give these rows as background.")
    modalities = {name: subject.encoded.modalities[name] for name in subject.encoded.names}
    if parts is True:
        return {name: "coordinates" if tokens.values(x).ndim == 2 else "tokens" for name, x in modalities.items()}
    if not isinstance(parts, Mapping) or (unknown := set(parts) - modalities.keys()):
        got = shown(parts) if not isinstance(parts, Mapping) else ", ".join(map(repr, sorted(unknown)))
        raise ValueError(f"parts must be True, or a dict of modality ({', '.join(modalities)}) → its parts; got {got}.")
    if any(isinstance(kind, RowParts) for kind in parts.values()) and subject.is_sampled:
        raise ValueError(
            "RowParts refer to background rows by number: the background may have at most as many rows as draws."
        )
    return dict(parts)


def _rows(of: Sequence[int], size: int) -> list[int]:
    rows = [int(i) for i in of]
    if wrong := [i for i in rows if not 0 <= i < size]:
        raise ValueError(f"of must be row numbers from 0 to {size - 1}; got {wrong[0]}.")
    return rows


def _ids(ids: Sequence[Any] | None, size: int) -> tuple[str, ...]:
    if ids is None:
        return tuple(map(str, range(size)))
    if len(ids) != size:
        raise ValueError(f"ids must have one entry for each of {size} rows; got {len(ids)}.")
    return tuple(map(str, ids))


def _views(views: Mapping[str, View] | None, names: Sequence[str]) -> dict[str, View]:
    if unknown := set(views or {}) - set(names):
        raise ValueError(f"views must be for the modalities {', '.join(names)}; got one for {sorted(unknown)[0]!r}.")
    return {name: Columns() for name in names} | dict(views or {})
