"""``synib export``: a fitted model as one graph, for programs without synib."""

import json
from pathlib import Path
from typing import Annotated

import typer

from synib.cli import one_line
from synib.cli.own_data import AsJson, Moved, encoders_of


def export(
    folder: Annotated[Path, typer.Argument(metavar="MODEL", help="Folder written by synib fit.")],
    to: Annotated[str, typer.Option(help="onnx, or torch for a torch.export program.")] = "onnx",
    out: Annotated[Path, typer.Option(help="Folder for the graph and its description.")] = Path("exported"),
    moved: Moved = None,
    as_json: AsJson = False,
) -> None:
    """Export a model as one graph, from vectors and table columns to calibrated probabilities."""
    from synib.own.export.encoders import NOT_A_NETWORK
    from synib.own.export.write import FILES, check_export
    from synib.own.export.write import export as write
    from synib.own.saved import load, need_safetensors

    need_safetensors()
    check_export(to, out)
    plain = write(load(folder), out, to, encoders_of(moved))
    if as_json:
        typer.echo(json.dumps({**plain, "graph": str(out / FILES[to])}, indent=1))
        return
    for model_input in plain["inputs"]:
        encoders = model_input.get("encoders", ())
        names = ", ".join(encoder["name"] for encoder in encoders if "graph" not in encoder)
        lines = [f"its encoder ({names}) is not part of the graph, which takes its vectors as input."] if names else []
        for encoder in encoders:
            if "graph" in encoder:
                lines.append(f"its encoder {encoder['name']} is exported beside the graph: {out / encoder['graph']}.")
            elif encoder["why"] != NOT_A_NETWORK:
                lines.append(f"{encoder['name']} is not exported: {encoder['why']}.")
        for line in lines:
            typer.echo(one_line(f"{model_input['name']}: {line}"))
    check = plain["check"]
    typer.echo(
        f"The outputs of the graph equal those of predict up to {check['largest_difference']:.0e} on "
        f"{check['rows']} random rows."
        if check["rows"]
        else f"The graph was not compared with predict: {check['why']}. Install it and export again to compare."
    )
    typer.echo(one_line(f"Graph: {out / FILES[to]} (inputs and outputs: {out / 'README.md'})"))
