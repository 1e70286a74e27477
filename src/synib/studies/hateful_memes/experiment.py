"""Hateful Memes (Sec. "Real-world benchmarks"): CLIP, DeBERTa, and who is right where neither tells alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from synib.data import Dataset, Split
from synib.measure import auc, shuffle_within_class
from synib.models import FusionModel, memes_model
from synib.models.memes import TokenFusion, TokenHead
from synib.models.pretrained import Tune
from synib.objective import Categorical, Family
from synib.studies.base import Experiment, Row, describe_leads, grid, leads, option
from synib.studies.charts import Bars, Figure, Table
from synib.studies.hateful_memes.data import ROWS, Prepared, prepared
from synib.studies.hateful_memes.files import HATEFUL_MEMES
from synib.tokens import Tokens, take, values
from synib.training import Cell, Learner

RIVAL, CONTROL = "vanilla", "control"
REAL, SHUFFLED = "real", "shuffled"  # what a model was trained on
OURS = ("synib", "experts")  # how SynIB's forms are called, to begin with
CLIP, DEBERTA = "openai/clip-vit-base-patch16", "microsoft/deberta-v3-base"

COMMON: dict[str, Any] = {
    "lr": 1e-4, "weight_decay": 1e-5, "epochs": 20, "batch_size": 64, "unimodal_weight": 1.0, "warmup": 100,
    "schedule": "cosine", "patience": 5, "select": "best", "width": 512, "layers": 2, "heads": 8, "rank": 8, "dropout": 0.1,
    "detach_heads": False,
}  # fmt: skip
# What is each method's own, and the three values of it that a search tries; those without any search the weight decay.
DECAYS: dict[str, Sequence[Any]] = {"weight_decay": (1e-6, 1e-5, 1e-4)}
OWN: dict[str, dict[str, Sequence[Any]]] = {
    "unimodal-image": DECAYS,
    "unimodal-text": DECAYS,
    "ensemble": DECAYS,
    "vanilla": DECAYS,
    "masked-random": {"p": (0.1, 0.3, 0.5)},
    "confidence": {"weight": (0.01, 0.1, 1.0)},
    "ogm": {"alpha": (0.1, 0.3, 1.0)},
    "agm": {"alpha": (0.3, 1.0, 3.0)},
    "dnr": {"strength": (1.0, 3.0, 10.0)},
    "mmpareto": {"unimodal_weight": (1.0, 0.3, 0.1)},
    "reconboost": {"reconcile": (0.1, 0.3, 1.0)},
    "mcr": {"game": (0.01, 0.1, 1.0)},
    "synib-random": {"weight": (0.01, 0.1, 1.0)},
    "synib-learned": {"weight": (0.01, 0.1, 1.0)},
    "synib-marginal": {"weight": (0.01, 0.1, 1.0)},
    "experts": {"weight": (0.1, 1.0, 10.0)},
}
# Masks act on the encoders' tokens: bytes and token ids are nothing that noise could be mixed into.
FIXED: dict[str, dict[str, Any]] = {
    "masked-random": {"noise": "shuffled"},
    "dnr": {"every": 5},
    "mcr": {"contrast": 0.0},  # it compares latents number by number, and a text has other tokens than a picture
    "reconboost": {"stage": 4, "rectify": 2},  # rounds of 10 epochs: training ends with the rectification of one
    "synib-random": {"p": 0.3, "noise": "shuffled", "space": "latents"},
    "synib-learned": {"steps": 4, "mask_lr": 0.5, "sparsity": 0.1, "noise": "shuffled", "space": "latents"},
    "synib-marginal": {"draws": 4},
    "experts": {"draws": 4},
}
# Not searched: what the paper's authors report for their forms of SynIB, else the middle of the candidates.
REPORTED: dict[str, dict[str, Any]] = {"synib-random": {"weight": 0.01}, "synib-learned": {"weight": 0.01}}
# The paper's table: method → accuracy on the synergy subset, and of all.
PAPER: dict[str, tuple[float, float]] = {
    "ensemble": (0.296, 0.552),
    "vanilla": (0.338, 0.664),
    "dnr": (0.421, 0.672),
    "mmpareto": (0.424, 0.680),
    "reconboost": (0.423, 0.669),
    "mcr": (0.459, 0.687),
    "synib-random": (0.489, 0.698),
    "synib-learned": (0.470, 0.690),
}


@dataclass(frozen=True)
class HatefulMemes(Experiment):
    """Hateful Memes with CLIP and DeBERTa: who is right, and who where neither picture nor text tells alone?"""

    name: ClassVar[str] = "hateful-memes"
    title: ClassVar[str] = "Hateful Memes: who is right where neither the picture nor the text tells alone?"
    about: ClassVar[str] = (
        "Memes of the Hateful Memes challenge: trained on train, selected on dev_unseen, tested on test_seen. CLIP reads the "
        "picture and DeBERTa the text; a transformer fuses their tokens. With frozen encoders, as here unless it is said "
        "otherwise, each ends in a projection that trains. The epoch with the best validation accuracy counts. The synergy "
        "subset is what logistic regressions on the mean token of either encoder, as it came, both get wrong: the same memes "
        "for all methods. A model that merely disagrees with those scores there too, so what counts is what exceeds a "
        "control: vanilla fusion trained on pictures and texts that were shuffled within each class. MCR is without its "
        "contrastive term, which is not defined between sequences of different lengths."
    )
    factors: ClassVar[tuple[str, ...]] = ("training",)
    family: ClassVar[Family] = Categorical()
    names: ClassVar[Mapping[str, str]] = {"test_accuracy_subset": "subset_accuracy"}
    of_model: ClassVar[tuple[str, ...]] = ("width", "layers", "heads", "rank", "dropout", "detach_heads")
    curves: ClassVar[bool] = False
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "methods": ("vanilla", "confidence", "synib-random")}

    methods: tuple[str, ...] = tuple(OWN)
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")
    vision: str = option(CLIP, "CLIP's vision model: a folder, or an id in transformers' cache.")
    text: str = option(DEBERTA, "The DeBERTa model, with its tokenizer: a folder, or an id in transformers' cache.")
    tune: Tune = option("frozen", "frozen (tokens are computed once), lora or full.")
    longest: int = option(128, "The most tokens of a text.")
    cache: str = option("", "Folder for decoded pictures and computed tokens; synib-cache beside the data by default.")
    skip_broken: bool = option(False, "Leave out memes whose pictures are missing or broken.")

    def defaults(self) -> dict[str, dict[str, Any]]:
        common = COMMON | ({"lr": 1e-5} if self.tune == "full" else {})
        middle = {m: {name: tried[1] for name, tried in own.items()} for m, own in OWN.items()}
        return {m: common | FIXED.get(m, {}) | middle[m] | REPORTED.get(m, {}) for m in OWN}

    def candidates(self) -> dict[str, list[dict[str, Any]]]:
        """18 for every method: three learning rates, two dropout rates, three values of what is its own."""
        return {m: grid(lr=(3e-5, 1e-4, 3e-4), dropout=(0.1, 0.3), **own) for m, own in OWN.items()}

    def points(self) -> list[dict[str, Any]]:
        return [{"training": REAL}]

    def searched_at(self) -> dict[str, Any]:
        return self.points()[0]

    def fixed(self) -> dict[str, Any]:
        """What decides the data of all; folders by their names alone, which are the same elsewhere."""
        encoders = {"vision": Path(self.vision).name, "text": Path(self.text).name}
        return {"data": {**encoders, "tune": self.tune, "longest": self.longest}}

    def described(self) -> dict[str, Mapping[str, Any]]:
        return {m: {k: v for k, v in given.items() if k != "data"} for m, given in super().described().items()}

    def cells(self) -> list[Cell]:
        """Every method; and beside vanilla fusion its control, trained on what tells nothing together."""
        settings, fixed = self.settings(), self.fixed()
        return [
            Cell(self.name, method, {"training": training}, settings[method] | fixed, seed)
            for method in self.methods
            for training in ((REAL, SHUFFLED) if method == RIVAL else (REAL,))
            for seed in range(self.seeds)
        ]

    @property
    def caution(self) -> str:
        said = []
        if (self.vision, self.text) != (CLIP, DEBERTA):
            said.append(f"The encoders are {Path(self.vision).name} and {Path(self.text).name}.")
        if self.tune != "frozen":
            words = "LoRA's updates of them train" if self.tune == "lora" else "they train"
            said.append(f"Encoders are not frozen: {words}.")
        return " ".join(said)

    def data(self, cell: Cell) -> Dataset:
        data = self._memes().data
        if cell.factors["training"] == REAL:
            return data
        return replace(data, train=_shuffled(data.train, cell.seed), validation=_shuffled(data.validation, cell.seed))

    def _memes(self) -> Prepared:
        folder = str(HATEFUL_MEMES.find(self.root or None))
        return prepared(folder, self.vision, self.text, self.tune, self.longest, self.cache, self.skip_broken)

    def model(self, cell: Cell, data: Dataset) -> FusionModel:
        s = cell.settings
        of_fusion = {name: s[name] for name in ("width", "layers", "heads", "dropout")}
        if self.tune != "frozen":
            model = memes_model(self.vision, self.text, tune=self.tune, rank=s["rank"], **of_fusion)
            model.detach_heads = s["detach_heads"]
            return model
        encoders = {name: Projection(n, s["width"]) for name, n in data.widths.items()}
        widths = dict.fromkeys(encoders, s["width"])
        heads = {name: TokenHead(n, 2) for name, n in widths.items()}
        return FusionModel(encoders, TokenFusion(widths, 2, **of_fusion), heads, s["detach_heads"])

    def examine(self, cell: Cell, learner: Learner, data: Dataset) -> dict[str, float]:
        """How well hateful memes are ranked at test, and what the numbers are of."""
        if data.test is None:
            return {}
        hateful = _log_probabilities(learner, data.test.modalities)[:, 1]
        return {"auroc": auc(hateful, data.test.target == 1), **self._memes().known}

    def summary(self, results: Sequence[Row]) -> list[Row]:
        """The control is a method of its own there."""
        return super().summary(
            [{**row, "method": CONTROL if row["training"] == SHUFFLED else row["method"]} for row in results]
        )

    def beyond(self, results: Sequence[Row]) -> list[Row]:
        """How far a method is above vanilla fusion, and on the synergy subset above the control, seed by seed."""
        return [
            self.row(method, self.points()[0], f"{metric}_over_{rival}", gains)
            for metric, rival in (("test_accuracy", RIVAL), ("auroc", RIVAL), ("subset_accuracy", CONTROL))
            for method, gains in leads(results, metric, rival).items()
            if gains and method != CONTROL
        ]

    def paper(self, method: str, factors: Mapping[str, Any], metric: str) -> float | None:
        if method not in PAPER or metric not in ("subset_accuracy", "test_accuracy"):
            return None
        return PAPER[method][metric == "test_accuracy"]

    def tables(self, summary: Sequence[Row]) -> list[Table]:
        columns = {
            "accuracy": "test_accuracy",
            "above vanilla": f"test_accuracy_over_{RIVAL}",
            "AUROC": "auroc",
            "AUROC above vanilla": f"auroc_over_{RIVAL}",
            "synergy subset": "subset_accuracy",
            "subset above control": f"subset_accuracy_over_{CONTROL}",
        }
        note = self._note({(r["method"], r["metric"]): r for r in summary})
        return [Table.of_metrics("at test", columns, summary, self._who(), note=note)]

    def _who(self) -> list[str]:
        return [*self.methods, *([CONTROL] if RIVAL in self.methods else [])]

    def _note(self, found: Mapping[tuple[str, str], Row]) -> str:
        """How large the subset is, what n counts, what was left out, and SynIB's leads with intervals."""
        known = {metric: row["mean"] for (_, metric), row in found.items() if not metric.startswith("test_")}
        size, tested = known["subset_size"], known["memes_tested"]
        said = [f"The synergy subset has {size:g} of {tested:g} memes."]
        if size:
            said.append(f"On so few an accuracy near 1/2 is known to ±{1.96 * sqrt(0.25 / size):.3f} at best.")
        said.append(
            "n counts seeds, all tested on the same memes: the spread is that of training again, and says nothing about others."
        )
        if known["memes_skipped"]:
            said.append(f"{known['memes_skipped']:g} memes without a readable picture were left out.")
        if known["texts_cut"]:
            said.append(f"{known['texts_cut']:g} texts were longer than {self.longest} tokens and were cut.")
        for metric, words in (
            (f"test_accuracy_over_{RIVAL}", "accuracy above vanilla fusion"),
            (f"subset_accuracy_over_{CONTROL}", "subset accuracy above the control"),
        ):
            above = describe_leads({m: found.get((m, metric)) for m in self.methods if m.startswith(OURS)})
            said += [f"SynIB's {words}, seed by seed, with 95 % intervals (Student's t): {', '.join(above)}."] * bool(
                above
            )
        return " ".join(said)

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return [
            Bars.of(
                file="figure",
                title="Hateful Memes: accuracy where neither modality tells alone, and of all",
                columns={"synergy subset": "subset_accuracy", "all test memes": "test_accuracy"},
                summary=summary,
                who=self._who(),
                spread="error",
                reading=(
                    "Left, the memes that no modality tells alone; the control, trained on pictures and texts shuffled within "
                    "each class, shows what mere disagreement with one modality reaches there. Right, all test memes. Lines "
                    f"are standard errors over {self.seeds} seed{'s' * (self.seeds != 1)}, all tested on the same memes: they "
                    "say nothing about other memes. The paper's subset comes from other unimodal models, so its marks on the "
                    "left are of other memes."
                ),
            )
        ]


class Projection(nn.Module):
    """The end of a frozen encoder, which trains: its tokens, given, to those of another width.

    Args:
        given, width: Of a token, before and after.
    """

    def __init__(self, given: int, width: int) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(given), nn.Linear(given, width)

    def forward(self, x: Tokens) -> Tokens:
        return Tokens(self.map(self.norm(x.values.to(self.map.weight.dtype))), x.padding)


def _shuffled(split: Split, seed: int) -> Split:
    return replace(split, modalities=shuffle_within_class(split.modalities, split.target, seed))


def _log_probabilities(learner: Learner, modalities: Mapping[str, Any]) -> Tensor:
    n = len(values(next(iter(modalities.values()))))
    with torch.no_grad():
        pieces = [
            learner.method.predict(learner.model, {m: take(x, slice(at, at + ROWS)) for m, x in modalities.items()})
            for at in range(0, n, ROWS)
        ]
    return torch.cat(pieces).double().log_softmax(1)
