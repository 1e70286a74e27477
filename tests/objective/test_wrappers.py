"""A model inside a wrapper of another library is still that model: heads are trained, and what the wrapper adds happens."""

import copy
import warnings

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from synib import FusionModel, LearnedMask, MatchedNoise, OnLatents, RandomMask, ShuffledNoise, StandardNoise, SynIB
from synib.methods import MMPareto
from synib.training import backward

WIDTHS = {"a": 5, "b": 4}
OBJECTIVES = {
    "random": lambda: SynIB(RandomMask(0.5), StandardNoise()),
    "matched": lambda: SynIB(RandomMask(0.5), MatchedNoise(), draws=2),
    "swapped": lambda: SynIB(RandomMask(1.0), ShuffledNoise()),
    "learned": lambda: SynIB(LearnedMask(2), StandardNoise()),
    "latents": lambda: OnLatents(SynIB(RandomMask(0.5), StandardNoise())),
}
quiet = pytest.mark.filterwarnings(
    "ignore:The .grad attribute"
)  # torch hides it from all who take no warning for an error
every_objective = pytest.mark.parametrize("kind", OBJECTIVES)


@pytest.fixture(scope="module")
def group(tmp_path_factory):
    """This process as a group of one."""
    file = tmp_path_factory.mktemp("group") / "file"
    dist.init_process_group("gloo", init_method=f"file://{file}", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.fixture
def batch():
    return {name: torch.randn(8, width) for name, width in WIDTHS.items()}, torch.arange(8) % 3


@pytest.fixture
def model():
    return FusionModel.mlp(WIDTHS, hidden=[6], classes=3, head_hidden=[])


def full(gradient):
    return gradient.full_tensor() if hasattr(gradient, "full_tensor") else gradient


def assert_trains_alike(wrapped, model, kind, batch, key):
    """Loss, parts and gradients of the wrapped model are those of a plain one with the same weights."""
    plain = copy.deepcopy(model)
    wrapped = wrapped(model)
    ours, theirs = OBJECTIVES[kind](), OBJECTIVES[kind]()
    for step in range(2):
        loss, parts = ours(wrapped, *batch, key=key + step)
        expected, of_plain = theirs(plain, *batch, key=key + step)
        loss.backward()
        expected.backward()
        torch.testing.assert_close(loss, expected)
        assert {"unimodal/a", "unimodal/b", "penalty/a"} <= parts.keys()
        torch.testing.assert_close(parts, of_plain)
    for (name, p), q in zip(model.named_parameters(), plain.parameters(), strict=True):
        assert p.grad is not None, name
        torch.testing.assert_close(full(p.grad), q.grad, msg=name)


@every_objective
def test_distributed_data_parallel_keeps_the_heads(kind, group, model, batch, key):
    assert_trains_alike(DistributedDataParallel, model, kind, batch, key)


def shard(model):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (1,))
    for part in [*model.encoders.values(), *model.heads.values(), model.fusion, model]:
        fully_shard(part, mesh=mesh)
    return model


@every_objective
def test_a_fully_sharded_model_trains_as_it_would_alone(kind, group, model, batch, key):
    assert_trains_alike(shard, model, kind, batch, key)


@pytest.mark.filterwarnings("ignore")  # of torch itself: the processor is no accelerator, one process needs no shards
def test_the_first_version_of_fully_sharded_models_is_known_too(group, model, batch, key):
    from torch.distributed.fsdp import FullyShardedDataParallel

    def wrap(model):
        return FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))

    assert_trains_alike(wrap, model, "random", batch, key)


@quiet
@every_objective
def test_a_compiled_model_is_really_compiled_and_keeps_its_heads(kind, model, batch, key):
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    torch.compiler.reset()
    assert_trains_alike(lambda m: torch.compile(m, backend=backend), model, kind, batch, key)
    assert len(graphs) > 0


@quiet
def test_a_compiled_model_inside_distributed_data_parallel_and_the_other_way_round(group, model, batch, key):
    torch.compiler.reset()

    def compiled(m):
        return torch.compile(m, backend="eager")

    assert_trains_alike(lambda m: DistributedDataParallel(compiled(m)), copy.deepcopy(model), "random", batch, key)
    assert_trains_alike(lambda m: compiled(DistributedDataParallel(m)), model, "random", batch, key)


class Adapted(nn.Module):
    """As PEFT wraps a model: behind a base with a name of its own, and a method that gives it back."""

    def __init__(self, model):
        super().__init__()
        self.base_model = nn.ModuleDict({"model": model})

    def get_base_model(self):
        return self.base_model["model"]

    def forward(self, x):
        return self.get_base_model()(x)


def test_a_model_inside_adapters_keeps_its_heads(model, batch, key):
    assert_trains_alike(Adapted, model, "learned", batch, key)


@quiet
@pytest.mark.parametrize("wrap", [DistributedDataParallel, Adapted, lambda m: torch.compile(m, backend="eager")])
def test_gradients_are_filled_into_a_wrapped_models_parameters(wrap, group, model, batch, key):
    plain = copy.deepcopy(model)
    backward(MMPareto(), wrap(model), *batch, key=key)
    backward(MMPareto(), plain, *batch, key=key)
    for p, q in zip(model.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_gradients_of_a_sharded_model_are_not_filled_in_by_hand(group, model, batch):
    sharded = shard(model)
    with pytest.raises(ValueError, match="backward needs unsharded parameters, but FSDP has sharded"):
        backward(MMPareto(), sharded, *batch)


def test_counterfactuals_of_a_wrapped_model_are_those_of_the_model(group, model, batch, key):
    objective = OBJECTIVES["random"]()
    ours, theirs = (objective.counterfactuals(m, *batch, key) for m in (DistributedDataParallel(model), model))
    torch.testing.assert_close(ours, theirs)


class Unknown(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.inner = model

    def forward(self, x):
        return self.inner(x)


def test_a_wrapper_that_nobody_knows_is_a_function_and_says_so_once(model, batch, key):
    wrapped = Unknown(model)
    with pytest.warns(
        UserWarning, match="Unknown contains a FusionModel with unimodal heads, but it is not a wrapper known to synib"
    ) as said:
        _, parts = OBJECTIVES["random"]()(wrapped, *batch, key=key)
    assert len(said) == 1
    assert "unimodal/a" not in parts
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        OBJECTIVES["random"]()(wrapped, *batch, key=key)
        headless = FusionModel.mlp(WIDTHS, hidden=[6], classes=3)
        OBJECTIVES["random"]()(Unknown(headless), *batch, key=key)  # nothing is lost


TWO = """
    import os, torch, torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    from torch.nn.parallel import DistributedDataParallel
    from synib import AmortizedMask, FusionModel, LearnedMask, MatchedNoise, RandomMask, StandardNoise, SynIB, keys
    from synib.methods import MMPareto
    from synib.models import Dropout
    from synib.training import backward

    rank = RANK
    torch.set_num_threads(1)
    os.environ.update(ENVIRONMENT)
    dist.init_process_group("gloo")

    def gathered(tensor):
        both = [torch.empty_like(tensor) for _ in range(2)]
        dist.all_gather(both, tensor.contiguous())
        return both

    def model():
        torch.manual_seed(0)
        return FusionModel.mlp({"a": 5, "b": 4}, hidden=[6], classes=3, head_hidden=[])

    torch.manual_seed(1)
    x = {"a": torch.randn(2, 8, 5), "b": torch.randn(2, 8, 4)}
    y = torch.arange(8) % 3
    here = {name: v[rank] for name, v in x.items()}
    for objective in (SynIB(RandomMask(0.5), StandardNoise()), SynIB(), SynIB(LearnedMask(2), StandardNoise())):
        wrapped, alone = DistributedDataParallel(model()), model()
        key = keys.fold(keys.key(3), rank)
        loss, parts = objective(wrapped, here, y, key=key)
        assert "unimodal/a" in parts
        loss.backward()
        objective(alone, here, y, key=key)[0].backward()
        for p, q in zip(wrapped.module.parameters(), alone.parameters(), strict=True):
            torch.testing.assert_close(p.grad, torch.stack(gathered(q.grad)).mean(0))

    # Whatever FSDP gathers on its own, and whatever stays in the root: a search's backward passes free nothing that is in use.
    mesh = init_device_mesh("cpu", (2,))
    for mask in (LearnedMask(2), AmortizedMask({"a": 5, "b": 4}, hidden=3)):
        for units in (["encoders"], ["heads"], ["encoders", "fusion"], []):
            objective, sharded, alone = SynIB(mask, StandardNoise()), model(), model()
            for unit in units:
                for part in [sharded.fusion] if unit == "fusion" else getattr(sharded, unit).values():
                    fully_shard(part, mesh=mesh)
            fully_shard(sharded, mesh=mesh)
            for step in range(2):
                key = keys.fold(keys.key(step), rank)
                objective(sharded, here, y, key=key)[0].backward()
                objective(alone, here, y, key=key)[0].backward()
            for p, q in zip(sharded.parameters(), alone.parameters(), strict=True):
                torch.testing.assert_close(p.grad.full_tensor(), torch.stack(gathered(q.grad)).mean(0))

    wrapped, alone = DistributedDataParallel(model()), model()
    backward(MMPareto(), wrapped, here, y, key=keys.key(3))
    backward(MMPareto(), alone, here, y, key=keys.key(3))
    for p, q in zip(wrapped.module.parameters(), alone.parameters(), strict=True):
        torch.testing.assert_close(p.grad, torch.stack(gathered(q.grad)).mean(0))

    # Without a key the processes draw differently, though their generators are seeded alike.
    torch.manual_seed(7)
    first, second = gathered(keys.fresh())
    assert first != second
    torch.manual_seed(7)
    layer = DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(4, 9), Dropout(0.5)))
    assert not torch.equal(*(mask == 0 for mask in gathered(layer(torch.ones(4, 4)).detach())))

    # Statistics are those of the joint batch where copies are trained together, and of one's own where not.
    together, mine = SynIB(noise=MatchedNoise()), SynIB(noise=MatchedNoise())
    together(DistributedDataParallel(model()), here, y)
    torch.testing.assert_close(together.noise.mean_a / 0.01, x["a"].flatten(0, 1).mean(0))
    if rank == 0:  # the other process does not take part
        mine(model(), here, y)
        torch.testing.assert_close(mine.noise.mean_a / 0.01, here["a"].mean(0))
    torch.save(True, f"{FOLDER}/{rank}.pt")
    dist.barrier()
    dist.destroy_process_group()
"""


def test_two_processes_average_their_gradients_and_draw_differently(together):
    assert together(TWO, ["synib.training.solo_run", "pytest"]) == [True, True]


def test_an_attribute_called_process_group_makes_no_wrapper(batch):
    class Plain(nn.Module):
        def __init__(self):
            super().__init__()
            self.process_group, self.both = None, nn.Linear(sum(WIDTHS.values()), 3)

        def forward(self, modalities):
            return self.both(torch.cat(list(modalities.values()), 1))

    loss, _ = SynIB()(Plain(), *batch)
    assert loss.isfinite()
