"""The paper's construction on CREMA-D's names, tabulated by ``benchmarks/crema_irony.py``."""

import importlib.util
from pathlib import Path

import pytest

import synib
from synib.studies.irony.crema_d import EMOTIONS

SENTENCES = ("IEO", "TIE", "IOM", "IWW", "TAI", "MTI", "IWL", "ITH", "DFA", "ITS", "TSI", "WSI")


@pytest.fixture(scope="module")
def module():
    file = Path(synib.__file__).parents[2] / "benchmarks" / "crema_irony.py"
    spec = importlib.util.spec_from_file_location("crema_irony", file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table(module, tmp_path_factory):
    root = tmp_path_factory.mktemp("names")
    (root / "crema-d").mkdir()
    names = (f"{actor}_{s}_{e}_XX" for actor in range(1001, 1041) for s in SENTENCES for e in EMOTIONS)
    (root / "crema-d" / "SentenceFilenames.csv").write_text("\n".join(["Filename", *names]) + "\n")
    return module.rows(str(root))


def test_there_is_a_row_for_every_kind_of_donors_rate_fold_and_split_with_as_many_ironic_clips_as_the_rate_says(table):
    assert len(table) == 2 * 2 * 4 * 5 * 3
    for row in table:
        assert row["clips"] == row["actors"] * 72
        assert row["ironic"] == int(row["alpha"] * row["clips"] / 6 + 1e-9)


def test_a_donor_who_is_the_same_actor_leaves_nothing_to_tell_by_the_person(table):
    assert {row["another_actor_auc"] for row in table if row["same_actor"]} == {0.5}
    assert min(row["another_actor_auc"] for row in table if not row["same_actor"] and row["split"] == "train") > 0.9


def test_only_the_papers_donors_let_the_voice_tell_irony(module, table):
    def mean(donors):
        own = [r["voice_f1"] - r["always_f1"] for r in table if r["donors"] == donors and r["split"] == "train"]
        return sum(own) / len(own)

    assert mean("paper") > 0.1 > 0.05 > mean("balanced") > -1e-9
    lines = module.markdown(table).splitlines()
    assert len(lines) == 2 + 2 * 2 * 4
    assert all(line.count("|") == 10 for line in lines)
