"""The description of an export: inputs, outputs and encoders, for programs and for people."""

from collections.abc import Mapping, Sequence
from typing import Any

from synib.own.columns import printable
from synib.own.export.inputs import CATEGORY, NUMBER, VECTOR, Input
from synib.own.predictor import Predictor
from synib.own.raw.encoders.onehot import FLAGS


def inputs_as_plain(model: Predictor, inputs: Sequence[Input], to: str) -> list[dict[str, Any]]:
    """The inputs as plain values, in the order of the graph."""
    result = []
    for one in inputs:
        raw = model.raw.get(one.modality)
        is_text = one.kind == CATEGORY and to == "onnx"
        entry: dict[str, Any] = {
            "name": one.name,
            "modality": one.modality,
            "kind": one.kind,
            "dtype": "string" if is_text else str(one.dtype).removeprefix("torch."),
            "shape": ["rows", one.width] if one.kind == VECTOR else ["rows"],
            "missing": {VECTOR: "NaN throughout the row", NUMBER: "NaN"}.get(one.kind, "" if is_text else -1),
        }
        if one.kind == CATEGORY:
            entry["categories"] = list(one.categories)
        if one.kind == VECTOR and raw is not None:
            entry["encoded_from"] = {"kind": raw.kind, "columns": list(raw.columns)}
            entry["encoders"] = [
                {"name": s.name, "revision": s.revision, "width": s.width, "licence": s.licence} for s in raw.encoders
            ]
        result.append(entry)
    return result


def export_card(plain: Mapping[str, Any]) -> str:
    """The description as Markdown, with an example that runs."""
    inputs = plain["inputs"]
    lines = [f"# Exported model: `{plain['graph']}`", "", _about(plain), "", "## Inputs", ""]
    lines += ["| input | type | shape | missing |", "|---|---|---|---|"]
    lines += [
        f"| {_code(one['name'])} | {one['dtype']} | ({', '.join(map(str, one['shape']))}{',' * (len(one['shape']) == 1)}) "
        f"| {_missing(one)} |"
        for one in inputs
    ]
    lines += ["", *(f"- {note}" for note in _notes(plain)), "", "## Outputs", "", *_outputs(plain), ""]
    lines += ["## Example", "", "```python", *_example(plain), "```", ""]
    return "\n".join(lines)


def _about(plain: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in plain["versions"].items())
    check = plain["check"]
    checked = (
        f"Its outputs differ from those of `synib predict` by at most {check['largest_difference']:.1e} on "
        f"{check['rows']} made-up rows."
        if check["rows"]
        else f"Its outputs were not compared with those of `synib predict`, since {check['why']}."
    )
    return (
        f"Written by synib {plain['synib']} ({versions}). Scaling, missing values, calibration and the columns of tables are "
        f"inside of the graph. {checked} `export.json` says the same for programs."
    )


def _notes(plain: Mapping[str, Any]) -> list[str]:
    inputs = plain["inputs"]
    notes = ["All inputs have the same number of rows, and none may be left out."]
    if any(one["kind"] == VECTOR for one in inputs):
        notes.append("A row whose vector is NaN or infinite in some places, but not NaN in all, gives NaN.")
    for one in inputs:
        for encoder in one.get("encoders", ()):
            of = f"{_code(one['name'])} ({one['encoded_from']['kind']})"
            notes.append(
                f"The encoder of {of} is not inside: the input is the vector that {_code(encoder['name'])}, revision "
                f"{_code(encoder['revision'])}, gives ({encoder['width']} numbers, licence: {printable(encoder['licence'])})."
            )
        if len(one.get("encoders", ())) > 1:
            notes.append(f"{_code(one['name'])} is the vectors of these encoders, joined in this order.")
    if any("encoders" in one for one in inputs):
        notes.append("`synib.load(MODEL).read(FILE)` computes these vectors from raw rows.")
    if any(one["kind"] == NUMBER for one in inputs):
        notes.append(f"For booleans, {', '.join(f'{word} is {value:g}' for word, value in FLAGS.items())}.")
    if any(one["kind"] == CATEGORY for one in inputs):
        texts = "A category is given as text, at most its first 256 characters; any other text is an unknown category."
        codes = "A category is given as its place among `categories` in `export.json`, from 0; the next number is any other."
        notes.append(texts if plain["to"] == "onnx" else codes)
    return notes


def _outputs(plain: Mapping[str, Any]) -> list[str]:
    classes = ", ".join(map(_code, plain["classes"]))
    if plain["target"] == "regression":
        return ["- `mean` and `deviation` (float64, (rows,)): mean and standard deviation of the number."]
    what = "one for each label, which do not add up to 1" if plain["target"] == "multilabel" else "one for each class"
    return [f"- `probabilities` (float32, (rows, {len(plain['classes'])})): {what}, in this order: {classes}."]


def _example(plain: Mapping[str, Any]) -> list[str]:
    """A program that predicts two rows: one of zeros or first categories, and one that lacks everything."""
    is_onnx = plain["to"] == "onnx"
    outputs = ", ".join(one["name"] for one in plain["outputs"])
    lines = ["import numpy as np", "import onnxruntime" if is_onnx else "import torch", "", "rows = {"]
    lines += [f"    {one['name']!r}: {_value(one)}," for one in plain["inputs"]] + ["}"]
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


def _value(one: Mapping[str, Any]) -> str:
    if one["kind"] == VECTOR:
        return f"np.stack([np.zeros({one['shape'][1]}), np.full({one['shape'][1]}, np.nan)]).astype(np.float32)"
    if one["kind"] == NUMBER:
        return "np.array([0.0, np.nan])"
    if one["dtype"] == "string":
        return f"np.array([{(one['categories'] or ['any'])[0]!r}, ''], dtype=object)"
    return "np.array([0, -1])"


def _missing(one: Mapping[str, Any]) -> str:
    return "the empty text" if one["missing"] == "" else str(one["missing"])


def _code(text: object) -> str:
    plain = printable(str(text)).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`"
