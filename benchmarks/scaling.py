"""How the time and memory of `synib audit --quick` and `synib fit` grow with the number of rows, or with their width.

Rows of two modalities are written to a folder of .npy files, one folder at a time; each command runs in a process of its own,
which is watched as in ``audit_memory.py``: processor seconds, and the most anonymous memory. Seconds are those of the
processor, so that other work on the machine hardly matters. The exponent of a step is the logarithm of the ratio of two
consecutive measurements over that of their sizes: 1 is linear. It is also computed beyond the first line, which shows what
starting, importing and a fixed number of training steps take: only what comes on top can be compared with linear growth.

    python benchmarks/scaling.py [--rows 1000 --rows 10000 ...] [--width 768] [--command audit] [--out FILE.csv]
        [--plot FILE.svg]
    python benchmarks/scaling.py --rows 10000 --width 16 --width 256 ... [--out FILE.csv] [--plot FILE.svg]

Lines that --out already has are kept and not measured again. A million rows of 2 x 768 numbers are 6.1 GB on disk.
"""

import argparse
import csv
import math
import shutil
import tempfile
from collections.abc import Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

from audit_memory import COMMANDS, ROOT, answer, size_of, watched, write

ROWS = (1000, 3162, 10_000, 31_623, 100_000, 316_228, 1_000_000)
MEASURES = {"cpu_seconds": "processor seconds", "anonymous_gb": "anonymous memory (GB)"}


def measured(options: argparse.Namespace, known: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    done = {(line["command"], int(line["rows"]), int(line["width"])) for line in known}
    with tempfile.TemporaryDirectory(dir=options.files) as scratch:
        for rows, width in product(options.rows or ROWS, options.width or [768]):
            commands = [c for c in options.command or COMMANDS if (c, rows, width) not in done]
            if not commands:
                continue
            folder = write(Path(scratch) / f"{rows}x{width}", rows, width)
            for command in commands:
                out = Path(scratch) / f"out-{command}-{rows}-{width}"
                split = ["--split", "part"] if options.split else []
                found, printed = watched([*COMMANDS[command], str(folder), *split, "--out", str(out)], ROOT / "src")
                size = round(size_of(folder) / 1e9, 4)
                yield {
                    "command": command, "rows": rows, "width": width, "split": options.split, "file_gb": size,
                    **found, "answer": answer(command, printed),
                }  # fmt: skip
            shutil.rmtree(folder)


def by_size(lines: list[dict[str, Any]], command: str, axis: str) -> list[dict[str, Any]]:
    """The lines of a command in the order of their size."""
    return sorted((line for line in lines if line["command"] == command), key=lambda line: int(line[axis]))


def exponents(lines: list[dict[str, Any]], measure: str, axis: str) -> list[tuple[int, float, float]]:
    """The size, growth against the line before, and the same beyond the first line."""
    result = []
    for before, after in pairwise(lines):
        wider = math.log(int(after[axis]) / int(before[axis]))
        low, high, first = (float(line[measure]) for line in (before, after, lines[0]))
        beyond = math.log((high - first) / (low - first)) / wider if high > low > first else math.nan
        result.append((int(after[axis]), math.log(high / low) / wider, beyond))
    return result


def draw(lines: list[dict[str, Any]], path: Path, axis: str) -> None:
    """Both measures against rows or width, with lines of linear growth from the largest measurement."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "synib"
    from matplotlib import pyplot

    first = lines[0]
    words_of_axis = (
        f"rows of 2 × {first['width']} numbers" if axis == "rows" else f"width ({int(first['rows']):,} rows)"
    )
    figure, axes = pyplot.subplots(1, len(MEASURES), figsize=(9, 3.6), layout="constrained")
    for panel, (measure, words) in zip(axes, MEASURES.items(), strict=True):
        for command in dict.fromkeys(line["command"] for line in lines):
            own = by_size(lines, command, axis)
            sizes, values = [int(line[axis]) for line in own], [float(line[measure]) for line in own]
            (drawn,) = panel.loglog(sizes, values, marker="o", label=command)
            linear = [values[-1] * n / sizes[-1] for n in sizes]
            panel.loglog(
                sizes, linear, linestyle=":", color=drawn.get_color(), label=f"linear, through the last {command}"
            )
        panel.set_ylim(bottom=min(float(line[measure]) for line in lines) / 3)
        panel.set_xlabel(words_of_axis)
        panel.set_ylabel(words)
        panel.legend(fontsize=7)
    figure.savefig(path, metadata={"Date": None} if path.suffix == ".svg" else None, dpi=120)
    pyplot.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", action="append", type=int, help="a number of rows; 1,000 to 1,000,000 by default")
    parser.add_argument("--width", action="append", type=int, help="numbers of each modality; 768 by default")
    parser.add_argument("--command", action="append", choices=COMMANDS, help="both by default")
    parser.add_argument("--split", action="store_true", help="train on four of five rows, once, instead of in folds")
    parser.add_argument("--files", help="where the folders are written, one at a time; a temporary folder by default")
    parser.add_argument("--out", type=Path, help="add the lines there")
    parser.add_argument("--plot", type=Path, help="draw them there")
    options = parser.parse_args()
    lines: list[dict[str, Any]] = []
    if options.out and options.out.exists():
        with options.out.open(newline="") as stream:
            lines += csv.DictReader(stream)
    for line in measured(options, lines):
        print(", ".join(f"{name} {value}" for name, value in line.items()), flush=True)
        lines.append(line)
        if options.out:
            with options.out.open("w", newline="") as stream:
                writer = csv.DictWriter(stream, list(line), lineterminator="\n")
                writer.writeheader()
                writer.writerows(lines)
    axis = "rows" if len({int(line["width"]) for line in lines}) == 1 else "width"
    for command in dict.fromkeys(line["command"] for line in lines):
        for measure, words in MEASURES.items():
            for size, growth, beyond in exponents(by_size(lines, command, axis), measure, axis):
                print(
                    f"{command}, {words}, to {axis} {size:,}: exponent {growth:.2f}, beyond the first line {beyond:.2f}"
                )
    if options.plot:
        draw(lines, options.plot, axis)


if __name__ == "__main__":
    main()
