"""Two runs cannot write to one folder at the same time."""

import errno
import fcntl
import platform
import time

import pytest

from synib.files.atomic import LOCK, locked
from synib.report import build
from synib.studies import run
from synib.training.folder import Folder

HOLDER = """
    from synib.training.folder import Folder
    with Folder(OUT, SpuriousXOR(**OPTIONS).config()).locked():
        open(OUT + "/../held", "w").close()
        time.sleep(600)
"""


def test_a_second_run_is_refused_with_the_firsts_process_and_host_until_that_has_died(
    child, small, whole, tables, tmp_path
):
    path = tmp_path / "run"
    options = {"seeds": small.seeds, "beta": small.beta, "methods": small.methods, "epochs": small.epochs}
    process = child(HOLDER, OUT=str(path), OPTIONS=options)
    while not (tmp_path / "held").exists():
        assert process.is_alive()
        time.sleep(0.02)
    before = sorted(p.name for p in path.rglob("*"))
    with pytest.raises(ValueError, match=r"Another run .*, which was not changed") as refused:
        run(small, path, device="cpu")
    assert f"process {process.pid} on {platform.node()}" in str(refused.value)
    assert sorted(p.name for p in path.rglob("*")) == before

    process.kill()
    process.join()
    run(small, path, device="cpu", together=1)
    assert tables(path) == tables(whole)
    assert not (path / LOCK).exists()


def test_a_report_may_be_made_while_a_run_goes_on(whole):
    with locked(whole):
        assert build(whole, interactive=False)


def test_a_run_may_lock_its_own_folder_again(tmp_path):
    folder = Folder(tmp_path, {"a": 1})
    with folder.locked(), folder.locked(), pytest.raises(ValueError, match="Another run"):
        Folder(tmp_path, {"a": 1})


def test_a_file_system_without_locks_is_said(tmp_path, monkeypatch):
    def flock(handle, how):
        raise OSError(errno.ENOLCK, "No locks available")

    said = []
    monkeypatch.setattr(fcntl, "flock", flock)
    with Folder(tmp_path, {"a": 1}).locked(said.append):
        assert said == [
            f"The file system of {tmp_path} does not support locks: make sure that no other run writes there."
        ]
