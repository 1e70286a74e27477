"""``synib verify``: 0 if the numbers come out again, 1 if not, 2 for a mistake."""

import shutil

import pytest

from synib.files import read_csv, write_csv
from synib.studies import SpuriousXOR, run


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
    assert "test_accuracy: 0.123456 there" in said
    assert "Does not match: 1 of 2 models" in said


@pytest.mark.parametrize("options", [["nothing"], ["--share", "7"], ["--cells", "0"]])
def test_a_mistake_ends_with_2_and_one_sentence(synib_command, made, options, untrained):
    folder = [] if options == ["nothing"] else [made]
    code, _, err = synib_command("verify", *folder, *options)
    assert code == 2
    assert err.startswith("synib: ")
    assert err.count("\n") == 1
