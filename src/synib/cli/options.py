"""The options of ``synib reproduce``: those of an experiment, from its fields, and those of every run."""

import contextlib
import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, cast, get_args, get_origin, get_type_hints

import typer

from synib.files import read_json
from synib.studies import Experiment
from synib.training.cluster import Cluster
from synib.training.sweep import Together

Parameter = tuple[Any, Any]  # type with typer's option, and default
OF_CLUSTER = tuple(f.name for f in fields(Cluster))


def _parameter(read: Any, help: str, default: Any = None, *flags: str, **settings: Any) -> Parameter:
    return Annotated[
        read, typer.Option(*flags, help=help, show_default=default not in (None, False), **settings)
    ], default


def _together(text: str | None) -> Together:
    """The value of ``--together``."""
    if text is None or text == "measured":
        return cast(Together, text)
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter(f"must be a number of models, at least 1, or measured; got {text!r}.")
    return int(text)


OF_RUN: dict[str, Parameter] = {
    "out": _parameter(Path | None, "Folder for the results.  \\[default: runs/NAME]"),
    "device": _parameter(str, "auto, cpu, cuda (all visible GPUs), or several: cuda:0,cuda:1.", "auto"),
    "together": _parameter(
        str | None,
        "Number of models to train at once, or on a CPU measured: the fastest number of models and threads.  "
    "\\[default: as many as fit into memory; 24 on a CPU]",
        metavar="NUMBER|measured",
        callback=_together,
    ),
    "precision": _parameter(
        str, "Precision of matrix products in training: float32, or on CUDA tf32 or bf16.", "float32"
    ),
    "engine": _parameter(
        str,
        "fleet (many small models at once), solo (one model of any size, with Lightning) or cluster (the "
    "fleet on the nodes of a Ray cluster).",
        "fleet",
    ),
    "address": _parameter(
        str | None,
        "HOST:PORT of a running Ray cluster; its token is in RAY_AUTH_TOKEN or the file "
    "RAY_AUTH_TOKEN_PATH.  \\[default: a new cluster on this machine, for this run only]",
    ),
    "cpus_per_shard": _parameter(
        int | None, "With --engine cluster: number of cores, and threads, per shard.  \\[default: 1]"
    ),
    "gpus_per_shard": _parameter(
        float | None,
        "With --engine cluster: GPUs per shard; 0.25 lets four shards share one.  \\[default: 1 on CUDA, "
    "else 0]",
    ),
    "dashboard": _parameter(
        bool, "With --engine cluster and no --address: start Ray's dashboard, on 127.0.0.1.", False, "--dashboard"
    ),
    "config": _parameter(Path | None, "Read the options from the config.json of an earlier run."),
}  # fmt: skip


def parameters(kinds: Mapping[str, type[Experiment]]) -> dict[str, Parameter]:
    """All options of a command, by name.

    Args:
        kinds: The experiments of the command, by their value of ``--on``; a single one needs no ``--on``.
    """
    options: dict[str, Parameter] = {}
    if len(kinds) > 1:
        options["on"] = _parameter(str, f"{' or '.join(kinds)}.", next(iter(kinds)))
    for kind in kinds.values():
        if kind.quick:
            smaller = ", ".join(f"{name} {_text(value)}" for name, value in kind.quick.items())
            options["quick"] = _parameter(bool, f"A smaller version: {smaller}.", False, "--quick")
        options |= {f.name: _of_field(kind, f) for f in fields(kind)}
    return options | OF_RUN


def _of_field(kind: type[Experiment], f: Field[Any]) -> Parameter:
    """How typer parses a field of an experiment; the experiment itself validates the value."""
    hint, flag, default = get_type_hints(kind)[f.name], f.name.replace("_", "-"), ""
    read: Any = hint
    if f.name == "overrides":
        read, flag = list[str], "set"
    elif get_origin(hint) is Literal:
        read = str
    elif get_args(hint)[-1:] == (...,):
        read, flag = list[get_args(hint)[0]], flag.removesuffix("s")  # type: ignore[misc]  # one value each time
    if f.default is not MISSING and f.default != "":
        default = f"  \\[default: {'all' if get_args(hint) == (str, ...) else _text(f.default)}]"
    declared = (getattr(base, "__dataclass_fields__", {}).get(f.name) for base in kind.__mro__)
    metadata = next(field.metadata for field in declared if field is not None and "help" in field.metadata)
    return _parameter(read | None, f"{metadata['help']}{default}", None, f"--{metadata.get('flag') or flag}")


def _text(value: Any) -> str:
    if isinstance(value, tuple):
        return " ".join(map(_text, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def cluster_of(engine: str, options: Mapping[str, Any]) -> Cluster | None:
    """The cluster described by the options; options that would have no effect raise ``ValueError``."""
    chosen = {name: value for name, value in options.items() if value is not None and value is not False}
    if engine == "cluster":
        return Cluster(**chosen)
    if chosen:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in chosen)
        raise ValueError(f"{flags} requires --engine cluster; this run has --engine {engine}.")
    return None


def saved_options(kind: type[Experiment], config: Path | None) -> dict[str, Any]:
    """The options in the config.json of an earlier run of the same experiment."""
    if config is None:
        return {}
    if not config.is_file():
        problem = "a folder" if config.is_dir() else "no such file"
        raise ValueError(f"--config must be the config.json of a run; {config} is {problem}.")
    try:
        saved = read_json(config)
    except ValueError as e:
        raise ValueError(f"--config must be the config.json of a run; {config} is not valid JSON.") from e
    if not isinstance(saved, dict) or saved.get("experiment") != kind.name:
        raise ValueError(f"{config} is not the config.json of a {kind.name} run.")
    return {name: value for name, value in saved.items() if name != "experiment"}


def overrides_of(texts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    """``("synib-random.p=1",)`` as ``{"synib-random": {"p": 1}}``; values are JSON, or else text."""
    changes: dict[str, dict[str, Any]] = {}
    for text in texts:
        setting, equals, value = (part.strip() for part in text.partition("="))
        method, dot, name = setting.rpartition(".")
        if not (equals and dot and method and name):
            raise ValueError(f"--set must be METHOD.SETTING=VALUE, for example synib-random.p=1; got {text!r}.")
        with contextlib.suppress(json.JSONDecodeError):  # otherwise it is plain text
            value = json.loads(value)
        changes.setdefault(method, {})[name] = value
    return changes
