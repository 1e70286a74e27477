"""What the page of the ablations says in words."""

import pytest

from synib.studies.ablations.catalogue import MAPS, SHARES, combined
from synib.studies.ablations.page import MapOfTask

SCORES = {
    "vanilla": 0.5,
    "confidence, λ = 1": 0.6,
    "confidence, λ = 10": 0.7,
    "SynIB, λ = 10": 0.8,
    "SynIB, λ = 30": 0.75,
}


def summary(name, score):
    return [
        {"method": line.method, "task": "digits", **combined(line, column), "metric": metric, "mean": score(row, text),
         "se": 0.01, "n": 2}
        for row, line in MAPS[name].rows.items()
        for text, column in MAPS[name].columns.items()
        for metric in ("synergy", "total")
    ]  # fmt: skip


def drawn(name, score):
    return MapOfTask(name, "digits", MAPS[name].rows, MAPS[name].columns, summary(name, score))


def test_the_best_and_the_worst_setting_are_named():
    best = ("π = 1", "10")
    note = drawn("masking", lambda *at: 0.9 if at == best else 0.5 if at == ("π = 0.3", "1") else 0.7).note()
    assert note == "Synergy is highest at π = 1, λ = 10 (0.900), and lowest at π = 0.3, λ = 1 (0.500)."


def test_synib_is_compared_with_the_best_other_method_at_every_share():
    note = drawn(
        "share", lambda row, share: SCORES[row] - (0.3 if share == "0.02" and row.startswith("SynIB") else 0)
    ).note()
    assert note.count("against 0.700 (confidence, λ = 10)") == len(SHARES)
    assert "0.02: 0.500 (SynIB, λ = 10) against 0.700 (confidence, λ = 10), -0.200" in note
    assert note.count("+0.100") == len(SHARES) - 1


@pytest.mark.parametrize("name", MAPS)
def test_a_map_without_numbers_says_nothing(name):
    empty = MapOfTask(name, "digits", MAPS[name].rows, MAPS[name].columns, [])
    assert empty.note() == ""
    assert all(cell is None for row in empty.cells("synergy") for cell in row)
