"""``synib verify``: 0 if the numbers come out again, 1 if not, 2 for a mistake."""

import shutil

import pytest

from synib.cli.verify import table
from synib.files import read_csv, write_csv
from synib.studies import SpuriousXOR, run
from synib.studies.verify import Comparison, Verification
from synib.training import Cell


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    small = SpuriousXOR(seeds=2, beta=(1.0,), methods=("vanilla",), epochs=1)
    return run(small, tmp_path_factory.mktemp("run") / "out", device="cpu")


def test_a_true_folder_ends_with_0_and_a_table(synib_command, made):
    code, said, err = synib_command("verify", made, "--share", "1", "--device", "cpu", "--seed", "7")
    assert (code, err) == (0, "")
    assert said.count("vanilla, beta=1.0, seed") == 2
    assert "identical" in said
    assert "Matches: 2 of 2 models were trained again (--seed 7)" in said


def test_a_changed_number_ends_with_1_and_is_shown(synib_command, made, tmp_path):
    shutil.copytree(made, tmp_path / "run")
    rows = read_csv(tmp_path / "run" / "results.csv")
    write_csv(tmp_path / "run" / "results.csv", [row | {"test_accuracy": 0.123456} for row in rows])
    code, said, _ = synib_command("verify", tmp_path / "run", "--device", "cpu")
    assert code == 1
    assert "test_accuracy: was 0.123456" in said
    assert "Does not match: 2 of 2 models" in said


def test_of_many_models_the_table_has_those_that_differ_most():
    cells = tuple(Comparison(Cell("e", "m", seed=i), 1, 1, i / 100, "accuracy: ...", "differs") for i in range(50))
    shown = table(Verification(cells, 50, 0.01, (), ()))
    assert len(shown.rows) == 20
    assert "of 50 models" in shown.title


@pytest.mark.parametrize("arguments", [["nothing"], [".", "--share", "7"]])
def test_a_mistake_ends_with_2_and_one_sentence(synib_command, arguments):
    code, _, err = synib_command("verify", *arguments)
    assert code == 2
    assert err.startswith("synib: ")
    assert err.count("\n") == 1
