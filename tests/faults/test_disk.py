"""A disk that is full, or a folder that is read-only: a sentence, nothing half-written, and nothing finished is lost."""

import errno
import os

import numpy as np
import pytest

OPTIONS = ["--seeds=3", "--beta=1.0", "--method=vanilla", "--epochs=2", "--device=cpu", "--together=1"]


@pytest.fixture
def full(monkeypatch):
    """``full(n)``: the disk is full from the nth file on."""

    def from_file(n):
        real, written = os.fsync, iter(range(1000))

        def fsync(file):
            if next(written) >= n:
                raise OSError(errno.ENOSPC, "No space left on device")
            real(file)

        monkeypatch.setattr(os, "fsync", fsync)

    return from_file


@pytest.mark.parametrize(("files", "finished"), [(4, 1), (7, 3)])
def test_a_disk_that_is_full_is_a_sentence_and_the_same_command_goes_on(
    full, monkeypatch, synib_command, tmp_path, whole, tables, hidden, files, finished
):
    """Config, record and grouping are three files, then three shards, then the tables."""
    with monkeypatch.context():
        full(files)
        code, _, err = synib_command("reproduce", "spurious-xor", *OPTIONS, "--out", "run")
        monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert code == 2
    assert "No space left on device. Finished results are kept" in err
    assert "Traceback" not in err
    assert hidden(tmp_path / "run") == []
    assert len(list((tmp_path / "run" / "shards").iterdir())) == finished
    assert not (tmp_path / "run" / "curves.csv").exists()

    assert synib_command("reproduce", "spurious-xor", *OPTIONS, "--out", "run")[0] == 0
    assert tables(tmp_path / "run") == tables(whole)


@pytest.fixture
def read_only(monkeypatch):
    """``read_only()``: from now on nothing can be written into a folder called ``run``, nor can it be made."""
    real_open, real_mkdir = os.open, os.mkdir

    def refuse(real):
        def call(path, *rest, **options):
            writes = real is real_mkdir or (rest and rest[0] & (os.O_WRONLY | os.O_RDWR))
            if writes and "run" in str(path).split(os.sep):
                raise OSError(errno.EROFS, "Read-only file system", str(path))
            return real(path, *rest, **options)

        return call

    def begin():
        monkeypatch.setattr(os, "open", refuse(real_open))
        monkeypatch.setattr(os, "mkdir", refuse(real_mkdir))
        monkeypatch.setattr(os, "access", lambda path, mode: not (mode & os.W_OK and "run" in str(path).split(os.sep)))

    return begin


SAID = "synib: Cannot write to the output folder {}: {}. Choose another folder.\n"


@pytest.mark.parametrize("begun", [False, True])
def test_a_folder_that_is_read_only_is_one_sentence_and_stays_as_it_is(
    synib_command, tmp_path, read_only, begun, untrained
):
    if begun:
        (tmp_path / "run" / "shards").mkdir(parents=True)
    read_only()
    code, _, err = synib_command("reproduce", "spurious-xor", *OPTIONS, "--out", "run")
    assert (code, err) == (2, SAID.format("run", "Read-only file system"))
    assert [p.name for p in (tmp_path / "run").rglob("*")] == ["shards"] * begun


@pytest.mark.parametrize("command", ["audit", "fit"])
def test_an_audit_and_a_fit_see_before_training_that_nothing_can_be_written(
    synib_command, tmp_path, monkeypatch, read_only, command
):
    pytest.importorskip("sklearn")

    def trains(*_, **__):
        raise AssertionError("nothing should have been trained")

    monkeypatch.setattr("synib.own.audit.audit", trains)
    monkeypatch.setattr("synib.own.fit.fit", trains)
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "data.npz", a=rng.normal(size=(40, 2)), b=rng.normal(size=(40, 2)), label=np.arange(40) % 2)
    (tmp_path / "run").mkdir()
    read_only()
    for out in ("run", "run/below"):
        code, _, err = synib_command(command, "data.npz", "--out", out)
        assert (code, err) == (2, SAID.format(out, "it is read-only, or you have no permission"))
    assert list((tmp_path / "run").iterdir()) == []
