"""Files that were damaged after they had been written are named, not used, and made again; nothing else is."""

import json
import shutil
from dataclasses import replace

import pytest
import torch

import synib
from synib.studies import run
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import solo


def cut(path):
    path.write_bytes(path.read_bytes()[:-30])


def emptied(path):
    path.write_bytes(b"")


def changed(path):
    """Other numbers, and still good JSON."""
    text = path.read_text()
    assert '"test_accuracy": 0.' in text
    path.write_text(text.replace('"test_accuracy": 0.', '"test_accuracy": 0.9', 1))


def test_a_damaged_shard_is_set_aside_and_trained_again_and_the_bytes_are_the_same(small, whole, tables, tmp_path):
    path = shutil.copytree(whole, tmp_path / "run")
    first, *others = sorted((path / "shards").iterdir())
    before = [p.stat().st_mtime_ns for p in others]
    for time in (1, 2):
        changed(first)
        damaged, said = first.read_bytes(), []
        run(small, path, device="cpu", say=said.append)
        aside = first.with_suffix(f".damaged{time}")
        assert f"{first} is damaged: it is kept as {aside.name} and not used" in said[1]
        assert aside.read_bytes() == damaged
        assert [p.stat().st_mtime_ns for p in others] == before
        assert tables(path) == tables(whole)


@pytest.mark.parametrize("name", ["config.json", "shards.json", "run.json"])
def test_the_advice_for_a_damaged_record_works(small, whole, tables, tmp_path, untrained, name):
    path = shutil.copytree(whole, tmp_path / "run")
    cut(path / name)
    with pytest.raises(ValueError, match=rf"{name} is damaged .*remove it and run again"):
        run(small, path, device="cpu", together=1)
    (path / name).unlink()
    run(small, path, device="cpu", together=1)
    assert tables(path) == tables(whole)
    assert json.loads((path / name).read_text())


def test_a_run_that_lost_its_config_is_not_taken_for_another(small, whole, tmp_path, untrained):
    path = shutil.copytree(whole, tmp_path / "run")
    (path / "config.json").unlink()
    with pytest.raises(ValueError, match="other cells"):
        run(replace(small, epochs=1), path, device="cpu")
    run(small, path, device="cpu", together=1)  # which still is its own


@pytest.fixture
def fitted(tmp_path):
    """Trains one model in a folder; ``stop=n`` interrupts it after so many epochs."""

    def fit(name, stop=None):
        data = spurious_xor(1.0, 0, train=40, validation=16, test=16)
        torch.manual_seed(0)
        model = synib.FusionModel.mlp(data.widths, hidden=[8], head_hidden=[])
        method = synib.SynIB(synib.RandomMask(0.4), family=synib.Bernoulli(), weight=1.0)
        seen = []

        def on_epoch(epoch):
            seen.append(epoch)
            if stop is not None and epoch + 1 == stop:
                raise InterruptedError

        options = {"lr": 1e-2, "epochs": 4, "batch_size": 16, "device": "cpu", "progress": False}
        if stop is None:
            solo.fit(method, model, data, folder=tmp_path / name, on_epoch=on_epoch, **options)
        else:
            with pytest.raises(InterruptedError):
                solo.fit(method, model, data, folder=tmp_path / name, on_epoch=on_epoch, **options)
        return model.state_dict(), seen

    return fit


def flipped(path):
    """One bit of a weight."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 4
    path.write_bytes(content)


BEFORE, START = "from the previous checkpoint", "from the start"


@pytest.mark.parametrize(
    ("damage", "stop", "names", "goes_on"),
    [
        (cut, 3, ["checkpoint.ckpt"], BEFORE),
        (flipped, 3, ["checkpoint.ckpt"], BEFORE),
        (emptied, 2, ["checkpoint.ckpt"], START),
        (cut, 3, ["checkpoint.ckpt", "checkpoint.ckpt.before"], START),
    ],
)
def test_a_damaged_checkpoint_is_named_and_training_goes_on_from_the_one_before(
    fitted, tmp_path, damage, stop, names, goes_on
):
    want, _ = fitted("whole")
    fitted("damaged", stop=stop)
    for name in names:
        damage(tmp_path / "damaged" / name)
    checkpoint = tmp_path / "damaged" / "checkpoint.ckpt"
    damaged = checkpoint.read_bytes()
    with pytest.warns(UserWarning, match=rf"checkpoint\.ckpt(\.before)? is damaged: .* training continues {goes_on}\."):
        found, epochs = fitted("damaged")
    assert epochs == list(range(stop - 2 if goes_on == BEFORE else 0, 4))
    assert all(torch.equal(found[name], want[name]) for name in want)
    assert (tmp_path / "damaged" / "checkpoint.ckpt.damaged").read_bytes() == damaged
    assert fitted("damaged")[1] == []  # it is finished now
