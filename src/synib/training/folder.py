"""The folder of a run: a finished shard is written immediately and atomically, and is never overwritten."""

import contextlib
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from synib.files import read_json, write_csv, write_json
from synib.files.atomic import LOCK, locked, make_folder, refuse_link, remove_unfinished, unwritable
from synib.measure import statistics
from synib.training.cells import Cell, digest
from synib.training.shard_files import ShardFiles

Row = Mapping[str, Any]


class Folder(ShardFiles):
    """The folder of a run.

    ``config.json`` contains the options of the run, ``shards.json`` the grouping of its cells, ``shards/`` a file for
    each finished shard; ``results.csv``, ``curves.csv`` and ``timings.csv`` are collected from these. ``failed/`` holds
    the last finite parameters of models whose training failed. One run at a time writes to the folder (:meth:`locked`).

    Args:
        path: The folder; created if it does not exist.
        config: Plain values that determine the results. A folder with a run of another config raises ``ValueError``.
    """

    def __init__(self, path: Path | str, config: Mapping[str, Any]) -> None:
        super().__init__(path)
        self._config = json.loads(json.dumps(config))
        self._locked = False
        try:
            self._check()
            make_folder(self.path / "shards")
            with self.locked():
                is_new = self._check()  # again, now that no other run can write
                if is_new:
                    write_json(self.path / "config.json", self._config)
        except OSError as e:
            raise unwritable(self.path, str(e.strerror)) from e

    def _check(self) -> bool:
        """Whether the folder is free for a new run; raises ``ValueError`` if it holds another run or other files."""
        names = sorted(os.listdir(self.path)) if self.path.is_dir() else []
        for name in names:
            refuse_link(self.path / name)
        config = read_json(self.path / "config.json")
        if config is None and "shards.json" in names:
            return False  # a run whose config was lost: its cells tell whether it is this one
        if config is None:
            left_by_killed_run = (".config.json.", LOCK)
            others = [name for name in names if name != "shards" and not name.startswith(left_by_killed_run)]
            if others:
                more = ", ..." if len(others) > 3 else ""
                raise ValueError(
                    f"{self.path} contains other files ({', '.join(others[:3])}{more}) and no run: choose another "
                    "folder."
                )
        elif config != self._config:
            raise ValueError(
                f"{self.path} holds a run with other settings ({', '.join(_changes(config, self._config))}), which "
                "was not changed: choose another folder."
            )
        return config is None

    @contextlib.contextmanager
    def locked(self, say: Callable[[str], None] = lambda sentence: None) -> Iterator[None]:
        """Lock the folder against other runs; may be nested. Temporary files of killed runs are removed.

        Args:
            say: Called with a message if the file system has no locks.
        """
        if self._locked:
            yield
            return
        with locked(self.path) as has_locks:
            if not has_locks:
                say(f"The file system of {self.path} does not support locks: make sure that no other run writes there.")
            self._locked = True
            try:
                for folder in (self.path, self.path / "shards", self.path / "failed"):
                    remove_unfinished(folder)
                yield
            finally:
                self._locked = False

    def shards(self, cells: Sequence[Cell], propose: Callable[[], Sequence[Sequence[Cell]]]) -> list[list[Cell]]:
        """The recorded grouping of the cells into shards; if there is none, the proposed grouping, which is then recorded."""
        recorded = read_json(self.path / "shards.json")
        if recorded is None:
            groups = [list(shard) for shard in propose()]
            write_json(self.path / "shards.json", [[cell.id for cell in shard] for shard in groups])
            return groups
        lists = isinstance(recorded, list) and all(isinstance(shard, list) for shard in recorded)
        if not lists or not all(isinstance(i, str) for shard in recorded for i in shard):
            raise ValueError(f"{self.path}/shards.json is damaged: remove it and run again to restore it.")
        by_id = {cell.id: cell for cell in cells}
        if {i for shard in recorded for i in shard} != set(by_id):
            raise ValueError(
                f"{self.path}/shards.json was recorded for other cells (another version of synib?) and was not "
                "changed: choose another folder."
            )
        if not (self.path / "config.json").exists():
            write_json(self.path / "config.json", self._config)
        return [[by_id[i] for i in shard] for shard in recorded]

    def measured(self) -> dict[str, dict[str, Any]]:
        """What was measured about training on this CPU: program → how many models and threads, and the seconds."""
        return cast(dict[str, dict[str, Any]], read_json(self.path / "measured.json") or {})

    def record_measured(self, program: str, choice: Mapping[str, Any]) -> None:
        """Record what was measured for a program."""
        write_json(self.path / "measured.json", self.measured() | {program: dict(choice)})

    def widen(
        self,
        config: Mapping[str, Any],
        cells: Sequence[Cell],
        group: Callable[[Sequence[Cell]], Sequence[Sequence[Cell]]],
    ) -> None:
        """Record a larger version of the run: new cells get new shards, and finished ones are kept.

        A folder without a recorded run is not changed.

        Args:
            config: The config of the larger version.
            cells: All of its cells.
            group: Groups new cells into shards.
        """
        recorded = read_json(self.path / "shards.json")
        if recorded is None:
            return
        known = {i for shard in recorded for i in shard}
        new = [cell for cell in cells if cell.id not in known]
        # First the config: a run that is killed here finds cells without a shard, and comes back to this.
        self._config = json.loads(json.dumps(config))
        write_json(self.path / "config.json", self._config)
        if new:
            write_json(self.path / "shards.json", [*recorded, *([cell.id for cell in shard] for shard in group(new))])

    def regroup(self, left: Sequence[Sequence[Cell]]) -> list[list[Cell]]:
        """Record a new grouping of unfinished cells; finished shards are kept."""
        changed = {cell.id for shard in left for cell in shard}
        before = [shard for shard in read_json(self.path / "shards.json") if not changed.intersection(shard)]
        write_json(self.path / "shards.json", [*before, *([cell.id for cell in shard] for shard in left)])
        return [list(shard) for shard in left]

    def unfinished(
        self, shards: Sequence[list[Cell]], say: Callable[[str], None] = lambda sentence: None
    ) -> list[list[Cell]]:
        """The shards that are not written yet. A damaged file is renamed and reported by ``say``; its shard is included."""
        left = []
        for shard in shards:
            try:
                if self.read(shard) is not None:
                    continue
            except ValueError:
                file = self.file(shard)
                aside = next(p for i in range(1, 10**6) if not (p := file.with_suffix(f".damaged{i}")).exists())
                os.replace(file, aside)
                say(
                    f"{file} is damaged: it is kept as {aside.name} and not used, and its {len(shard)} models are "
                    "trained again. Other finished models are kept."
                )
            left.append(shard)
        return left

    def collect(self, cells: Sequence[Cell]) -> list[Row]:
        """Write the tables from the finished shards, rows in the order of the cells; return the rows of failed cells."""
        rows: dict[str, Row] = {}
        curves: dict[str, dict[str, list[float]]] = {}
        timings = []
        by_id = {cell.id: cell for cell in cells}
        for ids in read_json(self.path / "shards.json"):
            shard = [by_id[i] for i in ids]
            content = self.read(shard)
            assert content is not None, "collect needs every shard to be finished"
            for cell, row, curve in zip(shard, content["rows"], content["curves"], strict=True):
                rows[cell.id], curves[cell.id] = row, curve
            timings.append({"shard": self.file(shard).stem, "cells": len(shard), **content["timing"]})
        columns = next((row for row in rows.values() if "error" not in row), {})
        empty = dict.fromkeys(columns)  # of a failed cell, so that columns keep their order
        table = [rows[cell.id] if "error" not in rows[cell.id] else {**empty, **rows[cell.id]} for cell in cells]
        write_csv(self.path / "results.csv", table)
        if any(curves.values()):
            write_csv(self.path / "curves.csv", _over_seeds(cells, curves))
        write_csv(self.path / "timings.csv", timings)
        return [row for row in table if "error" in row]


def _over_seeds(cells: Sequence[Cell], curves: Mapping[str, Mapping[str, Sequence[float]]]) -> list[Row]:
    """Mean, standard error and n over seeds of every metric after every epoch; individual curves stay in the shards.

    Cells that failed have no curves.
    """
    groups: dict[str, list[Cell]] = {}
    for cell in (cell for cell in cells if curves[cell.id]):
        groups.setdefault(digest([cell.method, cell.factors]), []).append(cell)
    table: list[Row] = []
    for same in groups.values():
        columns = {"method": same[0].method, **same[0].factors}
        for metric in curves[same[0].id]:
            for epoch, values in enumerate(zip(*(curves[cell.id][metric] for cell in same), strict=True), 1):
                table.append({**columns, "epoch": epoch, "metric": metric, **statistics([v for v in values if v == v])})
    return table


def _changes(existing: Any, config: Row) -> list[str]:
    if not isinstance(existing, dict):
        return ["its config.json was not written by synib"]
    differing = sorted(k for k in {*existing, *config} if existing.get(k) != config.get(k))
    return [f"{name} was {existing.get(name)!r}, now {config.get(name)!r}" for name in differing]
