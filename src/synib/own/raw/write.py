"""Write the vectors of raw columns to a file, for ``synib embed``."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from synib.files import atomic_file
from synib.own.columns import Array, Column
from synib.own.raw.embed import Embedded, embed
from synib.own.raw.prepare import RawRequest, chosen
from synib.own.raw.recognise import recognise
from synib.own.raw.spec import check_encoders, encoders_for
from synib.own.roles import TARGETS, no_column, one_value

ENDINGS = (".parquet", ".npz")
BLOCK = 8192  # rows written at a time


def check_latents_file(path: Path) -> None:
    """Raise ``ValueError`` if latents cannot, or must not, be written to this path; nothing is written."""
    if path.suffix.lower() not in ENDINGS:
        raise ValueError(f"--out must end in {' or '.join(ENDINGS)}, which selects the format; got {path.name!r}.")
    if path.exists():
        raise ValueError(f"{path} exists; choose another file with --out, or remove it.")
    if not path.parent.is_dir():
        raise ValueError(f"Cannot write {path}: there is no folder {path.parent}.")
    if path.suffix.lower() == ".parquet":
        _pyarrow(path)


def embed_file(
    source: Any,
    request: RawRequest,
    modalities: Mapping[str, str] | None = None,
    beside: Sequence[str] = (),
    split: str | None = None,
) -> Embedded:
    """Encode the raw modalities of a file; no target is needed.

    Args:
        source: The file.
        request: Encoders and options.
        modalities: Name → columns and kind, as for :func:`synib.read`; by default all that are recognised.
        beside: Columns that belong to no modality, such as the target.
        split: The split column; encoders are not fitted to test rows.
    """
    for name in beside:
        one_value(source, "a column outside the modalities", name)
    if split is not None and split not in source.kinds:
        raise no_column(source, "split", split)
    if modalities is None:
        reserved = [name for name in (*TARGETS, split or source.split) if name in source.kinds]
        recognised = recognise(source, [*beside, *reserved])
        raw, notes = recognised.modalities, recognised.notes
    else:
        (vectors, raw), notes = chosen(source, modalities), []
        if vectors:
            raise ValueError(f"{source.path}: {next(iter(vectors))} is a column of vectors, which needs no embedding.")
    if not raw:
        raise ValueError(f"{source.path} has no texts, images, sounds or tables to embed.")
    checked_encoders = check_encoders(request.encoders, raw)
    names = {name: encoders_for(checked_encoders, name, modality.kind) for name, modality in raw.items()}
    result = embed(source, raw, names, request.options, split or source.split)
    result.notes = [*notes, *result.notes]
    return result


def write_latents(embedded: Embedded, path: Path) -> int:
    """Write a column of vectors for each modality, null for missing ones, and the file's other columns of one value.

    Returns:
        The number of rows written.
    """
    raw_columns = {c for m in embedded.modalities.values() if m.kind != "table" for c in m.columns}
    others = [n for n in embedded.base.kinds if n not in raw_columns and embedded.base.one_value(n)]
    others = [n for n in others if n not in embedded.modalities]
    columns, latents = embedded.load([], {name: [m.column] for name, m in embedded.modalities.items()}, others)
    try:
        with atomic_file(path) as file:
            (_parquet if path.suffix.lower() == ".parquet" else _npz)(file, columns, latents)
    except OSError as e:
        raise ValueError(f"Cannot write {path}: {e.strerror or e}.") from e
    return len(next(iter(latents.values())))


def _parquet(file: Any, columns: Mapping[str, Column], latents: Mapping[str, Array]) -> None:
    pa, parquet = _pyarrow(Path(file.name))
    rows = len(next(iter(latents.values())))
    plain = {name: _values(column) for name, column in columns.items()}
    fields = [pa.field(name, pa.array(values[:0]).type) for name, values in plain.items()]
    fields += [pa.field(name, pa.list_(pa.float32(), x.shape[1])) for name, x in latents.items()]
    writer = parquet.ParquetWriter(file, pa.schema(fields))
    with writer:
        for start in range(0, rows, BLOCK):
            part = slice(start, start + BLOCK)
            arrays = [
                pa.array(values[part], type=f.type, mask=~np.asarray(columns[f.name].present[part], bool))
                for f, values in zip(fields, plain.values(), strict=False)
            ]
            for field, x in zip(fields[len(plain) :], latents.values(), strict=True):
                block = np.ascontiguousarray(x[part])
                lists = pa.FixedSizeListArray.from_arrays(
                    pa.array(block.reshape(-1)), type=field.type, mask=pa.array(np.isnan(block).all(1))
                )
                arrays.append(lists)
            writer.write_table(pa.Table.from_arrays(arrays, schema=pa.schema(fields)))


def _npz(file: Any, columns: Mapping[str, Column], latents: Mapping[str, Array]) -> None:
    import zipfile

    arrays = {name: _values(column) for name, column in columns.items()} | dict(latents)
    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name.replace('/', '_')}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _values(column: Column) -> Array:
    if not column.names:
        return np.asarray(column.values)
    known = np.array([*column.names, ""])
    return np.asarray(known[np.where(column.present, column.values, len(column.names)).astype(np.int64)])


def _pyarrow(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow  # type: ignore[import-untyped]
        from pyarrow import parquet
    except ImportError as e:
        raise ValueError(f'{path} is written with pyarrow: pip install "synib[raw]".') from e
    return pyarrow, parquet
