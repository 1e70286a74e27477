"""Texts, tables and figures of the irony experiment's page."""

from collections.abc import Sequence
from itertools import product

from synib.studies.aggregate import SYNIB, rule_of_intervals, synib_leads
from synib.studies.base import Row
from synib.studies.charts import Panel, Panels, Series, Table, label
from synib.studies.irony.data import FOLDS

RIVAL = "vanilla"
METRICS = {"irony_auc": "irony AUC", "irony_f1": "irony F1", "macro_f1": "macro F1"}
SHIFTED = {"shifted_irony_f1": "irony F1", "shifted_macro_f1": "macro F1"}
# Rules without a model, by the prefix of their scores in the results, and their names in the summary.
WITHOUT_MODEL = {"voice": "emotion of the voice", "face": "emotion of the face", "all": "everything is ironic"}
ABOUT = {
    "ravdess": (
        "Actors of RAVDESS in eight emotions: statistics of their voices (Whisper) and of their faces "
        "(action units), standardised for each actor over the actor's clips, without labels, also at "
        "test. In some clips the voice is replaced by that of another clip with a contradicting emotion, "
        "and the label is a ninth class, irony: in every split α times as many as the mean number of "
        "examples of an emotion. Donors are chosen as in the paper, where the voice alone predicts much "
        "of the irony, or balanced, so that neither voice nor face alone predicts it. Five folds: an "
        "actor at test is in no training or validation example of the fold. Settings were searched, 27 "
        "candidates for each method, on validation data of folds 0 to 2, four irony assignments each, at "
        "α = 0.5 with the paper's donors: of the candidates whose macro F1 is within 0.01 of the method's "
        "best, the one with the best irony AUC. The same settings are used for every α and both kinds of "
        "donors. The validation actors of folds 0 to 2 are test actors of folds 1 to 3. Experts also fit "
        "their combination to validation labels, here and in the search. The paper's numbers are for "
        "CREMA-D-Irony (six emotions, ResNets on frames and spectrograms) and are therefore not shown "
        "here."
    ),
    "crema-d": (
        "CREMA-D-Irony: actors in six emotions, a ResNet-18 on three frames of the face and one on the "
        "spectrogram of the voice. In some clips the voice is replaced by that of another clip with a "
        "contradicting emotion, and the label is a seventh class, irony: in every split α times as many "
        "as the mean number of examples of an emotion. Donors are chosen as in the paper, where the voice "
        "alone predicts much of the irony, or balanced, so that neither voice nor face alone predicts it. "
        "Five folds, in each of which no actor is in two splits. Nothing was searched: learning rate, "
        "schedule, patience and the settings of SynIB's masks are the paper's, the rest is the middle of "
        "the grid searched on RAVDESS. For each model the epoch with the best validation accuracy is "
        "kept. Differences from the paper: networks do not start from unimodal training on CREMA-D, "
        "frames are not randomly cropped and flipped, SynIB's masks act on latents, its reference is "
        "uniform, and the paper's means are over three folds."
    ),
}
# The paper's two panels, and ours.
PANELS = {"irony_f1": "irony recognition", "macro_f1": "all classes", "irony_auc": "ranking of irony"}


def tables(
    summary: Sequence[Row], methods: Sequence[str], alphas: Sequence[float], donors: Sequence[str]
) -> list[Table]:
    """For each kind of donors a table of each metric, one of F1 with a shifted threshold; and one of rules without a model."""
    rows = {(r["method"], r["metric"], r["alpha"], r["donors"]): r for r in summary}
    over = f"_over_{RIVAL}"
    compared = any(metric.endswith(over) for _, metric, _, _ in rows)
    rates = [(f"α = {alpha:g}", alpha) for alpha in alphas]
    result = []
    for kind, (metric, words) in product(donors, METRICS.items()):
        columns = {
            f"{heading}{more}": (metric + suffix, alpha)
            for heading, alpha in rates
            for more, suffix in (("", ""), (", above vanilla", over))[: 1 + compared]
        }
        body = {m: [rows.get((m, name, alpha, kind)) for name, alpha in columns.values()] for m in methods}
        result.append(
            Table(f"{words}, {kind} donors", list(columns), body, note=_note(summary, methods, alphas, metric, kind))
        )
    for kind in donors:
        columns = {
            f"{heading}, {words}": (metric, alpha) for heading, alpha in rates for metric, words in SHIFTED.items()
        }
        body = {m: [rows.get((m, name, alpha, kind)) for name, alpha in columns.values()] for m in methods}
        note = (
            "n counts folds. A constant is added to the log-probability of irony: for each model the one with "
            f"the best macro F1 on validation data. Leads over {RIVAL} are in summary.csv."
        )
        result.append(
            Table(f"F1 with irony's threshold set on validation, {kind} donors", list(columns), body, note=note)
        )
    columns = {
        f"{heading}, {words}": (f"irony_{m}", a) for m, words in (("f1", "F1"), ("auc", "AUC")) for heading, a in rates
    }
    body = {
        f"{who}, {kind} donors": [rows.get((who, name, alpha, kind)) for name, alpha in columns.values()]
        for kind, who in product(donors, WITHOUT_MODEL.values())
    }
    note = (
        "n counts folds. The frequency of irony for each emotion is counted on training examples, and "
        "applied to the true emotions of test examples. An uninformative modality has an AUC of 0.5, and "
        "the F1 of always predicting irony."
    )
    return [*result, Table("irony without a model", list(columns), body, of="what is known", note=note)]


def _note(summary: Sequence[Row], methods: Sequence[str], alphas: Sequence[float], metric: str, donors: str) -> str:
    """What n counts, and SynIB's leads over vanilla fusion with confidence intervals."""
    texts = []
    for alpha in alphas:
        rows = {(r["method"], r["metric"]): r for r in summary if (r["alpha"], r["donors"]) == (alpha, donors)}
        if text := synib_leads(rows, methods, f"{metric}_over_{RIVAL}", 1 / FOLDS):
            texts.append(f"α = {alpha:g}: {text}")
    if not texts:
        return "n counts folds."
    return (
        f"n counts folds. SynIB's lead over vanilla fusion in {METRICS[metric]}, paired by fold, with 95 % "
        f"confidence intervals ({rule_of_intervals(1 / FOLDS)}): {'; '.join(texts)}."
    )


def figure(
    summary: Sequence[Row], methods: Sequence[str], donors: str, file: str, classes: int, averaged: str
) -> Panels:
    """Irony F1, macro F1 and irony AUC by the irony rate, for one kind of donors.

    Args:
        summary: The summary's rows.
        methods: The methods, one line each.
        donors: The kind of donors to show.
        file: Name of the figure's file.
        classes: Number of classes.
        averaged: What the means are over.
    """

    def line(who: str, metric: str, words: str, dashed: bool = False) -> Series:
        rows = [r for r in summary if (r["method"], r["metric"], r["donors"]) == (who, metric, donors)]
        if not who.startswith((RIVAL, *SYNIB)):  # so many bands would hide each other
            rows = [{**row, "se": None} for row in rows]
        return Series.of(rows, "alpha", who, words, dashed)

    def panel(metric: str, title: str) -> Panel:
        lines = [line(m, metric, label(m), m.startswith("unimodal")) for m in methods]
        if metric != "macro_f1":
            lines.append(line(WITHOUT_MODEL["voice"], metric, "voice, without a model", dashed=True))
        return Panel(title, lines, y=METRICS[metric], level=0.5 if metric == "irony_auc" else None)

    return Panels(
        file=file,
        title=f"Irony recognition by irony rate, {donors} donors",
        x="irony rate α",
        y="",
        panels=[panel(metric, title) for metric, title in PANELS.items()],
        columns=3,
        reading=(
            f"F1 of the class irony and mean F1 of all {classes} classes on the test set, as in the paper's "
            "figure; and the AUC of irony's probability: whether ironic examples are ranked above others, "
            f"independent of the threshold. Means over {averaged}; bands, of vanilla fusion and SynIB's forms "
            "only, are ± one standard error. Dashed: one modality alone, and, without a model, the true "
            "emotion of the voice."
        ),
    )
