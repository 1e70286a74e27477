"""Mistakes in commands: each is one sentence that quotes what came, exit code 2, no traceback, and no file is touched."""

import json
import re
import shutil
from pathlib import Path

import pytest

import synib
from synib.studies import SpuriousXOR

PUBLISHED = Path(synib.__file__).parents[2] / "docs" / "results" / "spurious-xor"
COPIED = ("config.json", "results.csv", "curves.csv", "timings.csv", "run.json")


def refused(result, *quoted):
    code, out, err = result
    assert (code, out) == (2, "")
    assert re.fullmatch(r"synib: [^\n]*[.?]\n", err)
    for words in quoted:
        assert words in err


@pytest.mark.parametrize(
    "arguments",
    [
        ["spurious-xor", "--device", "gpu"],
        ["spurious-xor", "--device", "cuda"],
        ["spurious-xor", "--method", "synib-randm"],
        ["spurious-xor", "--beta", "nan"],
        ["spurious-xor", "--beta", "1", "--beta", "1"],
        ["spurious-xor", "--seeds", "0"],
        ["compare", "--on", "parity"],
        ["pid-simplex", "--step", "0.3"],
        ["pid-simplex", "--precision", "fp8"],
        ["pid-simplex", "--precision", "tf32"],
        ["pid-dynamics", "--mixture", "0.5", "0.5", "0.5", "0.5"],
        ["search", "--of", "calibration"],
    ],
    ids=" ".join,
)
def test_an_option_with_an_impossible_value_is_refused(synib_command, untrained, monkeypatch, tmp_path, arguments):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    refused(synib_command("reproduce", *arguments, "--out", "run"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["--seeds", "many"], ["--together", "0"], ["--together", "some"], ["--no-such-option"]]
)
def test_an_option_that_cannot_be_read_is_exit_code_2_without_a_traceback(synib_command, untrained, arguments):
    code, _, err = synib_command("reproduce", "spurious-xor", *arguments)
    assert code == 2
    assert "Traceback" not in err
    assert arguments[0] in err


@pytest.mark.parametrize(
    ("setting", "quoted"),
    [
        ("vanilla", "'vanilla'"),
        ("lr=0.1", "'lr=0.1'"),
        ("vanila.lr=1", "did you mean 'vanilla'"),
        ("vanilla.lr=high", "got 'high'"),
        ("vanilla.lr = -1", "got -1"),  # spaces are allowed
        ("vanilla.lr=null", "got None"),
        ("vanilla.lr=NaN", "got nan"),
        ("vanilla.lr=true", "got True"),
        ("vanilla.weight_decay=-1", "got -1"),
        ("vanilla.batch_size=1.5", "got 1.5"),
        ("vanilla.epochs=5", "epochs"),
        ("vanilla.width=8", "'width'"),
        ("vanilla.family=categorical", "family"),
        ("confidence.weight=big", "'big'"),
        ("synib-random.p=[0.2,0.4]", "got [0.2, 0.4]"),
        ("synib-random.p=2", "got 2"),
        ('synib-oracle.blocks=["signl"]', "got ['signl']"),
    ],
)
def test_an_impossible_setting_is_refused(synib_command, untrained, tmp_path, setting, quoted):
    refused(synib_command("reproduce", "spurious-xor", "--set", setting, "--out", "run"), quoted)
    assert list(tmp_path.iterdir()) == []


def changed(**options):
    return json.dumps({**SpuriousXOR().config(), **options})


@pytest.mark.parametrize(
    ("content", "quoted"),
    [
        (None, "c.json"),
        ("seeds: 3\n", "c.json"),
        ("[1]", "c.json"),
        ('{"experiment": "parity"}', "c.json"),
        (changed(seed=1), "'seed'"),
        (changed(seeds="one"), "got 'one'"),
        (changed(overrides=["vanilla"]), "'vanilla'"),
        (changed(overrides={"vanilla": 0.1}), "got 0.1"),
        (changed(methods="vanilla"), "got 'vanilla'"),
    ],
)
def test_a_config_that_cannot_be_used_is_refused_and_kept(synib_command, untrained, tmp_path, content, quoted):
    if content is not None:
        (tmp_path / "c.json").write_text(content)
    result = synib_command("reproduce", "spurious-xor", "--config", "c.json", "--out", "run")
    refused(result, quoted)
    assert "remove it" not in result[2]
    assert not (tmp_path / "run").exists()


def test_a_folder_as_a_config_is_refused(synib_command, untrained):
    refused(synib_command("reproduce", "spurious-xor", "--config", "."), "--config")


def test_a_config_with_a_byte_order_mark_is_read(synib_command, untrained, tmp_path):
    (tmp_path / "c.json").write_text(changed(seeds=0), encoding="utf-8-sig")
    refused(synib_command("reproduce", "spurious-xor", "--config", "c.json"), "seeds", "got 0")


@pytest.mark.parametrize("out", [".", "", "sub/.."])
def test_a_folder_that_holds_other_files_keeps_them(synib_command, untrained, tmp_path, out):
    (tmp_path / "sub").mkdir()
    (tmp_path / "README.md").write_text("mine")
    refused(synib_command("reproduce", "spurious-xor", "--method", "vanilla", "--out", out), "README.md, sub")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["README.md", "sub"]


def test_a_folder_that_cannot_be_written_is_refused_before_training(synib_command, untrained, tmp_path):
    (tmp_path / "file").write_text("")
    refused(synib_command("reproduce", "spurious-xor", "--out", "file/run"), "file/run", "Not a directory")


@pytest.mark.parametrize(
    "change",
    [
        lambda text: b"",
        lambda text: b"PK\x03\x04\xff",
        lambda text: text[:-60],
        lambda text: text[: text.index(b"\n", 2000) + 1],
        lambda text: text.replace(b"beta", b"Beta", 1),
        lambda text: text.replace(b",", b";"),
        lambda text: text.replace(b",0.", b",n/a 0.", 40),
    ],
    ids=["empty", "binary", "cut in a line", "cut after a line", "renamed column", "semicolons", "text as a number"],
)
def test_a_table_that_was_damaged_is_refused(synib_command, tmp_path, change):
    (tmp_path / "run").mkdir()
    for name in COPIED:
        shutil.copy(PUBLISHED / name, tmp_path / "run" / name)
    table = tmp_path / "run" / "results.csv"
    table.write_bytes(change(table.read_bytes()))
    refused(synib_command("report", "run"), "results.csv")
    assert not (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize("name", ["nothing", "folder", "results.csv"])
def test_a_report_of_something_else_than_a_run_is_refused(synib_command, tmp_path, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "results.csv").write_text("method\n")
    refused(synib_command("report", name), f"synib: {name} is ")


def test_control_characters_in_names_are_escaped_in_the_sentence(synib_command):
    refused(synib_command("report", "two\nlines \x1b[31m red \u2028 end"), r"two\nlines \x1b[31m red \u2028 end")
