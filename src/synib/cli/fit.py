"""``synib fit`` and ``synib predict``: a model of your own data, and what it says of new rows."""

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from synib.cli import one_line
from synib.cli.own_data import (
    AsJson,
    Device,
    File,
    Group,
    Modalities,
    Order,
    Seed,
    SplitColumn,
    Target,
    Task,
    audit_options,
    columns_of,
    order_of,
)
from synib.cli.progress import progress_bar
from synib.files import check_writable

if TYPE_CHECKING:
    from synib.own.columns import Column
    from synib.own.predictor import Predictor

QUICK = {"budget": 1, "epochs": 15}


def fit(
    file: File,
    target: Target = None,
    modality: Modalities = None,
    task: Task = None,
    order: Order = None,
    group: Group = None,
    split: SplitColumn = None,
    weight: Annotated[
        str | None, typer.Option(help="The column of how much each row counts.", show_default=False)
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="auto (the best by cross-validated log-loss), synib, or any method by its name, such as vanilla.  "
            "\\[default: auto]",
            show_default=False,
        ),
    ] = None,
    from_audit: Annotated[
        Path | None,
        typer.Option(
            "--from-audit",
            help="Folder that synib audit left: read the file as it did, and train what it recommends.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("model"),
    seeds: Annotated[int, typer.Option(help="Models for each setting; the best is kept.")] = 1,
    budget: Annotated[
        int | None, typer.Option(help="Settings of each method to try, at most 18.  \\[default: 3]", show_default=False)
    ] = None,
    seed: Seed = 0,
    device: Device = "auto",
    baselines: Annotated[
        bool, typer.Option(help="With --method: train simpler models as well, and show their scores beside it.")
    ] = True,
    quick: Annotated[bool, typer.Option("--quick", help="One setting of each method, 15 epochs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train a model on your own data and keep it, with its cross-validated scores beside those of simpler models."""
    from rich.console import Console

    from synib.own.fit import AUTO
    from synib.own.fit import fit as fit_model
    from synib.own.fit_scores import sentences, test_scores
    from synib.own.saved import check_free, need_safetensors
    from synib.own.table import read
    from synib.studies.provenance import of_path, provenance
    from synib.training.device import choose_device

    need_safetensors()
    check_free(out)
    check_writable(out)
    given = {"target": target, "modality": modality, "task": task, "order": order, "group": group, "split": split}
    advice = ""
    if from_audit is not None:
        options, recommended, why = audit_options(from_audit)
        given = {name: options.get(name) if value is None else value for name, value in given.items()}
        if method is None:
            method, advice = recommended, f"The audit recommends {recommended}. {why}".strip()
    columns = columns_of(given["modality"])  # type: ignore[arg-type]
    table = read(
        file,
        target=given["target"],  # type: ignore[arg-type]
        modalities=columns,
        split=given["split"],  # type: ignore[arg-type]
        group=given["group"],  # type: ignore[arg-type]
        weight=weight,
        task=given["task"] or "auto",  # type: ignore[arg-type]
        order=order_of(given["order"]),  # type: ignore[arg-type]
    )
    data = of_path(file)
    console = Console(stderr=as_json)  # standard output is for the JSON alone

    def say(sentence: str) -> None:
        if not as_json:
            console.print(one_line(sentence), markup=False, highlight=False, soft_wrap=True)

    for note in (*table.notes, *([advice] if advice else [])):
        say(note)
    settings: dict[str, Any] = (QUICK if quick else {}) | ({} if budget is None else {"budget": budget})
    try:
        with progress_bar(console) as advance:
            model = fit_model(
                table,
                method or AUTO,
                seeds=seeds,
                seed=seed,
                device=device,
                columns=columns or table.columns,
                baselines=baselines,
                on_progress=advance,
                **settings,
            )
    except KeyboardInterrupt:
        typer.echo("synib: stopped. Nothing was written.", err=True)
        raise typer.Exit(130) from None
    record = provenance(shlex.join(["synib", *sys.argv[1:]]), choose_device(device), range(seed, seed + seeds), data)
    about = {**model.about, "made": record}
    if model.about["rows"]["test"]:
        about["test_scores"] = test_scores(model, table)
    model = replace(model, about=about)
    model.save(out)
    if as_json:
        typer.echo(json.dumps({"model": str(out), "method": model.method, **_shown(about)}, indent=1))
        return
    for sentence in sentences(model):
        say(sentence)
    say(f"Model: {out}")


def predict(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that synib fit left.")],
    file: Annotated[Path, typer.Argument(help="Rows to predict; modalities may be missing.")],
    modality: Modalities = None,
    out: Annotated[
        Path, typer.Option(help="The table to write: .csv, .parquet, .npz or .json, as its ending says.")
    ] = Path("predictions.csv"),
    as_json: AsJson = False,
) -> None:
    """Predict rows with a model: calibrated, with a score that says which answers need more than one modality."""
    from synib.own.predictions import check_out, table_of, write
    from synib.own.saved import load, need_safetensors

    need_safetensors()
    columns = columns_of(modality)
    check_out(out)
    model = load(folder)
    rows, present, identifiers, notes = rows_of(file, model, columns or {})
    predictions, score = model.predict(rows, present), model.needs_both(rows, present)
    write(table_of(model, predictions, score, present, identifiers), out)
    if as_json:
        typer.echo(json.dumps({"rows": len(predictions), "predictions": str(out), "notes": notes}, indent=1))
        return
    for note in notes:
        typer.echo(one_line(note))
    typer.echo(one_line(f"Predictions of {len(predictions):,} rows: {out}"))


def rows_of(
    file: Path, model: "Predictor", columns: Mapping[str, str]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.bool_]], dict[str, "Column"], list[str]]:
    """The model's modalities in a file, as far as it has them: values, which rows have them, other columns, and notes.

    Args:
        file: The data.
        model: The model.
        columns: Modality → its column, where the user names some; otherwise that of the file that the model was fitted on.
    """
    from synib.own.columns import Source
    from synib.own.table import read_rows

    for name in columns:
        if name not in model.widths:
            raise ValueError(f"The model has no modality {name!r}: it has {', '.join(model.widths)}.")

    def choose(source: Source) -> dict[str, str]:
        plain = {column.replace(".", "_"): column for column in source.kinds}
        kept = model.about.get("columns")
        fitted = {k: v for k, v in kept.items() if isinstance(v, str)} if isinstance(kept, dict) else {}
        known = {name: fitted.get(name, plain.get(name, name)) for name in model.widths}
        found = {name: c for name, c in known.items() if {c, f"{c}_0", f"{c}_1"} & source.kinds.keys()} | dict(columns)
        if not found:
            raise ValueError(
                f"{file} has none of the model's modalities ({', '.join(known.values())}): name them with --modality "
                "NAME=COLUMN."
            )
        return found

    x, present, identifiers = read_rows(file, choose, identifiers=True)
    lacking = {name: int((~has).sum()) for name, has in present.items()}
    notes = [f"{name} is not in {file}: predictions are made without it." for name in model.widths if name not in x]
    notes += [f"{name} is missing in {n:,} of {len(x[name]):,} rows." for name, n in lacking.items() if n]
    return x, present, identifiers, notes


def _shown(about: Mapping[str, Any]) -> dict[str, Any]:
    """What a program may want to know of a fit."""
    names = ("choice", "judged", "rows", "scores", "of_methods", "test_scores")
    return {name: about[name] for name in names if name in about}
