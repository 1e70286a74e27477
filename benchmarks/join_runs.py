"""Join runs of one experiment that trained different forms, tasks or maps at the same time, in a folder for each.

    python benchmarks/join_runs.py runs/attention-search/all runs/attention-search/part-*

The new folder is as if one command had trained all forms. Of a search that was stopped, candidates with all seeds finished are
kept; a part whose initial candidates are not finished is left out by name. With ``--settings FILE`` the settings that a search
chose are written, too. ``--commit`` names the commit of the code if the machine had a copy that was not committed yet.
"""

import argparse
import json
import shutil
from collections.abc import Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from synib.files import read_csv, read_json, write_json
from synib.studies import load
from synib.studies.base import Experiment
from synib.studies.fair.search import NONE, FairSearch
from synib.training.folder import Folder


def finished(folder: Path) -> set[str]:
    """The ids of the trained cells of a run."""
    rows = (row for file in sorted((folder / "shards").glob("*.json")) for row in read_json(file)["rows"])
    return {row["cell"] for row in rows}


def complete(folder: Path) -> Any:
    """The experiment of a part, reduced to what is finished; ``None`` if forms or initial candidates are missing."""
    experiment, done = load(folder), finished(folder)
    if isinstance(experiment, FairSearch):
        begun = replace(experiment, extend=NONE)
        if not {cell.id for cell in begun.cells()} <= done:
            return None
        kept = [e for e in experiment.extend if e != NONE[0] and _trained(begun, e, done)]
        return replace(begun, extend=tuple(kept) or NONE)
    return experiment if {cell.id for cell in experiment.cells()} <= done else None


def _trained(begun: FairSearch, entry: str, done: set[str]) -> bool:
    return {cell.id for cell in replace(begun, extend=(entry,)).cells()} <= done


def join(out: Path, parts: Sequence[Path], commit: str = "") -> Experiment:
    """Write the joined folder; return its experiment.

    Args:
        out: The new folder.
        parts: Folders of the runs.
        commit: The commit that holds the code, if the machine recorded another one with changes; that one is kept beside it.
    """
    found = {part: complete(part) for part in parts if (part / "shards.json").exists()}
    left_out = [part.name for part in parts if found.get(part) is None]
    if left_out:
        print(f"Not finished, and left out: {', '.join(left_out)}.")
    used = {part: experiment for part, experiment in found.items() if experiment is not None}
    if not used:
        raise SystemExit("No part is finished.")
    first: Any = next(iter(used.values()))
    changes: dict[str, Any] = {"overrides": {method: own for e in used.values() for method, own in e.overrides.items()}}
    for field in fields(first):
        values = [getattr(e, field.name) for e in used.values()]
        if isinstance(values[0], tuple):
            every = dict.fromkeys(value for one in values for value in one)
            some = [value for value in every if value != NONE[0]]  # "none" beside others says nothing
            changes[field.name] = in_order(first, field.name, some or list(every))
    if hasattr(first, "root"):
        changes["root"] = ""  # results name no folder of this machine: $SYNIB_DATA
    whole = replace(first, **changes)
    cells = whole.cells()
    wanted = {cell.id for cell in cells}
    (out / "shards").mkdir(parents=True)
    shards = []
    for part in used:
        for ids in read_json(part / "shards.json"):
            file = next((f for f in (part / "shards").glob("*.json") if _ids(f) == ids), None)
            if file is not None and wanted.issuperset(ids):
                shutil.copy(file, out / "shards" / file.name)
                shards.append(ids)
    write_json(out / "config.json", json.loads(json.dumps(whole.config())))
    write_json(out / "shards.json", shards)
    record = read_json(next(iter(used)) / "run.json")
    if commit:
        record["code"] = {"commit": commit, "changed": False, "recorded": record["code"]}
    write_json(
        out / "run.json", record | {"command": "; ".join(read_json(part / "run.json")["command"] for part in used)}
    )
    Folder(out, whole.config()).collect(cells)
    return whole


def in_order(experiment: Any, name: str, values: Sequence[str]) -> tuple[str, ...]:
    """Values of an option as the experiment orders them, if it does."""
    if name == "form":
        known = list(experiment._all(experiment.task[0]))
    else:
        known = next(list(field.default) for field in fields(experiment) if field.name == name)  # type: ignore[arg-type]
    return tuple(sorted(values, key=lambda value: known.index(value) if value in known else len(known)))


def _ids(file: Path) -> list[str]:
    return [row["cell"] for row in read_json(file)["rows"]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("parts", type=Path, nargs="+")
    parser.add_argument("--settings", type=Path)
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    whole = join(options.out, options.parts, options.commit)
    results = read_csv(options.out / "results.csv")
    if isinstance(whole, FairSearch) and (wider := whole.widened(results)) is not None:
        print(f"The search was stopped before its end. {wider[1]}")
    if options.settings is not None:
        chosen = whole.conclusions(whole.summary(results))
        name = next(name for name in chosen if name != "at_the_end_of_a_ladder")
        options.settings.write_text(json.dumps(chosen[name], indent=1) + "\n")


if __name__ == "__main__":
    main()
