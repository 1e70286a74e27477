"""The command, as a user meets it."""

import json
import re
import subprocess
import sys
from dataclasses import fields

import pytest

import synib
from synib.studies import EXPERIMENTS, SpuriousXOR
from synib.training import fleet

EXPERIMENT = SpuriousXOR(seeds=1, beta=(0.0, 1.0), methods=("vanilla", "confidence"), epochs=2)


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "tiny.json"
    path.write_text(json.dumps(EXPERIMENT.config()))
    return path


def files(path):
    return {str(p.relative_to(path)): p.read_bytes() for p in path.rglob("*") if p.is_file()}


def test_help_says_what_it_is_for_and_where_to_start(synib_command):
    code, out, err = synib_command("--help")
    assert code == 0
    assert err == ""
    assert "use what only the modalities together say" in out
    assert "synib reproduce spurious-xor" in out
    assert {"report", "reproduce"} <= set(out.split())


@pytest.mark.parametrize("name", ["spurious-xor", "parity"])
def test_help_of_an_experiment_lists_its_options_with_their_defaults(synib_command, name):
    code, out, _ = synib_command("reproduce", name, "--help")
    assert code == 0
    for option in ("--quick", "--seeds", "--beta", "--method", "--out", "--device", "--together", "--config"):
        assert option in out
    for default in ("[default: 3]", "[default: runs/NAME]", "[default: auto]"):
        assert default in out


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_has_a_command_with_all_its_options(synib_command, name):
    kind = EXPERIMENTS[name]
    code, out, _ = synib_command("reproduce", kind.group or name, "--help")
    assert code == 0
    flags = {"methods": "method", "variants": "variant", "overrides": "set", "test_shortcut": "test-shortcut"}
    flags |= {"source": "data", "donors": "donor", "skip_broken": "skip-broken"}
    assert {f"--{flags.get(f.name, f.name)}" for f in fields(kind)} <= set(out.split())
    assert ("--quick" in out) == any(
        k.quick for k in EXPERIMENTS.values() if (k.group or k.name) == (kind.group or name)
    )


def test_one_command_serves_several_experiments_of_a_kind(synib_command, untrained, tmp_path):
    assert "one of the paper's synthetic tasks" in synib_command("reproduce", "compare", "--help")[1]
    code, _, err = synib_command("reproduce", "compare", "--on", "parity", "--out", "run")
    assert (code, err) == (2, "synib: --on is spurious-xor or pid-xor; got 'parity'.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_run_goes_on_in_the_precision_it_began_with_or_not_at_all(synib_command, config, tmp_path):
    arguments = ["reproduce", "spurious-xor", "--config", config, "--out", "run"]
    assert synib_command(*arguments)[0] == 0
    before = files(tmp_path / "run")
    code, _, err = synib_command(*arguments, "--precision", "bf16")
    assert (code, files(tmp_path / "run")) == (2, before)
    assert err.startswith(
        "synib: run holds a run with precision float32; continue it with precision float32, or choose"
    )


def test_version_is_the_packages(synib_command):
    assert synib_command("--version") == (0, f"synib {synib.__version__}\n", "")


def test_the_command_is_installed_and_its_mistakes_have_no_traceback(tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "synib.cli", "reproduce", "spurious-xor", "--device", "gpu"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        2,
        "",
        "synib: device must be auto, cpu or cuda; got 'gpu'.\n",
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["pid-simplex", "--step", "0.3"], r"step is a part of 1 that divides it, such as 0\.05 or 0\.1; got 0\.3\."),
        (["pid-simplex", "--device", "cuda"], r"device is 'cuda', but torch finds no CUDA device on this machine; .*"),
        (["pid-simplex", "--precision", "fp8"], r"precision must be float32, tf32, bf16; got 'fp8'\."),
        (["pid-simplex", "--precision", "tf32"], r"Precision tf32 needs a CUDA device; use float32 on a CPU\."),
        (["pid-dynamics", "--regime", "wild"], r"regime is 'tuned' or 'plain'; got 'wild'\."),
        (["pid-simplex", "--projections", "mine"], r"projections is 'own' or 'fixed'; got 'mine'\."),
        (
            ["pid-dynamics", "--mixture", "0.5", "0.5", "0.5", "0.5"],
            r"A mixture \(U1, U2, R, S\) .* sums to 1; got .*\.",
        ),
        (["pid-dynamics", "--mixture", "1.5", "-0.5", "0", "0"], r"A mixture \(U1, U2, R, S\) is not negative .*\."),
        (["learned-masks", "--variant", "never"], r"variants are '20 steps', .*; got 'never'\."),
        (["search", "--of", "pid-complex"], r"No experiment is called 'pid-complex'; there are .*\."),
    ],
)
def test_mistakes_in_the_experiments_on_pid_xor_are_sentences_too(
    synib_command, untrained, monkeypatch, tmp_path, arguments, said
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, out, err = synib_command("reproduce", *arguments, "--out", "run")
    assert (code, out) == (2, "")
    assert re.fullmatch(f"synib: {said}\n", err)
    assert list(tmp_path.iterdir()) == []


def test_the_simplex_on_a_laptop_leaves_triangles_and_says_that_it_is_smaller(synib_command, tmp_path):
    small = ["--quick", "--step", "1", "--seeds", "1", "--width", "8", "--method", "vanilla", "--out", "run"]
    code, out, err = synib_command("reproduce", "pid-simplex", *small)
    assert (code, err) == (0, "")
    assert "mean over the simplex" in out
    assert {"figure.svg", "report.html", "results.csv", "summary.csv", "timings.csv"} <= files(tmp_path / "run").keys()
    assert "8 wide instead of 1,024" in (tmp_path / "run" / "report.html").read_text()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--device", "gpu"], r"device must be auto, cpu or cuda; got 'gpu'\."),
        (["--device", "cuda"], r"device is 'cuda', but torch finds no CUDA device on this machine; use 'cpu'\."),
        (["--method", "synib-randm"], r"No method is called 'synib-randm': did you mean 'synib-random' .*\?"),
        (["--method", "zzz"], r"No method is called 'zzz': there are unimodal, .*\."),
        (["--beta", "-1"], r"beta is one or more finite strengths of at least 0; got \[-1\.0\]\."),
        (["--beta", "nan"], r"beta is .*; got \[nan\]\."),
        (["--beta", "inf"], r"beta is .*; got \[inf\]\."),
        (["--beta", "1", "--beta", "1"], r"beta names each value once; got \[1\.0, 1\.0\]\."),
        (["--seeds", "0"], r"seeds is at least 1; got 0\."),
        (["--config", "none.json"], r"--config takes the config\.json that a run left; none\.json is no such file\."),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2_before_anything_is_touched(
    synib_command, untrained, monkeypatch, tmp_path, arguments, said
):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    code, out, err = synib_command("reproduce", "spurious-xor", "--out", "run", *arguments)
    assert code == 2
    assert out == ""
    assert re.fullmatch(f"synib: {said}\n", err)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [["--seeds", "many"], ["--together", "0"], ["--no-such-option"]])
def test_an_option_that_cannot_be_read_is_exit_code_2_without_a_traceback(synib_command, untrained, arguments):
    code, _, err = synib_command("reproduce", "spurious-xor", *arguments)
    assert code == 2
    assert "Traceback" not in err
    assert arguments[0] in err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[1]", "is not the config.json of a spurious-xor run"),
        ('{"experiment": "parity"}', "is not the config.json of a spurious-xor run"),
        ('{"experiment": "spurious-xor", "seed": 1}', "has no option 'seed'; it has seeds"),
        ('{"experiment": "spurious-xor", "seeds": "one"}', "takes seeds in the form 3; got 'one'"),
        ('{"experiment": ', "c.json is no JSON"),
    ],
)
def test_a_config_that_cannot_be_used_is_one_sentence(synib_command, untrained, tmp_path, content, said):
    (tmp_path / "c.json").write_text(content)
    code, _, err = synib_command("reproduce", "spurious-xor", "--config", "c.json", "--out", "run")
    assert code == 2
    assert said in err
    assert err.count("\n") == 1
    assert not (tmp_path / "run").exists()


def test_a_folder_that_cannot_be_written_is_said_before_training(synib_command, untrained, tmp_path):
    (tmp_path / "file").write_text("")
    code, out, err = synib_command("reproduce", "spurious-xor", "--out", "file/run")
    assert (code, out) == (2, "")
    assert err == "synib: Cannot write to the output folder file/run: Not a directory. Choose another folder.\n"


def test_a_run_says_where_its_results_are_and_is_repeatable_from_its_config(synib_command, config, tmp_path):
    code, out, err = synib_command("reproduce", "spurious-xor", "--config", config, "--out", "first", "--device", "cpu")
    assert (code, err) == (0, "")
    assert "4 models on cpu" in out
    assert "100 %" in out
    assert "first/figure.svg" in out
    assert "first/report.html" in out
    assert re.search(r"vanilla\W+\d\.\d\d", out)
    run = json.loads((tmp_path / "first" / "run.json").read_text())
    assert run["command"] == f"synib reproduce spurious-xor --config {config} --out first --device cpu"
    assert run["versions"]["synib"] == synib.__version__

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


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("vanilla", "METHOD.SETTING=VALUE"),
        ("vanila.lr=1", "did you mean 'vanilla'"),
        ("vanilla.warmth=1", "vanilla has no setting 'warmth'; it takes"),
        ("confidence.weight=-1", "at least 0; got -1"),
        ("synib-random.p=2", "between 0 and 1; got 2"),
    ],
)
def test_a_setting_that_cannot_be_is_one_sentence_before_training(synib_command, untrained, tmp_path, setting, said):
    code, _, error = synib_command("reproduce", "spurious-xor", "--set", setting, "--out", tmp_path / "never")
    assert code == 2
    assert said in error
    assert error.count("\n") == 1
    assert not (tmp_path / "never").exists()


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


def test_a_second_run_with_other_settings_is_refused_and_touches_nothing(synib_command, config, tmp_path, monkeypatch):
    assert synib_command("reproduce", "spurious-xor", "--config", config, "--out", "run")[0] == 0
    before = files(tmp_path / "run")
    monkeypatch.setattr(fleet, "train", None)
    code, out, err = synib_command("reproduce", "spurious-xor", "--config", config, "--seeds", "2", "--out", "run")
    assert (code, out) == (2, "")
    assert err == (
        "synib: run holds a run with other settings (seeds 1 there, 2 now); nothing was touched. "
        "Choose another folder.\n"
    )
    assert synib_command("reproduce", "parity", "--out", "run")[0] == 2
    assert files(tmp_path / "run") == before

    # The same settings again train nothing and change nothing.
    assert synib_command("reproduce", "spurious-xor", "--config", config, "--out", "run")[0] == 0
    assert files(tmp_path / "run") == before


def test_a_run_that_is_stopped_says_so_and_goes_on(synib_command, config, tmp_path, monkeypatch):
    train, calls = fleet.train, []

    def interrupted(*arguments):
        calls.append(1)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return train(*arguments)

    with monkeypatch.context() as m:
        m.setattr(fleet, "train", interrupted)
        code, _, err = synib_command("reproduce", "spurious-xor", "--config", config, "--out", "run")
    assert code == 130
    assert "What was finished is kept; the same command goes on from there" in err
    assert len(list((tmp_path / "run" / "shards").iterdir())) == 1
    assert synib_command("reproduce", "spurious-xor", "--config", config, "--out", "run")[0] == 0
    assert (tmp_path / "run" / "results.csv").exists()


def test_a_folders_name_may_hold_brackets(synib_command, config, tmp_path):
    code, out, err = synib_command("reproduce", "spurious-xor", "--config", config, "--out", "a[/b][red]c")
    assert (code, err) == (0, "")
    assert "a[/b][red]c/report.html" in out.replace("\n", "")


def test_report_makes_summary_figures_and_page_anew(synib_command, config, tmp_path):
    assert synib_command("reproduce", "spurious-xor", "--config", config, "--out", "run")[0] == 0
    before = files(tmp_path / "run")
    for name in ("summary.csv", "figure.svg", "validation.svg", "report.html"):
        (tmp_path / "run" / name).unlink()
    code, out, err = synib_command("report", "run")
    assert (code, out, err) == (0, "Written: run/report.html\n", "")
    assert files(tmp_path / "run") == before


@pytest.mark.parametrize("exists", [True, False])
def test_report_on_a_folder_that_is_no_run_is_one_sentence(synib_command, tmp_path, exists):
    if exists:
        (tmp_path / "other").mkdir()
    code, out, err = synib_command("report", "other")
    assert (code, out) == (2, "")
    assert err == "synib: other is not the folder of a run: it has no config.json that names an experiment.\n"


def test_debugging_shows_the_traceback(synib_command, monkeypatch):
    monkeypatch.setenv("SYNIB_DEBUG", "1")
    with pytest.raises(ValueError, match="not the folder of a run"):
        synib_command("report", "other")
