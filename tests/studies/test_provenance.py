"""What a results folder says about how it came to be."""

import hashlib
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
import torch

import synib
from synib.studies import SpuriousXOR, provenance, run
from synib.studies.digits.data import digits
from synib.studies.digits.experiment import DigitsScarce

SMALL = SpuriousXOR(seeds=2, beta=(1.0,), methods=("vanilla",), epochs=1)


def test_a_run_records_command_code_versions_machine_seeds_and_that_no_file_was_read(tmp_path):
    record = json.loads((run(SMALL, tmp_path / "run", device="cpu", command="synib x") / "run.json").read_text())
    assert record["command"] == "synib x"
    assert record["versions"] == {
        "synib": synib.__version__,
        "torch": torch.__version__,
        "numpy": np.__version__,
        "python": ".".join(map(str, sys.version_info[:3])),
    }
    assert record["libraries"]["scipy"]
    assert record["hardware"]
    assert "CPU" in record["device"]
    assert record["seeds"] == [0, 1]
    assert record["data"] == "made by code"
    assert (record["precision"], record["engine"]) == ("float32", "fleet")


def test_the_commit_is_that_of_the_package_and_a_changed_file_is_said(tmp_path, monkeypatch):
    def git(*arguments):
        who = ["-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "commit.gpgsign=false"]
        return subprocess.run(
            ["git", *who, *arguments], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    def code():
        provenance.code.cache_clear()
        return dict(provenance.code())

    package = tmp_path / "src" / "synib"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    monkeypatch.setattr(synib, "__file__", str(package / "__init__.py"))
    try:
        assert code() == {"commit": "not a git checkout"}
        (tmp_path / "theirs.txt").write_text("")
        git("init", "-q")
        git("add", "theirs.txt")
        git("commit", "-q", "-m", "first")
        assert code() == {"commit": "not a git checkout"}  # in somebody's checkout, but no part of it
        git("add", ".")
        git("commit", "-q", "-m", "second")
        commit = git("rev-parse", "HEAD").strip()
        assert code() == {"commit": commit, "changed": False}
        (tmp_path / "notes.txt").write_text("not the package's")
        assert code() == {"commit": commit, "changed": False}
        (package / "new.py").write_text("")
        assert code() == {"commit": commit, "changed": True}
    finally:
        provenance.code.cache_clear()


def test_checksums_are_of_the_files_that_are_there_and_name_no_folder_above_them(digits_root):
    found = provenance.data_read_by(lambda: digits(digits_root))
    assert found.keys() == {"digits"}
    home = digits_root / "digits"
    images = "mnist-valid.npz"
    assert str(digits_root) not in json.dumps(found)
    assert found["digits"][images] == hashlib.sha256((home / images).read_bytes()).hexdigest()
    assert "recordings/0_anna_0.wav and 99 more, contents" in found["digits"]


def test_one_checksum_for_many_files_sees_contents_or_above_the_limit_sizes(tmp_path, monkeypatch):
    files = [tmp_path / f"{k}.bin" for k in range(20)]
    for k, file in enumerate(files):
        file.write_bytes(bytes([k]))
    (first,) = provenance.checksums(tmp_path, files).items()
    assert first[0] == "0.bin and 19 more, contents"
    files[3].write_bytes(b"x")
    (second,) = provenance.checksums(tmp_path, files).items()
    assert second != first
    monkeypatch.setattr(provenance, "MOST_BYTES", 10)
    (third,) = provenance.checksums(tmp_path, files).items()
    assert third[0] == "0.bin and 19 more, names and sizes"
    files[3].write_bytes(b"xx")
    assert provenance.checksums(tmp_path, files) != dict([third])


@pytest.fixture
def small_digits(digits_root, tmp_path):
    """A copy of the data that may be changed, and an experiment on it."""
    shutil.copytree(digits_root, tmp_path / "data")
    few = DigitsScarce(seeds=1, methods=("vanilla",), root=str(tmp_path / "data"), overrides={"vanilla": {"epochs": 1}})
    return few, tmp_path / "data" / "digits" / "mnist-test.npz"


def test_a_run_goes_on_with_its_own_data_only(small_digits, tmp_path, untrained):
    few, images = small_digits
    out = tmp_path / "out"
    with pytest.raises(AssertionError, match="nothing should have been trained"):
        run(few, out, device="cpu")
    recorded = json.loads((out / "run.json").read_text())
    assert recorded["data"]["digits"]["mnist-test.npz"] == hashlib.sha256(images.read_bytes()).hexdigest()
    with pytest.raises(AssertionError):  # the same data: it goes on
        run(few, out, device="cpu")
    content = images.read_bytes()
    images.write_bytes(content + b"more")
    with pytest.raises(ValueError, match=r"a run on other data: the files of digits have changed since it started"):
        run(few, out, device="cpu")
    assert json.loads((out / "run.json").read_text()) == recorded
    del recorded["data"]  # of an earlier version
    (out / "run.json").write_text(json.dumps(recorded))
    with pytest.raises(AssertionError):
        run(few, out, device="cpu")


def test_what_changed_is_named():
    assert provenance.changed(None, {"a": 1}) == []
    assert provenance.changed({"a": 1, "b": 2}, {"a": 1, "b": 3, "c": 4}) == ["b", "c"]
    assert provenance.changed("made by code", {"a": 1}) == ["the data"]
