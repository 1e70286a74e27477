"""Do explanations land where the synergy is known to be? ``synib.explain`` beside integrated gradients and Shapley values.

Models are trained by the library on Spurious XOR, PID-XOR and spoken x written digits, whose coordinates are known. A score
for each part of a row is compared with the truth by the area under the ROC curve: of the mean score over rows (``map``), and of
each row, averaged (``row``). Peers explain the same model output on the same parts: integrated gradients and sampled
Shapley values (captum), with the mean training row as baseline, and pairwise Shapley interactions (shapiq), of which those
that cross modalities are added up for each part. ``map-pid-xor`` and ``map-digits`` compare ways to make one map of many
rows, ``part_gain`` among them, for trained models and for the same networks with random weights.

    SYNIB_DATA=... python benchmarks/explain.py [spurious-xor pid-xor map-digits rows cost ...] [--seeds 3] [--out FOLDER]
"""

import argparse
import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from explain_peers import PEERS, Peer, Scores
from numpy.typing import NDArray
from torch import Tensor, nn

import synib
from synib.data import Dataset
from synib.explanation import Picture, Spectrogram, part_gain, patches
from synib.files import write_csv
from synib.measure import auc
from synib.report.explanation import write_explanation
from synib.studies.base import Experiment
from synib.studies.digits import data as digits_data
from synib.studies.digits.experiment import DigitsScarce
from synib.studies.pid_xor.dynamics import PIDDynamics
from synib.studies.spurious_xor.experiment import SpuriousXOR
from synib.tokens import values
from synib.training import Cell
from synib.training.fleet import train

Truth = NDArray[np.bool_]
FAMILY = synib.Bernoulli()
ROWS = 20  # explained by each method
TEST = 1000  # rows that stand for what is absent
MAP = 400  # rows of a map
SHAPLEY_ROWS = 100  # of them whose Shapley values are computed


METHODS = {
    "spurious-xor": ("vanilla", "synib-oracle", "synib-marginal"),
    "permuted labels": ("synib-marginal",),
    "pid-xor": ("synib-oracle", "vanilla"),
    "digits": ("vanilla", "synib-learned"),
}


class PermutedLabels(SpuriousXOR):
    """The same with training labels that have nothing to do with their rows."""

    def data(self, cell: Cell) -> Dataset:
        data = super().data(cell)
        order = torch.randperm(len(data.train), generator=torch.Generator().manual_seed(cell.seed))
        return replace(data, train=replace(data.train, target=data.train.target[order]))


@dataclass(frozen=True)
class Subject:
    """A trained model with rows to explain."""

    data: str
    method: str
    seed: int
    model: nn.Module
    modalities: dict[str, Tensor]
    target: NDArray[np.int64]
    groups: dict[str, Truth]
    accuracy: dict[str, float]
    synergistic: tuple[
        dict[str, Tensor], Tensor
    ]  # rows of the whole split whose label only both modalities say, targets

    def rows(self, group: str) -> list[int]:
        chosen = self.groups.get(group, np.ones(len(self.target), bool))
        return [int(row) for row in np.flatnonzero(chosen)[:ROWS]]


@dataclass(frozen=True)
class Question:
    """Where something should be: the parts of each modality, those of one that hold it, the rows, and what is explained."""

    name: str
    modality: str
    parts: Mapping[str, Any]
    truth: Truth
    group: str
    score: str  # "together" or "alone"


def subjects(data: str, methods: Sequence[str], seeds: int) -> Iterator[Subject]:
    """Models of each method and seed, trained one after the other, each once."""
    for method in methods:
        for seed in range(seeds):
            yield _trained(data, method, seed)


@cache
def _trained(data: str, method: str, seed: int) -> Subject:
    kinds: dict[str, Callable[..., Experiment]] = {
        "spurious-xor": SpuriousXOR,
        "permuted labels": PermutedLabels,
        "pid-xor": PIDDynamics,
        "digits": DigitsScarce,
    }
    more: dict[str, Any] = {"beta": (1.0,)} if data in ("spurious-xor", "permuted labels") else {}
    experiment = kinds[data](seeds=seed + 1, methods=(method,), **more)
    cell = next(cell for cell in experiment.cells() if cell.seed == seed)
    start = time.perf_counter()
    trained = train(experiment, [cell])
    dataset = experiment.data(cell)
    # The shortcut of Spurious XOR is gone at test: rows of the validation part have it.
    split = dataset.validation if "beta" in cell.factors else dataset.test
    assert split is not None
    count = min(TEST, len(split))
    only_both = split.groups.get("S", torch.ones(len(split), dtype=torch.bool)).nonzero().flatten()[:MAP]
    accuracy = {k: v for k, v in trained.metrics[0].items() if k.startswith("test_accuracy")}
    print(f"{data} {method} {seed}: {accuracy} in {time.perf_counter() - start:.0f} s", flush=True)
    return Subject(
        data, method, seed, trained.learners[0].model,
        {name: values(x)[:count] for name, x in split.modalities.items()},
        split.target[:count].numpy(), {name: g[:count].numpy() for name, g in split.groups.items()}, accuracy,
        ({name: values(x)[only_both] for name, x in split.modalities.items()}, split.target[only_both]),
    )  # fmt: skip


def questions(data: str, method: str) -> list[Question]:
    """What is known: synergy of models that use it, cues of models that take the shortcut."""
    single = dict.fromkeys(("x1", "x2"), "coordinates")
    if data in ("spurious-xor", "permuted labels"):
        if method == "vanilla":
            return [Question("shortcut", "x1", single, _at(64, range(4, 10)), "", "alone")]
        return [Question("signal", m, single, _at(64, range(4)), "", "together") for m in ("x1", "x2")]
    if data == "pid-xor":
        from synib.studies.pid_xor.data import BLOCKS

        named, blocks = np.array([*BLOCKS]), dict.fromkeys(("x1", "x2"), BLOCKS)
        if method == "vanilla":
            return [
                Question("unique block", "x1", blocks, named == "unique", "U1", "alone"),
                Question("redundant block", "x1", blocks, named == "redundant", "R", "alone"),
                Question("redundant block", "x2", blocks, named == "redundant", "R", "alone"),
            ]
        of_blocks = [Question("synergy block", m, blocks, named == "synergy", "S", "together") for m in ("x1", "x2")]
        at = _at(32, BLOCKS["synergy"])
        return of_blocks + [Question("synergy coordinates", m, single, at, "S", "together") for m in ("x1", "x2")]
    bar, tone, ink = _cues()
    parts = {"image": patches((28, 28), 4), "audio": patches((40, 24), (1, 24))}
    if method == "vanilla":
        return [
            Question("bar", "image", parts, bar, "R", "alone"),
            Question("tone", "audio", parts, tone, "R", "alone"),
        ]
    return [Question("digit", "image", parts, ink, "S", "together")]


@cache
def _cues() -> tuple[Truth, Truth, Truth]:
    """Patches of 4 x 4 pixels with the bars, mel bands with the tones, and patches with ink (5 % or more on average)."""
    patch = patches((28, 28), 4).ravel()
    columns = np.zeros((28, 28), bool)
    columns[:, : digits_data.BAR] = columns[:, -digits_data.BAR :] = True
    images, _ = digits_data._images(digits_data.DIGITS.find(None) / "mnist-valid.npz")
    mean = images.mean(0).numpy()
    frequency = np.fft.rfftfreq(digits_data.WINDOW, 1 / digits_data.RATE)
    bank = digits_data._mel_bank()
    tone = np.zeros(digits_data.BANDS, bool)
    for hertz in digits_data.TONES:
        tone |= bank[:, np.argmin(np.abs(frequency - hertz))] > 0.3
    count = patch.max() + 1
    bar = np.array([columns.ravel()[patch == k].any() for k in range(count)])
    return bar, tone, np.array([mean[patch == k].mean() > 0.05 for k in range(count)])


def _at(width: int, where: Any) -> Truth:
    truth = np.zeros(width, bool)
    truth[list(where)] = True
    return truth


def ours(subject: Subject, question: Question) -> Scores:
    found = synib.explain(
        subject.model, subject.modalities, family=FAMILY, of=subject.rows(question.group),
        parts={question.modality: question.parts[question.modality]},
    )  # fmt: skip
    return np.asarray(getattr(found.parts[question.modality], question.score))


def compared(subject: Subject, question: Question, peers: bool) -> Iterator[dict[str, Any]]:
    methods: dict[str, Callable[[], Scores]] = {"synib.explain": lambda: ours(subject, question)}
    if peers:
        peer = Peer(subject.model, subject.modalities, subject.rows(question.group), question.parts, question.modality)
        methods |= {name: (lambda run=run: run(peer)) for name, run in PEERS.items()}  # type: ignore[misc]
    for name, run in methods.items():
        start = time.perf_counter()
        scores = run()
        yield {
            "data": subject.data, "model": subject.method, "seed": subject.seed, "truth": question.name,
            "modality": question.modality, "explained": question.score, "rows": len(scores), "parts": len(question.truth),
            "explainer": name, "map_auroc": round(auc(scores.mean(0), question.truth), 4),
            "row_auroc": round(float(np.mean([auc(s, question.truth) for s in scores])), 4),
            "seconds": round(time.perf_counter() - start, 2), "hardware": hardware(),
        }  # fmt: skip


def truth(data: str, methods: Sequence[str], seeds: int) -> Iterator[dict[str, Any]]:
    """Each explainer against what is known; and ours once the weights, or the labels, are random."""
    for subject in subjects(data, methods, seeds):
        for question in questions(data, subject.method):
            yield from compared(subject, question, peers=data != "permuted labels")
        if subject.method != "vanilla" and data == "spurious-xor":
            fresh = replace(subject, model=_reset(subject.model), method=f"{subject.method}, random weights")
            for question in questions(data, subject.method):
                yield from compared(fresh, question, peers=False)


def _reset(model: nn.Module) -> nn.Module:
    """A model of the same shape that was never trained."""
    import copy

    torch.manual_seed(0)
    fresh = copy.deepcopy(model)
    for parameter in fresh.parameters():
        nn.init.normal_(parameter, std=1 / np.sqrt(parameter.shape[-1])) if parameter.ndim > 1 else nn.init.zeros_(
            parameter
        )
    return fresh


def maps(data: str, method: str, seeds: int) -> Iterator[dict[str, Any]]:
    """Ways to make one map of many rows, of models that use the synergy and of the same networks with random weights."""
    for trained in subjects(data, [method], seeds):
        for subject in (trained, replace(trained, model=_reset(trained.model), method=f"{method}, random weights")):
            for question in questions(data, method):
                yield from _maps(subject, question)


def _maps(subject: Subject, question: Question) -> Iterator[dict[str, Any]]:
    x, y = subject.synergistic
    parts = {question.modality: question.parts[question.modality]}
    start = time.perf_counter()
    gain = part_gain(subject.model, x, y, parts, family=FAMILY)[question.modality]
    seconds = {"gain": time.perf_counter() - start}
    start = time.perf_counter()
    of = range(min(SHAPLEY_ROWS, len(y)))
    row = (
        synib.explain(subject.model, x, family=FAMILY, parts=parts, of=of, part_draws=16)
        .parts[question.modality]
        .together
    )
    seconds["Shapley"] = time.perf_counter() - start
    found = {
        "part_gain, together": (gain.together, len(y)),
        "part_gain, in all": (gain.together + gain.alone, len(y)),
        "mean Shapley value": (row.mean(0), len(row)),
        "|mean Shapley value|": (np.abs(row.mean(0)), len(row)),
        "mean |Shapley value|": (np.abs(row).mean(0), len(row)),
        "mean squared Shapley value": (np.square(row).mean(0), len(row)),
    }
    for name, (scores, rows) in found.items():
        yield {
            "data": subject.data, "model": subject.method, "seed": subject.seed, "truth": question.name,
            "modality": question.modality, "parts": len(question.truth), "map": name, "rows": rows,
            "auroc": round(auc(scores, question.truth), 4),
            "seconds": round(seconds["gain" if "gain" in name else "Shapley"], 2), "hardware": hardware(),
        }  # fmt: skip


def separation(seeds: int) -> Iterator[dict[str, Any]]:
    """How well numbers for a row tell PID-XOR's synergistic examples from the others."""
    for subject in subjects("pid-xor", METHODS["pid-xor"], seeds):
        start = time.perf_counter()
        rows = synib.explain(subject.model, subject.modalities, family=FAMILY, draws=256).rows
        numbers = {"synergy": rows.synergy.value, "interaction": rows.interaction.value, "lead": rows.lead,
                   "needs_both": rows.needs_both}  # fmt: skip
        for name, score in numbers.items():
            yield {
                "data": subject.data, "model": subject.method, "seed": subject.seed, "score": name, "rows": len(score),
                "auroc": round(auc(score, subject.groups["S"]), 4), "accuracy": round(subject.accuracy["test_accuracy"], 4),
                "accuracy_S": round(subject.accuracy["test_accuracy_S"], 4),
                "seconds": round(time.perf_counter() - start, 2), "hardware": hardware(),
            }  # fmt: skip


def cost(seeds: int) -> Iterator[dict[str, Any]]:
    """Scores of 1,000 rows of a two-tower model with 10 million parameters."""
    torch.manual_seed(0)
    model = synib.FusionModel.mlp({"a": 1024, "b": 1024}, hidden=[1600, 1600], fusion_hidden=[512]).eval()
    rows = {name: torch.randn(1000, 1024) for name in ("a", "b")}
    parameters = sum(p.numel() for p in model.parameters())
    for name, predict, draws in (("model in parts", model, 128), ("plain callable", lambda x: model(x), 16)):
        for repeat in range(seeds):
            start, before = time.perf_counter(), time.process_time()
            synib.explain(predict, rows, family=FAMILY, draws=draws)
            seconds, cpu = time.perf_counter() - start, time.process_time() - before
            yield {"model": name, "parameters": parameters, "rows": 1000, "draws": draws, "repeat": repeat,
                   "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2), "hardware": hardware()}  # fmt: skip


def gallery(out: Path) -> None:
    """Pages of a few digits: rows without a cue for the model that uses both, rows with cues for the one that does not."""
    parts = {**questions("digits", "vanilla")[0].parts, "audio": patches((40, 24), (4, 4))}
    views = {"image": Picture((28, 28), "written digit"), "audio": Spectrogram((40, 24), "spoken digit")}
    for subject in subjects("digits", METHODS["digits"], 1):
        group = "R" if subject.method == "vanilla" else "S"
        rows = synib.explain(subject.model, subject.modalities, family=FAMILY).rows
        right = subject.groups[group] & (rows.answer == subject.target)
        of = [int(row) for row in np.argsort(-rows.lead) if right[row]][:3]
        found = synib.explain(
            subject.model, subject.modalities, family=FAMILY, parts=parts, of=of, part_draws=64, views=views,
            classes=("even", "odd"),
        )  # fmt: skip
        title = f"Spoken x written digits, {'with' if group == 'R' else 'without'} cues: {subject.method}"
        write_explanation(found, out / f"digits-{subject.method}.html", title, of)


def hardware() -> str:
    return f"{platform.machine()}, {torch.get_num_threads()} CPU threads, torch {torch.__version__}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "parts", nargs="*", default=[*METHODS, "map-pid-xor", "map-digits", "rows", "cost"], help="what to measure"
    )
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="also write CSV files into this folder")
    options = parser.parse_args()
    for name in options.parts:
        if name == "gallery":
            gallery(options.out)
            continue
        whole: dict[str, Callable[[int], Iterator[dict[str, Any]]]] = {
            "rows": separation,
            "cost": cost,
            "map-pid-xor": lambda seeds: maps("pid-xor", "synib-oracle", seeds),
            "map-digits": lambda seeds: maps("digits", "synib-learned", seeds),
        }
        found = whole[name](options.seeds) if name in whole else truth(name, METHODS[name], options.seeds)
        rows = []
        for row in found:
            rows.append(row)
            print(*(v for k, v in row.items() if k != "hardware"), sep="  ", flush=True)
            if options.out:
                options.out.mkdir(parents=True, exist_ok=True)
                write_csv(options.out / f"{name.replace(' ', '-')}.csv", rows)


if __name__ == "__main__":
    main()
