"""How many models a CPU trains together is measured, if the training is long enough, and never slower than the usual number."""

import pytest
import torch

from synib.files import read_csv, read_json
from synib.studies import SpuriousXOR
from synib.studies import run as run_experiment
from synib.training import fleet, group_size
from synib.training.device import using_threads
from synib.training.group_size import LONG, Choice, measured


@pytest.fixture
def machine(tiny, cell):
    """Measures on a machine that takes given seconds for a model's step, by the number of models and of threads."""

    def on(seconds, cells=200, threads=1, epochs=10_000):
        asked = []

        def timer(recipe, some, threads):
            asked.append((len(some), threads))
            return lambda: len(some) * seconds.get((len(some), threads), seconds["otherwise"])

        with using_threads(threads):
            return measured(tiny(), [cell(seed=s, epochs=epochs) for s in range(cells)], timer), asked

    return on


def test_the_fastest_number_is_taken(machine):
    choice, _ = machine({(48, 1): 0.5e-3, "otherwise": 1e-3})
    assert (choice.together, choice.threads) == (48, 1)
    assert choice.seconds["48 models, 1 thread"] == 0.5e-3
    assert choice.seconds["24 models, 1 thread"] == 1e-3


@pytest.mark.parametrize("share", [0.95, 1.0, 2.0])
def test_a_number_that_is_not_clearly_faster_is_not_taken(machine, share):
    choice, asked = machine({(24, 1): 1e-3, "otherwise": share * 1e-3})
    assert (choice.together, choice.threads) == (fleet.ON_CPU, 1)
    assert {size for size, _ in asked} == {24, *group_size.SIZES}


def test_one_thread_is_tried_where_there_are_more(machine):
    alone = {(24, 1): 0.4e-3, (96, 1): 0.3e-3, "otherwise": 1e-3}
    assert machine(alone, threads=4)[0].threads == 1
    choice, asked = machine({(24, 4): 0.4e-3, (96, 4): 0.3e-3, "otherwise": 1e-3}, threads=4)
    assert (choice.together, choice.threads) == (96, 4)
    assert (24, 1) in asked


def test_a_short_training_is_measured_once_and_a_large_model_not_at_all(machine, monkeypatch):
    each = LONG / (200 * 3 * 10_000)  # 40 rows are three batches
    assert machine({"otherwise": 0.9 * each})[1] == [(24, 1)]
    assert len(machine({"otherwise": 1.1 * each})[1]) > 1
    monkeypatch.setattr(group_size, "SMALL", 100)
    assert machine({"otherwise": 1.0}) == (Choice(fleet.ON_CPU, 1), [])


def test_with_few_models_no_more_are_tried_than_there_are(machine):
    choice, asked = machine({(12, 1): 0.1, "otherwise": 1.0}, cells=20)
    assert {size for size, _ in asked} == {20, 12}
    assert choice.together == 12


def test_a_step_is_timed_on_models_of_the_fleet(tiny, cell):
    run = group_size.step_timer(tiny(), [cell(seed=s) for s in range(3)], 1)
    assert 0 < run() < 10


def test_a_run_records_the_choice_and_trains_the_same_models(tmp_path, tiny, cells, run, monkeypatch):
    threads = []
    train = fleet.train

    def watched(*arguments, **options):
        threads.append(torch.get_num_threads())
        return train(*arguments, **options)

    monkeypatch.setattr(fleet, "train", watched)
    monkeypatch.setattr(group_size, "measured", lambda recipe, same: Choice(2, 1, {"2 models, 1 thread": 0.5}))
    run(tmp_path / "usual", tiny(), cells)
    threads.clear()
    with using_threads(2):
        run(tmp_path / "measured", tiny(), cells, together="measured")
        assert torch.get_num_threads() == 2
    assert set(threads) == {1}
    recorded = read_json(tmp_path / "measured" / "measured.json")
    assert set(recorded) == {c.program for c in cells}
    assert all(choice == {"together": 2, "threads": 1, "seconds": {"2 models, 1 thread": 0.5}} for choice in recorded.values())  # fmt: skip  # noqa: E501
    assert max(map(len, read_json(tmp_path / "measured" / "shards.json"))) == 2
    assert not (tmp_path / "usual" / "measured.json").exists()
    for a, b in zip(*(read_csv(tmp_path / name / "results.csv") for name in ("usual", "measured")), strict=True):
        assert all(a[name] == pytest.approx(b[name]) for name in a)


def test_an_experiment_may_be_measured_on_one_cpu_only(tmp_path):
    small = SpuriousXOR(seeds=1, beta=(1.0,), methods=("vanilla",), epochs=1)
    path = run_experiment(small, tmp_path / "one", device="cpu", together="measured")
    (choice,) = read_json(path / "measured.json").values()
    assert choice["together"] == fleet.ON_CPU
    with pytest.raises(ValueError, match="on one CPU; this run has the engine 'fleet' on cpu, cpu"):
        run_experiment(small, tmp_path / "two", device="cpu,cpu", together="measured")
