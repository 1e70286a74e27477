"""``synib fit`` and ``synib predict``: train a model on your own data, and predict new rows."""

import json
import shlex
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from synib.cli import one_line
from synib.cli.own_data import (
    AllowDownload,
    AsJson,
    Device,
    Encoders,
    File,
    Group,
    Modalities,
    Moved,
    Order,
    Root,
    Seed,
    SplitColumn,
    Strict,
    Target,
    Task,
    audit_options,
    columns_of,
    encoders_of,
    order_of,
)
from synib.cli.progress import progress_bar
from synib.files import check_writable

QUICK = {"budget": 1, "epochs": 15}


def fit(
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
    weight: Annotated[
        str | None, typer.Option(help="The column with the weight of each row.", show_default=False)
    ] = None,
    method: Annotated[
        str | None,
        typer.Option(
            help="auto (chosen by cross-validated log-loss), synib, or the name of any method, such as vanilla.  "
            "\\[default: auto]",
            show_default=False,
        ),
    ] = None,
    from_audit: Annotated[
        Path | None,
        typer.Option(
            "--from-audit",
            help="Folder written by synib audit: read the file in the same way, and train the recommended method.",
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
        bool, typer.Option(help="With --method: also train simpler models, and show their scores for comparison.")
    ] = True,
    quick: Annotated[bool, typer.Option("--quick", help="One setting of each method, 15 epochs.")] = False,
    tune: Annotated[
        bool,
        typer.Option(
            "--tune",
            help="Also train transformers encoders together with the model, by low-rank updates (LoRA); the result is kept "
            "if it is better on held-out rows.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train and save a model on your own data, and compare its cross-validated scores with those of simpler models."""
    from rich.console import Console

    from synib.own.fit import AUTO
    from synib.own.fit import fit as fit_model
    from synib.own.fit_scores import sentences, test_scores
    from synib.own.saved import PLAIN, check_free, need_safetensors
    from synib.own.table import read
    from synib.own.tuning import check_tunable
    from synib.own.tuning import tune as tune_encoders
    from synib.studies.provenance import of_path, provenance
    from synib.training.device import choose_device

    need_safetensors()
    check_free(out)
    check_writable(out)
    typed: dict[str, Any] = {
        "target": target, "modality": modality, "task": task, "order": order, "group": group, "split": split,
        "encoder": encoder, "root": root,
    }  # fmt: skip
    advice = ""
    if from_audit is not None:
        options, recommended, why = audit_options(from_audit)
        if target is not None and target != options.get("target", target):
            raise ValueError(
                f"{from_audit} is an audit of the target {options['target']}; --target is {target}. Leave --target out, or "
                "audit that column first."
            )
        typed = {name: options.get(name) if value is None else value for name, value in typed.items()}
        if method is None:
            recommendation = "no particular model" if recommended == "auto" else recommended
            method, advice = recommended, f"The audit recommends {recommendation}. {why}".strip()
    console = Console(stderr=as_json)  # standard output is for the JSON only
    with progress_bar(console) as advance:
        table = read(
            file,
            target=typed["target"],
            modalities=columns_of(typed["modality"]),
            split=typed["split"],
            group=typed["group"],
            weight=weight,
            task=typed["task"] or "auto",
            order=order_of(typed["order"]),
            encoders=encoders_of(typed["encoder"]),
            root=typed["root"],
            strict=strict,
            allow_download=allow_download,
            device=device,
            on_progress=advance,
        )
    data = of_path(file)
    if tune:
        check_tunable(table, method or AUTO)

    def say(sentence: str) -> None:
        if not as_json:
            console.print(one_line(sentence), markup=False, highlight=False, soft_wrap=True)

    replaces = [f"{out} contains a model: it is replaced when training ends."] if (out / PLAIN).exists() else []
    for note in (*table.notes, *([advice] if advice else []), *replaces):
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
                columns=table.columns,
                baselines=baselines,
                on_progress=advance,
                **settings,
            )
        if tune:
            with progress_bar(console) as advance:
                model, table = tune_encoders(
                    model, table, seed=seed, device=device, download=allow_download, on_progress=advance
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
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder written by synib fit.")],
    file: Annotated[Path, typer.Argument(help="Rows to predict; modalities may be missing.")],
    modality: Modalities = None,
    encoder: Moved = None,
    root: Root = None,
    strict: Strict = False,
    allow_download: AllowDownload = False,
    device: Device = "auto",
    out: Annotated[
        Path, typer.Option(help="The table to write; its ending .csv, .parquet, .npz or .json selects the format.")
    ] = Path("predictions.csv"),
    as_json: AsJson = False,
) -> None:
    """Predict rows with a model: calibrated probabilities, and a score of how much each answer needs several modalities."""
    from rich.console import Console

    from synib.own.new_rows import new_rows
    from synib.own.predictions import check_out, table_of, write
    from synib.own.raw.embed import RawOptions
    from synib.own.saved import load, need_safetensors

    need_safetensors()
    columns = columns_of(modality)
    check_out(out)
    model = load(folder)
    with progress_bar(Console(stderr=as_json)) as advance:
        options = RawOptions(root, strict, allow_download, device, advance, encoders_of(encoder))
        rows, present, identifiers, notes = new_rows(model, file, columns, options)
    predictions, score = model.predict(rows, present), model.needs_both(rows, present)
    write(table_of(model, predictions, score, present, identifiers), out)
    if as_json:
        typer.echo(json.dumps({"rows": len(predictions), "predictions": str(out), "notes": notes}, indent=1))
        return
    for note in notes:
        typer.echo(one_line(note))
    typer.echo(one_line(f"Predictions of {len(predictions):,} rows: {out}"))


def _shown(about: Mapping[str, Any]) -> dict[str, Any]:
    """The parts of a fit's description that are printed as JSON."""
    names = ("choice", "judged", "rows", "scores", "of_methods", "tuned", "test_scores")
    return {name: about[name] for name in names if name in about}
