"""Decode a Parquet file in a process of its own, and write it to the output as a stream of Arrow batches.

A damaged file can end the process that Arrow decodes it in, and a small one can unpack to all the memory there is; both
end this process and no other. It is a script, and imports nothing of synib, whose imports take longer than most files.
"""

import contextlib
import json
import os
import sys
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
    with opened(asked["path"], []) as file:
        if asked["columns"] is None:
            send_head(file, output)
        else:
            send_batches(asked["path"], file.schema_arrow, asked["columns"], asked["rows"], output)


def address_space() -> int:
    """Bytes of it that this process has now; 0 where nobody says."""
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


def send_batches(path: str, schema: Any, names: list[str], rows: int, output: Blocks) -> None:
    """The columns, checked to be what they say, some rows at a time; a text that occurs often is sent once a batch."""
    are_texts = [
        name
        for name in names
        if types.is_string(schema.field(name).type) or types.is_large_string(schema.field(name).type)
    ]
    stream = None
    for batch in opened(path, are_texts).iter_batches(rows, columns=names, use_threads=False):
        chosen = batch.select(names)
        chosen.validate(full=True)
        if stream is None:
            stream = pa.ipc.new_stream(pa.PythonFile(output, mode="w"), chosen.schema)
        stream.write_batch(chosen)
    if stream is not None:
        stream.close()


if __name__ == "__main__":
    main()
