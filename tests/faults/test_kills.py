"""SIGKILL at every moment at which something is written: the same command goes on and ends with the same bytes."""

import signal

import pytest

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
