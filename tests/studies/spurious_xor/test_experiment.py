"""The Spurious-XOR figure."""

import csv

import pytest
import torch

from synib.masks import LearnedMask, OracleMask, RandomMask, ShuffledNoise, StandardNoise
from synib.models import FusionModel
from synib.report import build
from synib.studies import SpuriousXOR
from synib.training.folder import Folder
from synib.training.sweep import sweep

FEW = ("vanilla", "synib-random", "synib-oracle")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A run of one seed, two strengths and two epochs."""
    path = tmp_path_factory.mktemp("run")
    experiment = SpuriousXOR(seeds=1, beta=(0.0, 1.0), methods=FEW, epochs=2)
    sweep(experiment, experiment.cells(), Folder(path, experiment.config()))
    return path, build(path)


def read(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_page_of_one_seed_says_that_it_has_no_standard_errors(run):
    path, _ = run
    words = "One seed only, so differences between methods have no standard error."
    assert words in (path / "report.html").read_text()
    assert words in (path / "README.md").read_text()
    assert SpuriousXOR(seeds=2).caution == ""


def test_the_figure_is_every_method_at_every_strength():
    experiment = SpuriousXOR()
    assert experiment.beta == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0)
    assert experiment.methods == (
        "vanilla", "confidence", "synib-random", "synib-learned", "synib-marginal", "synib-oracle",
    )  # fmt: skip
    cells = SpuriousXOR(seeds=2).cells()
    assert len(cells) == 6 * 7 * 2
    assert {c.seed for c in cells} == {0, 1}


def test_settings_are_the_papers():
    cells = {c.method: c for c in SpuriousXOR(seeds=1, beta=(1.0,)).cells()}
    for cell in cells.values():
        assert (cell.settings["epochs"], cell.settings["batch_size"], cell.settings["unimodal_weight"]) == (
            100,
            128,
            0.05,
        )
    assert (cells["vanilla"].settings["lr"], cells["vanilla"].settings["weight_decay"]) == (1e-2, 1e-3)
    for method in ("synib-random", "synib-learned", "synib-oracle", "confidence"):
        settings = cells[method].settings
        assert (settings["lr"], settings["weight_decay"], settings["weight"]) == (3e-4, 1e-5, 10.0)

    experiment = SpuriousXOR(seeds=1, beta=(1.0,))
    built = {name: experiment.method(cell, experiment.data(cell)) for name, cell in cells.items()}
    assert isinstance(built["synib-random"].mask, RandomMask)
    assert built["synib-random"].mask.p == 0.4
    learned = built["synib-learned"].mask
    assert isinstance(learned, LearnedMask)
    assert (learned.steps, learned.lr, learned.sparsity, learned.init) == (50, 3.0, 0.03, -4.0)
    assert (learned.temperature, learned.threshold) == (1.0, 0.5)
    assert isinstance(built["synib-oracle"].mask, OracleMask)
    assert built["synib-oracle"].mask.indices == {"x1": [0, 1, 2, 3], "x2": [0, 1, 2, 3]}
    for method in ("synib-random", "synib-learned", "synib-oracle"):
        assert isinstance(built[method].noise, StandardNoise)
        assert built[method].draws == 1
    assert isinstance(built["synib-marginal"].noise, ShuffledNoise)
    assert built["synib-marginal"].draws == 16
    model = experiment.model(cells["vanilla"], experiment.data(cells["vanilla"]))
    assert isinstance(model, FusionModel)
    shapes = [tuple(p.shape) for p in model.encoders["x1"].parameters()]
    assert shapes == [(16, 64), (16,)]
    assert [tuple(p.shape) for p in model.heads["x2"].parameters()] == [(1, 16), (1,)]


def test_a_cells_data_has_its_strength_its_seed_and_the_test_shortcut_asked_for():
    experiment = SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), test_shortcut="constant")
    (cell,) = experiment.cells()
    data = experiment.data(cell)
    assert torch.allclose(data.test.modalities["x1"][:, 4:10], torch.tensor(-1.3))
    assert [len(data.train), len(data.validation), len(data.test)] == [300, 120, 30_000]


def test_the_independent_test_set_is_kept_once_for_all_strengths():
    experiment = SpuriousXOR(seeds=1, beta=(0.4, 2.0), methods=("vanilla",))
    weak, strong = (experiment.data(cell) for cell in experiment.cells())
    assert weak.test is strong.test
    assert not torch.equal(weak.train.modalities["x1"], strong.train.modalities["x1"])


def test_a_strength_given_as_a_whole_number_is_the_same_cell():
    assert SpuriousXOR(beta=(1,)).cells()[0].id == SpuriousXOR(beta=(1.0,)).cells()[0].id


def test_a_run_leaves_every_file_it_promises(run):
    path, _ = run
    assert {p.name for p in path.iterdir()} == {
        "config.json", "shards.json", "shards", "results.csv", "curves.csv", "timings.csv", "summary.csv", "figure.svg",
        "validation.svg", "report.html", "README.md",
    }  # fmt: skip


def test_results_have_a_row_for_each_model(run):
    rows = read(run[0] / "results.csv")
    assert list(rows[0]) == [
        "experiment", "method", "beta", "seed", "train_accuracy", "validation_accuracy", "test_accuracy", "cell",
        "versions",
    ]  # fmt: skip
    assert [(r["method"], r["beta"], r["seed"]) for r in rows] == [(m, b, "0") for m in FEW for b in ("0.0", "1.0")]


def test_curves_have_every_epoch_of_every_metric(run):
    rows = read(run[0] / "curves.csv")
    assert list(rows[0]) == ["method", "beta", "epoch", "metric", "mean", "se", "n"]
    assert len(rows) == 6 * 2 * 2
    assert [(r["epoch"], r["metric"]) for r in rows[:3]] == [
        ("1", "train_accuracy"), ("2", "train_accuracy"), ("1", "validation_accuracy"),
    ]  # fmt: skip


def test_the_figures_show_accuracy_against_beta_and_validation_over_training_at_beta_1():
    experiment = SpuriousXOR(seeds=2, beta=(0.0, 1.0), methods=("vanilla", "synib-oracle"), epochs=2)
    summary = [
        {"method": m, "beta": b, "metric": "test_accuracy", "mean": mean, "se": 0.01}
        for m, b, mean in (
            ("vanilla", 1.0, 0.5), ("vanilla", 0.0, 0.9), ("synib-oracle", 1.0, 1.0), ("synib-oracle", 0.0, 0.95),
        )
    ]  # fmt: skip
    curves = [
        {"method": m, "beta": b, "epoch": e, "metric": name, "mean": mean, "se": 0.05, "n": 2}
        for m in ("vanilla", "synib-oracle") for b in (0.0, 1.0) for e in (1, 2)
        for name, mean in (("train_accuracy", 1.0), ("validation_accuracy", 0.55))
    ]  # fmt: skip
    figure, validation = experiment.charts(summary, curves)
    assert (figure.file, validation.file) == ("figure", "validation")
    vanilla, oracle = figure.series
    assert (list(vanilla.x), list(vanilla.mean)) == ([0.0, 1.0], [0.9, 0.5])
    assert oracle.dashed
    assert not vanilla.dashed
    assert figure.chance == 0.5
    assert [s.label for s in validation.series] == [
        "vanilla fusion (test 0.50)", "vanilla fusion, training accuracy", "SynIB, oracle masks (test 1.00)",
    ]  # fmt: skip
    assert list(validation.series[0].x) == [1, 2]
    assert list(validation.series[0].mean) == pytest.approx([0.55, 0.55])
    assert list(validation.series[0].se) == pytest.approx([0.05, 0.05])


def test_without_beta_1_there_is_no_validation_figure():
    experiment = SpuriousXOR(seeds=1, beta=(0.5,), methods=("vanilla",))
    summary = [{"method": "vanilla", "beta": 0.5, "metric": "test_accuracy", "mean": 0.5, "se": None}]
    assert [chart.file for chart in experiment.charts(summary, [])] == ["figure"]
