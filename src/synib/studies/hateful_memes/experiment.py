"""Hateful Memes (Sec. "Real-world benchmarks"): CLIP and DeBERTa, and memes that neither image nor text alone decides."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import sqrt
from pathlib import Path
from typing import Any, ClassVar

from torch import nn

from synib.data import Dataset
from synib.measure import auc
from synib.models import FusionModel, memes_model
from synib.models.memes import TokenFusion, TokenHead
from synib.models.pretrained import Tune
from synib.objective import Categorical, Family
from synib.studies.aggregate import lead_sentences
from synib.studies.base import Row, option, settings_of
from synib.studies.candidates import own_values
from synib.studies.charts import Bars, Figure, Table
from synib.studies.control import CONTROL, REAL, RIVAL, Controlled, shuffled
from synib.studies.evaluation import predictions
from synib.studies.hateful_memes.data import ROWS, Prepared, prepared
from synib.studies.hateful_memes.files import HATEFUL_MEMES
from synib.tokens import Tokens
from synib.training import Cell, Learner

CLIP, DEBERTA = "openai/clip-vit-base-patch16", "microsoft/deberta-v3-base"
# settings.json: nothing was searched. The weights of SynIB's masks are those that the paper reports, other methods have the
# middle of their candidates. Masks act on the encoders' tokens, since noise cannot be mixed into bytes and token ids. MCR has
# no contrastive term, which compares latents coordinate by coordinate: a text has other tokens than a picture. ReconBoost's
# rounds take 10 epochs, so training ends with a rectification.
FULL_LR = 1e-5  # where all weights of the encoders train
# The paper's table: method → accuracy on the synergy subset, and on all test memes.
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
class HatefulMemes(Controlled):
    """Hateful Memes with CLIP and DeBERTa: accuracy on all memes, and on those that neither modality predicts alone."""

    name: ClassVar[str] = "hateful-memes"
    title: ClassVar[str] = "Hateful Memes: which methods are right where neither image nor text alone is enough?"
    about: ClassVar[str] = (
        "Memes of the Hateful Memes challenge: trained on train, selected on dev_unseen, tested on "
        "test_seen. CLIP encodes the image and DeBERTa the text; a transformer fuses their tokens. The "
        "encoders are frozen, unless stated otherwise, and each is followed by a trained projection. The "
        "epoch with the best validation accuracy is kept. The synergy subset contains the memes that two "
        "logistic regressions, one on the mean token of each pretrained encoder, both predict wrongly: "
        "the same memes for all methods. A model that merely disagrees with the regressions also scores "
        "there, so compare with the control: vanilla fusion trained on images and texts that were "
        "shuffled within each class. MCR is trained without its contrastive term, which is not defined "
        "between sequences of different lengths."
    )
    factors: ClassVar[tuple[str, ...]] = ("training",)
    averaged: ClassVar[tuple[str, ...]] = ("training",)
    family: ClassVar[Family] = Categorical()
    names: ClassVar[Mapping[str, str]] = {"test_accuracy_subset": "subset_accuracy"}
    of_model: ClassVar[tuple[str, ...]] = ("width", "layers", "heads", "rank", "dropout", "detach_heads")
    curves: ClassVar[bool] = False
    published: ClassVar[Mapping[str, tuple[float, float]]] = PAPER
    rivals: ClassVar[Mapping[str, Sequence[str]]] = {
        "test_accuracy": (RIVAL,), "auroc": (RIVAL,), "subset_accuracy": (CONTROL,),
    }  # fmt: skip
    chosen: ClassVar[Mapping[str, dict[str, Any]]] = settings_of(__package__)["hateful-memes"]
    # 18 candidates for every method.
    tried: ClassVar[Mapping[str, Sequence[Any]]] = {"lr": (3e-5, 1e-4, 3e-4), "dropout": (0.1, 0.3)}
    own: ClassVar[Mapping[str, Any]] = own_values(
        ("image", "text"),
        weight=(0.01, 0.1, 1.0),
        experts_weight=(0.1, 1.0, 10.0),
        p=(0.1, 0.3, 0.5),
        weight_decay=(1e-6, 1e-5, 1e-4),
    )
    quick: ClassVar[Mapping[str, Any]] = {"seeds": 1, "methods": ("vanilla", "confidence", "synib-random")}

    methods: tuple[str, ...] = tuple(own)
    root: str = option("", "Folder of the data; $SYNIB_DATA by default.")
    vision: str = option(CLIP, "CLIP's vision model: a folder, or an id in the transformers cache.")
    text: str = option(DEBERTA, "The DeBERTa model, with its tokenizer: a folder, or an id in the transformers cache.")
    tune: Tune = option("frozen", "frozen (tokens are computed once), lora or full.")
    longest: int = option(128, "Maximum number of tokens of a text.")
    cache: str = option("", "Folder for decoded images and computed tokens; synib-cache next to the data by default.")
    skip_broken: bool = option(False, "Skip memes whose images are missing or broken.")

    def defaults(self) -> dict[str, dict[str, Any]]:
        return {m: own | {"lr": FULL_LR} if self.tune == "full" else own for m, own in self.chosen.items()}

    def points(self) -> list[dict[str, Any]]:
        return [{"training": REAL}]

    def fixed(self) -> dict[str, Any]:
        """What the data depend on. Folders are represented by their names alone, which are the same on another machine."""
        encoders = {"vision": Path(self.vision).name, "text": Path(self.text).name}
        return {"data": {**encoders, "tune": self.tune, "longest": self.longest}}

    @property
    def caution(self) -> str:
        sentences = []
        if (self.vision, self.text) != (CLIP, DEBERTA):
            sentences.append(f"The encoders are {Path(self.vision).name} and {Path(self.text).name}.")
        if self.tune != "frozen":
            trained = "their LoRA updates are trained" if self.tune == "lora" else "all their weights are trained"
            sentences.append(f"The encoders are not frozen: {trained}.")
        return " ".join(sentences)

    def data(self, cell: Cell) -> Dataset:
        data = self._memes().data
        if cell.factors["training"] == REAL:
            return data
        return replace(data, train=shuffled(data.train, cell.seed), validation=shuffled(data.validation, cell.seed))

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
        """AUROC of the hateful memes at test, and the sizes that the page states."""
        if data.test is None:
            return {}
        hateful = predictions(learner, data.test.modalities, ROWS).double().log_softmax(1)[:, 1]
        return {"auroc": auc(hateful, data.test.target == 1), **self._memes().sizes}

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
        return [Table.of_metrics("at test", columns, summary, self._rows_of_page(), note=note)]

    def _rows_of_page(self) -> list[str]:
        return [*self.methods, *([CONTROL] if RIVAL in self.methods else [])]

    def _note(self, rows: Mapping[tuple[str, str], Row]) -> str:
        """The size of the subset, what n counts, what was excluded, and SynIB's leads with confidence intervals."""
        means = {metric: row["mean"] for (_, metric), row in rows.items() if not metric.startswith("test_")}
        size, tested = means["subset_size"], means["memes_tested"]
        sentences = [f"The synergy subset has {size:g} of {tested:g} memes."]
        if size:
            sentences.append(
                f"With so few, the margin of error of an accuracy near 1/2 is ±{1.96 * sqrt(0.25 / size):.3f}."
            )
        sentences.append(
            "n counts seeds, all tested on the same memes: the standard error covers retraining but not other "
            "test memes."
        )
        if means["memes_skipped"]:
            sentences.append(f"{means['memes_skipped']:g} memes without a readable image were excluded.")
        if means["texts_cut"]:
            sentences.append(f"{means['texts_cut']:g} texts were longer than {self.longest} tokens and were truncated.")
        words = {
            f"test_accuracy_over_{RIVAL}": "accuracy above vanilla fusion",
            f"subset_accuracy_over_{CONTROL}": "subset accuracy above the control",
        }
        sentences += lead_sentences(rows, self.methods, words, "seed")
        return " ".join(sentences)

    def charts(self, summary: Sequence[Row], curves: Sequence[Row]) -> list[Figure]:
        return [
            Bars.of(
                file="figure",
                title="Hateful Memes: accuracy on the synergy subset, and on all test memes",
                columns={"synergy subset": "subset_accuracy", "all test memes": "test_accuracy"},
                summary=summary,
                who=self._rows_of_page(),
                spread="error",
                reading=(
                    "Left: the synergy subset, memes that no unimodal regression predicts correctly. The control, "
                    "trained on images and texts shuffled within each class, shows what mere disagreement with the "
                    "regressions achieves there. Right: all test memes. Error bars are standard errors over "
                    f"{self.seeds} seed{'s' * (self.seeds != 1)}, all tested on the same memes: they do not cover "
                    "other test memes. The paper's subset comes from other unimodal models, so its marks on the left "
                    "refer to other memes."
                ),
            )
        ]


class Projection(nn.Module):
    """A trained projection of a frozen encoder's tokens.

    Args:
        width, new_width: Width of a token, before and after.
    """

    def __init__(self, width: int, new_width: int) -> None:
        super().__init__()
        self.norm, self.map = nn.LayerNorm(width), nn.Linear(width, new_width)

    def forward(self, x: Tokens) -> Tokens:
        return Tokens(self.map(self.norm(x.values.to(self.map.weight.dtype))), x.padding)
