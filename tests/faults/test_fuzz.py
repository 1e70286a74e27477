"""Damaged and odd inputs end in an answer or a sentence: some of those that ``benchmarks/fuzz.py`` makes by thousands."""

import importlib.util
import os
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import synib
from synib.studies import provenance
from synib.training.device import hardware

for needed in ("sklearn", "pyarrow", "safetensors"):
    pytest.importorskip(needed, reason="synib[audit]")

BENCHMARKS = Path(synib.__file__).parents[2] / "benchmarks"


def loaded(name):
    spec = importlib.util.spec_from_file_location(name, BENCHMARKS / f"{name}.py")
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


inputs, targets, fuzz = loaded("fuzz_inputs"), loaded("fuzz_targets"), loaded("fuzz")
WATCH = fuzz.Watch()


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("fuzz")
    fuzz.prepare(home / "valid")
    provenance.code()  # both ask another program, once
    hardware()
    return home


@pytest.fixture
def tried(home, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("SYNIB_DATA", raising=False)
    monkeypatch.delenv("SYNIB_DEBUG", raising=False)
    monkeypatch.setattr(sys, "argv", sys.argv)
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)
    before = Path.cwd()

    def call(target, seed):
        try:
            return fuzz.attempt(target, seed, home / "valid", home / "box", WATCH)
        finally:
            os.chdir(before)

    return call


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("target", fuzz.TARGETS)
def test_an_input_ends_in_an_answer_or_a_sentence(tried, target):
    @settings(max_examples=6)
    @given(st.integers(0, 10**9))
    def check(seed):
        states, why = tried(target, str(seed))
        assert states in (["answered"], ["said"]), why

    check()


def test_what_must_not_happen_is_seen(tried, monkeypatch, tmp_path):
    """The fuzzing itself: a traceback, a file elsewhere, a process, and words that are no sentence are all counted."""

    def harm(call):
        def make(rng, home, box):
            return call, []

        monkeypatch.setitem(fuzz.TARGETS, "harm", make)
        return tried("harm", "0")[0]

    assert harm(lambda: None) == ["answered"]
    assert harm(lambda: {}["x"]) == ["traceback"]
    assert harm(lambda: (tmp_path / "new").write_text("")) == ["answered", "outside"]
    assert harm(lambda: Path("../in/new").write_text("")) == ["answered", "outside"]
    assert harm(lambda: os.system("true")) == ["answered", "forbidden"]
    assert harm(["report", "nothing"]) == ["said"]
    monkeypatch.setattr("synib.cli.one_line", lambda text: "two\nlines")
    assert harm(["report", "nothing"]) == ["untidy"]
