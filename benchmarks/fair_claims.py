"""Claims of the fair comparison over all tasks of one run, adjusted together (Holm), as its plan says.

cd docs/results/fair && python ../../../benchmarks/fair_claims.py digits digits-modulo-3 pid-xor --out claims.csv
"""

import argparse
import csv
import json
from pathlib import Path

from synib.measure.stats import holm

COLUMNS = ("task", "form", "rival", "primary", "lead", "low", "high", "n", "unit", "p", "p_holm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    claims = [claim for folder in options.folders for claim in json.loads((folder / "claims.json").read_text("utf-8"))]
    for primary in (True, False):
        family = [claim for claim in claims if claim["primary"] == primary]
        for claim, p in zip(family, holm([claim["p"] for claim in family]), strict=True):
            claim["p_holm"] = float(p)
    claims.sort(key=lambda claim: not claim["primary"])
    with options.out.open("w", newline="", encoding="utf-8") as text:
        writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows({k: round(v, 5) if isinstance(v, float) else v for k, v in c.items()} for c in claims)
    print("| task | form | over | lead (95 % interval) | Holm p |\n|---|---|---|---|---|")
    for c in claims:
        lead = f"{c['lead']:+.3f} [{c['low']:.3f}, {c['high']:.3f}]".replace("-", "−")
        print(f"| {c['task']} | {c['form']} | {c['rival']} | {lead} | {c['p_holm']:.2g} |")


if __name__ == "__main__":
    main()
