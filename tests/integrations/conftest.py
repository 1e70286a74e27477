"""A script run by two processes that train together."""

import multiprocessing
import runpy
import socket
import textwrap
import time

import pytest
import torch


@pytest.fixture(scope="module")
def together(tmp_path_factory):
    """``together(script, preload)``: what each of two processes saved that ran the script; it knows ``FOLDER`` and ``RANK``."""

    def run(script, preload):
        folder = tmp_path_factory.mktemp("two")
        (folder / "script.py").write_text(textwrap.dedent(script))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        # One server imports what both need; a script is what a process can be given from here.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(preload)
        both = []
        for rank in range(2):
            given = {"ENVIRONMENT": environment(rank, port), "FOLDER": str(folder), "RANK": rank}
            call = {"args": (str(folder / "script.py"), given, "__main__"), "daemon": True}
            both.append(context.Process(target=runpy.run_path, **call))
            both[-1].start()
        end = time.monotonic() + 100
        while any(p.is_alive() for p in both) and not any(p.exitcode for p in both) and time.monotonic() < end:
            time.sleep(0.05)
        for process in both:  # one that failed leaves the other waiting
            process.kill()
            process.join()
        assert [process.exitcode for process in both] == [0, 0]
        return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]

    return run


def environment(rank, port):
    return {
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "RANK": str(rank), "LOCAL_RANK": str(rank),
        "NODE_RANK": "0", "GLOO_SOCKET_IFNAME": "lo",
    }  # fmt: skip
