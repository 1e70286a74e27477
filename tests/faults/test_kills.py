"""SIGKILL at every moment at which something is written: the same command goes on and ends with the same bytes."""

import signal

import pytest
import torch

from synib.files import read_csv

LIFE = """
    real_fsync, real_replace = os.fsync, os.replace
    writing, written = iter(range(1000)), iter(range(1000))

    def fsync(file):  # half a file is there, under a temporary name
        if ("writing", next(writing)) == KILL:
            os.kill(os.getpid(), signal.SIGKILL)
        real_fsync(file)

    def replace(a, b):
        real_replace(a, b)
        if ("written", next(written)) == KILL:
            os.kill(os.getpid(), signal.SIGKILL)

    os.fsync, os.replace = fsync, replace
    run(SpuriousXOR(**OPTIONS), OUT, device="cpu", together=1, engine=ENGINE)
"""


# When each life ends: in the midst of its nth file, or right after. A run writes its config, record and grouping, two shards,
# and then, every time, three tables.
IN, AFTER = "writing", "written"
MOMENTS = {
    "fleet": [(IN, 0), (AFTER, 0), (IN, 1), (AFTER, 1), (AFTER, 0), (IN, 1), (AFTER, 1)],
    "solo": [(IN, 3), (AFTER, 1)],
}


@pytest.mark.parametrize("engine", MOMENTS)
def test_a_run_killed_at_its_writes_ends_with_the_same_bytes(child, tmp_path, hidden, tables, engine):
    options = {"seeds": 2, "beta": (1.0,), "methods": ("vanilla",), "epochs": 1}
    whole = child(LIFE, KILL=None, OPTIONS=options, OUT=str(tmp_path / "whole"), ENGINE=engine)
    out, lives, shards = tmp_path / "run", [], {}
    for moment in MOMENTS[engine]:
        process = child(LIFE, KILL=moment, OPTIONS=options, OUT=str(out), ENGINE=engine)
        process.join()
        lives.append(process.exitcode)
        kept = {p.name: p.read_bytes() for p in (out / "shards").glob("*.json")}
        assert kept.items() >= shards.items()  # what was finished stays as it was
        shards = kept
    assert set(lives) == {-signal.SIGKILL}
    last = child(LIFE, KILL=None, OPTIONS=options, OUT=str(out), ENGINE=engine)
    for process in (whole, last):
        process.join()
        assert process.exitcode == 0
    assert tables(out) == tables(tmp_path / "whole")
    assert hidden(out) == []
    rows = [row["cell"] for row in read_csv(out / "results.csv")]
    assert len(rows) == len(set(rows)) == 2


TRAINING = """
    import synib
    from synib.studies.spurious_xor.data import spurious_xor
    from synib.training import solo
    real_replace, writes = os.replace, iter(range(1000))

    def replace(a, b):
        real_replace(a, b)
        if str(b).endswith("checkpoint.ckpt") and next(writes) == KILL:
            os.kill(os.getpid(), signal.SIGKILL)

    os.replace = replace
    data = spurious_xor(1.0, 0, train=40, validation=16, test=16)
    torch.manual_seed(0)
    model = synib.FusionModel.mlp(data.widths, hidden=[8], head_hidden=[])
    method = synib.SynIB(synib.RandomMask(0.4), family=synib.Bernoulli(), weight=1.0)
    options = {"lr": 1e-2, "epochs": 4, "batch_size": 16, "device": "cpu", "progress": False}
    solo.fit(method, model, data, folder=OUT, **options)
    torch.save(model.state_dict(), OUT + "/weights.pt")
"""


def test_one_large_model_killed_between_checkpoints_ends_with_the_same_weights(child, tmp_path):
    codes = []
    for name, kills in (("whole", [-1]), ("killed", [0, 1, 0, -1])):
        for kill in kills:
            process = child(TRAINING, KILL=kill, OUT=str(tmp_path / name))
            process.join()
            codes.append(process.exitcode)
    assert codes == [0, -9, -9, -9, 0]
    one, other = (torch.load(tmp_path / name / "weights.pt", weights_only=True) for name in ("whole", "killed"))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert (tmp_path / "whole" / "metrics.csv").read_bytes() == (tmp_path / "killed" / "metrics.csv").read_bytes()
