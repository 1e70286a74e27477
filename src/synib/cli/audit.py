"""``synib audit``: is there synergy in my data, does plain fusion find it, would SynIB help?"""

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from synib.cli.own_data import Modalities, columns_of
from synib.files import check_writable

QUICK = {"k": 3, "seeds": 1, "budget": 2}
USUAL = {"k": 5, "seeds": 1, "budget": 6}
THOROUGH = {"k": 5, "seeds": 3, "budget": 18}
FILES = {"verdict.json", "summary.csv", "report.html", "figure.svg", "run.json"}  # of an audit


def audit(
    file: Annotated[
        Path, typer.Argument(help=".npz, .safetensors, .csv, .parquet, a folder of .npy, or a datasets folder.")
    ],
    target: Annotated[
        str | None, typer.Option(help="The column to predict; label, target or y if there is one.")
    ] = None,
    modality: Modalities = None,
    split: Annotated[str | None, typer.Option(help="A column of train, validation and test.")] = None,
    group: Annotated[
        str | None, typer.Option(help="A column (speaker, patient) that must not be on two sides.")
    ] = None,
    nuisance: Annotated[
        list[str] | None, typer.Option(help="A column that should not tell the target; may be repeated.")
    ] = None,
    task: Annotated[str, typer.Option(help="auto, classification or regression.")] = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="3 folds, 2 candidates: about a minute.")] = False,
    thorough: Annotated[bool, typer.Option("--thorough", help="5 folds, 3 seeds, 18 candidates; on a GPU.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[
        Path | None, typer.Option(help="Folder for the page.  \\[default: runs/audit-NAME]", show_default=False)
    ] = None,
    static: Annotated[bool, typer.Option("--static", help="A light page without scripts.")] = False,
) -> None:
    """Say whether the modalities of your data tell something only together, and whether SynIB would help."""
    from rich.console import Console

    from synib.cli.progress import progress_bar
    from synib.files import write_json
    from synib.own.audit import audit as run
    from synib.own.table import read
    from synib.report.audit import write
    from synib.studies.provenance import of_path, provenance
    from synib.training.device import choose_device

    if quick and thorough:
        raise ValueError("Use either --quick or --thorough, not both.")
    folder = out if out is not None else Path("runs") / f"audit-{file.stem}"
    _check_folder(folder)
    start = time.perf_counter()
    table = read(
        file,
        target=target,
        modalities=columns_of(modality),
        split=split,
        group=group,
        nuisance=tuple(nuisance or ()),
        task=task,  # type: ignore[arg-type]
    )
    data = of_path(file)
    plan = QUICK if quick else THOROUGH if thorough else USUAL
    console = Console()
    with progress_bar(console) as advance:
        result = run(table, **plan, device=device, on_progress=advance)
    facts = {"rows": f"{len(table.target):,}", "seconds": f"{time.perf_counter() - start:.0f}"}
    folder.mkdir(parents=True, exist_ok=True)
    command = shlex.join(["synib", *sys.argv[1:]])
    record = provenance(command, choose_device(device), range(plan["seeds"]), data)
    write_json(folder / "run.json", record | {"plan": plan})
    write(result, folder, command, facts, interactive=not static)
    for finding in result.findings:
        if finding.level == "warning":
            console.print(f"Warning: {finding.words}", markup=False)
    console.print(f"Synergy: {result.verdict.synergy}", style="bold", markup=False)
    for sentence in result.verdict.sentences:
        console.print(sentence, markup=False)
    for shortcut in result.verdict.shortcuts:
        console.print(f"Shortcut: {shortcut.words}", markup=False)
    console.print(f"Page: {folder / 'report.html'}", soft_wrap=True, markup=False)


def _check_folder(folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ValueError(f"--out is a folder; {folder} is a file.")
    others = sorted(path.name for path in folder.iterdir() if path.name not in FILES) if folder.is_dir() else []
    if others:
        raise ValueError(f"{folder} holds other files, such as {others[0]}: choose another folder with --out.")
    check_writable(folder)
