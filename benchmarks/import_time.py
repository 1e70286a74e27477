"""What `import synib` adds to `import torch`: seconds of the processor, each in a fresh process, taking turns.

python benchmarks/import_time.py [--rounds 10] [--out FILE.csv]
"""

import argparse
import csv
import platform
import statistics
import subprocess
import sys

import synib

CODE = "import time; import torch; start = time.process_time(); import {}; print(time.process_time() - start)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--out", help="write a row for each module there")
    options = parser.parse_args()
    modules = ("torch", "synib", "synib.measure", "synib.studies", "synib.cli")
    seconds: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(options.rounds):
        for module in modules:
            done = subprocess.run(
                [sys.executable, "-c", CODE.format(module)], capture_output=True, text=True, check=True
            )
            seconds[module].append(float(done.stdout))
    rows = [
        {
            "module": module,
            "seconds": round(statistics.median(times), 4),
            "least": round(min(times), 4),
            "most": round(max(times), 4),
            "n": len(times),
            "versions": f"synib {synib.__version__}, python {platform.python_version()}",
        }
        for module, times in seconds.items()
    ]
    for row in rows:
        print(f"{row['module']:<20}{row['seconds']:>8.3f} s  [{row['least']:.3f}, {row['most']:.3f}] n = {row['n']}")
    if options.out:
        with open(options.out, "w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)


if __name__ == "__main__":
    main()
