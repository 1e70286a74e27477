"""Does the audit keep its promises? False claims, coverage of its intervals, and power, on data whose truth is known.

Each set is drawn at random from the factors below, so that every level of every factor has its share of sets:

    rows 200 to 20,000; numbers of each modality 8 to 512; target two or five classes, three labels or a number; balanced or
    with a class of 5 %; independent rows or 10 groups with effects of their own; 2 or 3 modalities
    truth without an interaction: noise, additive, redundant (views that are independent given the target), unique (one
    modality, by a curve), copied (one number in two modalities, whose square counts)
    truth with one: product, lookup, gate, with a strength; its worth is measured on fresh rows by models that know it

``--real FOLDER`` takes features of MOSI, MUStARD and RAVDESS (FOLDER/NAME/features.npz) whose pairing is shuffled within class.
``--judge`` also trains SynIB and its control, as ``synib audit`` without an option does.
``--power`` audits two balanced classes, independent rows and two modalities, and each kind of interaction at several strengths.
Sets cycle through this design, so that a run that is stopped early is still balanced. Without ``--no-power`` the smallest
detectable sizes are estimated for every set, whatever its verdict.

    python benchmarks/audit_coverage.py --sets 400 --out FILE.csv [--workers 2] [--device cpu] [--seconds 600] [--nulls]
                                        [--judge] [--no-power] [--only rows=200] [--real FOLDER] [--power]
"""

import argparse
import csv
import functools
import importlib
import itertools
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import numpy as np
from audit_truth import KINDS, Truth

FACTORS: dict[str, tuple[Any, ...]] = {
    "rows": (200, 1000, 5000, 20_000),
    "width": (8, 64, 512),
    "target": ("two", "five", "labels", "number"),
    "balance": ("even", "rare"),
    "units": ("rows", "groups"),
    "modalities": (2, 3),
}
NULLS = ("noise", "additive", "redundant", "unique", "copied")
STRENGTHS = (0.5, 1.0, 2.0, 4.0)
POWER = {"rows": (1000, 5000), "width": (8, 64), "kind": KINDS, "strength": (0.25, 0.5, 1.0, 2.0, 4.0)}
REAL = {"mosi": ("minilm", "audio"), "mustard": ("text", "audio"), "ravdess": ("audio", "visual")}
FRESH = 10_000  # rows on which true values are measured
GROUPS = 10
NEVER = "none"  # no size up to 40 points would be detected


def settings(first: int, judge: bool, interactions: bool) -> Iterator[tuple[int, dict[str, Any]]]:
    """Settings without end, drawn at random; every other one has an interaction, if asked for."""
    for seed in range(first, 10**9):
        rng = np.random.default_rng([seed, 3])
        setting = {name: levels[rng.integers(len(levels))] for name, levels in FACTORS.items()}
        if setting["target"] == "number":
            setting["balance"] = "even"
        if judge:
            setting["rows"] = min(setting["rows"], 5000)
        if setting["rows"] * setting["width"] * setting["modalities"] > 2e7:
            setting["width"] = 64
        if setting["rows"] == 200 and setting["balance"] == "rare":
            setting["rows"] = 1000  # ten rows of a class are too few for folds of groups
        with_interaction = interactions and seed % 2 == 1
        kinds = KINDS if with_interaction else NULLS
        setting["kind"] = kinds[rng.integers(len(kinds))]
        setting["strength"] = float(rng.choice(STRENGTHS)) if with_interaction else 0.0
        yield seed, setting


def power_settings(first: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Settings of the power study: all of its design, again and again."""
    design = [dict(zip(POWER, levels, strict=True)) for levels in itertools.product(*POWER.values())]
    fixed = {"target": "two", "balance": "even", "units": "rows", "modalities": 2}
    for seed in range(first, 10**9):
        yield seed, fixed | design[(seed - first) % len(design)]


def audited(
    seed: int, setting: dict[str, Any], plan: dict[str, Any], device: str, real: str | None, power: bool
) -> dict[str, Any]:
    """What the audit says of one set, and what is true."""
    import torch

    torch.set_num_threads(1)
    module: Any = importlib.import_module("synib.own.audit")
    module._decompose = lambda *_: {}  # the partial information decomposition has no part in the verdict
    from synib.own.audit import audit
    from synib.own.evidence import collect
    from synib.own.table import Table

    sizes: dict[str, float | None] = {}  # also of sets that are called `present`: to see if the stated power is right
    if power:
        module.collect = functools.partial(_with_power, collect, sizes, plan.get("tries", 6))
    module.detectable = lambda *_, **__: sizes
    start = time.perf_counter()
    grouped = setting["units"] == "groups"
    task = {"labels": "multilabel", "number": "regression"}.get(setting["target"], "classification")
    if real is None:
        truth = Truth(setting, seed)
        data = truth.draw(setting["rows"], np.random.default_rng([seed, 1]), GROUPS if grouped else None)
    else:
        data = _shuffled_real(Path(real), setting["kind"], seed)
    base = {"seed": seed, **setting}
    try:
        table = Table.from_arrays(data["modalities"], data["target"], groups=data["group"], task=task)  # type: ignore[arg-type]
        result = audit(table, device=device, seed=seed, **plan)
    except ValueError as e:
        return base | {"error": str(e)[:120], "seconds": round(time.perf_counter() - start, 1)}
    verdict = result.verdict
    best = verdict.candidates[verdict.best]
    row = base | {
        "rows": len(table.target),
        "synergy": verdict.synergy,
        "best": verdict.best,
        "p": round(min(c.p for c in verdict.candidates.values()), 5),
        "lead": round(best.lead.value, 5),
        **{f"detectable_{kind}": NEVER if size is None else round(size, 4) for kind, size in sizes.items()},
        "bound": round(max(c.bound.high for c in verdict.candidates.values()), 5),
        **{f"gain_{end}": round(getattr(verdict.gain, end), 5) for end in ("value", "low", "high")},
        **{
            f"vanilla_gain_{end}": round(getattr(verdict.gain_over_vanilla, end), 5) for end in ("value", "low", "high")
        },
        "adequate": "" if verdict.curve is None else verdict.curve.adequate,
        "metric": result.metric.name,
    }
    if real is None:
        row |= _true_values(result, truth, seed, grouped)
    return row | {"error": "", "seconds": round(time.perf_counter() - start, 1)}


def _with_power(collect: Any, sizes: dict[str, float | None], tries: int, bench: Any, fusions: Sequence[str]) -> Any:
    """The evidence of an audit, and the smallest detectable sizes in the same rows."""
    from synib.own.power import detectable

    evidence = collect(bench, fusions)
    sizes.update(detectable(bench, evidence.critical, tries=tries))
    return evidence


def _true_values(result: Any, truth: Truth, seed: int, grouped: bool) -> dict[str, Any]:
    """The true metric of the trained plain fusion, and what the interaction is worth, on fresh rows (and groups)."""
    from synib.measure.stats import mean
    from synib.own.fitting import predict
    from synib.own.metric import Metric
    from synib.own.recipe import TableRecipe
    from synib.own.table import Table

    fresh = truth.draw(FRESH, np.random.default_rng([seed, 2]), 500 if grouped else None)
    kind = {"labels": "multilabel", "number": "regression"}.get(truth.setting["target"], "classification")
    table = Table.from_arrays(fresh["modalities"], fresh["target"], task=kind)  # type: ignore[arg-type]
    outcome, metric = result.outcome, Metric(table, result.metric.name)
    scores = []
    for i, learners in enumerate(outcome.methods["vanilla"].learners):
        recipe = TableRecipe(table, outcome.parts, outcome.recipe.given_epochs)
        recipe._scalings[i] = outcome.recipe.scaling(i)
        split = recipe.split(i, np.arange(FRESH))
        eta = outcome.recipe.scaling(i).undo(outcome.family, predict(learners[0], split).numpy())
        eta = eta[:, :1] if kind == "regression" else eta
        scores.append(metric.scores(eta, table.target))
    worth = metric.scores(fresh["with"], table.target) - metric.scores(fresh["without"], table.target)
    shown, true = result.scores["vanilla"], mean(np.mean(scores, 0), fresh["group"])
    return {
        "vanilla": round(shown.value, 5),
        "true_vanilla": round(true.value, 5),
        "true_half": round((true.high - true.low) / 2, 5),  # half of its own 95 % interval
        "vanilla_low": round(shown.low, 5),
        "vanilla_high": round(shown.high, 5),
        "worth": round(float(worth.mean()), 4),
    }


def _shuffled_real(folder: Path, name: str, seed: int) -> dict[str, Any]:
    """Real features with the pairing shuffled within class, so that there is no interaction."""
    rng = np.random.default_rng([seed, 1])
    with np.load(folder / name / "features.npz", allow_pickle=False) as arrays:
        label = arrays["label"].astype(np.int64)
        features = {modality: arrays[modality].astype(np.float32) for modality in REAL[name]}
    modalities = {}
    for i, (modality, x) in enumerate(features.items()):
        order = np.arange(len(label))
        for value in np.unique(label) if i else ():
            rows = np.flatnonzero(label == value)
            order[rows] = rng.permutation(rows)
        modalities[modality] = x[order]
    return {"modalities": modalities, "target": label, "group": None}  # shuffled pairs have no groups


def real_settings(first: int) -> Iterator[tuple[int, dict[str, Any]]]:
    for seed in range(first, 10**9):
        yield seed, {"rows": 0, "width": 0, "target": "real", "balance": "even", "units": "rows", "modalities": 2,
                     "kind": list(REAL)[seed % len(REAL)], "strength": 0.0}  # fmt: skip


def write(file: str, rows: Sequence[dict[str, Any]]) -> None:
    columns = list(dict.fromkeys(name for row in rows for name in row))
    with open(file, "w", newline="") as text:
        writer = csv.DictWriter(text, columns, lineterminator="\n", restval="")
        writer.writeheader()
        writer.writerows(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, default=1e9, help="no set is begun after so many seconds")
    parser.add_argument(
        "--judge", action="store_true", help="also SynIB against its control; sets without an interaction"
    )
    parser.add_argument("--nulls", action="store_true", help="only sets without an interaction")
    parser.add_argument(
        "--no-power", action="store_true", help="leave out the simulation of power, which has no part in `present`"
    )
    parser.add_argument("--only", help="sets with this level of a factor, such as rows=200 or kind=copied")
    parser.add_argument("--power", action="store_true", help="interactions by kind and strength, in a fixed design")
    parser.add_argument("--real", help="a folder with the features of real data sets")
    parser.add_argument("--out", required=True)
    options = parser.parse_args()
    plan: dict[str, Any] = {"k": 3, "budget": 2, "tries": 3, "judge": False}
    if options.judge:
        plan = {"k": 5, "budget": 3, "tries": 1, "judge": True}
    if options.real:
        source = real_settings(options.first)
    elif options.power:
        source = power_settings(options.first)
    else:
        source = settings(options.first, options.judge, not options.judge and not options.nulls)
    if options.only:
        factor, _, level = options.only.partition("=")
        source = ((seed, setting) for seed, setting in source if str(setting[factor]) == level)
    start, rows, begun = time.perf_counter(), [], 0
    pending: set[Future[dict[str, Any]]] = set()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(options.workers, mp_context=context) as pool:
        while True:
            while (
                len(pending) < options.workers
                and begun < options.sets
                and time.perf_counter() - start < options.seconds
            ):
                seed, setting = next(source)
                pending.add(
                    pool.submit(audited, seed, setting, plan, options.device, options.real, not options.no_power)
                )
                begun += 1
            if not pending:
                break
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            rows += [future.result() for future in done]
            write(options.out, rows)  # at once: a study that is stopped keeps what it has
            if len(rows) % 20 < len(done):
                print(f"{len(rows)} sets in {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
