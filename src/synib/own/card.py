"""The model card of a fitted model: training data, scores, reliance on each modality, and confidence."""

from collections.abc import Mapping
from typing import Any

from synib.own.columns import list_names, printable
from synib.own.fit_scores import in_words, range_of
from synib.own.predictor import Predictor
from synib.own.raw.encoders.base import EncoderState

WORDS = {"train": "training"}
SCORES = {
    "accuracy": "accuracy",
    "log_loss": "log-loss (nats)",
    "calibration_error": "expected calibration error",
    "error": "root mean square error",
    "explained_variance": "explained variance",
}


def card(model: Predictor) -> str:
    """The card as Markdown; sections without data in the model's ``about`` are left out."""
    about = model.about
    lines = [f"# Model card: {_code(about.get('source') or 'arrays')}", "", f"Written by synib. {_task(model)}", ""]
    lines += ["## Trained on", "", *_training(model), ""]
    lines += _encoders(model)
    lines += _scores(model)
    lines += _behaviour(model)
    lines += [
        "## Limits",
        "",
        "- The scores hold for rows like the training rows, not for another source, language, camera or recording.",
        f"- {_origin(model)}",
        "- Do not base a decision about a person on a prediction alone; have someone who knows the case check it.",
        "",
        "## Use it",
        "",
        "```bash",
        "synib predict MODEL_FOLDER NEW_ROWS.csv",
        "```",
        "",
    ]
    return "\n".join(lines)


def _task(model: Predictor) -> str:
    if model.kind == "regression":
        return "The model predicts a number, as a mean and a standard deviation."
    description = {"multilabel": "the probability of each label", "ordinal": "probabilities of ordered classes"}
    outputs = description.get(model.kind, "probabilities of classes")
    return f"The model predicts {outputs}: {list_names([_code(c) for c in model.classes])}."


def _training(model: Predictor) -> list[str]:
    about = model.about
    rows = about.get("rows") if isinstance(about.get("rows"), dict) else {}
    counts = (
        ", ".join(f"{n:,} {WORDS.get(part, part)} rows" for part, n in rows.items() if n)
        if isinstance(rows, dict)
        else ""
    )
    lines = [f"- Data: {_code(about.get('source') or 'arrays')}{f': {counts}' if counts else ''}."]
    for name, width in model.widths.items():
        raw = model.raw.get(name)
        column = about.get("columns", {}).get(name, name) if isinstance(about.get("columns"), dict) else name
        kind = "vectors" if raw is None else raw.kind
        missing = ", missing in some rows" if name in model.missing else ""
        lines.append(f"- {_code(name)}: {kind}, column {_code(column)}, {width} numbers{missing}.")
    lines.append(
        f"- Method: {in_words(model.method, model.kind)} (`{model.method}`). {about.get('choice', '')}".rstrip()
    )
    return lines


def _encoders(model: Predictor) -> list[str]:
    states = [(name, state) for name, raw in model.raw.items() for state in raw.encoders]
    if not states:
        return []
    lines = ["## Encoders", "", "| modality | encoder | revision | numbers | licence |", "|---|---|---|---|---|"]
    lines += [
        f"| {_code(n)} | {_code(s.name)}{_tuned(s)} | {_code(s.revision)} | {s.width} | {printable(s.licence)} |"
        for n, s in states
    ]
    return [*lines, "", "`synib predict` refuses other revisions of these encoders.", ""]


def _tuned(state: EncoderState) -> str:
    rank = state.settings.get("rank")
    return "" if rank is None else f", tuned to these data (LoRA, rank {rank})"


def _origin(model: Predictor) -> str:
    """A sentence on where the encoders come from."""
    encoders = [state for raw in model.raw.values() for state in raw.encoders]
    if any(map(_tuned, encoders)):
        return (
            "The encoders were pretrained by third parties and carry the biases of their training data. Those marked as tuned "
            "were also trained on these data: their low-rank updates are in `encoders.safetensors`."
        )
    return "The encoders are frozen. They were pretrained by third parties and carry the biases of their training data."


def _scores(model: Predictor) -> list[str]:
    lines: list[str] = []
    for key, how in (
        ("scores", model.about.get("judged", "cross-validation")),
        ("test_scores", "test rows of the split"),
    ):
        scores = model.about.get(key)
        if isinstance(scores, dict) and scores:
            lines += [f"Measured by {how}:", "", "| measure | value (95 % interval) |", "|---|---|"]
            lines += [f"| {SCORES.get(n, n)} | {range_of(score)} |" for n, score in scores.items()] + [""]
    return ["## Scores", "", *lines] if lines else []


def _behaviour(model: Predictor) -> list[str]:
    behaviour = model.about.get("behaviour")
    if not isinstance(behaviour, Mapping) or not behaviour.get("without"):
        return []
    lines = ["## Reliance on each modality, and confidence", ""]
    is_number = model.kind == "regression"
    head = "| withheld | change of the prediction |" + (
        "" if is_number else " answers that change | mean probability of the answer |"
    )
    lines += [head, "|---|---|" + ("" if is_number else "---|---|")]
    if "confidence" in behaviour:
        lines.append(f"| nothing | – | – | {behaviour['confidence']:.2f} |")
    for name, change in behaviour["without"].items():
        cells = "" if is_number else f" {change['answers_changed']:.0%} | {change['confidence']:.2f} |"
        lines.append(f"| {_code(name)} | {change['change']:.2f} |{cells}")
    lines += ["", *_behaviour_notes(behaviour, is_number), ""]
    return lines


def _behaviour_notes(behaviour: Mapping[str, Any], is_number: bool) -> list[str]:
    unit = "in standard deviations of the predictions" if is_number else "total variation, from 0 to 1"
    lines = [f"The change is a mean over {behaviour['rows']:,} training rows ({unit})."]
    if "unsure" in behaviour:
        lines.append(f"The predicted answer has a probability below 0.7 in {behaviour['unsure']:.0%} of these rows.")
    lines.append(
        f"In {behaviour['needs_both']:.0%} of them the answer needs more than one modality (`needs_both` above 0.1)."
    )
    return lines


def _code(text: object) -> str:
    """A name as Markdown code, with control characters, backquotes and bars replaced."""
    plain = printable(str(text)).replace("`", "'").replace("|", "\\|")
    return f"`{plain}`"
