"""Draws the pictures of docs/idea.md, and writes every number in them to docs/idea.csv: ``python docs/pictures.py``."""

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from synib import Bernoulli, FusionModel
from synib.data import Dataset, Split
from synib.measure import interaction_gain
from synib.measure.stats import proportion, statistics
from synib.methods import build
from synib.models import spurious_xor_model
from synib.objective import Objective
from synib.report.draw import SETTINGS as DRAWING
from synib.report.styles import style
from synib.studies.spurious_xor.data import spurious_xor
from synib.studies.spurious_xor.experiment import SETTINGS
from synib.tokens import values
from synib.training.folder import write_csv
from synib.training.loop import fit

Numbers = NDArray[np.float64]
Row = dict[str, Any]

HERE = Path(__file__).parent
SEEDS, BETA, EPOCHS = 10, 0.8, 100
METHODS = {"vanilla": "plain training", "synib-marginal": "SynIB"}
CLASSES = {"0": "#2b6cc4", "1": "#e07b39"}
KINDS = {
    "redundant": "redundant: both say the same",
    "pooling": "pooling: two noisy views",
    "synergy": "synergy: only both tell",
}
QUIET = {"color": "#5f6672", "fontsize": 9}


def draw(kind: str, n: int, seed: int) -> tuple[Numbers, Numbers, NDArray[np.int64], dict[str, Numbers]]:
    """Two modalities of one number each, a label, and the log-odds that Bayes' rule gives each of them and both."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(2, n))
    bits = rng.integers(0, 2, (2, n))
    sign = 2.0 * bits - 1
    if kind == "synergy":
        x1, x2 = sign + 0.35 * noise
        one, two = np.tanh(x1 / 0.35**2), np.tanh(x2 / 0.35**2)  # how sure one is of a bit, from -1 to 1
        return x1, x2, bits[0] ^ bits[1], {"x1": np.zeros(n), "x2": np.zeros(n), "both": -one * two}
    if kind == "pooling":
        x1, x2 = sign[0] + noise
        return x1, x2, bits[0], {"x1": 2 * x1, "x2": 2 * x2, "both": 2 * (x1 + x2)}
    x1 = sign[0] + 0.7 * noise[0]
    x2 = x1 + 0.1 * noise[1]
    return x1, x2, bits[0], {"x1": x1, "x2": x2, "both": x1}


def what_synergy_is(rows: list[Row]) -> Figure:
    """Each modality's histogram beside the plane of both, for three kinds of data."""
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    for part, (kind, words) in zip(_parts(figure), KINDS.items(), strict=True):
        x1, x2, y, odds = draw(kind, 2000, seed=0)
        told = {name: float(((o > 0) == y).mean()) if o.any() else 0.5 for name, o in odds.items()}
        rows += [_row("what", kind, f"accuracy from {name}", value, n=len(y)) for name, value in told.items()]
        grid = part.add_gridspec(2, 2, width_ratios=(4, 1), height_ratios=(1, 4), wspace=0.02, hspace=0.02)
        plane = part.add_subplot(grid[1, 0])
        above, beside = part.add_subplot(grid[0, 0], sharex=plane), part.add_subplot(grid[1, 1], sharey=plane)
        for label, colour in CLASSES.items():
            of = y == int(label)
            plane.scatter(x1[of][:300], x2[of][:300], s=7, color=colour, linewidth=0, alpha=0.75)
            bins = np.linspace(-3.2, 3.2, 33)
            above.hist(x1[of], bins, color=colour, alpha=0.5)
            beside.hist(x2[of], bins, color=colour, alpha=0.5, orientation="horizontal")
        plane.set(xlim=(-3.2, 3.2), ylim=(-3.2, 3.2), xlabel="x₁", ylabel="x₂", xticks=[], yticks=[])
        for axes in (above, beside):
            axes.axis("off")
        plane.spines[["top", "right"]].set_visible(False)
        part.suptitle(words, fontsize=10, fontweight="bold")
        part.supxlabel(f"x₁ tells {told['x1']:.2f}   x₂ tells {told['x2']:.2f}   both {told['both']:.2f}", **QUIET)
    return figure


def train(method: str, seed: int, rows: list[Row]) -> tuple[Objective, FusionModel, Dataset]:
    """Spurious XOR with the settings of ``synib reproduce spurious-xor``, and its accuracies after every epoch."""
    data = spurious_xor(BETA, seed, validation=1000, test=1000)
    settings = dict(SETTINGS[method])
    how = {name: settings.pop(name) for name in ("lr", "weight_decay", "batch_size")}
    settings.pop("epochs")
    torch.manual_seed(seed)
    model = spurious_xor_model(data.widths)
    objective = build(method, family=Bernoulli(), **settings)

    @torch.no_grad()
    def look(epoch: int) -> None:
        for split, words in ((data.validation, "shortcut there"), (data.test, "shortcut gone")):
            assert split is not None
            right = ((model(split.modalities)[:, 0] > 0) == split.target).double().mean()
            rows.append({"method": method, "seed": seed, "epoch": epoch + 1, "split": words, "accuracy": float(right)})

    fit(objective, model, data, epochs=EPOCHS, seed=seed, on_epoch=look, **how)
    return objective, model, data


def why_it_is_missed(curves: list[Row], data: Dataset, rows: list[Row]) -> Figure:
    """The shortcut, and accuracy over training with it and without it."""
    figure = Figure(figsize=(8.6, 3.0), layout="constrained")
    shortcut, *over = figure.subplots(1, 3)
    block = data.blocks["x1"]["shortcut"]
    seen = values(data.train.modalities["x1"])[:, block.start : block.stop].mean(1).numpy()
    for label, colour in CLASSES.items():
        of = data.train.target.numpy() == int(label)
        shortcut.hist(seen[of], np.linspace(-2.5, 2.5, 31), color=colour, alpha=0.6, label=f"label {label}")
    told = float(((seen > 0) == data.train.target.numpy()).mean())
    rows.append(_row("why", "spurious-xor", "training accuracy from the shortcut alone", told, n=len(seen)))
    shortcut.set(xlabel="mean of the shortcut's numbers in x₁", ylabel="training examples")
    shortcut.set_title(f"shortcut: alone right in {told:.2f}", **_TITLE)
    shortcut.legend(frameon=False, fontsize=9)
    for axes, (method, words) in zip(over, METHODS.items(), strict=True):
        for split, dashes in (("shortcut there", (3, 1.5)), ("shortcut gone", ())):
            mine = [r for r in curves if (r["method"], r["split"]) == (method, split)]
            each = np.array([[r["accuracy"] for r in mine if r["seed"] == s] for s in range(SEEDS)])
            epochs = np.arange(1, each.shape[1] + 1)
            axes.plot(epochs, each.T, color=style(method)["color"], alpha=0.2, linewidth=0.8)
            axes.plot(epochs, each.mean(0), color=style(method)["color"], linewidth=2.2, dashes=dashes, label=split)
            rows.append(_row("why", method, f"accuracy, {split}", **_spread(each[:, -1])))
        axes.set(xlabel="epoch", ylim=(0.4, 1.03))
        axes.axhline(0.5, color="#c5c8ce", linewidth=1, linestyle=":", zorder=0)
        axes.set_title(words, **_TITLE)
        axes.legend(frameon=False, fontsize=9, loc="center right")
    over[0].set_ylabel("accuracy")
    _open(shortcut, *over)
    return figure


@torch.no_grad()
def sureness(model: FusionModel, data: Dataset, swapped: str | None, draws: int = 64) -> Numbers:
    """Probability of the right answer; with a modality replaced by other examples', the average over those."""
    x, y = data.validation.modalities, data.validation.target
    found = torch.zeros(len(y))
    for shift in range(1, draws + 1):
        seen = {name: values(v).roll(shift, 0) if name == swapped else v for name, v in x.items()}
        found += torch.sigmoid(model(seen)[:, 0]) / draws
    return torch.where(y == 1, found, 1 - found).double().numpy()


def what_synib_does(models: dict[str, list[tuple[FusionModel, Dataset]]], rows: list[Row]) -> Figure:
    """Probability of the right answer, intact and with a modality of other examples, for both ways to train."""
    figure = Figure(figsize=(8.6, 3.6), layout="constrained")
    places = figure.subplots(2, 3, sharex=True, sharey=True)
    shown = {None: "intact", "x2": "x₂ is other examples'", "x1": "x₁ is other examples'"}
    for line, (method, words) in zip(places, METHODS.items(), strict=True):
        for axes, (swapped, title) in zip(line, shown.items(), strict=True):
            sure = np.stack([sureness(model, data, swapped) for model, data in models[method]])
            share = np.full(sure.size, 1 / sure.size)
            axes.hist(sure.ravel(), np.linspace(0, 1, 26), weights=share, color=style(method)["color"])
            axes.axvline(0.5, color="#c5c8ce", linewidth=1, linestyle=":", zorder=0)
            what = "intact" if swapped is None else f"{swapped} swapped"
            rows.append(_row("does", method, f"probability of the right answer, {what}", **_spread(sure.mean(1))))
            axes.text(0.03, 0.86, f"mean {sure.mean():.2f}", transform=axes.transAxes, **QUIET)
            if method == "vanilla":
                axes.set_title(title, **_TITLE)
        line[0].set_ylabel(f"{words}\nshare of examples")
    for axes in places[-1]:
        axes.set(xlabel="probability of the right answer")
    _open(*places.ravel())
    return figure


def how_one_finds_out(rows: list[Row]) -> Figure:
    """What each modality reaches alone, what adding up reaches, and what a network of both reaches."""
    figure = Figure(figsize=(8.6, 2.9), layout="constrained")
    for axes, (kind, words) in zip(figure.subplots(1, 3, sharey=True), KINDS.items(), strict=True):
        data = Dataset(_split(kind, 1), _split(kind, 2), _split(kind, 3))
        said = {name: _logits(name, data) for name in ("unimodal-x1", "unimodal-x2", "vanilla")}
        assert data.test is not None
        check, y = data.validation.target.numpy(), data.test.target.numpy()
        before, alone = ({name: said[name][at] for name in said if name != "vanilla"} for at in (0, 1))
        fusion = said["vanilla"]
        gain = interaction_gain(alone, fusion[1], y, calibration=(before, fusion[0], check))
        best = max(alone, key=lambda name: float(((before[name] > 0) == check).mean()))
        points = {
            "best alone": proportion(((alone[best] > 0) == y).astype(float)),
            "added up": gain.additive_accuracy,
            "fusion": gain.fusion_accuracy,
        }
        rows += [_row("finds", kind, name, e.value, e.low, e.high, e.n) for name, e in points.items()]
        rows.append(
            _row(
                "finds",
                kind,
                "fusion over added up",
                gain.accuracy.value,
                gain.accuracy.low,
                gain.accuracy.high,
                len(y),
            )
        )
        colours = ("#8a8f98", "#5f6672", "#c0202f" if gain.accuracy.low > 0 else "#2a2d34")
        for at, (e, colour) in enumerate(zip(points.values(), colours, strict=True)):
            axes.errorbar(
                at, e.value, [[e.value - e.low], [e.high - e.value]], fmt="o", color=colour, markersize=9, capsize=4
            )
            axes.text(at, e.value + 0.05, f"{e.value:.2f}", ha="center", fontsize=9, color="#2a2d34")
        axes.set(xlim=(-0.5, 2.5), ylim=(0.4, 1.12), xticks=range(3), xticklabels=list(points))
        axes.set_yticks(np.arange(0.4, 1.01, 0.1))
        axes.axhline(0.5, color="#c5c8ce", linewidth=1, linestyle=":", zorder=0)
        axes.set_title(words, **_TITLE)
        e = gain.accuracy
        axes.set_xlabel(f"interaction: {e.value:+.3f} [{e.low:+.3f}, {e.high:+.3f}]", **QUIET)
        _open(axes)
    figure.axes[0].set_ylabel("test accuracy")
    return figure


def _split(kind: str, seed: int) -> Split:
    x1, x2, y, _ = draw(kind, 2000, seed)
    x = {name: torch.tensor(v, dtype=torch.float32)[:, None] for name, v in (("x1", x1), ("x2", x2))}
    return Split(x, torch.tensor(y))


def _logits(method: str, data: Dataset) -> list[Numbers]:
    """What a small network says of validation and test examples."""
    torch.manual_seed(0)
    model = FusionModel.mlp(data.widths, hidden=[16], head_hidden=[])
    objective = build(method, family=Bernoulli())
    fit(objective, model, data, lr=1e-2, epochs=20, batch_size=100)
    assert data.test is not None
    with torch.no_grad():
        asked = [data.validation.modalities, data.test.modalities]
        return [objective.predict(model, x)[:, 0].double().numpy() for x in asked]


def _spread(numbers: Numbers) -> dict[str, Any]:
    found = statistics(list(numbers))
    return {"value": found["mean"], "se": found["se"], "n": found["n"]}


def _row(
    picture: str, data: str, what: str, value: Any, low: Any = None, high: Any = None, n: Any = None, se: Any = None
) -> Row:
    said = {
        name: x if x is None else round(float(x), 4)
        for name, x in (("value", value), ("se", se), ("low", low), ("high", high))
    }
    return {"picture": f"idea-{picture}.svg", "of": data, "what": what, **said, "n": n}


def _parts(figure: Figure) -> Any:
    return figure.subfigures(1, 3, wspace=0.06)


def _open(*places: Axes) -> None:
    for axes in places:
        axes.spines[["top", "right"]].set_visible(False)


_TITLE: Any = {"loc": "left", "fontsize": 10, "fontweight": "bold"}


def main() -> None:
    """All four."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    rows: list[Row] = []
    curves: list[Row] = []
    with matplotlib.rc_context(DRAWING):
        pictures = {"what": what_synergy_is(rows)}
        trained = {m: [train(m, seed, curves)[1:] for seed in range(SEEDS)] for m in METHODS}
        pictures["why"] = why_it_is_missed(curves, trained["vanilla"][0][1], rows)
        pictures["does"] = what_synib_does(trained, rows)
        pictures["finds"] = how_one_finds_out(rows)
        for name, figure in pictures.items():
            figure.savefig(HERE / f"idea-{name}.svg", metadata={"Date": None, "Creator": None})
    write_csv(HERE / "idea.csv", rows)


if __name__ == "__main__":
    main()
