"""Raw columns as vectors: a source in which texts, images, sounds and tables become ordinary columns of vectors."""

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from synib.data.media import BrokenFile
from synib.own.columns import Array, Column, Source
from synib.own.raw import catalogue, images, sounds
from synib.own.raw.encoders.base import Encoder, Fitter
from synib.own.raw.files import DOWNLOAD, MediaFiles, named
from synib.own.raw.latents import Latents, cached, forget, stored
from synib.own.raw.spec import RawModality
from synib.own.raw.survey import MEDIA, READ, Content, items_of, survey

LISTED = 10  # broken files that are listed in the notes
STEP = {
    "text": 4096,
    "table": 4096,
    "image": 256,
    "audio": 256,
}  # rows of a block, which is saved when complete
Progress = Callable[[float, float, str], None]


@dataclass(frozen=True)
class RawOptions:
    """Options for reading and encoding raw columns.

    Args:
        root: The folder of relative paths, outside of which no path may point; by default that of the file.
        strict: Whether a file that cannot be read is an error; otherwise its row lacks the modality.
        allow_download: Whether encoders and URLs may be downloaded.
        device: Device of networks.
        on_progress: Called with the rows done, the total rows, and the current step.
        moved: Modality or kind → where the encoders of a fitted model now are, if they were moved or renamed.
    """

    root: str | os.PathLike[str] | None = None
    strict: bool = False
    allow_download: bool = False
    device: str = "auto"
    on_progress: Progress = lambda done, total, what: None
    moved: Mapping[str, str | Sequence[str]] | None = None


class Embedded(Source):
    """A file with an additional column of vectors for each raw modality, named like ``review:text``.

    Args:
        base: The file.
        modalities: Name → its columns and encoders.
        latents: Name → its vectors.
        files: Reader of its images and sounds.
        notes: Notes on the encoding.
        device: Device of encoders that are networks.
    """

    def __init__(
        self,
        base: Source,
        modalities: Mapping[str, RawModality],
        latents: Mapping[str, Array],
        files: MediaFiles,
        notes: Sequence[str],
        device: str,
    ) -> None:
        self.base, self.modalities, self.files, self.notes = base, dict(modalities), files, list(notes)
        self.device = device
        self._latents = {m.column: latents[name] for name, m in modalities.items()}
        super().__init__(base.path, {**base.kinds, **dict.fromkeys(self._latents, "vector")})
        self.split, self.rows, self.shared, self.binary = base.split, base.rows, base.shared, base.binary
        self.made_from = {m.column: m.columns for m in modalities.values()}

    def describe(self, name: str) -> str:
        return super().describe(name) if name in self._latents else self.base.describe(name)

    def one_value(self, name: str) -> bool:
        return name not in self._latents and self.base.one_value(name)

    def load(
        self, singles: Sequence[str], vectors: Mapping[str, Sequence[str]], optional: Sequence[str] = ()
    ) -> tuple[dict[str, Column], dict[str, Array]]:
        plain = {name: columns for name, columns in vectors.items() if columns[0] not in self._latents}
        read = self.base.load(singles, plain, optional) if singles or plain or optional else ({}, {})
        computed = {name: self._latents[c[0]] for name, c in vectors.items() if name not in plain}
        return read[0], {name: computed[name] if name in computed else read[1][name] for name in vectors}


def embed(
    source: Source,
    modalities: Mapping[str, RawModality],
    encoders: Mapping[str, Sequence[str]],
    options: RawOptions,
    split: str | None = None,
) -> Embedded:
    """Encode raw columns, or take their vectors from the cache.

    Args:
        source: The file.
        modalities: Name → its columns, with encoders if they come from a saved model.
        encoders: Name → the names of encoders, if given by the user.
        options: Options for reading.
        split: The split column; encoders are not fitted to test rows.
    """
    files = MediaFiles(_root(source, options), options.allow_download)
    computed: dict[str, list[Encoder | Fitter]] = {}
    for name, modality in modalities.items():
        if modality.encoders:
            computed[name] = [
                catalogue.restore(modality, s, options.allow_download, options.device) for s in modality.encoders
            ]
        else:
            encoder_names = encoders.get(name) or catalogue.defaults(modality.kind)
            computed[name] = [
                catalogue.make(modality, encoder, options.allow_download, options.device) for encoder in encoder_names
            ]
    fitters = {name: [encoder for encoder in of if not isinstance(encoder, Encoder)] for name, of in computed.items()}
    contents = survey(source, modalities, fitters, files, split if split in source.kinds else None)
    latents: dict[str, Array] = {}
    encoded: dict[str, RawModality] = {}
    notes: list[str] = []
    for name, modality in modalities.items():
        ready: list[Encoder] = []
        for encoder in computed[name]:
            try:
                ready.append(encoder if isinstance(encoder, Encoder) else encoder.done())
            except ValueError as e:
                raise ValueError(f"{source.path}: {name}: {e}") from e
        result = _latents(source, name, modality, ready, contents[name], files, options)
        _check_readable(source, name, modality, result, contents[name], options)
        latents[name] = result.values
        encoded[name] = replace(modality, encoders=tuple(encoder.state() for encoder in ready))
        if not modality.encoders:
            fitted = [
                r.name for encoder, r in zip(computed[name], ready, strict=True) if not isinstance(encoder, Encoder)
            ]
            notes += _notes(name, ready, fitted, split in source.kinds)
        notes += _broken_lines(name, result.broken)
    return Embedded(source, encoded, latents, files, notes, options.device)


def _latents(
    source: Source,
    name: str,
    modality: RawModality,
    encoders: Sequence[Encoder],
    content: Content,
    files: MediaFiles,
    options: RawOptions,
) -> Latents:
    """The vectors of all encoders side by side. They are joined on disk, since they may be larger than the memory."""
    step, width = STEP[modality.kind], sum(one.width for one in encoders)

    def key(of: Sequence[Encoder]) -> dict[str, Any]:
        names, revisions = [one.name for one in of], [one.revision for one in of]
        return {
            "content": content.checksum.hexdigest(), "kind": modality.kind,
            "encoder": names[0] if len(of) == 1 else names, "revision": revisions[0] if len(of) == 1 else revisions,
            "download": files.allow_download and modality.kind in MEDIA,
        }  # fmt: skip

    def blocks(first: int) -> Iterator[tuple[Array, dict[int, str]]]:
        several = len(encoders) > 1  # what one of them gave for these rows before is used
        before = [cached(key([one]), content.rows, one.width) if several else None for one in encoders]
        with decoding_pool(modality) as pool:
            for start, items in item_blocks(source, modality, step, first):
                options.on_progress(start, content.rows, f"embedding {name}")
                values = np.empty((len(items), width), np.float32)
                broken: dict[int, str] = {}
                at = 0
                for one, known in zip(encoders, before, strict=True):
                    if known is None:
                        part, why = _encoded(one, modality, items, start, files, pool)
                    else:
                        part, why = known.values[start : start + len(items)], known.broken
                    values[:, at : at + one.width] = part
                    at += one.width
                    broken = {row: text for row, text in why.items() if start <= row < start + len(items)} | broken
                values[[row - start for row in broken]] = np.nan  # what one of them cannot read, the row lacks
                yield values, broken
        options.on_progress(content.rows, content.rows, f"embedding {name}")

    latents = stored(key(encoders), content.rows, width, step, blocks)
    if any(DOWNLOAD in why for why in latents.broken.values()):  # the server may respond next time
        forget(key(encoders), content.rows, width)
    return latents


def item_blocks(source: Source, modality: RawModality, step: int, first: int) -> Iterator[tuple[int, list[Any]]]:
    """Blocks of at most ``step`` items, starting from a row."""
    columns = [c for c in modality.columns if c in source.kinds]
    pending: list[Any] = []
    row = start = 0
    for block in source.cells(columns, READ[modality.kind]):
        count = len(next(iter(block.values())))
        if row + count > first:
            pending.extend(items_of(source, modality, block, row)[max(0, first - row) :])
            start = max(start, first)
        row += count
        while len(pending) >= step:
            yield start, pending[:step]
            pending, start = pending[step:], start + step
    if pending:
        yield start, pending


@contextlib.contextmanager
def decoding_pool(modality: RawModality) -> Iterator[ThreadPoolExecutor | None]:
    """Threads that decode files; ``None`` for texts and tables."""
    if modality.kind not in MEDIA:
        yield None
        return
    guard = images.bombs_are_errors() if modality.kind == "image" else contextlib.nullcontext()
    with guard, ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        yield pool


def decoded(item: Any, modality: RawModality, files: MediaFiles, side: int | None = None) -> Any:
    """An image or a sound decoded from its file; other items unchanged."""
    if modality.kind == "image":
        return images.decode(files.content(item), side)
    return sounds.decode(files.content(item)) if modality.kind == "audio" else item


def _encoded(
    encoder: Encoder,
    modality: RawModality,
    items: Sequence[Any],
    start: int,
    files: MediaFiles,
    pool: ThreadPoolExecutor | None,
) -> tuple[Array, dict[int, str]]:
    """Vectors ``(rows, width)``, NaN for rows that are missing or cannot be read, and row → the reason."""
    values = np.full((len(items), encoder.width), np.nan, np.float32)
    broken: dict[int, str] = {}

    def prepared(place: int) -> Any:
        try:
            return encoder.prepare(decoded(items[place], modality, files, getattr(encoder, "side", None)))
        except BrokenFile as e:
            return e

    filled = [place for place, item in enumerate(items) if item is not None]
    for at in range(0, len(filled), encoder.batch):
        places = filled[at : at + encoder.batch]
        results = list(map(prepared, places) if pool is None else pool.map(prepared, places))
        for place, result in zip(places, results, strict=True):
            if isinstance(result, BrokenFile):
                broken[start + place] = f"{named(items[place])} {result}"
        good = [(p, r) for p, r in zip(places, results, strict=True) if not isinstance(r, BrokenFile)]
        if good:
            values[[p for p, _ in good]] = encoder.encode([r for _, r in good])
    return values, broken


def _root(source: Source, options: RawOptions) -> Path:
    if options.root is not None:
        root = Path(options.root)
        if not root.is_dir():
            raise ValueError(
                f"root must be the folder of the files; {root} {'is a file' if root.exists() else 'does not exist'}."
            )
        return root
    return source.path if source.path.is_dir() else source.path.parent


def _check_readable(
    source: Source, name: str, modality: RawModality, result: Latents, content: Content, options: RawOptions
) -> None:
    """Raise ``ValueError`` if no file can be read, or with ``strict`` if any cannot."""
    if not result.broken:
        return
    row, why = next(iter(result.broken.items()))
    if len(result.broken) == content.present:
        raise ValueError(
            f"{source.path}: no {modality.kind} of {name} ({modality.column}) can be read; row {row} (from 0): {why}."
        )
    if options.strict:
        more = f" ({len(result.broken) - 1:,} more)" if len(result.broken) > 1 else ""
        raise ValueError(
            f"{source.path}: {name}, row {row} (from 0): {why}{more}. Without --strict such rows lack {name}."
        )


def _notes(name: str, encoders: Sequence[Encoder], fitted: Sequence[str], has_split: bool) -> list[str]:
    used = " and ".join(f"{encoder.name} ({encoder.about})" for encoder in encoders)
    note = f"{name} is encoded by {used}, {sum(encoder.width for encoder in encoders)} numbers per row."
    if fitted:
        rows = "all rows except those of the test split" if has_split else "all rows"
        note += f" {'It' if len(encoders) == 1 else ' and '.join(fitted)} was fitted to {rows}, without the target."
    if encoders[0].kind != "table":
        note += f" Another encoder may be better: --encoder {name}=NAME."
    return [note]


def _broken_lines(name: str, broken: Mapping[int, str]) -> list[str]:
    lines = [f"{name}, row {row} (from 0): {why}." for row, why in list(broken.items())[:LISTED]]
    if len(broken) > LISTED:
        lines.append(f"{name}: {len(broken) - LISTED:,} more files cannot be read; {len(broken):,} rows lack it.")
    return lines
