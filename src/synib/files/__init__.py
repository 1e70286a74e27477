"""Atomic writing of files, JSON and CSV, locks on folders, arrays cached on disk."""

from synib.files.atomic import (
    WriteError,
    atomic_file,
    check_writable,
    read_csv,
    read_json,
    write_csv,
    write_json,
    write_text,
)

__all__ = [
    "WriteError",
    "atomic_file",
    "check_writable",
    "read_csv",
    "read_json",
    "write_csv",
    "write_json",
    "write_text",
]
