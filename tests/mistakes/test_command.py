"""What a tired user types: each mistake is one sentence and exit code 2, and nothing of theirs is touched."""

import json
import re
import shutil
from pathlib import Path

import pytest

import synib
from synib.studies import SpuriousXOR

PUBLISHED = Path(synib.__file__).parents[2] / "docs" / "results" / "spurious-xor"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("vanilla.lr=high", r"vanilla\.lr is a number above 0; got 'high'"),
        ("vanilla.lr=-0.1", r"vanilla\.lr is a number above 0; got -0\.1"),
        ("vanilla.lr=null", r"vanilla\.lr is a number above 0; got None"),
        ("vanilla.lr=NaN", r"vanilla\.lr is a number above 0; got nan"),
        ("vanilla.lr=true", r"vanilla\.lr is a number above 0; got True"),
        ("lr=0.1", r"--set takes METHOD\.SETTING=VALUE, .*; got 'lr=0\.1'"),
        ("vanilla.weight_decay=-1", r"vanilla\.weight_decay is a number of at least 0; got -1"),
        ("vanilla.batch_size=0", r"vanilla\.batch_size is a whole number of at least 1; got 0"),
        ("vanilla.batch_size=1.5", r"vanilla\.batch_size is a whole number of at least 1; got 1\.5"),
        ("vanilla.epochs=5", r"epochs is the same for all methods: .* not vanilla\.epochs"),
        ("vanilla.width=8", r"'width'"),
        ("vanilla.family=categorical", r"family is decided by the experiment"),
        ("confidence.weight=big", r"'big'"),
        ("synib-random.p=[0.2,0.4]", r"got \[0\.2, 0\.4\]"),
        ('synib-oracle.blocks=["signl"]', r"blocks is a list of some of noise, shortcut, signal; got \['signl'\]"),
        ("synib-oracle.blocks=signal", r"blocks is a list of some of noise, shortcut, signal; got 'signal'"),
    ],
)
def test_a_setting_that_cannot_be_is_said_before_the_folder_is_made(synib_command, untrained, tmp_path, setting, said):
    code, _, err = synib_command("reproduce", "spurious-xor", "--set", setting, "--out", "run")
    assert code == 2
    assert re.fullmatch(f"synib: .*{said}.*\n", err)
    assert not list(tmp_path.iterdir())


def test_spaces_around_a_setting_are_forgiven(synib_command, untrained, tmp_path):
    code, _, err = synib_command("reproduce", "spurious-xor", "--set", "vanilla.lr = -1", "--out", "run")
    assert (code, err) == (2, "synib: vanilla.lr is a number above 0; got -1.\n")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, r"--config takes the config\.json that a run left; c\.json is no such file"),
        ("seeds: 3\n", r"--config takes the config\.json that a run left; c\.json is no JSON"),
        ({"overrides": ["vanilla"]}, r"takes overrides in the form \{.*; got"),
        ({"overrides": {"vanilla": 0.1}}, r"takes overrides in the form \{.*; got 0\.1"),
        ({"methods": "vanilla"}, r"takes methods in the form \(.*; got 'vanilla'"),
    ],
)
def test_a_config_that_cannot_be_used_is_not_to_be_removed(synib_command, untrained, tmp_path, content, said):
    if content is not None:
        text = content if isinstance(content, str) else json.dumps({**SpuriousXOR().config(), **content})
        (tmp_path / "c.json").write_text(text)
    code, _, err = synib_command("reproduce", "spurious-xor", "--config", "c.json", "--out", "run")
    assert code == 2
    assert re.fullmatch(f"synib: .*{said}.*\n", err)
    assert "remove it" not in err
    assert not (tmp_path / "run").exists()


def test_a_folder_for_a_config_is_one_sentence(synib_command, untrained):
    code, _, err = synib_command("reproduce", "spurious-xor", "--config", ".")
    assert (code, err) == (2, "synib: --config takes the config.json that a run left; . is a folder.\n")


def test_a_config_with_a_byte_order_mark_is_read(synib_command, untrained, tmp_path):
    text = json.dumps({**SpuriousXOR().config(), "seeds": 0})
    (tmp_path / "c.json").write_text(text, encoding="utf-8-sig")
    assert synib_command("reproduce", "spurious-xor", "--config", "c.json")[2] == "synib: seeds is at least 1; got 0.\n"


@pytest.mark.parametrize("out", [".", "", "sub/.."])
def test_a_folder_that_holds_other_files_keeps_them(synib_command, untrained, tmp_path, out):
    (tmp_path / "sub").mkdir()
    (tmp_path / "README.md").write_text("mine")
    code, _, err = synib_command("reproduce", "spurious-xor", "--method", "vanilla", "--out", out)
    assert code == 2
    assert "holds other files (README.md, sub) and no run; choose another folder." in err
    assert sorted(p.name for p in tmp_path.iterdir()) == ["README.md", "sub"]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda text: b"", "holds no table"),
        (lambda text: b"PK\x03\x04\xff", "holds no table"),
        (lambda text: text[:-60], r"line 421 has \d+ fields, expected \d+"),
        (lambda text: text[: text.index(b"\n", 2000) + 1], r"has \d+ rows, and the run of its config\.json 420"),
        (lambda text: text.replace(b"beta", b"Beta", 1), "has no column 'beta'"),
        (lambda text: text.replace(b",", b";"), r"line 2 has 2 fields|has no column 'method'"),
        (lambda text: text.replace(b",0.", b",n/a 0.", 40), "holds 'n/a 0.*' as .*, where a number belongs"),
    ],
)
def test_a_table_that_was_edited_is_one_sentence(synib_command, tmp_path, change, said):
    shutil.copytree(PUBLISHED, tmp_path / "run")
    table = tmp_path / "run" / "results.csv"
    table.write_bytes(change(table.read_bytes()))
    code, _, err = synib_command("report", "run")
    assert code == 2
    assert re.fullmatch(rf"synib: .*results\.csv.*({said}).*\n", err)


def test_a_report_of_a_file_is_one_sentence(synib_command, tmp_path):
    (tmp_path / "results.csv").write_text("method\n")
    assert synib_command("report", "results.csv")[::2] == (
        2,
        "synib: results.csv is a file; give the folder of a finished run.\n",
    )


@pytest.mark.parametrize(
    ("of", "said"),
    [
        ("calibration", "calibration has no candidates to search; parity, pid-simplex, .* have some"),
        ("search", "No experiment is called 'search'; there are spurious-xor, "),
    ],
)
def test_what_cannot_be_searched_names_what_can(synib_command, untrained, of, said):
    code, _, err = synib_command("reproduce", "search", "--of", of)
    assert code == 2
    assert re.match(f"synib: {said}", err)
    assert not re.search(r"\bsearch,|, search\b", err.partition(";")[2])


def test_control_characters_in_names_are_spelled_out_in_the_sentence(synib_command, tmp_path):
    code, _, err = synib_command("report", "two\nlines \x1b[31m red \u2028 end")
    assert code == 2
    assert err.count("\n") == 1
    assert r"two\nlines \x1b[31m red \u2028 end" in err
