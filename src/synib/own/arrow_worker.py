"""Decode a Parquet or Arrow file in a separate process, and write it to the output as a stream of Arrow batches.

A damaged file can crash the process that decodes it, and a small one can expand beyond the available memory; both end
this process only. It is a script that imports nothing from synib, since these imports take longer than reading most files.
"""

import contextlib
import json
import os
import sys
from collections.abc import Iterable
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
from pyarrow import parquet, types

SLACK = 2**29  # bytes beside the data


class Blocks:
    """Output in blocks, each preceded by its length, so that the reader knows where an answer ends."""

    closed = False

    def write(self, data: Any) -> int:
        """Write a block."""
        block = memoryview(data).cast("B")
        if block.nbytes:
            sys.stdout.buffer.write(block.nbytes.to_bytes(8, "little"))
            sys.stdout.buffer.write(block)
        return block.nbytes

    def end(self, error: str) -> None:
        """End an answer with the error message, empty if there is none."""
        encoded = error.encode("utf-8", "replace")
        sys.stdout.buffer.write(bytes(8) + len(encoded).to_bytes(8, "little") + encoded)
        sys.stdout.buffer.flush()

    def flush(self) -> None:
        """Do nothing: blocks are not buffered here."""


def main() -> None:
    """Answer requests, each a JSON text preceded by its length, until the input ends."""
    size_at_start = address_space()
    while length := sys.stdin.buffer.read(8):
        request = json.loads(sys.stdin.buffer.read(int.from_bytes(length, "little")))
        output = Blocks()
        failure = ""
        try:
            bound_memory(size_at_start + request["memory"] + SLACK)
            answer(request, output)
        except (pa.ArrowException, OSError, MemoryError, ValueError, KeyError, OverflowError) as error:
            failure = " ".join((str(error) or type(error).__name__).split())[:300]
        output.end(failure)


def answer(request: dict[str, Any], output: Blocks) -> None:
    """The schema of the file, or batches of some columns."""
    if not request["path"].lower().endswith(".parquet"):
        answer_stream(request, output)
        return
    with opened(request["path"], []) as file:
        if request["columns"] is None:
            send_head(file, output)
        else:
            send_batches(request, file.schema_arrow, output)


def answer_stream(request: dict[str, Any], output: Blocks) -> None:
    """The same for a stream of batches, as ``datasets`` writes it; they are validated and sent in smaller batches."""
    with pa.memory_map(request["path"]) as pages, pa.ipc.open_stream(pages) as stream:
        if request["columns"] is None:
            output.write(json.dumps({"rows": 0, "values": [0] * len(stream.schema.names)}).encode() + b"\n")
            with pa.ipc.new_stream(pa.PythonFile(output, mode="w"), stream.schema):
                return
        send(
            (batch.slice(at, request["rows"]) for batch in stream for at in range(0, batch.num_rows, request["rows"])),
            request,
            output,
        )


def send(batches: Iterable[Any], request: dict[str, Any], output: Blocks) -> None:
    """Send columns of batches, after validating them."""
    stream = None
    for batch in batches:
        chosen = batch.select(request["columns"])
        chosen.validate(full=True)
        if stream is None:
            stream = pa.ipc.new_stream(pa.PythonFile(output, mode="w"), chosen.schema)
        stream.write_batch(chosen)
    if stream is not None:
        stream.close()


def address_space() -> int:
    """The virtual memory of this process in bytes; 0 if unknown."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def bound_memory(limit: int) -> None:
    """Limit the virtual memory of this process to so many bytes, where the system supports it."""
    if not address_space():
        return
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def opened(path: str, dictionaries: list[str]) -> Any:
    """The file, with settings that avoid holding all of it, or a column of a whole row group, in memory."""
    return parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False, read_dictionary=dictionaries)


def send_head(file: Any, output: Blocks) -> None:
    """Send a line of JSON with the counts of rows and values, and the schema as a stream without batches."""
    counts = []
    groups = [file.metadata.row_group(k) for k in range(file.metadata.num_row_groups)]
    leaf = 0
    for field in file.schema_arrow:
        width = leaves(field.type)
        counts.append(
            sum(g.column(k).num_values for g in groups for k in range(leaf, min(leaf + width, g.num_columns)))
        )
        leaf += width
    output.write(json.dumps({"rows": file.metadata.num_rows, "values": counts}).encode() + b"\n")
    with pa.ipc.new_stream(pa.PythonFile(output, mode="w"), file.schema_arrow):
        pass


def leaves(type_: Any) -> int:
    """How many Parquet columns hold one Arrow column of this type."""
    if types.is_map(type_):
        return leaves(type_.key_type) + leaves(type_.item_type)
    if types.is_struct(type_):
        return sum(leaves(type_.field(k).type) for k in range(type_.num_fields))
    listed = types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)
    return leaves(type_.value_type) if listed else 1


def send_batches(request: dict[str, Any], schema: Any, output: Blocks) -> None:
    """Send batches of a Parquet file; a text that occurs several times is sent once per batch."""
    kinds = {name: schema.field(name).type for name in request["columns"]}
    are_texts = [name for name, kind in kinds.items() if types.is_string(kind) or types.is_large_string(kind)]
    with opened(request["path"], are_texts) as file:
        send(file.iter_batches(request["rows"], columns=request["columns"], use_threads=False), request, output)


if __name__ == "__main__":
    main()
