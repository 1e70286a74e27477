"""Texts of the affect experiments' page: title and description, table notes, figure."""

from collections.abc import Mapping, Sequence

from synib.measure import interval
from synib.measure.synergy_subset import ENOUGH
from synib.studies.affect.data import INDEPENDENT, MODALITIES, MULTIBENCH, OFFICIAL, Form
from synib.studies.aggregate import lead_sentences
from synib.studies.base import Row
from synib.studies.charts import Bars
from synib.studies.control import CONTROL, RIVAL
from synib.studies.features import FOLDS

TEST_SHARE = 1 / FOLDS  # of all rows, in each fold
COLUMNS = {
    "accuracy": "test_accuracy",
    "above vanilla": f"test_accuracy_over_{RIVAL}",
    "macro F1": "macro_f1",
    "subset": "subset_accuracy",
    "subset above control": f"subset_accuracy_over_{CONTROL}",
    "ECE": "ece",
    "ECE, recalibrated": "ece_calibrated",
}
TASKS = {"mosi": "CMU-MOSI: sentiment", "mustard": "MUStARD: sarcasm", "ur-funny": "UR-FUNNY: humour"}
QUESTIONS = {
    "mosi": "Is an utterance in a video positive?",
    "mustard": "Is a line of a TV show sarcastic?",
    "ur-funny": "Is the punchline of a talk funny?",
}
SPLITS = {
    "mosi": (
        "Models are tested on the official test videos. The 6 official validation videos are not "
        "representative (35 % positive, 62 % in the test set), so each fifth of the training videos "
        "serves as the validation set once: five models for each method and seed, all tested on the same "
        "31 videos. Text is a sentence embedding of the transcript (MiniLM). Video is excluded: the "
        "released text and video features appear to have been fitted to the labels of all training "
        "videos. A regression on the video features is correct for 9 of 10 utterances in held-out "
        "training videos, but for only half of those in the test set, so no fold of the training videos "
        "could be used for selection or calibration."
    ),
    "mustard": (
        "There are two splits. In the five official folds, the next fold is the validation set, and "
        "speakers occur in all folds. In the speaker-independent split, Friends is the test set, and the "
        "speakers of the other shows rotate as validation set. The context of a line is excluded. The "
        "source of a clip predicts its label: one row of the table uses only the size and rate of the "
        "frames, which networks can also see in the video."
    ),
}
SEARCHED = {
    "mosi": "on the training videos",
    "mustard": "on the shows other than Friends; in the official folds, test examples of one fold are validation "
    "examples of another",
}
SUBSET = (
    "The synergy subset contains the examples that a logistic regression on each modality predicts "
    "wrongly. The control is vanilla fusion trained on modalities that were shuffled within each "
    "class, which removes their interaction. All methods start from the same weights."
)


def title(data: str, form: Form) -> str:
    """The page's title."""
    *others, last = MODALITIES[data, form]
    return f"{TASKS[data]} from {', '.join(others)} and {last}"


def about(data: str, form: Form) -> str:
    """Data, splits, subset, settings, and how comparable the paper's numbers are."""
    if form == "sequences":
        return (
            f"{QUESTIONS[data]} MultiBench's word-level features, its split and its network; the epoch with "
            f"the best validation accuracy is kept. {SUBSET} Settings were not searched: learning rates, and "
            "the weights of SynIB's masks, are those reported in the paper. The paper's subset is defined by "
            "networks."
        )
    return (
        f"{QUESTIONS[data]} {SPLITS[data]} {SUBSET} All methods had the same number of candidate settings, "
        f"compared by validation accuracy {SEARCHED[data]}. The paper's numbers are for other features "
        "(MultiBench's word-level features, vision and text only), another split, and a subset defined by "
        "networks."
    )


def baseline_name(who: str) -> str:
    """The row of a baseline without a network."""
    names = {"frame": "frame size, without a model", "constant": "one answer for all"}
    return names.get(who, f"{who}, logistic regression")


def scheme_name(scheme: str) -> str:
    """The heading of a scheme."""
    return {OFFICIAL: "official split", INDEPENDENT: "other speakers", MULTIBENCH: "MultiBench's split"}[scheme]


def note(summary: Sequence[Row], methods: Sequence[str], repeats: tuple[int, str], shared_test: bool) -> str:
    """The size of the subset, unimodal accuracy on it, what n counts, and SynIB's leads with intervals.

    Args:
        summary: Rows of the summary for one scheme.
        methods: The compared methods.
        repeats: Number and name of the repeats behind the means.
        shared_test: Whether all repeats are tested on the same examples.
    """
    rows = {(row["method"], row["metric"]): row for row in summary if row["mean"] is not None}
    count, unit = repeats
    size = next(row["mean"] for (_, metric), row in rows.items() if metric == "subset_size")
    sentences = [
        "The subset contains the examples that all unimodal logistic regressions predict wrongly: "
        f"{size:.4g} examples on average."
    ]
    if size < ENOUGH:
        sentences.append(
            f"With fewer than {ENOUGH} examples, the margin of error of an accuracy near 1/2 is above ±0.1."
        )
    over = f"subset_accuracy_over_{CONTROL}"
    unimodal = [(rows[m, over]["mean"], m) for m in methods if m.startswith("unimodal-") and (m, over) in rows]
    if unimodal:
        sentences.append(
            "A unimodal network cannot use an interaction, but is {:+.3f} above the control here ({}): only "
            "accuracy above both is synergy.".format(*max(unimodal))
        )
    sentences.append(f"n counts {unit}s.")
    if shared_test and count > 1:
        sentences.append(
            f"All {unit}s are tested on the same examples: the standard error covers retraining but not other "
            "test examples."
        )
    words = {
        f"test_accuracy_over_{RIVAL}": "accuracy above vanilla fusion",
        f"subset_accuracy_over_{RIVAL}": "subset accuracy above vanilla fusion",
        over: "subset accuracy above the control",
    }
    sentences += lead_sentences(rows, methods, words, unit, None if shared_test else TEST_SHARE)
    return " ".join(sentences)


def chart(
    file: str, heading: str, summary: Sequence[Row], methods: Sequence[str], over: str, shared_test: bool
) -> Bars:
    """Accuracy, and the gain in subset accuracy over the control; see :func:`note` for ``shared_test``."""
    if not shared_test:
        summary = [{**row, **dict(zip(("low", "high"), _over_folds(row), strict=True))} for row in summary]
    rows: Mapping[tuple[str, str], Row] = {(row["method"], row["metric"]): row for row in summary}
    constant = rows[baseline_name("constant"), "test_accuracy"]["mean"]
    columns = {"accuracy": "test_accuracy", "subset accuracy above the control": f"subset_accuracy_over_{CONTROL}"}
    return Bars.of(
        file,
        heading,
        columns,
        summary,
        methods,
        chance=dict(zip(columns, (constant, 0.0), strict=True)),
        over=over,
        reading=(
            "Left: all test examples; chance is the better of the two constant predictions. Right: the "
            "synergy subset, examples that every unimodal logistic regression predicts wrongly. A model that "
            "merely disagrees with the regressions also scores there, so the bars show the gain over a "
            "control trained on modalities shuffled within each class. Unimodal networks also differ from the "
            "regressions: their gain here is not synergy either."
        ),
    )


def _over_folds(row: Row) -> tuple[float | None, float | None]:
    """The 95 % confidence interval of a mean over folds of one data set."""
    if row["se"] is None:
        return None, None
    return interval(row["mean"], row["se"], row["n"], test_share=TEST_SHARE)
