"""``synib fit`` and ``synib predict``: a model of your own data, and what it says of new rows."""

import csv
import io
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer
from numpy.typing import NDArray

from synib.cli.own_data import Modalities, columns_of
from synib.cli.progress import progress_bar
from synib.files import check_writable, write_text

if TYPE_CHECKING:
    from synib.own.predictor import Predictor
    from synib.own.table import Table

QUICK = {"budget": 2, "epochs": 15}
CHOSEN = ("lr", "dropout", "weight_decay", "weight")  # what a search chooses


def fit(
    file: Annotated[Path, typer.Argument(help="Your data: .npz, .safetensors, .csv, .parquet, or a folder.")],
    target: Annotated[
        str | None,
        typer.Option(help="The column to predict.  \\[default: label, target or y]", show_default=False),
    ] = None,
    modality: Modalities = None,
    split: Annotated[
        str | None, typer.Option(help="The column that says train, validation or test.", show_default=False)
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(help="The column of what must stay together (speaker, patient).", show_default=False),
    ] = None,
    weight: Annotated[
        str | None, typer.Option(help="The column of how much each row counts.", show_default=False)
    ] = None,
    method: Annotated[str, typer.Option(help="synib, or any method by its name, such as vanilla.")] = "synib",
    out: Annotated[Path, typer.Option(help="Folder for the model.")] = Path("model"),
    seeds: Annotated[int, typer.Option(help="Models for each candidate; the best is kept.")] = 1,
    budget: Annotated[
        int | None, typer.Option(help="Candidate settings to try, at most 18.  \\[default: 6]", show_default=False)
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    quick: Annotated[bool, typer.Option("--quick", help="Two candidates, 15 epochs.")] = False,
) -> None:
    """Train a model on your own data and keep it, calibrated and ready for rows that lack a modality."""
    from rich.console import Console

    from synib.own.fit import fit as fit_model
    from synib.own.saved import check_free
    from synib.own.table import read
    from synib.studies.provenance import of_path, provenance
    from synib.training.device import choose_device

    columns = columns_of(modality)
    check_free(out)
    check_writable(out)
    table = read(file, target=target, modalities=columns, split=split, group=group, weight=weight)
    data = of_path(file)
    console = Console()

    def say(sentence: str) -> None:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    for note in table.notes:
        say(note)
    settings: dict[str, Any] = (QUICK if quick else {}) | ({} if budget is None else {"budget": budget})
    try:
        with progress_bar(console) as advance:
            model = fit_model(
                table, method, seeds=seeds, device=device, columns=columns, on_progress=advance, **settings
            )
    except KeyboardInterrupt:
        typer.echo("synib: stopped. Nothing was written.", err=True)
        raise typer.Exit(130) from None
    record = provenance(shlex.join(["synib", *sys.argv[1:]]), choose_device(device), range(seeds), data)
    model = replace(model, about={**model.about, "made": record})
    model.save(out)
    rows, tried = model.about["rows"], len(model.about["validation_log_loss"])
    chosen = ", ".join(f"{name} {model.settings[name]:g}" for name in CHOSEN if name in model.settings)
    say(f"{model.method}, trained on {rows['train']:,} rows.")
    say(f"Of {tried} settings the best on {rows['validation']:,} other rows: {chosen}.")
    say(
        f"Log-loss there {model.about['kept']['validation_log_loss']:.3f} nats, at temperature {model.temperature:.2f}."
    )
    if rows["test"]:
        say(at_test(model, table))
    say(f"Model: {out}")


def predict(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder that synib fit left.")],
    file: Annotated[Path, typer.Argument(help="Rows to predict; modalities may be missing.")],
    modality: Modalities = None,
    out: Annotated[Path, typer.Option(help="The table to write.")] = Path("predictions.csv"),
) -> None:
    """Predict rows with a model: calibrated, with a score that says which answers need more than one modality."""
    from synib.own.saved import load

    columns = columns_of(modality)
    model = load(folder)
    _check_table(out)
    rows, present, notes = rows_of(file, model, columns or {})
    predictions, score = model.predict(rows, present), model.needs_both(rows, present)
    for note in notes:
        typer.echo(note)
    header, lines = _lines(model, predictions, score, present)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)
    try:
        write_text(out, text.getvalue())
    except OSError as e:
        raise ValueError(f"Cannot write {out}: {e.strerror}.") from e
    typer.echo(f"Predictions of {len(predictions):,} rows: {out}")


def _check_table(out: Path) -> None:
    """Raise ``ValueError`` where a table of predictions must not be written."""
    if out.is_dir():
        raise ValueError(f"--out is a file such as predictions.csv; {out} is a folder.")
    if out.exists():
        with out.open("rb") as file:
            if file.read(4) != b"row,":
                raise ValueError(f"{out} exists and is no table of predictions; choose another file with --out.")


def rows_of(
    file: Path, model: "Predictor", columns: Mapping[str, str]
) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[np.bool_]], list[str]]:
    """The model's modalities in a file, as far as it has them: their values, which rows have them, and notes.

    Args:
        file: The data.
        model: The model.
        columns: Modality → its column, where the user names some; otherwise that of the file that the model was fitted on.
    """
    from synib.own.columns import Source
    from synib.own.table import read_modalities

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

    x, present = read_modalities(file, choose)
    lacking = {name: int((~has).sum()) for name, has in present.items()}
    notes = [f"{name} is not in {file}: predictions are made without it." for name in model.widths if name not in x]
    notes += [f"{name} is missing in {n:,} of {len(x[name]):,} rows." for name, n in lacking.items() if n]
    return x, present, notes


def at_test(model: "Predictor", table: "Table") -> str:
    """How good the model is on the rows that its split column kept for testing, in a sentence."""
    rows = np.flatnonzero(table.split == "test")
    predictions = model.predict(
        {name: x[rows] for name, x in table.modalities.items()},
        {name: has[rows] for name, has in table.present.items()},
    )
    y = table.target[rows]
    if model.classes:
        accuracy, loss = (predictions.argmax(1) == y).mean(), -np.log(predictions[np.arange(len(y)), y]).mean()
        return f"On {len(rows):,} test rows: accuracy {accuracy:.3f}, log-loss {loss:.3f} nats."
    error, deviation = np.sqrt(np.square(predictions[:, 0] - y).mean()), y.std()
    return f"On {len(rows):,} test rows: root mean square error {error:.3g} (standard deviation of the target {deviation:.3g})."


def _lines(
    model: "Predictor",
    predictions: NDArray[np.float64],
    score: NDArray[np.float64],
    present: dict[str, NDArray[np.bool_]],
) -> tuple[list[str], list[list[Any]]]:
    """The table of predictions: row, answer, probabilities, the score, and which modalities the row has."""
    numbers = [[f"{x:.6g}" for x in row] for row in predictions]
    names = list(model.widths)
    there = [[int(present[n][i]) if n in present else 0 for n in names] for i in range(len(predictions))]
    tail = [[f"{s:.6g}", *has] for s, has in zip(score, there, strict=True)]
    more = ["needs_both", *(f"has_{name}" for name in names)]
    if not model.classes:
        lines = [[i, *n, *t] for i, (n, t) in enumerate(zip(numbers, tail, strict=True))]
        return ["row", "mean", "deviation", *more], lines
    answers = [model.classes[c] for c in predictions.argmax(1)]
    header = ["row", "answer", *(f"p_{name}" for name in model.classes), *more]
    return header, [[i, a, *n, *t] for i, (a, n, t) in enumerate(zip(answers, numbers, tail, strict=True))]
