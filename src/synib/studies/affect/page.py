"""The words on the affect experiments' page: title and description, the note below a table, the figure."""

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
    "mosi": "Is what somebody says in a video positive?",
    "mustard": "Is a line of a TV show sarcastic?",
    "ur-funny": "Is the punchline of a talk funny?",
}
SPLITS = {
    "mosi": (
        "Models are tested on the official test videos. The 6 validation videos that the data name are not "
        "representative (35 % positive, 62 % at test), so each fifth of the training videos is the validation set "
        "once: five models for each method and seed, all tested on the same 31 videos. Text is a sentence vector of "
        "the transcript (MiniLM). Video is left out: the release's own text and video features look fitted to the "
        "labels of all training videos. A regression on the video features is right for 9 of 10 utterances in "
        "training videos that it has not seen, and for half of those at test, so no fold of the training videos could "
        "choose or calibrate anything."
    ),
    "mustard": (
        "There are two splits. In the five official folds the next fold is the validation set, and speakers are in "
        "all folds. In the speaker-independent split Friends is tested, and the speakers of the other shows take "
        "turns as validation set. The context of a line is left out. The clip's source predicts its label: one row of "
        "the table knows only the size and rate of the frames, and networks can see those in the video."
    ),
}
SEARCHED = {
    "mosi": "on the training videos",
    "mustard": "on the shows other than Friends; in the official folds, test examples of one fold validate another",
}
SUBSET = (
    "The synergy subset holds the examples that a logistic regression on each modality gets wrong. The control is "
    "vanilla fusion trained on modalities that were shuffled within each class, which removes their interaction. All "
    "methods start from the same weights."
)


def title(data: str, form: Form) -> str:
    """The page's title."""
    *others, last = MODALITIES[data, form]
    return f"{TASKS[data]} from {', '.join(others)} and {last}"


def about(data: str, form: Form) -> str:
    """Data, splits, subset, settings, and how far the paper's numbers can be compared."""
    if form == "sequences":
        return (
            f"{QUESTIONS[data]} MultiBench's features, word by word, its split and its network; the epoch with the "
            f"best validation accuracy is kept. {SUBSET} Settings were not searched: learning rates, and the weights "
            "of SynIB's masks, are those that the paper reports. The paper's subset is defined by networks."
        )
    return (
        f"{QUESTIONS[data]} {SPLITS[data]} {SUBSET} All methods had the same number of candidate settings, compared "
        f"on validation accuracy {SEARCHED[data]}. The paper's numbers are of other features (MultiBench's, word by "
        "word, vision and text only), of another split, and of a subset that networks define."
    )


def baseline_name(who: str) -> str:
    """The row of a baseline without a network."""
    names = {"frame": "frame size, without a model", "constant": "one answer for all"}
    return names.get(who, f"{who}, logistic regression")


def scheme_name(scheme: str) -> str:
    """The heading of a scheme."""
    return {OFFICIAL: "official split", INDEPENDENT: "other speakers", MULTIBENCH: "MultiBench's split"}[scheme]


def note(summary: Sequence[Row], methods: Sequence[str], repeats: tuple[int, str], shared_test: bool) -> str:
    """The size of the subset, what one modality reaches on it, what n counts, and SynIB's leads with intervals.

    Args:
        summary: Its rows of one scheme.
        methods: Those compared.
        repeats: Number and name of what the means are over.
        shared_test: Whether all of those are tested on the same examples.
    """
    rows = {(row["method"], row["metric"]): row for row in summary if row["mean"] is not None}
    count, unit = repeats
    size = next(row["mean"] for (_, metric), row in rows.items() if metric == "subset_size")
    sentences = [
        f"The subset holds what all logistic regressions on one modality get wrong: {size:.4g} examples on average."
    ]
    if size < ENOUGH:
        sentences.append(f"With fewer than {ENOUGH} examples an accuracy near 1/2 has a margin of error above ±0.1.")
    over = f"subset_accuracy_over_{CONTROL}"
    unimodal = [(rows[m, over]["mean"], m) for m in methods if m.startswith("unimodal-") and (m, over) in rows]
    if unimodal:
        sentences.append(
            "A unimodal network cannot use an interaction, and is {:+.3f} above the control here ({}): only what is above both "
            "is synergy.".format(*max(unimodal))
        )
    sentences.append(f"n counts {unit}s.")
    if shared_test and count > 1:
        sentences.append(
            f"All {unit}s are tested on the same examples: the standard error is that of training again and does not cover "
            "other test examples."
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
    """Accuracy, and beside it the subset accuracy above the control's; see :func:`note` for ``shared_test``."""
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
            "Left: all test examples; chance is the better of the two constant predictions. Right: the synergy "
            "subset, examples that no logistic regression on one modality gets right. A model that merely disagrees "
            "with the regressions scores there too, so the bars show how far a model exceeds a control trained on "
            "modalities shuffled within each class. Unimodal networks also differ from the regressions: what they "
            "reach here is no synergy either."
        ),
    )


def _over_folds(row: Row) -> tuple[float | None, float | None]:
    """The 95 % interval of a mean over folds of one data set."""
    if row["se"] is None:
        return None, None
    return interval(row["mean"], row["se"], row["n"], test_share=TEST_SHARE)
