"""One model over two processes: what one process makes of the joint batch, where that can be; what it expects, where not.

Two processes run this file (:func:`work`) and train everything that the tests ask for.
"""

import math
import os
import warnings
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from lightning.pytorch.callbacks import Callback
from torch import nn

import synib
from synib import keys, methods
from synib.data import Dataset, Split
from synib.masks import Mask, Noise
from synib.objective import Batch
from synib.tokens import values
from synib.training import solo
from synib.training.cells import Learner
from synib.training.checkpoints import load, tensors

ROWS, BATCH = 38, 15  # batches of 15, 15 and 8: pieces of 8 and 7, and in the end one piece, so that a process has none
WIDTHS = {"x1": 6, "x2": 5}


def data():
    made = torch.Generator().manual_seed(1)

    def split(n):
        seen = {name: 3.0 + torch.randn(n, width, generator=made) for name, width in WIDTHS.items()}
        return Split(seen, ((seen["x1"][:, 0] - 3) * (seen["x2"][:, 0] - 3) > 0).long())

    return Dataset(split(ROWS), split(16), None)


class Listed(Mask):
    """A mask that is written down for every training example."""

    def __init__(self):
        super().__init__()
        for name, width in WIDTHS.items():
            self.register_buffer(name, keys.uniform(keys.fold(keys.key(5), name), (ROWS, width)) < 0.5)

    def forward(self, x, key, probe, draws=1):
        return getattr(self, probe.modality)[probe.examples]


class Reflected(Noise):
    """A fill that is each example's own."""

    def forward(self, x, key, modality="", draws=1):
        return 3.0 - 2.0 * values(x).flip(-1)


NOTES = {"masks": [], "noise": [], "dropout": []}  # what was drawn, by whichever copy of a method


class NotedMask(synib.RandomMask):
    def forward(self, *arguments):
        NOTES["masks"].append(super().forward(*arguments))
        return NOTES["masks"][-1]


class NotedNoise(synib.StandardNoise):
    def forward(self, *arguments):
        NOTES["noise"].append(super().forward(*arguments))
        return NOTES["noise"][-1]


def made(name):
    """A method by name."""
    rising = synib.LinearWarmup(1.0, steps=4)
    parts = {
        "listed": lambda: (Listed(), Reflected(), rising),
        "learned": lambda: (synib.LearnedMask(steps=3, lr=0.7, sparsity=0.02), Reflected(), rising),
        "matched": lambda: (synib.RandomMask(1.0), synib.MatchedNoise(0.9), rising),
        "noted": lambda: (NotedMask(0.5), NotedNoise(), 1.0),
        "amortized": lambda: (synib.AmortizedMask(WIDTHS, hidden=4), synib.StandardNoise(), 1.0),
        "random": lambda: (synib.RandomMask(0.5), synib.StandardNoise(), 1.0),
        "shuffled": lambda: (synib.RandomMask(1.0), synib.ShuffledNoise(), 1.0),
    }
    if name not in parts:
        return methods.build(name, family=synib.Bernoulli())
    mask, noise, weight = parts[name]()
    return synib.SynIB(mask, noise, family=synib.Bernoulli(), weight=weight, draws=1)


class NotedDropout(nn.Dropout):
    def forward(self, x):
        dropped = super().forward(x)
        if self.training:
            NOTES["dropout"].append((dropped != 0).float())
        return dropped


def fresh(dropout=0.0):
    torch.manual_seed(0)
    model = synib.FusionModel.mlp(WIDTHS, hidden=[8], head_hidden=[], fusion_hidden=[8])
    if dropout:
        model.encoders["x1"].insert(0, NotedDropout(dropout))
    model.encoders["x2"][0].weight.requires_grad_(False)
    return model


class Stop(BaseException):
    """What ends a training from outside."""


class Watch(Callback):
    """Keeps the gradients of the first update; ends training before the batch after so many updates."""

    def __init__(self, steps=None):
        self.steps, self.gradients = steps, {}

    def on_before_optimizer_step(self, trainer, module, optimiser):
        if not self.gradients:
            for name, p in module.learner.named_parameters():
                if p.grad is not None:
                    whole = p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad
                    self.gradients[name] = whole.detach().clone()

    def on_train_batch_start(self, trainer, *_):
        if trainer.global_step == self.steps:
            raise Stop


def trained(name, folder=None, dropout=0.0, steps=None, **options):
    """What training gives: parameters and buffers, history, metrics, gradients of the first update, draws that were noted.

    With ``steps`` it is ended after so many updates.
    """
    model, method, watch = fresh(dropout), made(name), Watch(steps)
    frozen = {name: p.detach().clone() for name, p in model.named_parameters() if not p.requires_grad}
    for notes in NOTES.values():
        notes.clear()
    settings = {"lr": 1e-2, "weight_decay": 1e-3, "epochs": 2, "batch_size": BATCH, "device": "cpu", **options}
    fitted = solo.fit(method, model, data(), folder=folder, progress=False, callbacks=[watch], **settings)
    return {
        "tensors": tensors(Learner(model, method)),
        "history": fitted.history,
        "metrics": fitted.metrics,
        "gradients": watch.gradients,
        "frozen": len(frozen) == 1 and all(torch.equal(model.get_parameter(n), p) for n, p in frozen.items()),
        **{kind: list(notes) for kind, notes in NOTES.items()},
    }


def resumed(name, folder, steps, **options):
    """A training that is ended and goes on."""
    try:
        trained(name, folder, steps=steps, **options)
    except Stop:
        dist.barrier()
        return trained(name, folder, **options)


MEANS = ["vanilla", "listed", "learned"]  # losses that are means over examples, each with its own mask and fill
DRAWN = {"noted": 0.3, "amortized": 0.0}  # what draws for each piece, and dropout
TURNS = {"accumulate": 2, "batch_size": 14}  # 4, 4 and 3 pieces: in the last turn a process has none
STILL = {"lr": 1e-12, "weight_decay": 0.0, "epochs": 40}  # the model stays as it is


def statistics(rank):
    """A noise's view of batches of which each process has a part, one of them of another size."""
    noise, whole = synib.MatchedNoise(0.9), 1e3 + torch.randn(12, 4, generator=torch.Generator().manual_seed(2))
    for cut in (6, 10):
        noise.observe((whole[:cut], whole[cut:])[rank], "x", dist.group.WORLD)
    words = synib.Tokens(whole.view(4, 3, 4), torch.arange(12).view(4, 3) % 5 == 0)
    part = synib.Tokens(*(part[:1] if rank else part[1:] for part in words))
    noise.observe(part, "words", dist.group.WORLD)
    return noise.state_dict()


def work(environment, folder, rank):
    """What each of two processes does."""
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    os.environ.update(environment)
    found = {}
    for strategy in ("ddp", "fsdp"):
        both = {"strategy": strategy, "devices": 2}
        for name in MEANS:
            found[strategy, name] = trained(name, f"{folder}/{strategy}-{name}", **both)
        for name, dropout in DRAWN.items():
            found[strategy, name] = trained(name, dropout=dropout, **both)
        found[strategy, "matched"] = trained("matched", **both)
        name = {"ddp": "matched", "fsdp": "experts"}[strategy]
        found[strategy, "whole"] = trained(name, f"{folder}/{strategy}-whole", 0.3, clip=0.1, **both)
        found[strategy, "resumed"] = resumed(name, f"{folder}/{strategy}-resumed", 4, dropout=0.3, clip=0.1, **both)
        found[strategy, "turns"] = trained("vanilla", **both, **TURNS)
    for name in ("random", "shuffled"):
        found["ddp", name] = trained(name, strategy="ddp", devices=2, **STILL)
    found["statistics"] = statistics(rank)
    torch.save({"found": found, "folder": folder}, f"{folder}/{rank}.pt")


if __name__ == "worker":
    work(ENVIRONMENT, FOLDER, RANK)  # noqa: F821


@pytest.fixture(scope="module")
def both(together):
    return together(Path(__file__), ["synib.training.solo_run", "pytest"], "worker")


@pytest.fixture(scope="module")
def ranks(both):
    """What each of two processes found that trained models together."""
    return [one["found"] for one in both]


@pytest.fixture(scope="module")
def alone():
    """The same training in one process, once: ``alone(method, **options)``."""
    known = {}

    def train(name, **options):
        which = (name, *sorted(options.items()))
        if which not in known:
            known[which] = trained(name, **options)
        return known[which]

    return train


def assert_same(found, want):
    """Gradients of the first update, losses of every epoch, and all parameters and buffers at the end."""
    torch.testing.assert_close(found["gradients"], want["gradients"], rtol=1e-4, atol=1e-6)
    for mine, theirs in zip(found["history"], want["history"], strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4)
    assert found["metrics"] == pytest.approx(want["metrics"], rel=1e-4)
    assert found["tensors"].keys() == want["tensors"].keys()
    for name, value in want["tensors"].items():
        torch.testing.assert_close(found["tensors"][name], value, rtol=1e-4, atol=1e-5, msg=name)


def everywhere(ranks, which):
    """What both processes ended with, which is the same to the last bit."""
    one, other = (found[which] for found in ranks)
    for name, value in one["tensors"].items():
        assert torch.equal(value, other["tensors"][name]), name
    assert one["history"] == other["history"]
    assert one["frozen"]
    return one


@pytest.mark.parametrize("name", MEANS)
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_loss_that_is_a_mean_over_examples_is_that_of_the_joint_batch(ranks, alone, strategy, name):
    assert_same(everywhere(ranks, (strategy, name)), alone(name))


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_what_draws_for_each_piece_draws_as_one_process_does_for_pieces(ranks, alone, strategy, name):
    assert_same(everywhere(ranks, (strategy, name)), alone(name, dropout=DRAWN[name], accumulate=2))


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_pieces_on_each_process_add_up_to_the_batch_also_where_one_has_none_left(ranks, alone, strategy):
    assert_same(everywhere(ranks, (strategy, "turns")), alone("vanilla", batch_size=TURNS["batch_size"]))


@pytest.mark.parametrize(("kind", "each"), [("masks", 2), ("noise", 2), ("dropout", 1)])
@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_no_two_processes_or_steps_have_the_same_draws(ranks, strategy, kind, each):
    # In each epoch one process has nothing of the last batch, and passes what the other has; it counts for nothing.
    mine, theirs = (
        [d for i, d in enumerate(found[strategy, "noted"][kind]) if not rank or i % (3 * each) < 2 * each]
        for rank, found in enumerate(ranks)
    )
    assert (len(mine), len(theirs)) == (6 * each, 4 * each)  # three updates, two epochs
    # A key's numbers begin alike in all sizes.
    assert len({tuple(t.flatten()[:17].tolist()) for t in mine + theirs}) == 10 * each


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_every_process_has_the_statistics_of_the_joint_batch(ranks, alone, strategy):
    found, want = everywhere(ranks, (strategy, "matched")), alone("matched")
    kept = [name for name in want["tensors"] if name.startswith("method.")]
    assert {"method.noise.mean_x1", "method.noise.variance_x2", "method.noise.seen_x1", "method.step"} <= set(kept)
    for name in kept:
        torch.testing.assert_close(found["tensors"][name], want["tensors"][name], rtol=1e-5, atol=1e-6, msg=name)
    for mine, theirs in zip(found["history"], want["history"], strict=True):
        assert mine["train_weight"] == pytest.approx(theirs["train_weight"])  # so the schedule is where it would be
    assert found["tensors"]["method.noise.seen_x1"] == 6


def test_statistics_of_parts_of_any_size_and_of_tokens_are_those_of_the_whole(ranks):
    noise, whole = synib.MatchedNoise(0.9), 1e3 + torch.randn(12, 4, generator=torch.Generator().manual_seed(2))
    for _ in range(2):
        noise.observe(whole, "x")
    noise.observe(synib.Tokens(whole.view(4, 3, 4), torch.arange(12).view(4, 3) % 5 == 0), "words")
    for found in ranks:
        torch.testing.assert_close(found["statistics"], dict(noise.state_dict()), rtol=1e-5, atol=1e-6)


def losses(name, times, split):
    """Penalties of the training data for so many keys, in pieces of random examples that draw as the engine's do."""
    model, method, train = fresh(), made(name), data().train

    def penalty(key):
        order = keys.permutation(keys.fold(key, "order"), ROWS)
        found = []
        for number, rows in enumerate(order.split(split)):
            seen = {modality: x[rows] for modality, x in train.modalities.items()}
            own = keys.fold(key, "piece", number)
            _, parts = method.loss(model, Batch(seen, train.target[rows], rows), own)
            found.append(sum(parts[f"penalty/{modality}"] for modality in WIDTHS) * (len(rows) / ROWS))
        return torch.stack(found).sum()

    with torch.no_grad():
        return torch.func.vmap(penalty)(keys.split(keys.key(9), times)).double()


@pytest.mark.parametrize("name", ["random", "shuffled"])
def test_in_expectation_it_does_not_matter_how_many_processes_there_are(ranks, name):
    one, two, many = (losses(name, 2000, split) for split in (ROWS, ROWS // 2, 6))
    want, error = one.mean().item(), one.std().item() / math.sqrt(len(one))
    assert error < 0.005 * want  # so that a difference would be seen
    for other in (two, many):
        off = math.hypot(error, other.std().item() / math.sqrt(len(other)))
        assert abs(other.mean().item() - want) < 4 * off
    rows = torch.tensor([row["train_penalty/x1"] + row["train_penalty/x2"] for row in ranks[0]["ddp", name]["history"]])
    off = math.hypot(error, rows.std().item() / math.sqrt(len(rows)))
    assert off < 0.05 * want
    assert abs(rows.mean().item() - want) < 4 * off


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_a_training_of_two_processes_that_is_ended_goes_on_as_if_it_had_not_been(ranks, strategy):
    whole, again = everywhere(ranks, (strategy, "whole")), everywhere(ranks, (strategy, "resumed"))
    for name, value in whole["tensors"].items():
        assert torch.equal(again["tensors"][name], value), name
    assert (again["history"], again["metrics"]) == (whole["history"], whole["metrics"])


def test_a_training_goes_on_with_as_many_processes_as_it_began_with(both):
    place = Path(both[0]["folder"]) / "ddp-vanilla"
    before = load(place / "checkpoint.ckpt")["synib"]["tensors"]
    with pytest.raises(ValueError, match=r"devices was 2, now 1.*which was not changed"):
        trained("vanilla", place)
    after = load(place / "checkpoint.ckpt")["synib"]["tensors"]
    assert all(torch.equal(after[name], value) for name, value in before.items())
