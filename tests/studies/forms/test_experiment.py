"""Forms of SynIB on development data: equal candidates, chosen on one half of the seeds, measured on the other."""

import dataclasses
import math
import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from synib.files import read_csv
from synib.methods.hooks import FitsAtEnd
from synib.report import build
from synib.studies import Forms, run
from synib.studies.digits import experiment as digits
from synib.studies.forms import experiment as forms
from synib.studies.forms.experiment import METRICS
from synib.training.cells import learner, programs
from synib.training.step import backward

SMALL = {"width": 8, "epochs": 1}
CELLS = Forms().cells()


def small(*names, **options):
    """The named forms on PID-XOR with narrow models, one epoch each."""
    methods = Forms(task=("pid-xor",), form=names or ("all",)).methods
    return Forms(task=("pid-xor",), form=names or ("all",), overrides=dict.fromkeys(methods, SMALL), **options)


def by_form(cells):
    found = {}
    for cell in cells:
        found.setdefault((cell.factors["task"], cell.factors["form"]), []).append(cell)
    return found


@pytest.fixture(autouse=True, scope="module")
def _data_given_back():
    """Data of 9,000 pairs are not kept for the tests after these."""
    yield
    digits.digits_data.cache_clear()


# What is trained


def test_every_form_has_equally_many_different_candidates_on_a_task_and_every_seed_meets_all_of_them():
    for (task, form), cells in by_form(CELLS).items():
        tried = {cell.factors["candidate"] for cell in cells}
        assert len(tried) == {"digits": 20, "irony": 20, "pid-xor": 10}[task], form
        assert len({str(cell.settings | {"data": 0}) for cell in cells}) == len(tried), form
        assert len(cells) == len(tried) * 6
        assert {cell.seed for cell in cells} == set(range(6))


def test_a_form_leaves_alone_what_its_candidates_try_and_candidates_differ_in_nothing_else():
    for (task, form), cells in by_form(CELLS).items():
        for cell in cells:
            tried = dict(pair.split("=") for pair in cell.factors["candidate"].split(", "))
            assert all(cell.settings[k] == pytest.approx(float(v), rel=1e-5) for k, v in tried.items()), (task, form)
        rest = {str({k: v for k, v in c.settings.items() if k not in tried}) for c in cells}
        assert len(rest) == 1


def test_what_is_compared_differs_and_is_compared_with_vanilla_and_the_confidence_penalty():
    for task in Forms().task:
        settings = {form: cells[-1].settings for (of, form), cells in by_form(CELLS).items() if of == task}
        assert {"vanilla", "confidence", "shuffled", "16 draws", "experts, 16 draws"} <= settings.keys()
        methods = {form: cells[0].method for (of, form), cells in by_form(CELLS).items() if of == task}
        assert len({f"{methods[form]} {settings[form]}" for form in settings}) == len(settings)


def test_only_what_is_asked_for_is_trained():
    assert {c.method for c in Forms(methods=("experts",)).cells()} == {"experts"}
    chosen = Forms(task=("digits", "irony"), form=("16 draws, image only", "vanilla"))
    assert set(by_form(chosen.cells())) == {
        ("digits", "16 draws, image only"), ("digits", "vanilla"), ("irony", "vanilla"),
    }  # fmt: skip


def test_cells_of_two_tasks_are_never_trained_together():
    for same in programs(Forms(seeds=2).cells()):
        assert len({cell.factors["task"] for cell in same}) == 1


@pytest.mark.parametrize("task", Forms().task)
def test_every_form_takes_a_step_and_is_measured_and_there_are_no_test_data(task, digits_root, ravdess_root):
    root = {"digits": digits_root, "irony": ravdess_root, "pid-xor": ""}[task]
    narrow = {"width": 8} if task == "pid-xor" else {"hidden": 8, "latent": 4}
    plain = Forms(root=str(root), task=(task,), seeds=2)
    experiment = dataclasses.replace(plain, overrides=dict.fromkeys(plain.methods, narrow))
    cells = [of_form[-1] for of_form in by_form(experiment.cells()).values()]
    assert len(cells) > 30
    if task != "pid-xor":  # every form on one task; on the others one of each method, and those of a modality's own
        of_method = {cell.method: cell for cell in cells}
        cells = [*of_method.values(), *(cell for cell in cells if str(cell.factors["form"]).endswith(" only"))]
    data = experiment.data(cells[0])
    assert data.test is None
    assert set(data.train.modalities) == set(experiment._tasks[task].modalities)
    few = dataclasses.replace(
        data, validation=dataclasses.replace(
            data.validation, modalities={n: x[:40] for n, x in data.validation.modalities.items()},
            target=data.validation.target[:40], groups={n: g[:40] for n, g in data.validation.groups.items()},
        ),
    )  # fmt: skip
    x = {name: v[:24] for name, v in data.train.modalities.items()}
    for cell in cells:
        trained = learner(experiment, cell, data)
        loss, _ = backward(trained.method, trained.train().model, x, data.train.target[:24])
        assert loss.isfinite(), cell.factors
        scores = experiment.examine(cell, trained.eval(), few)
        assert set(scores) == set(METRICS.values())


@pytest.mark.parametrize("task", Forms().task)
def test_schedules_know_how_many_steps_a_training_has(task, digits_root):
    root = digits_root  # as many pairs, whatever recordings they are made from
    if task == "irony":
        root = Path(os.environ.get("SYNIB_DATA") or Path(__file__).parents[4] / "shared" / "data")
        if not (root / "ravdess").is_dir():
            pytest.skip("RAVDESS's features are needed: set SYNIB_DATA to the folder that holds them")
    experiment = Forms(root=str(root), task=(task,))
    cell = experiment.cells()[0]
    batches = math.ceil(len(experiment.data(cell).train) / cell.settings["batch_size"])
    assert experiment._tasks[task].steps == batches * cell.settings["epochs"]


# What is measured


def test_nothing_is_measured_on_what_it_was_fitted_to(monkeypatch):
    """A method that knows by heart what it was settled on, and is wrong about everything else."""
    experiment = small("vanilla", seeds=2)
    cell = experiment.cells()[0]
    data = experiment.data(cell)
    label = {
        row.tobytes(): int(y)
        for row, y in zip(data.validation.modalities["x1"].numpy(), data.validation.target, strict=True)
    }
    settled = []

    class ByHeart(FitsAtEnd):
        def settle(self, model, batch):
            settled.append({row.tobytes() for row in batch.modalities["x1"].numpy()})

        def predict(self, model, modalities):
            right = [(row.tobytes() in settled[-1]) == label[row.tobytes()] for row in modalities["x1"].numpy()]
            return torch.tensor(right).float()[:, None] * 8 - 4

    heated = []

    def temperature(logits, target, family):
        heated.append(((logits[:, 0] > 0).long() == target).all().item())  # it is fitted to what was settled on
        return 1e6

    monkeypatch.setattr(forms, "temperature", temperature)
    scores = experiment.examine(cell, SimpleNamespace(model=None, method=ByHeart()), data)
    assert scores["total"] == scores["synergy"] == 0.0
    assert scores["ece"] == pytest.approx(torch.tensor(4.0).sigmoid().item(), abs=1e-3)
    assert scores["ece_calibrated"] == pytest.approx(0.5, abs=1e-3)  # sure of nothing, and always wrong
    assert heated == [True, True]
    first, second = settled
    assert not first & second
    assert len(first | second) == len(data.validation)
    assert abs(len(first) - len(second)) <= 1


def test_synergy_is_that_of_the_synergistic_examples():
    experiment = small("vanilla", seeds=2)
    data = experiment.data(experiment.cells()[0])
    split, members = data.validation, data.validation.groups["S"].bool()
    right = (split.target * 2 - 1).float()[:, None]
    right[members] *= -1
    scores = experiment._scores(experiment._tasks["pid-xor"], right, split)
    assert scores == pytest.approx({"total": 1 - members.float().mean().item(), "synergy": 0.0})


def test_irony_is_scored_by_its_ranking_and_all_classes_by_their_f1(ravdess_root):
    experiment = Forms(root=str(ravdess_root), task=("irony",), seeds=2)
    task, split = experiment._tasks["irony"], experiment.data(experiment.cells()[0]).validation
    last = int(split.target.max())
    perfect = torch.nn.functional.one_hot(split.target, last + 1).float() * 9
    assert experiment._scores(task, perfect, split) == {"total": 1.0, "synergy": 1.0}
    hidden = perfect.clone()
    hidden[:, last] = -5 + 0.1 * (split.target == last)  # ranked well, and never predicted
    scores = experiment._scores(task, hidden, split)
    assert scores["total"] < 1.0
    assert scores["synergy"] == 1.0


# What is chosen, and what is shown


def rows(seeds=4, **better):
    """Results of three candidates: ``better`` names the best of each half, early or late."""
    made = []
    for candidate in ("x", "y", "z"):
        for seed in range(seeds):
            half = "early" if seed < seeds // 2 else "late"
            total = 0.9 if better[half] == candidate else 0.6
            made.append(
                {"method": "synib-random", "task": "pid-xor", "form": "shuffled", "candidate": candidate, "seed": seed,
                 "total": total, "synergy": 1 - total, "ece": 0.1 * seed, "ece_calibrated": 0.01}
            )  # fmt: skip
    return made


@pytest.mark.parametrize(("seeds", "measured", "late"), [(2, 1, "x"), (4, 2, "y"), (5, 3, "z")])
def test_a_candidate_is_chosen_on_the_first_seeds_and_measured_on_the_others(seeds, measured, late):
    found = {row["metric"]: row for row in small(seeds=seeds).summary(rows(seeds, early="y", late=late))}
    assert {row["candidate"] for row in found.values()} == {"y"}
    assert found["total"]["mean"] == pytest.approx(0.9 if late == "y" else 0.6)
    assert found["synergy"]["mean"] == pytest.approx(0.1 if late == "y" else 0.4)
    assert found["ece"]["mean"] == pytest.approx(0.1 * sum(range(seeds - measured, seeds)) / measured)
    assert all(row["n"] == measured for row in found.values())


def test_irony_is_chosen_by_its_ranking_among_candidates_of_good_macro_f1():
    made = [
        {"method": "synib-random", "task": "irony", "form": "shuffled", "candidate": c, "seed": seed, "total": f1,
         "synergy": ranking, "ece": 0.1, "ece_calibrated": 0.1}
        for c, f1, ranking in (("a", 0.70, 0.6), ("b", 0.695, 0.8), ("c", 0.5, 0.9))
        for seed in range(2)
    ]  # fmt: skip
    assert {row["candidate"] for row in Forms(seeds=2).summary(made)} == {"b"}


# From end to end


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    experiment = small("vanilla", "shuffled", "experts, 4 draws", seeds=2)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(forms, "WEIGHTS", (1.0,))
        path = run(experiment, tmp_path_factory.mktemp("forms"), device="cpu")
        return experiment, path, build(path)


def test_a_run_ends_with_a_table_and_a_figure_of_every_task(done):
    experiment, path, summary = done
    results = read_csv(path / "results.csv")
    assert len(results) == (10 + 2 + 2) * 2
    assert not any(name.startswith("test") for name in results[0])
    assert {(r["form"], r["metric"]) for r in summary} == {
        (form, metric) for form in ("vanilla", "shuffled", "experts, 4 draws") for metric in METRICS.values()
    }
    assert all(r["n"] == 1 and 0 <= r["mean"] <= 1 for r in summary)
    (table,) = experiment.tables(summary)
    assert list(table.rows) == ["vanilla", "shuffled", "experts, 4 draws"]
    assert "those after the first 1" in table.note
    (figure,) = experiment.charts(summary, [])
    assert "pid-xor" in figure.title
    assert (path / f"{figure.file}.svg").exists()
