"""Compiled steps: kept, used where that saves time, and never instead of what they do not equal."""

import json
import pickle

import pytest
import torch

from synib import keys
from synib.files import read_json, write_json
from synib.training import compiled, fleet
from synib.training.compiled import CompiledGradient, pays

CPU = torch.device("cpu")
FAST = {"plain_seconds": 1.0, "compiled_seconds": 0.5, "load_seconds": 3.0}


@pytest.fixture
def compiler(monkeypatch):
    """A compiler that keeps graphs as they are, and notes what it does."""
    done = []

    def as_run(graph):
        return lambda tensors: graph(*tensors)

    def build(graph, fakes, path):
        done.append("built")
        path.write_bytes(pickle.dumps(graph))
        return as_run(graph)

    def load(path):
        done.append("loaded")
        return as_run(pickle.loads(path.read_bytes()))

    monkeypatch.setattr(compiled, "build", build)
    monkeypatch.setattr(compiled, "load", load)
    monkeypatch.setattr(compiled, "_timed", lambda call, device: next(times))
    times = iter([0.2, 0.1] * 9)
    return done


def gradient(mode, steps=1000):
    made = CompiledGradient(steps, CPU)
    made.mode = mode
    return made


def one(parameters, x, key):
    def loss(p):
        drawn = torch.where(keys.bernoulli(key, 0.3, x.shape), keys.normal(key, x.shape), x)
        return (drawn @ p["w"]).square().mean()

    return {"gradient": torch.func.grad(loss)(parameters)}, {"count": keys.fold(key, "next")}


RUN = torch.func.vmap(one, randomness="error")


def arguments():
    return {"w": torch.randn(3, 4, 2)}, torch.randn(3, 5, 4), torch.stack([keys.key(seed) for seed in range(3)])


def same(a, b):
    pairs = zip(torch.utils._pytree.tree_leaves(a), torch.utils._pytree.tree_leaves(b), strict=True)
    return all(torch.allclose(x, y) for x, y in pairs)


def test_what_is_compiled_once_is_loaded_afterwards_and_follows_its_arguments(compiler):
    first, second = gradient("always"), gradient("auto")
    for made in (first, second):
        for _ in range(2):
            given = arguments()
            assert same(made(RUN, *given), RUN(*given))
    assert compiler == ["built", "loaded"]
    (facts,) = compiled.folder().rglob("*.json")
    assert {"build_seconds", "load_seconds", "plain_seconds", "compiled_seconds"} == read_json(facts).keys()


def test_without_anything_compiled_nothing_is_traced(compiler, monkeypatch):
    monkeypatch.setattr(compiled, "trace", None)
    given = arguments()
    assert same(gradient("auto")(RUN, *given), RUN(*given))
    assert compiler == []


def test_it_is_used_only_if_the_steps_ahead_save_more_than_loading_takes(compiler):
    gradient("always")(RUN, *arguments())
    (facts,) = compiled.folder().rglob("*.json")
    write_json(facts, FAST)
    for steps in (9, 11):
        gradient("auto", steps)(RUN, *arguments())
    assert compiler == ["built", "loaded"]
    assert json.loads(facts.read_text())["load_seconds"] == 3.0
    assert not pays({}, 10**9)
    assert not pays(FAST | {"compiled_seconds": 0.99}, 10**9)
    assert not pays(FAST, 10)
    assert pays(FAST, 11)


def test_another_function_of_the_same_shapes_is_compiled_apart(compiler):
    def twice(*given):
        return torch.utils._pytree.tree_map(lambda x: 2 * x, RUN(*given))

    for function in (RUN, twice, RUN):
        given = arguments()
        assert same(gradient("always")(function, *given), function(*given))
    assert compiler == ["built", "built", "loaded"]


@pytest.mark.parametrize("broken", ["wrong", "raises"])
def test_a_compiler_that_fails_or_errs_leaves_the_ordinary_step(compiler, monkeypatch, broken, caplog):
    def build(graph, fakes, path):
        if broken == "raises":
            raise RuntimeError("no compiler")
        return lambda tensors: [1.5 * x for x in graph(*tensors)]

    monkeypatch.setattr(compiled, "build", build)
    given = arguments()
    assert same(gradient("always")(RUN, *given), RUN(*given))
    assert "no compiler" in caplog.text or "away" in caplog.text


def test_a_step_that_holds_other_tensors_is_not_compiled(compiler, caplog):
    other = torch.ones(3, 4, 2)
    held = gradient("always")
    given = arguments()
    expected = (given[0]["w"] * other,)
    assert same(held(lambda p, x, k: (p["w"] * other,), *given), expected)
    assert compiler == []
    assert "not its arguments" in caplog.text


@pytest.mark.parametrize("method", ["synib-random", "mmpareto"])
def test_a_fleet_trains_the_same_with_the_traced_step(tiny, cell, method, compiler, monkeypatch):
    cells = [cell(method, beta=beta, seed=seed, epochs=1) for seed, beta in enumerate((0.0, 1.0))]
    plain = fleet.train(tiny(0.3), cells)
    monkeypatch.setattr(compiled, "mode", lambda: "always")
    monkeypatch.setattr(CompiledGradient, "__init__", _always)
    traced = fleet.train(tiny(0.3), cells)
    for name, value in plain.fleet.parameters.items():
        torch.testing.assert_close(traced.fleet.parameters[name], value, rtol=1e-4, atol=1e-5)


def _always(self, steps, device):
    self.steps, self.device, self.mode, self.ready = steps, device, "always", {}


def test_an_unknown_mode_is_named(monkeypatch):
    monkeypatch.setenv("SYNIB_COMPILE", "sometimes")
    with pytest.raises(ValueError, match=r"auto, always or never.*sometimes"):
        compiled.mode()
