"""Decode a Parquet or Arrow file in a process of its own, and write it to the output as a stream of Arrow batches.

A damaged file can end the process that Arrow decodes it in, and a small one can unpack to all the memory there is; both
end this process and no other. It is a script, and imports nothing of synib, whose imports take longer than most files.
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
    """Output in blocks, each after its length, so that the reader knows where an answer ends."""

    closed = False

    def write(self, data: Any) -> int:
        """Write a block."""
        block = memoryview(data).cast("B")
        if block.nbytes:
            sys.stdout.buffer.write(block.nbytes.to_bytes(8, "little"))
            sys.stdout.buffer.write(block)
        return block.nbytes

    def end(self, mistake: str) -> None:
        """End an answer with what went wrong, if anything."""
        words = mistake.encode("utf-8", "replace")
        sys.stdout.buffer.write(bytes(8) + len(words).to_bytes(8, "little") + words)
        sys.stdout.buffer.flush()

    def flush(self) -> None:
        """Nothing is kept back."""


def main() -> None:
    """Answer requests, each a JSON text after its length, until there are no more."""
    begun = address_space()
    while length := sys.stdin.buffer.read(8):
        asked = json.loads(sys.stdin.buffer.read(int.from_bytes(length, "little")))
        output = Blocks()
        mistake = ""
        try:
            bound_memory(begun + asked["memory"] + SLACK)
            answer(asked, output)
        except (pa.ArrowException, OSError, MemoryError, ValueError, KeyError, OverflowError) as error:
            mistake = " ".join((str(error) or type(error).__name__).split())[:300]
        output.end(mistake)


def answer(asked: dict[str, Any], output: Blocks) -> None:
    """The head of the file, or batches of some columns."""
    if not asked["path"].lower().endswith(".parquet"):
        answer_stream(asked, output)
        return
    with opened(asked["path"], []) as file:
        if asked["columns"] is None:
            send_head(file, output)
        else:
            send_batches(asked, file.schema_arrow, output)


def answer_stream(asked: dict[str, Any], output: Blocks) -> None:
    """The same of a stream of batches, as ``datasets`` writes it: what its batches hold is checked, and sent in small ones."""
    with pa.memory_map(asked["path"]) as pages, pa.ipc.open_stream(pages) as stream:
        if asked["columns"] is None:
            output.write(json.dumps({"rows": 0, "values": [0] * len(stream.schema.names)}).encode() + b"\n")
            with pa.ipc.new_stream(pa.PythonFile(output, mode="w"), stream.schema):
                return
        send(
            (batch.slice(at, asked["rows"]) for batch in stream for at in range(0, batch.num_rows, asked["rows"])),
            asked,
            output,
        )


def send(batches: Iterable[Any], asked: dict[str, Any], output: Blocks) -> None:
    """Columns of batches, checked to be what they say."""
    stream = None
    for batch in batches:
        chosen = batch.select(asked["columns"])
        chosen.validate(full=True)
        if stream is None:
            stream = pa.ipc.new_stream(pa.PythonFile(output, mode="w"), chosen.schema)
        stream.write_batch(chosen)
    if stream is not None:
        stream.close()


def address_space() -> int:
    """The resident memory of this process in bytes; 0 if unknown."""
    try:
        with open("/proc/self/statm") as held:
            return int(held.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def bound_memory(most: int) -> None:
    """Let this process have so many bytes, where the system can see to it."""
    if not address_space():
        return
    with contextlib.suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (most, resource.getrlimit(resource.RLIMIT_AS)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def opened(path: str, dictionaries: list[str]) -> Any:
    """The file. Without these settings it would be held in memory, or a column of a whole group of rows would."""
    return parquet.ParquetFile(path, buffer_size=2**16, pre_buffer=False, read_dictionary=dictionaries)


def send_head(file: Any, output: Blocks) -> None:
    """A line of JSON (how many values each column has), and the columns as a stream without batches."""
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
    """How many columns of a Parquet file hold an Arrow column of this type."""
    if types.is_map(type_):
        return leaves(type_.key_type) + leaves(type_.item_type)
    if types.is_struct(type_):
        return sum(leaves(type_.field(k).type) for k in range(type_.num_fields))
    listed = types.is_list(type_) or types.is_large_list(type_) or types.is_fixed_size_list(type_)
    return leaves(type_.value_type) if listed else 1


def send_batches(asked: dict[str, Any], schema: Any, output: Blocks) -> None:
    """Batches of a Parquet file; a text that occurs often is sent once a batch."""
    kinds = {name: schema.field(name).type for name in asked["columns"]}
    are_texts = [name for name, kind in kinds.items() if types.is_string(kind) or types.is_large_string(kind)]
    with opened(asked["path"], are_texts) as file:
        send(file.iter_batches(asked["rows"], columns=asked["columns"], use_threads=False), asked, output)


if __name__ == "__main__":
    main()
