"""Read a Parquet or Arrow file in a worker process (:mod:`synib.own.arrow_worker`); a crash of it becomes a ``ValueError``.

A worker is reused for the next file, since starting one takes longer than reading most files. It ends with this process.
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
    """The schema, the number of rows, and the number of values in each column (0 if unknown)."""
    import pyarrow as pa  # type: ignore[import-untyped]

    with _answer(path, None, 0) as answer:
        counts, _, columns = answer.readall().partition(b"\n")
    schema = pa.ipc.open_stream(columns).schema
    sizes = json.loads(counts)
    return schema, int(sizes["rows"]), dict(zip(schema.names, sizes["values"], strict=True))


def arrow_batches(path: Path, names: Sequence[str], rows: int) -> Iterator[Any]:
    """Batches of these columns, of at most ``rows`` rows each."""
    import pyarrow as pa

    with _answer(path, names, rows) as answer:
        stream = io.BufferedReader(answer, 2**16)
        if stream.peek(1):
            yield from pa.ipc.open_stream(stream, memory_pool=pa.system_memory_pool())
            stream.read()
        stream.detach()


class Answer(io.RawIOBase):
    """The output of a worker: blocks with their lengths, a length of 0, and a last block with the error message, if any."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        assert process.stdout is not None
        self._stream, self._left = process.stdout, 0
        self.ended, self.mistake = False, ""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes; none at the end of the answer."""
        if not self._left and not self.ended:
            self._left = self._read_length()
            if not self._left:
                self.mistake = self._read_exactly(self._read_length()).decode("utf-8", "replace")
                self.ended = True
        count = min(len(buffer), self._left)
        if not count:
            return 0
        buffer[:count] = self._read_exactly(count)
        self._left -= count
        return count

    def _read_length(self) -> int:
        return int.from_bytes(self._read_exactly(8), "little")

    def _read_exactly(self, count: int) -> bytes:
        block = self._stream.read(count)
        if len(block) < count:
            raise EOFError
        return block


@contextmanager
def _answer(path: Path, columns: Sequence[str] | None, rows: int) -> Iterator[Answer]:
    """The answer of a worker; ``ValueError`` if the worker fails or its output is malformed."""
    budget = Budget(path)
    request = {"path": str(path.resolve()), "columns": columns, "rows": rows, "memory": budget.limit}
    process = _worker()
    answer = Answer(process)
    try:
        try:
            _send_request(process, json.dumps(request).encode())
            yield answer
            answer.readall()
        except (OSError, ValueError, KeyError, EOFError) as error:
            with suppress(EOFError, OSError):
                answer.readall()
            if not answer.ended or answer.mistake:
                raise _failure(path, process, answer, budget) from error
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
    # The limit is on address space, of which Arrow's own allocators reserve far more than they use.
    environment = os.environ | {"ARROW_DEFAULT_MEMORY_POOL": "system", "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(
        [sys.executable, "-P", str(WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment,
    )


def _send_request(process: "subprocess.Popen[bytes]", request: bytes) -> None:
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
    reason = answer.mistake
    if not answer.ended:
        code = process.wait()
        reason = (
            f"its decoder ended by signal {signal.Signals(-code).name}"
            if code < 0
            else f"its decoder ended with {code}"
        )
    elif any(sign in reason for sign in ("malloc", "MemoryError", "out of memory", "bad_alloc")):
        budget.take(budget.limit + 1)  # raises the error on memory
    return ValueError(f"{path} cannot be read, or is truncated or damaged ({reason[:160]}).")


@atexit.register
def _end_idle() -> None:
    for owner, _, process in _idle:
        if owner == os.getpid():
            _end(process)
