"""What affect's page says: its words, the note below a table, its figure."""

from collections.abc import Mapping, Sequence

from synib.measure.subset import ENOUGH
from synib.studies.affect.data import INDEPENDENT, MULTIBENCH, OFFICIAL, Form
from synib.studies.affect.settings import MODALITIES
from synib.studies.base import Row, describe_leads
from synib.studies.charts import Bars

RIVAL, CONTROL = "vanilla", "control"
OURS = ("synib", "experts")  # how SynIB's forms are called, to begin with
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
ASKED = {
    "mosi": "Is what somebody says in a video positive?",
    "mustard": "Is a line of a TV show sarcastic?",
    "ur-funny": "Is the punchline of a talk funny?",
}
SPLITS = {
    "mosi": (
        "The official test videos are tested. The 6 validation videos that the data name are not representative (35 % "
        "positive, in test 62 %), so fifths of the training videos take turns as validation: five models for each method and "
        "seed, all tested on the same 31 videos. Text is a sentence vector of the transcript (MiniLM), and there is no video, "
        "because the release's own numbers of both look fitted to the labels of all training videos: a regression on its video "
        "is right for 9 of 10 utterances in training videos that it has not seen, and for half of those at test, so no fold of "
        "the training videos could choose or calibrate anything."
    ),
    "mustard": (
        "Twice: the five official folds, where the next fold validates and speakers are in all of them; and with other "
        "speakers at test: Friends is tested, and speakers of the other shows take turns as validation. The line's context is "
        "left out. Where a clip was cut from predicts its label: a row of the table knows nothing but the size and rate of the "
        "frames, and networks can see those in the video."
    ),
}
SEARCHED = {
    "mosi": "on the training videos",
    "mustard": "on the shows other than Friends; of the official folds, test examples of one validate another",
}
SUBSET = (
    "The synergy subset holds what a logistic regression on each modality gets wrong; the control is vanilla fusion trained on "
    "modalities that were shuffled within each class, so that they tell nothing together. All methods start from the same "
    "weights."
)


def title(data: str, form: Form) -> str:
    """What the page is called."""
    *others, last = MODALITIES[data, form]
    return f"{TASKS[data]} from {', '.join(others)} and {last}"


def about(data: str, form: Form) -> str:
    """What was done, whose settings were used, and how far the paper's numbers can be compared."""
    if form == "sequences":
        how = (
            "MultiBench's features, word by word, its split and its network; the epoch of the best "
            "validation accuracy counts."
        )
        settings = (
            "Settings were not searched: learning rates, and for SynIB's masks weights, are those that the "
            "paper reports."
        )
        return f"{ASKED[data]} {how} {SUBSET} {settings} The paper's subset is one that networks define."
    settings = (
        f"All methods had the same number of candidate settings, compared on validation accuracy {SEARCHED[data]}."
    )
    paper = (
        "The paper's numbers are of other features (MultiBench's, word by word, vision and text only), of another split, and "
        "of a subset that networks define."
    )
    return f"{ASKED[data]} {SPLITS[data]} {SUBSET} {settings} {paper}"


def without_network(who: str) -> str:
    """What tables call what was reached without a network."""
    named = {"frame": "frame size, without a model", "constant": "one answer for all"}
    return named.get(who, f"{who}, logistic regression")


def words(scheme: str) -> str:
    """What tables call a scheme."""
    return {OFFICIAL: "official split", INDEPENDENT: "other speakers", MULTIBENCH: "MultiBench's split"}[scheme]


def note(rows: Sequence[Row], methods: Sequence[str], repeats: tuple[int, str], shared: bool) -> str:
    """How large the subset is, how far one modality gets on it, what n counts, and SynIB's leads with intervals.

    Args:
        rows: Of the summary, of one scheme.
        methods: Those compared.
        repeats: How many of what the means are over.
        shared: Whether all of those are tested on the same examples.
    """
    found = {(row["method"], row["metric"]): row for row in rows if row["mean"] is not None}
    count, what = repeats
    size = next(row["mean"] for (_, metric), row in found.items() if metric == "subset_size")
    said = [f"The subset is what all logistic regressions on one modality get wrong, {size:.4g} examples in the mean."]
    if size < ENOUGH:
        said.append(f"On fewer than {ENOUGH} an accuracy near 1/2 is known only to worse than ±.1.")
    over = f"subset_accuracy_over_{CONTROL}"
    alone = [(found[m, over]["mean"], m) for m in methods if m.startswith("unimodal-") and (m, over) in found]
    if alone:
        said.append(
            "A network on one modality knows nothing of the others, and is {:+.3f} above the control here ({}): what is not "
            "above both is no synergy.".format(*max(alone))
        )
    said.append(f"n counts {what}s.")
    if shared and count > 1:
        said.append(
            f"All {what}s are tested on the same examples: the spread is that of training again, and says nothing about other "
            "test examples."
        )
    ours = [m for m in methods if m.startswith(OURS)]
    for metric, than in (
        (f"test_accuracy_over_{RIVAL}", "accuracy above vanilla fusion"),
        (f"subset_accuracy_over_{RIVAL}", "subset accuracy above vanilla fusion"),
        (over, "subset accuracy above the control"),
    ):
        above = describe_leads({m: found.get((m, metric)) for m in ours})
        if above:
            said.append(f"SynIB's {than}, {what} by {what}, with 95 % intervals (Student's t): {', '.join(above)}.")
    return " ".join(said)


def chart(file: str, head: str, rows: Sequence[Row], methods: Sequence[str], over: str) -> Bars:
    """Accuracy, and beside it what exceeds the control on the subset."""
    found: Mapping[tuple[str, str], Row] = {(row["method"], row["metric"]): row for row in rows}
    constant = found[without_network("constant"), "test_accuracy"]["mean"]
    columns = {"accuracy": "test_accuracy", "subset accuracy above the control": f"subset_accuracy_over_{CONTROL}"}
    return Bars.of(
        file,
        head,
        columns,
        rows,
        methods,
        chance=dict(zip(columns, (constant, 0.0), strict=True)),
        over=over,
        reading=(
            "Left: all test examples; chance is the better of the two constant answers. Right: examples that no modality tells "
            "alone, by logistic regressions; a model that merely disagrees with those scores there too, so what is shown is "
            "what exceeds a control that was trained on modalities shuffled within each class. Networks on one modality differ "
            "from the regressions too: what they reach here is no synergy either."
        ),
    )
