"""The description of an export, with inputs, outputs and encoders, as plain values and as Markdown."""

from collections.abc import Mapping, Sequence
from typing import Any

from synib.own.columns import printable
from synib.own.export.encoders import EncoderExport
from synib.own.export.inputs import CATEGORY, NUMBER, VECTOR, Input
from synib.own.predictor import Predictor
from synib.own.raw.encoders.onehot import FLAGS


def inputs_as_plain(
    model: Predictor, inputs: Sequence[Input], to: str, encoders: Mapping[str, Sequence[EncoderExport]]
) -> list[dict[str, Any]]:
    """The inputs as plain values, in the order of the graph, with the encoders of their vectors."""
    result = []
    for graph_input in inputs:
        raw = model.raw.get(graph_input.modality)
        is_text = graph_input.kind == CATEGORY and to == "onnx"
        entry: dict[str, Any] = {
            "name": graph_input.name,
            "modality": graph_input.modality,
            "kind": graph_input.kind,
            "dtype": "string" if is_text else str(graph_input.dtype).removeprefix("torch."),
            "shape": ["rows", graph_input.width] if graph_input.kind == VECTOR else ["rows"],
            "missing": {VECTOR: "NaN throughout the row", NUMBER: "NaN"}.get(graph_input.kind, "" if is_text else -1),
        }
        if graph_input.kind == CATEGORY:
            entry["categories"] = list(graph_input.categories)
        if graph_input.kind == VECTOR and raw is not None:
            entry["encoded_from"] = {"kind": raw.kind, "columns": list(raw.columns)}
            entry["encoders"] = [
                {"name": s.name, "revision": s.revision, "width": s.width, "licence": s.licence, **exported.plain}
                for s, exported in zip(raw.encoders, encoders[graph_input.modality], strict=True)
            ]
        result.append(entry)
    return result


def export_card(plain: Mapping[str, Any]) -> str:
    """The description as Markdown, with an example that runs."""
    inputs = plain["inputs"]
    lines = [f"# Exported model: `{plain['graph']}`", "", _about(plain), "", "## Inputs", ""]
    lines += ["| input | type | shape | missing |", "|---|---|---|---|"]
    for graph_input in inputs:
        shape = f"({', '.join(map(str, graph_input['shape']))}{',' * (len(graph_input['shape']) == 1)})"
        lines.append(f"| {_code(graph_input['name'])} | {graph_input['dtype']} | {shape} | {_missing(graph_input)} |")
    lines += ["", *(f"- {note}" for note in _notes(plain)), "", "## Outputs", "", *_outputs(plain), ""]
    lines += ["## Example", "", "```python", *_example(plain), "```", ""]
    return "\n".join(lines)


def _about(plain: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in plain["versions"].items())
    check = plain["check"]
    checked = (
        f"Its outputs differ from those of `synib predict` by at most {check['largest_difference']:.1e} on "
        f"{check['rows']} random rows."
        if check["rows"]
        else f"Its outputs were not compared with those of `synib predict`, since {check['why']}."
    )
    return (
        f"Written by synib {plain['synib']} ({versions}). Scaling, missing values, calibration and the encoding of tables are "
        f"part of the graph. {checked} `export.json` has the same description for programs."
    )


def _notes(plain: Mapping[str, Any]) -> list[str]:
    inputs = plain["inputs"]
    notes = ["All inputs have the same number of rows, and none may be left out."]
    if any(graph_input["kind"] == VECTOR for graph_input in inputs):
        notes.append("A vector with some NaN or infinite values, but not all NaN, gives NaN.")
    for graph_input in inputs:
        for encoder in graph_input.get("encoders", ()):
            description = f"{_code(graph_input['name'])} ({graph_input['encoded_from']['kind']})"
            notes.append(
                f"The encoder of {description} is not part of the graph: the input is the vector from "
                f"{_code(encoder['name'])}, revision {_code(encoder['revision'])} ({encoder['width']} numbers, "
                f"licence: {printable(encoder['licence'])}). {encoder_sentence(encoder)}"
            )
        if len(graph_input.get("encoders", ())) > 1:
            notes.append(
                f"{_code(graph_input['name'])} is the concatenation of these encoders' vectors, in this order."
            )
    if any("encoders" in graph_input for graph_input in inputs):
        notes.append("`synib.load(MODEL).read(FILE)` computes these vectors from raw rows.")
    if any(graph_input["kind"] == NUMBER for graph_input in inputs):
        notes.append(f"For booleans, {', '.join(f'{word} is {value:g}' for word, value in FLAGS.items())}.")
    if any(graph_input["kind"] == CATEGORY for graph_input in inputs):
        texts = "Give a category as text, at most its first 256 characters; any other text is an unknown category."
        codes = "Give a category as its index in `categories` of `export.json`, from 0; the next index is any other category."
        notes.append(texts if plain["to"] == "onnx" else codes)
    return notes


def encoder_sentence(encoder: Mapping[str, Any]) -> str:
    """Where the exported encoder is and what it takes, or why there is none."""
    if "why" in encoder:
        return f"It is not exported: {printable(encoder['why'])}."
    options = ", ".join(f"{name}={value!r}" for name, value in encoder["options"].items())
    names = ", ".join(_code(entry["name"]) for entry in encoder["inputs"])
    pooled = f", where `{encoder['mask']}` is the `attention_mask`" if "mask" in encoder else ""
    return (
        f"`{encoder['graph']}` computes it (output `{encoder['output']}`) from {names}, as `transformers."
        f'{encoder["reader_class"]}.from_pretrained("{encoder["reader"]}")` gives them{pooled}'
        f"{f' with {options}' if options else ''}."
    )


def _outputs(plain: Mapping[str, Any]) -> list[str]:
    classes = ", ".join(map(_code, plain["classes"]))
    if plain["target"] == "regression":
        return ["- `mean` and `deviation` (float64, (rows,)): mean and standard deviation of the number."]
    meaning = "one per label (they do not sum to 1)" if plain["target"] == "multilabel" else "one per class"
    return [f"- `probabilities` (float32, (rows, {len(plain['classes'])})): {meaning}, in this order: {classes}."]


def _example(plain: Mapping[str, Any]) -> list[str]:
    """A program that predicts two rows: one of zeros or first categories, and one with everything missing."""
    is_onnx = plain["to"] == "onnx"
    outputs = ", ".join(entry["name"] for entry in plain["outputs"])
    lines = ["import numpy as np", "import onnxruntime" if is_onnx else "import torch", "", "rows = {"]
    lines += [f"    {entry['name']!r}: {_value(entry)}," for entry in plain["inputs"]] + ["}"]
    if is_onnx:
        lines += [
            f'session = onnxruntime.InferenceSession("{plain["graph"]}")',
            f"{outputs}, = session.run(None, rows)",
        ]
    else:
        lines += [
            f'model = torch.export.load("{plain["graph"]}").module()',
            f"{outputs}, = model({{name: torch.from_numpy(x) for name, x in rows.items()}})",
        ]
    return lines


def _value(graph_input: Mapping[str, Any]) -> str:
    if graph_input["kind"] == VECTOR:
        return f"np.stack([np.zeros({graph_input['shape'][1]}), np.full({graph_input['shape'][1]}, np.nan)]).astype(np.float32)"
    if graph_input["kind"] == NUMBER:
        return "np.array([0.0, np.nan])"
    if graph_input["dtype"] == "string":
        return f"np.array([{(graph_input['categories'] or ['any'])[0]!r}, ''], dtype=object)"
    return "np.array([0, -1])"


def _missing(graph_input: Mapping[str, Any]) -> str:
    return "the empty text" if graph_input["missing"] == "" else str(graph_input["missing"])


def _code(text: object) -> str:
    plain = printable(str(text)).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`"
