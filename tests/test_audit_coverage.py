"""The tables of the coverage study, on sets whose counts are known."""

import csv
import importlib.util
import sys
from itertools import pairwise
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def summary():
    spec = importlib.util.spec_from_file_location("summary", ROOT / "benchmarks" / "audit_coverage_summary.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


COMMON = {
    "rows": "1000", "width": "8", "target": "two", "balance": "even", "units": "rows", "modalities": "2", "kind": "product",
    "strength": "1.0", "synergy": "unclear", "worth": "0.1", "detectable_product": "0.05", "detectable_lookup": "0.1",
    "detectable_gate": "0.06", "bound": "0.03", "metric": "accuracy", "error": "", "vanilla": "0.7", "vanilla_low": "0.65",
    "vanilla_high": "0.75", "true_vanilla": "0.7", "true_half": "0.01",
}  # fmt: skip
SETS = [
    {"synergy": "present"},
    {"synergy": "absent", "worth": "0.15"},  # more than the stated .1
    {"synergy": "absent", "worth": "0.08"},  # less
    {"detectable_lookup": "none"},  # no size is stated, a product of .05 is said to be detected
    {"kind": "gate", "worth": "0.03"},  # too small to be detected
    {"strength": "0.0", "kind": "noise", "synergy": "present", "true_vanilla": "0.5"},
    {"strength": "0.0", "kind": "noise"},
    {"error": "no"},
]


def test_false_claims_false_absences_coverage_and_power_are_counted(summary, tmp_path, monkeypatch, capsys):
    with (tmp_path / "sets.csv").open("w", newline="") as text:
        writer = csv.DictWriter(text, COMMON)
        writer.writeheader()
        writer.writerows(COMMON | changes for changes in SETS)
    monkeypatch.setattr(sys, "argv", ["summary", str(tmp_path / "sets.csv")])
    summary.main()
    parts = [part.strip() for part in capsys.readouterr().out.split("\n\n")]
    titles = {title: table for title, table in pairwise(parts) if table.startswith("|")}
    all_of = {
        title: next((line for line in part.splitlines() if line.startswith("| all")), "")
        for title, part in titles.items()
    }
    assert "1 of 2" in all_of["Sets without an interaction that are called `present`"]
    assert "6 of 7" in all_of["Intervals of plain fusion's metric that cover its true value"]
    (falsely_absent,) = [line for title, line in all_of.items() if "more than the stated size" in title]
    assert "1 of 5" in falsely_absent
    (stated_power,) = [line for title, line in all_of.items() if "said to be detected" in title]
    assert "1 of 4" in stated_power
    assert (
        "| product | 1000 | 8 | 1.0 | 10.8 | 1 of 4 |"
        in titles["Sets with an interaction that are called `present`, by strength"]
    )
    assert "0 of 1" in titles["Sets with an interaction that are called `present`, by what it is worth"]
