"""The results folder: what is finished is written at once and whole, and nothing finished is ever overwritten."""

import contextlib
import csv
import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from synib.measure import statistics
from synib.training import files
from synib.training.cells import Cell, digest
from synib.training.files import remove_unfinished, write_whole

Row = Mapping[str, Any]

TEXT = ("cell", "shard")  # columns of identifiers, some of which look like numbers


class Folder:
    """A run's folder.

    ``config.json`` says what is run, ``shards.json`` how its cells were grouped, ``shards/`` holds what is finished;
    ``results.csv``, ``curves.csv`` and ``timings.csv`` are collected from there. ``failed/`` holds the last good state of
    models whose training failed. One run at a time writes to it (:meth:`alone`).

    Args:
        path: Where; made if it does not exist.
        config: Plain values that decide the results. A folder that holds a run of another config is refused.
    """

    def __init__(self, path: Path | str, config: Mapping[str, Any]) -> None:
        self.path = Path(path)
        self._alone = False
        config = json.loads(json.dumps(config))
        try:
            self._check(config)
            (self.path / "shards").mkdir(parents=True, exist_ok=True)
            with self.alone():
                if self._check(config) is None:  # as it is now that nobody else can write
                    write_json(self.path / "config.json", config)
        except OSError as e:
            raise ValueError(
                f"Cannot write to the output folder {self.path}: {e.strerror}. Choose another with --out."
            ) from e

    def _check(self, config: Row) -> Any:
        """The config that is there, if any; a folder that holds another run, or something else, is refused."""
        existing = read_json(self.path / "config.json")
        if existing is None:
            self._is_free()
        elif existing != config:
            raise ValueError(
                f"{self.path} holds a run with other settings ({', '.join(_changes(existing, config))}); nothing was "
                "touched. Choose another folder with --out."
            )
        return existing

    @contextlib.contextmanager
    def alone(self, say: Callable[[str], None] = lambda sentence: None) -> Iterator[None]:
        """Within this context no other run writes here; where the file system has no locks to see to that, this is said.

        What a killed run left half-written is removed. A run in whose midst we are already is no other.
        """
        if self._alone:
            yield
            return
        with files.alone(self.path) as has_locks:
            if not has_locks:
                say(f"The file system of {self.path} has no locks: see to it that no other run writes there.")
            self._alone = True
            try:
                for place in (self.path, self.path / "shards", self.path / "failed"):
                    remove_unfinished(place)
                yield
            finally:
                self._alone = False

    def _is_free(self) -> None:
        """Refuse a folder that holds something else: a run writes a README.md and would take another's place."""
        others = [p.name for p in self.path.iterdir() if p.name != "shards"] if self.path.is_dir() else []
        left = (".config.json.", files.LOCK)  # by a killed run
        others = sorted(name for name in others if not name.startswith(left))
        if others:
            raise ValueError(
                f"{self.path} holds other files ({', '.join(others[:3])}{', ...' * (len(others) > 3)}) and no run; choose "
                "another folder with --out."
            )

    def shards(self, cells: Sequence[Cell], propose: Callable[[], Sequence[Sequence[Cell]]]) -> list[list[Cell]]:
        """The grouping of the cells: the recorded one if there is one, otherwise a proposed one, recorded."""
        recorded = read_json(self.path / "shards.json")
        if recorded is None:
            return self._record(propose())
        lists = isinstance(recorded, list) and all(isinstance(shard, list) for shard in recorded)
        if not lists or not all(isinstance(i, str) for shard in recorded for i in shard):
            raise ValueError(f"{self.path}/shards.json is damaged; remove it and run again to make it anew.")
        by_id = {cell.id: cell for cell in cells}
        if {i for shard in recorded for i in shard} != set(by_id):
            raise ValueError(
                f"{self.path}/shards.json was recorded for other cells (another version of synib?); nothing was touched. "
                "Choose another folder with --out."
            )
        return [[by_id[i] for i in shard] for shard in recorded]

    def regroup(self, left: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
        """Another grouping of cells that are not finished; that of all others stays."""
        changed = {cell.id for shard in left for cell in shard}
        before = [shard for shard in read_json(self.path / "shards.json") if not changed.intersection(shard)]
        write_json(self.path / "shards.json", [*before, *([cell.id for cell in shard] for shard in left)])
        return [list(shard) for shard in left]

    def _record(self, groups: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
        write_json(self.path / "shards.json", [[cell.id for cell in shard] for shard in groups])
        return [list(shard) for shard in groups]

    def finished(self, shard: Sequence[Cell]) -> bool:
        """Whether this shard is already there, whole."""
        return self._read(shard) is not None

    def set_aside_damaged(self, shards: Sequence[Sequence[Cell]]) -> list[str]:
        """Rename files of shards that are not what was written, so that they are trained again; returns a sentence for each."""
        said = []
        for shard in shards:
            try:
                self._read(shard)
            except ValueError:
                file = self._file(shard)
                aside = next(p for i in range(1, 10**6) if not (p := file.with_suffix(f".damaged{i}")).exists())
                os.replace(file, aside)
                said.append(
                    f"{file} is damaged: it is kept as {aside.name} and not used, and its {len(shard)} models are trained "
                    "again. What else is finished is kept."
                )
        return said

    def write(self, shard: Sequence[Cell], content: Mapping[str, Any]) -> None:
        """Keep a finished shard, with the checksum of its content."""
        plain = json.loads(json.dumps(content))
        write_json(self._file(shard), {**plain, "sha256": _checksum(plain)})

    def keep_failed(self, cell: Cell, state: Mapping[str, Any]) -> None:
        """Keep the last good parameters and buffers of a model whose training failed; needs safetensors."""
        from safetensors.torch import save

        (self.path / "failed").mkdir(exist_ok=True)
        content = save({name: tensor.detach().cpu().contiguous().clone() for name, tensor in state.items()})
        write_whole(self.path / "failed" / f"{cell.id}.safetensors", lambda file: file.write(content))

    def collect(self, cells: Sequence[Cell]) -> list[Row]:
        """Write the tables from the finished shards, rows in the order of the cells; returns those of failed cells."""
        rows: dict[str, Row] = {}
        curves: dict[str, dict[str, list[float]]] = {}
        timings = []
        by_id = {cell.id: cell for cell in cells}
        for ids in read_json(self.path / "shards.json"):
            shard = [by_id[i] for i in ids]
            content = self._read(shard)
            assert content is not None, "collect is called when every shard is finished"
            for cell, row, curve in zip(shard, content["rows"], content["curves"], strict=True):
                rows[cell.id], curves[cell.id] = row, curve
            timings.append({"shard": self._file(shard).stem, "cells": len(shard), **content["timing"]})
        columns = next((row for row in rows.values() if "error" not in row), {})
        empty = dict.fromkeys(columns)  # of a failed cell, so that columns keep their order
        table = [rows[cell.id] if "error" not in rows[cell.id] else {**empty, **rows[cell.id]} for cell in cells]
        write_csv(self.path / "results.csv", table)
        if any(curves.values()):
            write_csv(self.path / "curves.csv", _over_seeds(cells, curves))
        write_csv(self.path / "timings.csv", timings)
        return [row for row in table if "error" in row]

    def _read(self, shard: Sequence[Cell]) -> dict[str, Any] | None:
        content = read_json(self._file(shard))
        if content is None:
            return None
        whole = isinstance(content, dict) and {"rows", "curves", "timing"} <= content.keys()
        # Files of earlier versions have no checksum.
        if not whole or content.pop("sha256", None) not in (None, _checksum(content)):
            raise self._damaged(shard, "its content is not what was written")
        rows = [row.get("cell", cell.id) for cell, row in zip(shard, content["rows"], strict=False)]
        if rows != [cell.id for cell in shard] or not len(content["rows"]) == len(content["curves"]) == len(shard):
            raise self._damaged(shard, "it holds other models")
        return content

    def _damaged(self, shard: Sequence[Cell], why: str) -> ValueError:
        return ValueError(
            f"{self._file(shard)} is damaged ({why}); run again, and its models are trained anew. What else is finished is "
            "kept."
        )

    def _file(self, shard: Sequence[Cell]) -> Path:
        return self.path / "shards" / f"{digest([cell.id for cell in shard])}.json"


def _checksum(content: Any) -> str:
    """The SHA-256 of plain values, however a file lays them out."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _over_seeds(cells: Sequence[Cell], curves: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Row]:
    """Mean, standard error and n over seeds of every metric after every epoch; single curves stay in the shards.

    Cells that failed have no curves.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in (cell for cell in cells if curves[cell.id]):
        groups.setdefault(digest([cell.method, cell.factors]), []).append(cell)
    table: list[Row] = []
    for same in groups.values():
        who = {"method": same[0].method, **same[0].factors}
        for metric in curves[same[0].id]:
            for epoch, values in enumerate(zip(*(curves[cell.id][metric] for cell in same), strict=True), 1):
                table.append({**who, "epoch": epoch, "metric": metric, **statistics([v for v in values if v == v])})
    return table


def _changes(existing: Any, config: Row) -> list[str]:
    if not isinstance(existing, dict):
        return ["its config.json is not one of ours"]
    differing = sorted(k for k in {*existing, *config} if existing.get(k) != config.get(k))
    return [f"{name} {existing.get(name)!r} there, {config.get(name)!r} now" for name in differing]


def read_json(path: Path) -> Any:
    """What a JSON file holds, or ``None`` if there is no such file."""
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return None
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as e:
        raise ValueError(f"{path} is damaged ({e}); remove it and run again to make it anew.") from e


def write_json(path: Path, value: Any) -> None:
    """Write a JSON file, whole or not at all."""
    write_text(path, json.dumps(value, indent=1) + "\n")


def write_csv(path: Path, rows: Sequence[Row]) -> None:
    """Write a table, whole or not at all; fractions get six decimals, what is missing an empty field."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_field(row.get(name)) for name in columns] for row in rows)
    write_text(path, text.getvalue())


def read_csv(path: Path) -> list[dict[str, Any]]:
    """A table's rows, numbers as numbers and empty fields as ``None``."""
    try:
        columns, *lines = csv.reader(io.StringIO(path.read_text()))
    except FileNotFoundError as e:
        raise ValueError(f"There is no {path.name} in {path.parent}: is it the folder of a finished run?") from e
    except (ValueError, csv.Error) as e:  # empty, not text, or not a table
        raise ValueError(f"{path} is damaged: it holds no table. Run the experiment again to make it anew.") from e
    for n, fields in enumerate(lines, 2):
        if len(fields) != len(columns):
            raise ValueError(
                f"{path} is damaged: line {n} has {len(fields)} fields and not {len(columns)}. Run the experiment again to "
                "make it anew."
            )
    return [
        {name: text if name in TEXT else _value(text) for name, text in zip(columns, fields, strict=True)}
        for fields in lines
    ]


def write_text(path: Path, text: str) -> None:
    """Write a file, whole or not at all: a reader, or a crash, never sees half of it."""
    write_whole(path, lambda file: file.write(text.encode()))


def _field(value: Any) -> str:
    if value is None or value != value:
        return ""
    return str(round(value, 6)) if isinstance(value, float) else str(value)


def _value(text: str) -> Any:
    if text == "":
        return None
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
