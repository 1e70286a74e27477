"""The command, as a user meets it."""

import json
import re
import shutil
import subprocess
import sys
from dataclasses import fields

import pytest

import synib
from synib.report import build
from synib.studies import EXPERIMENTS, SpuriousXOR, run
from synib.training import fleet

EXPERIMENT = SpuriousXOR(seeds=1, beta=(0.0, 1.0), methods=("vanilla", "confidence"), epochs=2)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(EXPERIMENT.config()))
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A finished run, to be copied."""
    path = tmp_path_factory.mktemp("finished") / "run"
    run(EXPERIMENT, path, device="cpu", command="synib reproduce spurious-xor")
    build(path)
    return path


@pytest.fixture
def copied(finished, tmp_path):
    return shutil.copytree(finished, tmp_path / "run")


def files(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_command_with_all_its_options(synib_command, name):
    kind = EXPERIMENTS[name]
    code, out, _ = synib_command("reproduce", kind.group or name, "--help")
    assert code == 0
    flags = {"methods": "method", "variants": "variant", "overrides": "set", "test_shortcut": "test-shortcut"}
    flags |= {
        "source": "data",
        "donors": "donor",
        "skip_broken": "skip-broken",
        "maps": "map",
        "leave_out": "leave-out",
    }
    assert {f"--{flags.get(f.name, f.name)}" for f in fields(kind)} <= set(out.split())
    assert ("--quick" in out) == any(
        k.quick for k in EXPERIMENTS.values() if (k.group or k.name) == (kind.group or name)
    )


def test_a_run_goes_on_in_the_precision_it_began_with_or_not_at_all(synib_command, config, copied, untrained):
    before = files(copied)
    arguments = ["reproduce", "spurious-xor", "--config", config, "--out", "run", "--precision", "bf16"]
    code, _, err = synib_command(*arguments)
    assert (code, files(copied)) == (2, before)
    assert "float32" in err
    assert err.count("\n") == 1


def test_version_is_the_packages(synib_command):
    assert synib_command("--version") == (0, f"synib {synib.__version__}\n", "")


def test_the_command_is_installed_and_its_mistakes_have_no_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "synib", "reproduce", "spurious-xor", "--device", "gpu"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("synib: ")
    assert done.stderr.endswith("got 'gpu'.\n")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_the_simplex_on_a_laptop_leaves_triangles_and_says_that_it_is_smaller(synib_command, tmp_path):
    small = "--quick --step 1 --seeds 1 --width 8 --epochs 2 --method vanilla --out run"
    code, out, err = synib_command("reproduce", "pid-simplex", *small.split())
    assert (code, err) == (0, "")
    assert "mean over the simplex" in out
    assert {"figure.svg", "report.html", "results.csv", "summary.csv", "timings.csv"} <= files(tmp_path / "run").keys()
    assert "width 8 instead of 1,024" in (tmp_path / "run" / "report.html").read_text()


def test_a_run_says_where_its_results_are_and_is_repeatable_from_its_config(synib_command, config, tmp_path):
    code, out, err = synib_command("reproduce", "spurious-xor", "--config", config, "--out", "first", "--device", "cpu")
    assert (code, err) == (0, "")
    assert "4 models on cpu" in out
    assert "100 %" in out
    assert "first/figure.svg" in out
    assert "first/report.html" in out
    assert re.search(r"vanilla\W+\d\.\d\d", out)
    record = json.loads((tmp_path / "first" / "run.json").read_text())
    assert record["command"] == f"synib reproduce spurious-xor --config {config} --out first --device cpu"
    assert record["versions"]["synib"] == synib.__version__

    again = synib_command("reproduce", "spurious-xor", "--config", "first/config.json", "--out", "second")
    assert again[0] == 0
    for name in ("config.json", "results.csv", "summary.csv", "curves.csv", "figure.svg", "validation.svg"):
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes()


def test_what_is_typed_counts_more_than_the_config(synib_command, config, tmp_path):
    code, _, _ = synib_command(
        "reproduce", "spurious-xor", "--config", config, "--method", "vanilla", "--beta", "0.5", "--out", "run"
    )
    assert code == 0
    saved = json.loads((tmp_path / "run" / "config.json").read_text())
    assert saved == {**json.loads(config.read_text()), "methods": ["vanilla"], "beta": [0.5]}


def test_a_setting_can_be_changed_and_is_part_of_the_config(synib_command, config, tmp_path):
    out = tmp_path / "changed"
    changes = ["vanilla.lr=0.5", "confidence.weight=2", "synib-random.noise=shuffled"]
    settings = [word for change in changes for word in ("--set", change)]
    code, _, error = synib_command("reproduce", "spurious-xor", "--config", config, *settings, "--out", out)
    assert (code, error) == (0, "")
    assert json.loads((out / "config.json").read_text())["overrides"] == {
        "vanilla": {"lr": 0.5},
        "confidence": {"weight": 2},
        "synib-random": {"noise": "shuffled"},
    }
    assert "lr=0.5" in (out / "report.html").read_text()


def test_quick_is_one_seed_and_what_is_typed_counts_more(synib_command, config, monkeypatch, tmp_path):
    class Enough(Exception):
        pass

    def train(*_):
        raise Enough

    monkeypatch.setattr(fleet, "train", train)
    for name, beta in (("spurious-xor", [0.0, 0.6, 1.0]), ("parity", [1.0])):
        with pytest.raises(Enough):
            synib_command("reproduce", name, "--quick")
        saved = json.loads((tmp_path / "runs" / name / "config.json").read_text())  # the folder by default
        assert (saved["seeds"], saved["beta"]) == (1, beta)
    with pytest.raises(Enough):
        synib_command("reproduce", "spurious-xor", "--quick", "--seeds", "2", "--out", "other")
    assert json.loads((tmp_path / "other" / "config.json").read_text())["seeds"] == 2


def test_a_second_run_with_other_settings_is_refused_and_touches_nothing(synib_command, config, copied, untrained):
    before = files(copied)
    arguments = ["reproduce", "spurious-xor", "--config", config, "--out", "run"]
    code, out, err = synib_command(*arguments, "--seeds", "2")
    assert (code, out) == (2, "")
    assert "seeds was 1, now 2" in err
    assert err.count("\n") == 1
    assert synib_command("reproduce", "parity", "--out", "run")[0] == 2
    assert files(copied) == before

    # The same settings again train nothing and change no numbers.
    assert synib_command(*arguments)[0] == 0
    assert {name: content for name, content in files(copied).items() if name.endswith(".csv")} == {
        name: content for name, content in before.items() if name.endswith(".csv")
    }


def test_a_folders_name_may_hold_brackets(synib_command, config, finished, tmp_path, untrained):
    shutil.copytree(finished, tmp_path / "a[/b][red]c")
    code, out, err = synib_command("reproduce", "spurious-xor", "--config", config, "--out", "a[/b][red]c")
    assert (code, err) == (0, "")
    assert "a[/b][red]c/report.html" in out.replace("\n", "")


def test_report_restores_summary_figures_and_page(synib_command, copied):
    before = files(copied)
    for name in ("summary.csv", "figure.svg", "validation.svg", "report.html"):
        (copied / name).unlink()
    code, out, err = synib_command("report", "run")
    assert (code, err) == (0, "")
    assert "run/report.html" in out
    assert files(copied) == before


def test_debugging_shows_the_traceback(synib_command, monkeypatch):
    monkeypatch.setenv("SYNIB_DEBUG", "1")
    with pytest.raises(ValueError, match="not the folder of a run"):
        synib_command("report", "other")
