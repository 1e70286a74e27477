"""A Parquet or Arrow file through a process of its own, see :mod:`synib.own.arrow_worker`: what ends that one is a sentence.

A worker that has answered waits for the next request, since starting one takes longer than most files; it ends with us.
"""

import atexit
import io
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from synib.own.budget import Budget

WORKER = Path(__file__).with_name("arrow_worker.py")

_idle: list[tuple[int, Path, "subprocess.Popen[bytes]"]] = []  # the process that started it, its script, and the worker


def arrow_head(path: Path) -> tuple[Any, int, dict[str, int]]:
    """The columns (an Arrow schema), how many rows there are, and how many values each column has (0 if unknown)."""
    import pyarrow as pa  # type: ignore[import-untyped]

    with _answer(path, None, 0) as answer:
        counts, _, columns = answer.readall().partition(b"\n")
    schema = pa.ipc.open_stream(columns).schema
    said = json.loads(counts)
    return schema, int(said["rows"]), dict(zip(schema.names, said["values"], strict=True))


def arrow_batches(path: Path, names: Sequence[str], rows: int) -> Iterator[Any]:
    """Batches of these columns, so many rows at a time."""
    import pyarrow as pa

    with _answer(path, names, rows) as answer:
        stream = io.BufferedReader(answer, 2**16)
        if stream.peek(1):
            yield from pa.ipc.open_stream(stream, memory_pool=pa.system_memory_pool())
            stream.read()
        stream.detach()


class Answer(io.RawIOBase):
    """What a worker writes: blocks, each after its length, a length of 0, and one more block: what went wrong, if anything."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        self._stream, self._left = process.stdout, 0
        self.ended, self.mistake = False, ""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes; none at the end of the answer."""
        if not self._left and not self.ended:
            self._left = self._length()
            if not self._left:
                self.mistake = self._exactly(self._length()).decode("utf-8", "replace")
                self.ended = True
        count = min(len(buffer), self._left)
        if not count:
            return 0
        buffer[:count] = self._exactly(count)
        self._left -= count
        return count

    def _length(self) -> int:
        return int.from_bytes(self._exactly(8), "little")

    def _exactly(self, count: int) -> bytes:
        found = self._stream.read(count)
        if len(found) < count:
            raise EOFError
        return found


@contextmanager
def _answer(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[Answer]:
    """The answer of a worker; one that did not end well is a ``ValueError``, also where its output made no sense."""
    budget = Budget(path)
    request = {"path": str(path.resolve()), "columns": columns, "rows": rows, "memory": budget.limit}
    process = _worker()
    answer = Answer(process)
    try:
        try:
            _ask(process, json.dumps(request).encode())
            yield answer
            answer.readall()
        except (OSError, ValueError, KeyError, EOFError) as mistake:
            with suppress(EOFError, OSError):
                answer.readall()
            if not answer.ended or answer.mistake:
                raise _failure(path, process, answer, budget) from mistake
            raise
        if answer.mistake:
            raise _failure(path, process, answer, budget)
    finally:
        if answer.ended and process.poll() is None and not _idle:
            _idle.append((os.getpid(), WORKER, process))
        else:
            _end(process)


def _worker() -> "subprocess.Popen[bytes]":
    while _idle:
        owner, script, process = _idle.pop()
        if owner == os.getpid() and script == WORKER and process.poll() is None:
            return process
        if owner == os.getpid():
            _end(process)
    # Arrow's own allocators reserve address space far beyond what they use, which is what is bounded.
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _ask(process: "subprocess.Popen[bytes]", request: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(len(request).to_bytes(8, "little") + request)
    process.stdin.flush()


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.kill()
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    process.wait()


def _failure(path: Path, process: "subprocess.Popen[bytes]", answer: Answer, budget: Budget) -> ValueError:
    words = answer.mistake
    if not answer.ended:
        code = process.wait()
        words = (
            f"its decoder ended by signal {signal.Signals(-code).name}"
            if code < 0
            else f"its decoder ended with {code}"
        )
    elif any(sign in words for sign in ("malloc", "MemoryError", "out of memory", "bad_alloc")):
        budget.take(budget.limit + 1)  # raises: it needs more
    return ValueError(f"{path} cannot be read, or is truncated or damaged ({words[:160]}).")


@atexit.register
def _end_idle() -> None:
    for owner, _, process in _idle:
        if owner == os.getpid():
            _end(process)
