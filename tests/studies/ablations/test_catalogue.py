"""What the ablations vary, and on which data."""

import math

import pytest
import torch

from synib.studies.ablations.catalogue import (
    CENTRE,
    CONSTANT,
    FACTORS,
    MAPS,
    OF_METHOD,
    REACH,
    SHARES,
    SYNERGISTIC,
    combined,
    task_data,
    tasks,
    training,
)  # fmt: skip

EVERY_CELL = [
    (line.method, combined(line, column))
    for drawn in MAPS.values()
    for line in drawn.rows.values()
    for column in drawn.columns.values()
]


def test_every_cell_has_a_value_of_each_factor_that_its_method_has_and_of_no_other():
    for method, values in EVERY_CELL:
        assert tuple(values) == FACTORS
        assert {name for name, value in values.items() if value is not None} == set(OF_METHOD[method])


def test_the_cells_of_a_map_differ_and_only_in_what_it_varies():
    for name, drawn in MAPS.items():
        cells = [
            (line.method, *combined(line, c).values()) for line in drawn.rows.values() for c in drawn.columns.values()
        ]
        assert len(set(cells)) == len(cells), name
        for line in drawn.rows.values():
            for column in drawn.columns.values():
                assert not line.values.keys() & column.keys(), name
                varied = {*line.values, *column}
                values = combined(line, column)
                fixed = {f: v for f, v in values.items() if f not in varied and v is not None}
                assert fixed == {f: CENTRE[f] for f in fixed}, name


@pytest.mark.parametrize("name", ["digits", "pid-xor"])
def test_settings_are_those_that_the_tasks_search_chose_with_what_varies_in_their_place(name):
    task = tasks("")[name]
    for method, values in EVERY_CELL:
        settings, chosen = training(task, method, values), task.experiment.defaults()[method]
        assert {k: settings[k] for k in ("lr", "dropout", "weight_decay", "epochs", "batch_size")} == {
            k: chosen[k] for k in ("lr", "dropout", "weight_decay", "epochs", "batch_size")
        }
        if values["annealing"] in (None, CONSTANT):
            assert not settings.keys() & {"weight_schedule", "weight_steps"}
        else:
            assert settings["weight_steps"] == round(values["annealing"] * task.steps)
        if method == "synib-learned":
            assert settings["mask_lr"] * settings["steps"] == pytest.approx(REACH)
        assert settings.get("noise") == ("shuffled" if method.startswith("synib") else None)
        assert settings.get("weight") == values["weight"]


@pytest.mark.parametrize("share", [SHARES[0], SHARES[-1]])
def test_synergy_is_measured_on_equally_many_examples_whatever_their_share_and_there_are_no_test_data(share):
    data = task_data("pid-xor", "", share, 0)
    assert data.test is None
    assert len(data.train) == 1800
    assert data.train.groups["S"].float().mean().item() == pytest.approx(share, abs=0.03)
    assert int(data.validation.groups["S"].sum()) == pytest.approx(SYNERGISTIC, abs=4 * math.sqrt(SYNERGISTIC))
    rest = ~data.train.groups["S"].bool()
    assert torch.equal(rest, data.train.groups["U1"].bool() | data.train.groups["R"].bool())


@pytest.mark.parametrize("name", ["digits", "pid-xor"])
def test_schedules_know_how_many_steps_a_training_has(name, digits_root):
    data = task_data(name, str(digits_root), 0.1, 0)
    task = tasks(str(digits_root))[name]
    settings = training(task, "vanilla", combined(MAPS["share"].rows["vanilla"], {"share": 0.1}))
    assert task.steps == math.ceil(len(data.train) / settings["batch_size"]) * settings["epochs"]
