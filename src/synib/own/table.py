"""A user's own data: two or more modalities as vectors, the target, and further columns such as splits and groups."""

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

import numpy as np

from synib.checks import shown
from synib.own.assemble import Roles, assemble
from synib.own.columns import Array, Source
from synib.own.from_memory import HuggingFaceObject, Memory, frame
from synib.own.opening import one_kind_of_error, open_source
from synib.own.raw.embed import Embedded, RawOptions
from synib.own.raw.prepare import RawRequest, with_vectors
from synib.own.targets import TargetKind, Task

Encoders = Mapping[str, str | Sequence[str]] | None


@dataclass(frozen=True, repr=False)
class Table:
    """A user's own data: modalities, target, and further columns such as splits and groups.

    Args:
        modalities: Name → (rows, width) of float32 or float16, possibly memory-mapped; rows without the modality are 0.
        present: Name → (rows,) of bool.
        target: (rows,) of int64, the number of a class; (rows,) of float64, for numbers; or (rows, labels) of int64, 0 or 1.
        classes: Names of the classes in the order of their numbers, or of the labels; empty for numbers.
        split: (rows,) of ``"train"``, ``"validation"`` or ``"test"``, if the data have a split.
        group: (rows,) of texts; rows of one group are kept in one part of a split.
        nuisance: Name → (rows,) of a variable that should not influence predictions.
        source: The file's name.
        notes: Notes on rows left out, columns not used, and guessed kinds.
        weight: (rows,) of the weight of each row in training and model selection; equal by default.
        kind: ``"ordinal"`` if the classes are ordered. Otherwise it follows from the target: ``"regression"`` without
            classes, ``"multilabel"`` with a column per label, else ``"classification"``.
        columns: Modality → the column, or the prefix of the numbered columns, that it was read from.
        unused: Columns of the file that are not used.
        suggested_groups: Unused columns that look like identifiers of units (speakers, patients), candidates for ``group``.
        row_numbers: (rows,) of the row numbers in the file, from 0.
        raw: Columns and encoders of modalities that were computed from texts, images, sounds or tables.
    """

    modalities: Mapping[str, Array]
    present: Mapping[str, Array]
    target: Array
    classes: tuple[str, ...]
    split: Array | None = None
    group: Array | None = None
    nuisance: Mapping[str, Array] = field(default_factory=dict)
    source: str = ""
    notes: tuple[str, ...] = ()
    weight: Array | None = None
    kind: TargetKind = "classification"
    columns: Mapping[str, str] = field(default_factory=dict)
    unused: tuple[str, ...] = ()
    suggested_groups: tuple[str, ...] = ()
    row_numbers: Array | None = None
    raw: Embedded | None = None

    def __post_init__(self) -> None:
        several = np.ndim(self.target) == 2
        plain: TargetKind = "ordinal" if self.kind == "ordinal" else "classification"
        kind = "regression" if not self.classes else "multilabel" if several else plain
        object.__setattr__(self, "kind", kind)

    @classmethod
    def from_arrays(
        cls,
        modalities: Mapping[str, Any],
        target: Any,
        *,
        groups: Any = None,
        split: Any = None,
        nuisance: Mapping[str, Any] | None = None,
        weight: Any = None,
        task: Task = "auto",
        classes: Sequence[Any] | None = None,
    ) -> "Table":
        """A table of arrays in memory (NumPy, PyTorch, lists), by the same rules as :func:`read`; they are not changed.

        Args:
            modalities: Name → (rows, width); a row of NaN lacks the modality.
            target: (rows,) of classes or numbers, or (rows, labels) of 0 and 1.
            groups: (rows,) of group names; rows of one group are kept in one part of a split.
            split: (rows,) of train, validation or test.
            nuisance: Name → (rows,) of a variable that should not influence predictions.
            weight: (rows,) of the weight of each row.
            task: As in :func:`read`.
            classes: Names of the classes 0, 1, … or of the labels; for ``task="ordinal"`` with texts, their order.

        Example:
            >>> import numpy as np
            >>> x, y = np.random.default_rng(0).normal(size=(40, 6)), np.arange(40) % 2
            >>> Table.from_arrays({"image": x[:, :4], "text": x[:, 4:]}, y, classes=["no", "yes"])
            Table(40 rows, image (4), text (2), 2 classes: no, yes)
        """
        if not isinstance(modalities, Mapping):
            raise ValueError(f"modalities must be a dict of name → array (rows, width); got {shown(modalities)}.")
        if nuisance is not None and not isinstance(nuisance, Mapping):
            raise ValueError(f"nuisance must be a dict of name → array (rows,); got {shown(nuisance)}.")
        if target is None:
            raise ValueError("target must be an array with a value to predict for each row; got None.")
        others = dict(nuisance or {})
        singles = {"target": target, "split": split, "groups": groups, "weight": weight}
        clash = next((name for name in (*modalities, *others) if name in singles), None)
        clash = clash or next((name for name in modalities if name in others), None)
        if clash is not None:
            raise ValueError(f"The name {clash!r} is used twice: rename the modality or the nuisance.")
        names = None if classes is None else [str(name) for name in classes]
        with one_kind_of_error("arrays"):
            columns = {name: x for name, x in singles.items() if x is not None} | others | dict(modalities)
            source = Memory("arrays", columns, {} if names is None else {"target": names})
            role = {name: name if x is not None else None for name, x in singles.items()}
            order = names if task == "ordinal" and source.kinds["target"] == "text" else None
            modality_columns = {name: name for name in modalities}
            roles = Roles(
                "target",
                modality_columns,
                role["split"],
                role["groups"],
                list(others),
                role["weight"],
                task,
                order,
                names,
            )
            return cls(**assemble(source, roles))

    @classmethod
    def from_dataframe(
        cls,
        data: Any,
        *,
        target: str | None = None,
        modalities: Mapping[str, str] | None = None,
        split: str | None = None,
        group: str | None = None,
        nuisance: Sequence[str] = (),
        weight: str | None = None,
        task: Task = "auto",
        order: Sequence[Any] | None = None,
        encoders: Encoders = None,
        root: str | os.PathLike[str] | None = None,
        strict: bool = False,
        allow_download: bool = False,
    ) -> "Table":
        """A table of a pandas DataFrame, whose columns are numbers, texts, bytes, lists or arrays.

        Args:
            data: The DataFrame.
            target, modalities, split, group, nuisance, weight, task, order: As in :func:`read`.
            encoders, strict, allow_download: As in :func:`read`.
            root: The folder of image and sound files; by default the working directory.
        """
        roles = Roles(target, modalities, split, group, nuisance, weight, task, order)
        with one_kind_of_error("The DataFrame"):
            return _table(frame(data), roles, encoders, RawOptions(root, strict, allow_download))

    @classmethod
    def from_dataset(
        cls,
        data: Any,
        *,
        target: str | None = None,
        modalities: Mapping[str, str] | None = None,
        split: str | None = None,
        group: str | None = None,
        nuisance: Sequence[str] = (),
        weight: str | None = None,
        task: Task = "auto",
        order: Sequence[Any] | None = None,
        encoders: Encoders = None,
        root: str | os.PathLike[str] | None = None,
        strict: bool = False,
        allow_download: bool = False,
    ) -> "Table":
        """A table of a Hugging Face ``Dataset``, or of a ``DatasetDict``, whose keys become the split.

        Args:
            data: The dataset, not streamed.
            target, modalities, split, group, nuisance, weight, task, order: As in :func:`read`.
            encoders, strict, allow_download: As in :func:`read`.
            root: The folder of image and sound files; by default the working directory.
        """
        roles = Roles(target, modalities, split, group, nuisance, weight, task, order)
        with one_kind_of_error("The dataset"):
            return _table(HuggingFaceObject(data), roles, encoders, RawOptions(root, strict, allow_download))

    def __repr__(self) -> str:
        widths = ", ".join(f"{name} ({x.shape[1]})" for name, x in self.modalities.items())
        return f"Table({len(self.target):,} rows, {widths}, {self._target_in_words()})"

    def _repr_html_(self) -> str:
        rows = [("rows", f"{len(self.target):,}"), ("target", self._target_in_words())]
        for name, x in self.modalities.items():
            lacking = int((~self.present[name]).sum())
            rows.append((name, f"{x.shape[1]} numbers{f', missing in {lacking:,} rows' if lacking else ''}"))
        if self.split is not None:
            names, counts = np.unique(self.split, return_counts=True)
            rows.append(("split", ", ".join(f"{name} {n:,}" for name, n in zip(names, counts, strict=True))))
        if self.group is not None:
            rows.append(("groups", f"{len(np.unique(self.group)):,}"))
        rows += [("note", note) for note in self.notes]
        body = "".join(f"<tr><th>{escape(head)}</th><td>{escape(words)}</td></tr>" for head, words in rows)
        return f"<table><caption>{escape(self.source or 'Table')}</caption>{body}</table>"

    def _target_in_words(self) -> str:
        if self.kind == "regression":
            return f"a number from {self.target.min():.3g} to {self.target.max():.3g}"
        noun = {"classification": "classes", "ordinal": "ordered classes", "multilabel": "labels"}[self.kind]
        first = [name if name.isprintable() else ascii(name) for name in self.classes[:6]]
        return f"{len(self.classes)} {noun}: {', '.join(first)}{', …' * (len(self.classes) > 6)}"


def read(
    path: str | os.PathLike[str],
    *,
    target: str | None = None,
    modalities: Mapping[str, str] | None = None,
    split: str | None = None,
    group: str | None = None,
    nuisance: Sequence[str] = (),
    weight: str | None = None,
    task: Task = "auto",
    order: Sequence[Any] | None = None,
    encoders: Encoders = None,
    root: str | os.PathLike[str] | None = None,
    strict: bool = False,
    allow_download: bool = False,
    device: str = "auto",
    on_progress: Callable[[float, float, str], None] = lambda done, total, what: None,
) -> Table:
    """Read a user's own data. Nothing is ever unpickled.

    Texts, images, sounds and tables are encoded once, by frozen encoders; the vectors are cached in ``$SYNIB_CACHE``.

    Args:
        path: ``.npz``, ``.safetensors``, ``.csv``, ``.parquet``, a folder of ``.npy`` files, a folder saved by Hugging Face's
            ``datasets``, or a folder with ``metadata.csv`` and image or audio files.
        target: The column to predict, or the prefix of numbered columns of 0 and 1; by default the column called label,
            target or y.
        modalities: Name → its column, or the prefix of its numbered columns (``image`` for ``image_0``, ``image_1``, …). The
            kind is recognised from the content, or can be appended: ``"review:text"``, ``"photo:image"``, ``"call:audio"``,
            ``"age,department:table"``. By default all columns of vectors are modalities; if there are fewer than two, also
            texts, images, sounds, and numbers and categories as one table.
        split: The column with train, validation or test.
        group: The column of groups to keep in one part of a split (speaker, patient, video).
        nuisance: Columns that should not influence predictions.
        weight: The column with the weight of each row in training and model selection; rows of weight 0 are left out.
        task: ``"auto"`` treats strings, booleans and few distinct integers as classes, several 0 and 1 per row as
            labels, everything else as numbers. ``"multilabel"`` also splits strings such as ``"cat;dog"``.
        order: The classes from lowest to highest, for ``task="ordinal"`` with texts as classes.
        encoders: Modality (or kind) → its encoder, or several: ``"wordllama"``, ``"minilm"`` or ``"tfidf"`` for texts,
            ``"pixels"`` for images, ``"logmel"`` for sounds, or the folder or hub id of a transformers model.
        root: The folder of image and sound files, outside of which no path may point; by default that of ``path``.
        strict: Whether a file that cannot be read is an error; otherwise its row lacks the modality, with a note.
        allow_download: Whether encoders, and images or sounds given as URLs, may be downloaded.
        device: Device of encoders that are networks.
        on_progress: Called with the rows encoded, the total rows, and the current step.

    Raises:
        ValueError: If the data cannot be read or used.
    """
    roles = Roles(target, modalities, split, group, nuisance, weight, task, order)
    with one_kind_of_error(path):
        return _table(open_source(path), roles, encoders, RawOptions(root, strict, allow_download, device, on_progress))


def _table(source: Source, roles: Roles, encoders: Encoders, options: RawOptions) -> Table:
    source, roles = with_vectors(source, roles, RawRequest(encoders, options))
    return Table(**assemble(source, roles), raw=source if isinstance(source, Embedded) else None)
