"""Do explanations land where the synergy is known to be? ``synib.explain`` beside integrated gradients and Shapley values.

Models are trained by the library on Spurious XOR, PID-XOR and spoken x written digits, whose coordinates are known. A score
for each part of a row is compared with the truth by the area under the ROC curve: of the mean score over rows (``map``), and of
each row, averaged (``row``). Peers explain the same model output on the same parts: integrated gradients and sampled
Shapley values (captum), with the mean training row as baseline, and pairwise Shapley interactions (shapiq), of which those
that cross modalities are added up for each part. ``map-pid-xor`` and ``map-digits`` compare ways to make one map of many
rows, ``part_gain`` among them, for trained models and for the same networks with random weights. ``digit-patches``
computes how well each patch of an image predicts the digit by itself.

    SYNIB_DATA=... python benchmarks/explain.py [spurious-xor pid-xor map-digits rows cost ...] [--seeds 3] [--out FOLDER]
"""

import argparse
import itertools
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from explain_patches import predictable
from explain_patches import table as patch_table
from explain_peers import PEERS, Peer, Scores
from explain_subjects import FAMILY, METHODS, Question, Subject, ink, questions, reset, subjects

import synib
from synib.explanation import Picture, Spectrogram, part_gain, patches
from synib.files import write_csv
from synib.measure import auc
from synib.report.explanation import write_explanation

SHAPLEY_ROWS = 100  # of a map whose Shapley values are computed
PEER_ROWS = 20  # that peers explain for a map
THRESHOLDS = (0.02, 0.05, 0.1, 0.2)  # of the brightness from which on a patch counts as the digit's


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
            fresh = replace(subject, model=reset(subject.model), method=f"{subject.method}, random weights")
            for question in questions(data, subject.method):
                yield from compared(fresh, question, peers=False)


def maps(data: str, method: str, seeds: int) -> Iterator[dict[str, Any]]:
    """Ways to make one map of many rows, of models that use the synergy and of the same networks with random weights."""
    for trained in subjects(data, [method], seeds):
        for subject in (trained, replace(trained, model=reset(trained.model), method=f"{method}, random weights")):
            for question in questions(data, method):
                yield from _maps(subject, question)


def _maps(subject: Subject, question: Question) -> Iterator[dict[str, Any]]:
    x, y = subject.synergistic
    parts = {question.modality: question.parts[question.modality]}
    start = time.perf_counter()
    gain = part_gain(subject.model, x, y, parts, family=FAMILY)[question.modality]
    seconds = time.perf_counter() - start
    found = {
        "part_gain, together": (gain.together, len(y), seconds),
        "part_gain, in all": (gain.together + gain.alone, len(y), seconds),
    }
    start = time.perf_counter()
    of = range(min(SHAPLEY_ROWS, len(y)))
    row = (
        synib.explain(subject.model, x, family=FAMILY, parts=parts, of=of, part_draws=16)
        .parts[question.modality]
        .together
    )
    seconds = time.perf_counter() - start
    found |= {
        "mean Shapley value": (row.mean(0), len(row), seconds),
        "|mean Shapley value|": (np.abs(row.mean(0)), len(row), seconds),
        "mean |Shapley value|": (np.abs(row).mean(0), len(row), seconds),
        "mean squared Shapley value": (np.square(row).mean(0), len(row), seconds),
    }
    for name, run in PEERS.items():
        start = time.perf_counter()
        scores = run(Peer(subject.model, x, range(min(PEER_ROWS, len(y))), question.parts, question.modality))
        seconds = time.perf_counter() - start
        found |= {
            f"{name}, mean": (scores.mean(0), len(scores), seconds),
            f"|{name}|, mean": (np.abs(scores).mean(0), len(scores), seconds),
        }
    truths = {question.name: question.truth}
    accuracies: dict[str, Scores] = {}
    if question.name == "digit":
        truths |= {f"digit, brightness above {at}": ink() > at for at in THRESHOLDS}
        truths |= {f"{name} predictable from the patch": of.significant for name, of in predictable().items()}
        accuracies = {f"{name} predictable from the patch": of.accuracy for name, of in predictable().items()}
    for (name, (scores, rows, seconds)), (known, where) in itertools.product(found.items(), truths.items()):
        yield {
            "data": subject.data, "model": subject.method, "seed": subject.seed, "truth": known,
            "modality": question.modality, "parts": len(where), "positive": int(where.sum()), "map": name, "rows": rows,
            "auroc": round(auc(scores, where), 4), "rank_correlation": _rank_correlation(scores, accuracies.get(known)),
            "accuracy_S": round(subject.accuracy.get("test_accuracy_S", np.nan), 4),
            "seconds": round(seconds, 2), "hardware": hardware(),
        }  # fmt: skip


def _rank_correlation(scores: Scores, accuracy: Scores | None) -> float | str:
    """Spearman's correlation of a map with the accuracy of each part by itself, where this is known."""
    from scipy.stats import spearmanr

    return "" if accuracy is None else round(float(spearmanr(scores, accuracy).statistic), 4)


def sanity(seeds: int) -> Iterator[dict[str, Any]]:
    """What ``part_gain`` finds on rows that a model has not seen, where there is something to find and where there is not."""
    for data in ("spurious-xor", "permuted labels"):
        for trained in subjects(data, ["synib-marginal"], seeds):
            fresh = replace(trained, model=reset(trained.model), method="random weights")
            for subject in (trained, fresh) if data == "spurious-xor" else (trained,):
                x, y = subject.synergistic
                start = time.perf_counter()
                gains = part_gain(subject.model, x, y, dict.fromkeys(x, "coordinates"), family=FAMILY)
                for question in questions(data, "synib-marginal"):
                    gain = gains[question.modality]
                    above = gain.together_low > 0
                    yield {
                        "data": data, "model": subject.method, "seed": subject.seed, "modality": question.modality,
                        "rows": len(y), "parts": len(above), "auroc": round(auc(gain.together, question.truth), 4),
                        "signal_above_0": int(above[question.truth].sum()), "noise_above_0": int(above[~question.truth].sum()),
                        "signal_nats": round(float(gain.together[question.truth].sum()), 5),
                        "seconds": round(time.perf_counter() - start, 2), "hardware": hardware(),
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
    out.mkdir(parents=True, exist_ok=True)
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
        "parts",
        nargs="*",
        default=[
            *METHODS,
            "map-pid-xor",
            "digit-patches",
            "map-digits",
            "map-digits-without-cues",
            "sanity",
            "rows",
            "cost",
        ],
        help="what to measure",
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
            "sanity": sanity,
            "digit-patches": lambda seeds: patch_table(),
            "map-pid-xor": lambda seeds: maps("pid-xor", "synib-oracle", seeds),
            "map-digits": lambda seeds: maps("digits", "synib-learned", seeds),
            "map-digits-without-cues": lambda seeds: maps("digits without cues", "vanilla", seeds),
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
