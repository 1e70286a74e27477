"""Ctrl-C once, and twice."""

import os
import signal
import subprocess
import sys
import time

import pytest

COMMAND = """
    os.dup2(os.open(OUT + "/said", os.O_WRONLY | os.O_CREAT), 2)
    os.chdir(OUT)
    from synib.cli import main
    from synib.training import fleet
    train, calls = fleet.train, iter(range(10))

    def slow(*arguments):
        if next(calls) < 1:
            return train(*arguments)
        try:
            open("training", "w").close()
            time.sleep(600)
        finally:  # as a library may, which ends its threads
            open("interrupted", "w").close()
            if STUBBORN:
                time.sleep(600)

    fleet.train = slow
    sys.argv = ["synib", "reproduce", "spurious-xor", *OPTIONS]
    main()
"""
OPTIONS = ["--seeds=2", "--beta=1.0", "--method=vanilla", "--epochs=1", "--device=cpu", "--together=1", "--out=run"]


def wait_for(path, process):
    while not path.exists():
        assert process.is_alive()
        time.sleep(0.02)


@pytest.mark.parametrize("twice", [False, True])
def test_an_interrupted_run_says_so_keeps_what_is_finished_and_ends_with_130(child, tmp_path, hidden, twice):
    process = child(COMMAND, OUT=str(tmp_path), OPTIONS=OPTIONS, STUBBORN=twice)
    for mark in ("training", "interrupted")[: 1 + twice]:
        wait_for(tmp_path / mark, process)
        os.kill(process.pid, signal.SIGINT)
    process.join()
    assert process.exitcode == 130
    said = (tmp_path / "said").read_text()
    if twice:
        assert said == "synib: ended immediately. Finished results are kept.\n"
    else:
        assert said == "synib: stopped. Finished results are kept; run the same command again to continue.\n"
    assert len(list((tmp_path / "run" / "shards").iterdir())) == 1
    assert set(hidden(tmp_path / "run")) <= {".lock"}  # which nobody holds any more


WRITING = """
    from pathlib import Path
    from synib.files import atomic_file
    from synib.cli.interrupts import second_interrupt_exits

    with second_interrupt_exits(), atomic_file(Path(OUT) / "a.json") as file:
        file.write(b"half")
        file.flush()
        for _ in range(2):
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(600)
            except KeyboardInterrupt:
                assert len(list(Path(OUT).iterdir())) == 2
"""


def test_a_second_interrupt_in_the_midst_of_a_file_leaves_the_one_before(child, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "a.json").write_text("old")
    process = child(WRITING, OUT=str(folder))
    process.join()
    assert process.exitcode == 130
    assert {p.name: p.read_text() for p in folder.iterdir()} == {"a.json": "old"}


@pytest.mark.parametrize("start", [["-m", "synib.cli"], ["-c", "from synib.cli import main; main()"]])
def test_an_interrupt_while_the_command_is_still_importing_is_a_sentence_too(tmp_path, start):
    """What takes seconds to import is torch; one that takes for ever is imported in its place."""
    (tmp_path / "torch.py").write_text("import time\nopen('importing', 'w').close()\ntime.sleep(600)\n")
    path = os.pathsep.join([str(tmp_path), *filter(None, sys.path)])
    command = [sys.executable, *start, "reproduce", "spurious-xor"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "importing").exists():
        assert process.poll() is None
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (130, "synib: stopped.\n")


def test_an_interrupt_of_any_command_is_a_sentence(synib_command, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("synib.report.build", interrupted)
    assert synib_command("report", "run")[::2] == (130, "synib: stopped.\n")
