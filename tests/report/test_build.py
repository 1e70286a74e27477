"""From a results folder to summary, figures and page."""

from html.parser import HTMLParser

import pytest

from synib.files import write_csv, write_json
from synib.report import build
from synib.studies import SpuriousXOR, load
from synib.training.folder import Folder

EXPERIMENT = SpuriousXOR(seeds=2, beta=(0.0, 1.0), methods=("vanilla", "synib-random"), epochs=2)
VALUES = {"vanilla": (0.98, 0.5), "synib-random": (0.9, 0.7)}


def finished(path):
    """A finished run in this folder, its numbers made up."""
    Folder(path, EXPERIMENT.config())
    results, curves = [], []
    for cell in EXPERIMENT.cells():
        at = VALUES[cell.method][int(cell.factors["beta"])] + 0.02 * cell.seed
        who = {"method": cell.method, **cell.factors, "seed": cell.seed}
        results.append({"experiment": cell.experiment, **who, "test_accuracy": at, "cell": cell.id, "versions": "v"})
        for metric in ("train_accuracy", "validation_accuracy"):
            across = {"method": cell.method, **cell.factors, "metric": metric, "mean": 0.9, "se": 0.0, "n": 2}
            curves += [{**across, "epoch": epoch} for epoch in (1, 2) if cell.seed == 0]
    write_csv(path / "results.csv", results)
    write_csv(path / "curves.csv", curves)
    write_csv(path / "timings.csv", [{"shard": "a", "cells": 8, "seconds": 12.4, "device": "a test's CPU"}])
    write_json(path / "run.json", {"command": "synib reproduce spurious-xor --seeds 2", "versions": {"torch": "9.9"}})
    return path


@pytest.fixture
def folder(tmp_path):
    return finished(tmp_path)


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """A finished run with everything a build makes of it, to be read and left as it is: its folder, and the summary."""
    path = finished(tmp_path_factory.mktemp("built"))
    return path, build(path)


class Elements(HTMLParser):
    """Every element with its attributes, and the text outside of figures."""

    def __init__(self, text):
        super().__init__()
        self.found, self.text = [], ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.text += data


def test_the_experiment_of_a_folder_comes_back_with_its_options(folder):
    assert load(folder) == EXPERIMENT


def test_a_build_writes_summary_figures_and_page_and_returns_the_summary(built):
    folder, summary = built
    assert [s["mean"] for s in summary] == pytest.approx([0.99, 0.51, 0.91, 0.71])
    assert [s["se"] for s in summary] == pytest.approx([0.01] * 4)
    for name in ("summary.csv", "figure.svg", "validation.svg", "report.html"):
        assert (folder / name).stat().st_size > 100
    for name in ("figure.svg", "validation.svg"):
        assert "<svg" in (folder / name).read_text()
        assert (folder / name).read_text().rstrip().endswith("</svg>")


@pytest.mark.parametrize("interactive", [True, False])
def test_a_second_build_gives_the_same_bytes_and_leaves_the_numbers_alone(folder, interactive):
    kept = {
        n: (folder / n).read_bytes() for n in ("results.csv", "curves.csv", "timings.csv", "config.json", "run.json")
    }
    build(folder, interactive)
    made = {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()}
    assert all(made[name] == content for name, content in kept.items())
    for name in ("summary.csv", "figure.svg", "validation.svg", "report.html"):
        (folder / name).unlink()
    build(folder, interactive)
    assert {p.name: p.read_bytes() for p in folder.iterdir() if p.is_file()} == made


def test_a_light_page_differs_in_its_figures_and_has_no_script(built, tmp_path):
    folder, summary = built
    assert build(finished(tmp_path), interactive=False) == summary
    light, full = ((path / "report.html").read_text() for path in (tmp_path, folder))
    assert len(light) < 300_000 < 4_000_000 < len(full)
    assert "script" not in {tag for tag, _ in Elements(light).found}
    assert light.count("<svg") == 2
    for name in ("figure.svg", "validation.svg", "README.md", "summary.csv"):
        assert (folder / name).read_bytes() == (tmp_path / name).read_bytes()
        if name.endswith("svg"):
            picture = (folder / name).read_text().partition("<svg")[2]
            assert picture in light
            assert picture in full  # for readers without scripts


def test_the_page_says_how_it_was_made_and_what_came_out(built):
    folder, summary = built
    text = (folder / "report.html").read_text()
    assert text.startswith("<!doctype html>")
    assert "<pre>synib reproduce spurious-xor --seeds 2</pre>" in text
    assert "torch 9.9" in text
    said = " ".join(Elements(text).text.split())
    assert "8 models in 12 s of training on a test's CPU" in said
    for number in ("0.510", "± 0.010", "paper 0.50", "paper 0.68", "beta = 0", "beta = 1"):
        assert number in said
    assert "paper 0.83" not in said  # the learned masks did not take part
    assert "lr=0.01" in said
    assert EXPERIMENT.about in said
    for chart in EXPERIMENT.charts(summary, [])[:1]:
        assert chart.reading in said


def test_the_page_shows_the_settings_that_were_used_and_not_the_defaults(built):
    folder, _ = built
    said = Elements((folder / "report.html").read_text()).text
    assert "epochs=2" in said
    assert "epochs=100" not in said


def test_text_from_outside_is_escaped(folder):
    wicked = "<script>alert('β')</script>"
    write_json(folder / "run.json", {"command": f"synib --out {wicked}", "versions": {wicked: "1"}})
    write_csv(folder / "timings.csv", [{"shard": "a", "cells": 1, "seconds": 1.0, "device": wicked}])
    build(folder, interactive=False)
    text = (folder / "report.html").read_text()
    assert "<script" not in text
    assert text.count("&lt;script&gt;") == 3


def test_the_table_has_a_row_for_each_method_and_a_column_for_each_strength():
    summary = [
        {"metric": "test_accuracy", "method": "vanilla", "beta": 0.0, "mean": 1.0},
        {"metric": "test_accuracy", "method": "vanilla", "beta": 0.2, "mean": 0.9},
        {"metric": "train_accuracy", "method": "vanilla", "beta": 5.0, "mean": 0.9},
        {"metric": "test_accuracy", "method": "confidence", "beta": 0.2, "mean": 0.8},
    ]
    (made,) = EXPERIMENT.tables(summary)
    assert made.title == "test accuracy"
    assert made.columns == ["beta = 0", "beta = 0.2"]
    assert made.rows == {"vanilla": summary[:2], "confidence": [None, summary[3]]}


@pytest.mark.parametrize("content", [None, "{}", "[]", '{"experiment": "nonsense"}'])
def test_a_folder_that_is_no_run_is_said_so(tmp_path, content):
    if content is not None:
        (tmp_path / "config.json").write_text(content)
    with pytest.raises(ValueError, match=rf"{tmp_path} is not the folder of a run"):
        build(tmp_path)


def test_a_damaged_config_is_said_so(tmp_path):
    (tmp_path / "config.json").write_text('{"experiment": ')
    with pytest.raises(ValueError, match=r"config\.json is damaged"):
        build(tmp_path)


def test_a_run_that_is_not_finished_has_no_report(tmp_path):
    Folder(tmp_path, EXPERIMENT.config())
    with pytest.raises(ValueError, match=r"There is no results\.csv in .*finished run"):
        build(tmp_path)
    assert not (tmp_path / "report.html").exists()


def test_a_run_without_a_record_of_its_command_still_gets_a_page(folder):
    (folder / "run.json").unlink()
    build(folder)
    assert "<pre>synib reproduce spurious-xor</pre>" in (folder / "report.html").read_text()


def test_the_readme_holds_table_command_and_figures(built):
    folder, _ = built
    text = (folder / "README.md").read_text()
    assert "| method | beta = 0 | beta = 1 |" in text
    assert "| vanilla | 0.990 ± 0.010 | 0.510 ± 0.010 [0.50] |" in text
    assert "synib reproduce spurious-xor --seeds 2" in text
    assert "](figure.svg)" in text
    assert "8 models in 12 s" in text


def test_the_command_makes_either_page(folder, synib_command):
    sizes = []
    for more in ([], ["--static"]):
        code, _, err = synib_command("report", str(folder), *more)
        assert (code, err) == (0, "")
        sizes.append((folder / "report.html").stat().st_size)
    assert sizes[0] > 4_000_000 > 300_000 > sizes[1]
