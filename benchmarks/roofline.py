"""The fleet's step on a GPU against the card's own limits, as a roofline plot, from the tables of the benchmarks.

    python benchmarks/roofline.py [--tables docs/results/benchmarks] [--out docs/results/benchmarks/roofline.svg]

Work and bytes are those that a step needs (``fleet_gpu_steps.csv``: products; weights read twice, gradients written and read,
Adam's state read and written), so that a point's place to the right does not change when the step becomes faster. The
limits are a large product in TensorFloat-32 and a copy, measured in the same table's run.
"""

import argparse
import csv
from pathlib import Path

import matplotlib.pyplot as plt
from matplotlib.ticker import FixedLocator, NullLocator

MODELS = 693
NAMES = {
    "vanilla": "vanilla",
    "synib-random": "random masks",
    "synib-learned": "learned, 4 steps",
    "synib-learned, 20 steps": "learned, 20 steps",
}
COLOURS = ("#1b6ca8", "#c2571a", "#3a7d44", "#7a4e9e")


def table(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=Path, default=Path("docs/results/benchmarks"))
    parser.add_argument("--out", type=Path, default=Path("docs/results/benchmarks/roofline.svg"))
    options = parser.parse_args()
    first = {r["method"]: r for r in table(options.tables / "fleet_gpu_steps.csv") if r["models"] == str(MODELS)}
    later = {(r["method"], r["how"]): r for r in table(options.tables / "fused_h200.csv") if r["models"] == str(MODELS)}
    vanilla = first["vanilla"]
    peak = float(vanilla["tflops"]) / float(vanilla["of_ceiling_flops"])
    copy = float(vanilla["tbytes"]) / float(vanilla["of_ceiling_bytes"])
    plt.rcParams.update({"svg.hashsalt": "synib", "svg.fonttype": "none", "font.family": "sans-serif", "font.size": 10})
    figure, axes = plt.subplots(figsize=(7.2, 4.4), layout="constrained")
    ends = (8.0, 1000.0)
    corner = peak / copy
    axes.plot([ends[0], corner, ends[1]], [copy * ends[0], peak, peak], color="#444", linewidth=1.5)
    axes.text(corner * 1.15, peak * 1.04, f"{peak:.0f} TFLOP/s (large product)", va="bottom", ha="left", fontsize=9)
    axes.text(20, copy * 20 * 1.22, f"{copy:.2f} TB/s (copy)", rotation=37, va="bottom", ha="center", fontsize=9)
    for (method, name), colour in zip(NAMES.items(), COLOURS, strict=True):
        row = first[method]
        seconds = float(row["ms_per_step"]) / 1e3
        work, moved = float(row["tflops"]) * seconds, float(row["tbytes"]) * seconds
        steps = [seconds, *(float(later[method, how]["ms_per_step"]) / 1e3 for how in ("several kernels", "fused"))]
        heights = [work / each for each in steps]
        place = work / moved
        axes.plot([place] * 3, heights, color=colour, linewidth=1, alpha=0.6)
        for height, marker, face in zip(heights, ("o", "s", "D"), ("white", "white", colour), strict=True):
            axes.plot(place, height, marker, color=colour, markerfacecolor=face, markersize=7)
        share = f"{1e3 * steps[0]:.0f} → {1e3 * steps[1]:.0f} → {1e3 * steps[2]:.0f} ms"
        axes.annotate(f"{name}\n{share}", (place, heights[-1]), (9, -4), textcoords="offset points", va="top",
                      color=colour, fontsize=9)  # fmt: skip
    kinds = {"o": "first recorded steps", "s": "with random draws in one kernel", "D": "with fused operations"}
    for marker, words in kinds.items():
        axes.plot([], [], marker, color="#444", markerfacecolor="#444" if marker == "D" else "white", label=words)
    axes.legend(loc="lower right", frameon=False, fontsize=9)
    axes.set(xscale="log", yscale="log", xlim=ends, ylim=(15, 700))
    for axis, ticks in ((axes.xaxis, (10, 30, 100, 300, 1000)), (axes.yaxis, (20, 50, 100, 200, 500))):
        axis.set_major_locator(FixedLocator(ticks))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_locator(NullLocator())
    axes.set_xlabel("floating-point operations for each byte that has to be moved")
    axes.set_ylabel("TFLOP/s")
    axes.set_title(f"A step of {MODELS} models on one H200 against its limits", loc="left", fontsize=11)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(options.out, metadata={"Date": None})


if __name__ == "__main__":
    main()
