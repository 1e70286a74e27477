"""``synib audit``: test for synergy in the data, whether plain fusion uses it, and whether SynIB would help."""

import json
import shlex
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import typer

from synib.cli.own_data import (
    AllowDownload,
    AsJson,
    Device,
    Encoders,
    File,
    Group,
    Modalities,
    Order,
    Root,
    Seed,
    SplitColumn,
    Strict,
    Target,
    Task,
    columns_of,
    encoders_of,
    order_of,
)
from synib.files import check_writable

QUICK: dict[str, Any] = {"k": 3, "seeds": 1, "budget": 2, "judge": False, "tries": 4}
USUAL: dict[str, Any] = {"k": 5, "seeds": 1, "budget": 6}
THOROUGH: dict[str, Any] = {"k": 5, "seeds": 3, "budget": 18, "tries": 12}
FILES = {"verdict.json", "summary.csv", "report.html", "figure.svg", "run.json"}  # the files of an audit
EXTRAS = {"sklearn": "scikit-learn", "cvxpy": "cvxpy", "clarabel": "clarabel"}


def audit(
    file: File,
    target: Target = None,
    modality: Modalities = None,
    encoder: Encoders = None,
    root: Root = None,
    strict: Strict = False,
    allow_download: AllowDownload = False,
    task: Task = None,
    order: Order = None,
    group: Group = None,
    split: SplitColumn = None,
    nuisance: Annotated[
        list[str] | None, typer.Option(help="A column that should not predict the target; may be repeated.")
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(
            help="accuracy, average_precision, auc, closeness or explained_variance.  \\[default: depends on the "
            "target]"
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Only test for synergy: 3 folds, no SynIB, about half a minute.")
    ] = False,
    thorough: Annotated[
        bool, typer.Option("--thorough", help="5 folds, 3 seeds, 18 candidate settings; meant for a GPU.")
    ] = False,
    refute: Annotated[
        bool,
        typer.Option("--refute", help="Also audit shuffled pairs, a random target, half of the rows and other seeds."),
    ] = False,
    seed: Seed = 0,
    device: Device = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page.  \\[default: runs/audit-NAME]", show_default=False)
    ] = None,
    static: Annotated[bool, typer.Option("--static", help="Write a light page without scripts.")] = False,
    as_json: AsJson = False,
) -> None:
    """Test whether the modalities of your data interact, and whether SynIB would help."""
    from rich.console import Console

    from synib.cli import one_line
    from synib.cli.progress import progress_bar
    from synib.files import write_json
    from synib.own.audit import audit as run
    from synib.own.refute import refute as refute_audit
    from synib.own.table import read
    from synib.report.audit import verdict_json, write
    from synib.studies.provenance import of_path, provenance
    from synib.training.device import choose_device

    if quick and thorough:
        raise ValueError("Use either --quick or --thorough, not both.")
    _check_extras()
    folder = out if out is not None else Path("runs") / f"audit-{file.stem}"
    _check_folder(folder)
    start = time.perf_counter()
    console = Console(stderr=as_json)
    with progress_bar(console) as advance:
        table = read(
            file,
            target=target,
            modalities=columns_of(modality),
            split=split,
            group=group,
            nuisance=tuple(nuisance or ()),
            task=task or "auto",  # type: ignore[arg-type]
            order=order_of(order),
            encoders=encoders_of(encoder),
            root=root,
            strict=strict,
            allow_download=allow_download,
            device=device,
            on_progress=advance,
        )
    data = of_path(file)
    plan = (QUICK if quick else THOROUGH if thorough else USUAL) | {"metric": metric, "seed": seed, "device": device}

    def say(sentence: str, **style: Any) -> None:
        console.print(one_line(sentence), markup=False, highlight=False, soft_wrap=True, **style)

    with progress_bar(console) as advance:
        result = run(table, **plan, on_progress=advance)
        tests = []
        if refute:
            tests = refute_audit(result, on_progress=advance, **plan)
    facts = {"rows": f"{len(table.target):,}", "seconds": f"{time.perf_counter() - start:.0f}"}
    folder.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["synib", *sys.argv[1:]])
    record = provenance(command, choose_device(device), range(plan["seeds"]), data)
    options = {
        "target": target, "modality": modality, "task": task, "order": order, "group": group, "split": split,
        "encoder": encoder, "root": None if root is None else str(root),
    }  # fmt: skip
    write_json(folder / "run.json", record | {"plan": plan, "options": options})
    with progress_bar(console) as advance:
        write(result, folder, command, facts, interactive=not static, refutations=tests, on_progress=advance)
    if as_json:
        typer.echo(json.dumps(verdict_json(result, tests), indent=1))
        return
    for finding in result.findings:
        say(f"Warning: {finding.words}" if finding.level == "warning" else finding.words)
    say(f"Synergy: {result.verdict.synergy}", style="bold")
    for sentence in result.verdict.sentences:
        say(sentence)
    for shortcut in result.verdict.shortcuts:
        say(f"Shortcut: {shortcut.words}")
    for test in tests:
        say(test.words)
    recommendation = result.verdict.recommendation
    say(f"Recommended model: {recommendation.method}. {recommendation.why}")
    say(f"Train it: synib fit {shlex.quote(str(file))} --from-audit {shlex.quote(str(folder))}")
    say(f"Page: {folder / 'report.html'}")


def _check_extras() -> None:
    """Raise an error before any work if a package required by an audit is missing."""
    from importlib.util import find_spec

    missing = [package for module, package in EXTRAS.items() if find_spec(module) is None]
    if missing:
        raise ValueError(f'An audit needs {", ".join(missing)}: pip install "synib[audit]"')


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out must be a folder; {folder} is a file.")
    others = sorted(path.name for path in folder.iterdir() if path.name not in FILES) if folder.is_dir() else []
    if others:
        raise ValueError(f"{folder} contains other files, such as {others[0]}: choose another folder with --out.")
    check_writable(folder)
