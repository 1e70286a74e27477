"""The paper's irony construction on the names of CREMA-D's clips: how many are ironic, and what one modality tells about it.

    python benchmarks/crema_irony.py --csv docs/results/benchmarks/crema_irony.csv

Needs ``crema-d/SentenceFilenames.csv`` in ``--root`` or ``$SYNIB_DATA``; no media are read and no model is trained. Leaks are
those of rules that know the acted emotion of one modality, or whether face and voice belong to different persons.
"""

import argparse
from pathlib import Path

import numpy as np

from synib.files import write_csv
from synib.studies.irony.crema_d import CONTRADICTIONS, actor_splits, list_clips, make_irony
from synib.studies.irony.donors import Donors
from synib.studies.irony.leak import expected_leak, mismatch_leak

FOLDS, RATES = 5, (0.1, 0.5, 1.0, 2.0)
DONORS: tuple[Donors, ...] = ("paper", "balanced")
SPLITS = ("train", "validation", "test")


def rows(root: str | None) -> list[dict[str, object]]:
    """One row for each kind of donors, rate, fold and split."""
    clips = list_clips(root)
    actors = np.array([clip.actor for clip in clips])
    table: list[dict[str, object]] = []
    for donors in DONORS:
        for same_actor in (False, True):
            for alpha in RATES:
                for fold in range(FOLDS):
                    irony = make_irony(clips, alpha, fold, donors=donors, same_actor=same_actor)
                    people = actor_splits(actors.tolist(), fold)
                    for split in SPLITS:
                        t, leak = irony.splits[split], irony.leak(split)
                        ironic = t.label == len(CONTRADICTIONS)
                        who = {"donors": donors, "same_actor": same_actor, "alpha": alpha, "fold": fold, "split": split}
                        sizes = {
                            "actors": len(set(actors[people[split]].tolist())),
                            "clips": len(t.label),
                            "ironic": int(ironic.sum()),
                        }
                        leaks = {
                            "voice_f1": leak["audio"].f1,
                            "face_f1": leak["video"].f1,
                            "always_f1": leak["audio"].always,
                            "voice_auc": leak["audio"].auc,
                            "face_auc": leak["video"].auc,
                            "another_actor_auc": mismatch_leak(actors[t.video], actors[t.audio], ironic),
                        }
                        table.append({**who, **sizes, **leaks})
    return table


def markdown(table: list[dict[str, object]]) -> str:
    """Means over folds at test: one line for each kind of donors and rate."""
    columns = ["donors", "α", "ironic / clips at test", *(f"F1: {who}" for who in ("voice", "face", "always"))]
    columns += [f"AUC: {who}" for who in ("voice", "face", "another person")]
    lines = [f"| {' | '.join(columns)} |", "|" + "---|" * len(columns)]
    for donors, same_actor in ((d, s) for d in DONORS for s in (False, True)):
        for alpha in RATES:
            own = [
                r
                for r in table
                if (r["donors"], r["same_actor"], r["alpha"], r["split"]) == (donors, same_actor, alpha, "test")
            ]

            def mean(name: str, own: list[dict[str, object]] = own) -> float:
                return float(np.mean([r[name] for r in own]))  # type: ignore[arg-type]

            names = ("voice_f1", "face_f1", "always_f1", "voice_auc", "face_auc", "another_actor_auc")
            values = " | ".join(f"{mean(name):.3f}" for name in names)
            who = donors + ", same person" * same_actor
            lines.append(f"| {who} | {alpha:g} | {mean('ironic'):.0f} / {mean('clips'):.0f} | {values} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", help="folder of the data, or its parent; $SYNIB_DATA by default")
    parser.add_argument("--csv", type=Path, help="write all rows to this file")
    options = parser.parse_args()
    table = rows(options.root)
    if options.csv:
        write_csv(options.csv, table)
    print(markdown(table))
    for donors in DONORS:
        leak = {a: expected_leak(a, CONTRADICTIONS, donors=donors)["audio"].f1 for a in RATES}
        print(f"Expected F1 of the voice, {donors}:", ", ".join(f"α = {a:g}: {f1:.3f}" for a, f1 in leak.items()))


if __name__ == "__main__":
    main()
