"""Shared by the commands on a user's own data: one set of options, and plain text for the terminal."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from synib.files import read_json

File = Annotated[
    Path,
    typer.Argument(
        help=".csv, .parquet, .npz, .safetensors, or a folder: with metadata.csv next to images or audio, of "
        "datasets, or of .npy files."
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="The column to predict, or the prefix of numbered columns of 0 and 1.  \\[default: label, target or y]",
        show_default=False,
    ),
]
Modalities = Annotated[
    list[str] | None,
    typer.Option(
        "--modality",
        help="NAME=COLUMN for each, with its kind if it should not be recognised automatically: "
        "text=review:text, photo=file:image, call=path:audio, person=age,department:table. COLUMN may be "
        "the prefix of numbered columns.  \\[default: all]",
        show_default=False,
    ),
]
Encoders = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        help="MODALITY=NAME: wordllama, minilm or tfidf (text), pixels (images), logmel (audio), or the folder "
        "or Hugging Face Hub id of a transformers model; may be repeated.  \\[default: wordllama and tfidf, pixels, "
        "logmel]",
        show_default=False,
    ),
]
Moved = Annotated[
    list[str] | None,
    typer.Option(
        "--encoder",
        help="MODALITY=FOLDER: where a transformers encoder of the model is now, if it was moved since training.",
        show_default=False,
    ),
]
Root = Annotated[
    Path | None,
    typer.Option(
        "--root",
        help="Folder of image and audio files; paths must not leave it.  \\[default: that of FILE]",
        show_default=False,
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="Stop at the first image or audio file that cannot be read.")]
AllowDownload = Annotated[
    bool,
    typer.Option(
        "--allow-download", help="Download encoders and URLs of images and audio that are not available locally."
    ),
]
Task = Annotated[
    str | None,
    typer.Option(
        "--task",
        help="auto, classification, ordinal, multilabel or regression.  \\[default: auto]",
        show_default=False,
    ),
]
Order = Annotated[
    str | None,
    typer.Option(
        "--order", help="For --task ordinal: the classes from lowest to highest, LOW,MIDDLE,HIGH.", show_default=False
    ),
]
Group = Annotated[
    str | None,
    typer.Option(
        "--group", help="The column of groups whose rows must stay together (speaker, patient).", show_default=False
    ),
]
SplitColumn = Annotated[
    str | None,
    typer.Option("--split", help="The column with train, validation or test for each row.", show_default=False),
]
Seed = Annotated[int, typer.Option("--seed", help="Seed for the fold assignment and for training.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print the result as one JSON object and nothing else.")]
Device = Annotated[str, typer.Option("--device", help="auto, cpu or cuda.")]
OPTIONS = ("target", "modality", "task", "order", "group", "split", "encoder", "root")  # how a file is read
LISTS = ("modality", "encoder")


def columns_of(modality: Sequence[str] | None) -> dict[str, str] | None:
    """``["image=clip", "text"]`` as ``{"image": "clip", "text": "text"}``; ``None`` if the option is not given."""
    if not modality:
        return None
    columns: dict[str, str] = {}
    for text in modality:
        name, equals, column = (part.strip() for part in text.partition("="))
        if not name or (equals and not column):
            raise ValueError(f"--modality must be NAME=COLUMN, for example image=clip_embedding; got {text!r}.")
        if name in columns:
            raise ValueError(f"--modality contains {name!r} twice.")
        columns[name] = column or name
    return columns


def encoders_of(encoder: Sequence[str] | None) -> dict[str, list[str]] | None:
    """``["text=tfidf", "text=wordllama"]`` as ``{"text": ["tfidf", "wordllama"]}``; ``None`` if the option is not given."""
    names: dict[str, list[str]] = {}
    for text in encoder or ():
        modality, equals, name = (part.strip() for part in text.partition("="))
        if not equals or not modality or not name:
            raise ValueError(f"--encoder must be MODALITY=NAME, for example text=wordllama; got {text!r}.")
        names.setdefault(modality, []).append(name)
    return names or None


def order_of(order: str | None) -> list[str] | None:
    """``"low,middle,high"`` as a list."""
    return None if order is None else [name.strip() for name in order.split(",")]


def audit_options(folder: Path) -> tuple[dict[str, Any], str, str]:
    """How the file of an audit was read, the method that the audit recommends, and the reason.

    Args:
        folder: Folder of an audit, with ``run.json`` and ``verdict.json``.
    """
    run, verdict = (_object(folder, name) for name in ("run.json", "verdict.json"))
    recommendation, options = verdict.get("recommendation"), run.get("options", {})
    method = recommendation.get("method") if isinstance(recommendation, dict) else None
    if not isinstance(method, str) or not isinstance(options, dict):
        raise ValueError(f"{folder} contains an audit without a recommendation: run synib audit again.")
    known_options: dict[str, Any] = {}
    for name in OPTIONS:
        value = options.get(name)
        if value is None:
            continue
        is_list = isinstance(value, list) and all(isinstance(item, str) for item in value)
        if not (is_list if name in LISTS else isinstance(value, str)):
            raise ValueError(f"{folder / 'run.json'} has {name} {json.dumps(value)[:60]}: run synib audit again.")
        known_options[name] = value
    return known_options, method, str(recommendation.get("why", "")) if isinstance(recommendation, dict) else ""


def _object(folder: Path, name: str) -> Mapping[str, Any]:
    if not (folder / name).is_file():
        raise ValueError(f"--from-audit must be the folder of an audit; {folder} has no readable {name}.")
    try:
        content = read_json(folder / name)
    except (ValueError, RecursionError) as e:
        raise ValueError(f"--from-audit must be the folder of an audit; {folder / name} is not valid JSON.") from e
    if not isinstance(content, dict):
        raise ValueError(f"--from-audit must be the folder of an audit; {folder / name} is not a JSON object.")
    return content
