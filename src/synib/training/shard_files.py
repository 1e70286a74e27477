"""The files of finished shards, and of the states of failed models, in the folder of a run."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from synib.files import atomic_file, read_json, write_json
from synib.files.atomic import make_folder
from synib.training.cells import Cell, digest


class ShardFiles:
    """Reads and writes the files of shards; any process that trains a shard of the run may write its file.

    Args:
        path: The folder of the run.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)

    def write(self, shard: Sequence[Cell], content: Mapping[str, Any]) -> None:
        """Write a finished shard, with the checksum of its content."""
        plain = json.loads(json.dumps(content))
        write_json(self.file(shard), {**plain, "sha256": _checksum(plain)})

    def keep_failed(self, cell: Cell, state: bytes) -> None:
        """Write the last finite parameters and buffers of a failed model, as the bytes of a safetensors file."""
        make_folder(self.path / "failed")
        with atomic_file(self.path / "failed" / f"{cell.id}.safetensors") as file:
            file.write(state)

    def read(self, shard: Sequence[Cell]) -> dict[str, Any] | None:
        """The content of a finished shard, or ``None``; raises ``ValueError`` if its file is damaged."""
        content = read_json(self.file(shard))
        if content is None:
            return None
        complete = isinstance(content, dict) and {"rows", "curves", "timing"} <= content.keys()
        # Files of earlier versions have no checksum.
        if not complete or content.pop("sha256", None) not in (None, _checksum(content)):
            raise self._damaged(shard, "its content differs from what was written")
        rows = [row.get("cell", cell.id) for cell, row in zip(shard, content["rows"], strict=False)]
        if rows != [cell.id for cell in shard] or not len(content["rows"]) == len(content["curves"]) == len(shard):
            raise self._damaged(shard, "it contains other models")
        return content

    def _damaged(self, shard: Sequence[Cell], why: str) -> ValueError:
        return ValueError(
            f"{self.file(shard)} is damaged ({why}): run again to train its models again. Other finished "
            "models are kept."
        )

    def file(self, shard: Sequence[Cell]) -> Path:
        """The file of a shard."""
        return self.path / "shards" / f"{digest([cell.id for cell in shard])}.json"


def _checksum(content: Any) -> str:
    """The SHA-256 of plain values, independent of the layout of a file."""
    return hashlib.sha256(json.dumps(content, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
