"""Arrays and plain containers out of pickle files that nobody has to trust.

A pickle is a program, and Python's own reader runs it. This one reads the same bytes and runs nothing: containers, texts and
numbers are made by the few lines below, arrays from their bytes, and whatever else a file asks for is refused by its name.
No function of a file's choice is called, also none of NumPy's own (which would take shapes and types at their word).
"""

import os
import pickletools
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from synib.data.pickled import Array, Refused, check_key, check_plain, count, make_array, make_dtype

STEPS = 2_000_000  # of the program; the files this is for have arrays, and a few steps for each example's name
BITS = 64  # of a whole number

_NUMPY = ("numpy.core", "numpy._core")  # the name before and since NumPy 2
KNOWN = {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "encode",  # bytes in a file of protocol 2
    # Sets, and bytes where there are none, before they had steps of their own.
    **{(module, name): name for module in ("builtins", "__builtin__") for name in ("bytes", "set", "frozenset")},
    **{(f"{numpy}.multiarray", name): name for numpy in _NUMPY for name in ("_reconstruct", "scalar")},
    **{(f"{numpy}.numeric", "_frombuffer"): "_frombuffer" for numpy in _NUMPY},
}


def read_pickle(path: str | Path) -> Any:
    """What a pickle file holds, if that is arrays and plain containers; else ``ValueError``. Nothing in it is executed.

    Lists, tuples, dicts and sets, texts, bytes, numbers, truth values, ``None``, NumPy's scalars, and arrays of numbers, texts
    or such objects, of any version of Python and NumPy. Arrays share the file's bytes and cannot be written to.

    A file cannot ask for much more memory than its own size: steps, depth, and the bytes of all arrays are limited.

    Args:
        path: The file.

    Example:
        >>> import pickle, tempfile
        >>> import numpy as np
        >>> from synib.data.pickles import read_pickle
        >>> with tempfile.NamedTemporaryFile() as file:
        ...     pickle.dump({"train": {"text": np.eye(2)}}, file)
        ...     file.flush()
        ...     float(read_pickle(file.name)["train"]["text"].sum())
        2.0
    """
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"A pickle is a file; {path} is {'none' if path.exists() else 'not there'}.")
    try:
        with path.open("rb") as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of an escape in a text that Python does not know
            return _Machine(stream).run()
    except Refused as refused:
        raise ValueError(f"{path} is not read: {refused}") from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as mistake:
        why = " ".join(str(mistake).split())[:100]
        raise ValueError(f"{path} is no pickle, or is cut or damaged ({why}): get it anew.") from mistake


class _Stream:
    """A file that knows how many bytes are left: a length in a file is only what the file claims."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.size = stream, os.fstat(stream.fileno()).st_size
        self.readline, self.tell = stream.readline, stream.tell

    def read(self, n: int) -> bytes:
        missing = self.stream.tell() + n - self.size
        if missing > 0:
            raise ValueError(f"{missing} bytes are missing")
        return self.stream.read(n)


class _Global:
    """A name that a file asks for, one of the few that are known."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Unfinished:
    """An array or type whose contents come in a later step; and under which numbers it is noted until then."""

    def __init__(self, what: str, code: str = "") -> None:
        self.what, self.code = what, code
        self.noted: list[int] = []


_MARK = _Global("mark")  # where the parts of a container begin on the stack


class _Machine:
    """The stack and the notes of one reading."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = _Stream(stream)
        self.stack: list[Any] = []
        self.notes: dict[int, Any] = {}
        # A byte of a file is used once or, where bytes are written as a text, twice: more is a file that multiplies itself.
        self.left = 2 * self.stream.size

    def run(self) -> Any:
        for steps, (step, argument, _) in enumerate(pickletools.genops(cast(BinaryIO, self.stream))):
            if steps == STEPS:
                raise Refused(f"it takes more than {STEPS:,} steps, and a file of arrays takes few.")
            if step.name in _PUSHED:
                self.push(_short(argument))
            elif step.name in _STEPS:
                _STEPS[step.name](self, argument)
            elif step.name not in ("PROTO", "FRAME", "STOP"):
                raise _unknown(str(argument).replace(" ", ".") if step.name == "INST" else step.name)
        if len(self.stack) != 1:
            raise ValueError(f"it ends with {len(self.stack)} objects, not 1")
        check_plain(self.stack[0])
        return self.stack[0]

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def pop(self) -> Any:
        if self.stack[-1] is _MARK:
            raise ValueError("a part is missing")
        return self.stack.pop()

    def pops(self, n: int) -> tuple[Any, ...]:
        return tuple(reversed([self.pop() for _ in range(n)]))

    def since_mark(self) -> list[Any]:
        parts = []
        while (part := self.stack.pop()) is not _MARK:
            parts.append(part)
        return parts[::-1]

    def spend(self, n: int) -> None:
        self.left -= n
        if self.left < 0:
            raise Refused("it makes more out of itself than it holds, as no file of arrays does.")

    def note(self, at: int) -> None:
        self.notes[at] = self.stack[-1]
        if isinstance(self.stack[-1], _Unfinished):
            self.stack[-1].noted.append(at)

    def recall(self, at: int) -> None:
        self.push(self.notes[at])

    def fill(self, kind: type, parts: list[Any] | tuple[Any, ...]) -> None:
        """Put parts into the container on the stack: members, or keys and values in turn."""
        to = self.stack[-1]
        wrong = type(to) is not kind or (kind is dict and len(parts) % 2)
        if wrong:
            raise ValueError(f"a {kind.__name__} was expected")
        if kind is list:
            to.extend(parts)
        elif kind is set:
            to.update(map(check_key, parts))
        else:
            to.update(zip(map(check_key, parts[::2]), parts[1::2], strict=True))

    def ask(self, module: Any, name: Any) -> None:
        """Know a name, or refuse it."""
        if not (isinstance(module, str) and isinstance(name, str)) or (module, name) not in KNOWN:
            raise _unknown(f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else "no name")
        self.push(_Global(KNOWN[module, name]))

    def call(self) -> None:
        """What a file has called on reading; here, one of our own few functions."""
        what, arguments = self.pops(2)
        if not isinstance(what, _Global) or type(arguments) is not tuple:
            raise Refused("it calls something that is no function of NumPy's.")
        match what.name, arguments:
            case "_reconstruct", (_Global(name="ndarray"), tuple(), _):
                self.push(_Unfinished("array"))
            case "dtype", (str(code), *_):
                self.push(_Unfinished("dtype", code))
            case "scalar", (np.dtype() as dtype, data):
                self.push(self.array((), dtype, False, data)[()])
            case "_frombuffer", (data, np.dtype() as dtype, tuple(shape), "C" | "F" as order):
                self.push(self.array(shape, dtype, order == "F", data))
            case "encode", (str(text), "latin1"):
                self.push(self.encoded(text))
            case "bytes", ():
                self.push(b"")
            case "set" | "frozenset" as kind, (list(members),):
                self.spend(len(members))
                self.push((set if kind == "set" else frozenset)(map(check_key, members)))
            case _:
                raise Refused(f"it calls {what.name} in a way that NumPy does not.")

    def build(self) -> None:
        """Contents for an array or type that was begun."""
        begun, state = self.pops(2)
        if not isinstance(begun, _Unfinished) or type(state) is not tuple:
            raise Refused("it sets the inside of an object that is no array.")
        made: Any
        match begun.what, state:
            case "dtype", (int(), str(order), None, None, None, *_):
                made = make_dtype(begun.code, order)
            case "dtype", _:
                raise Refused("it holds an array of records, and only arrays of numbers, texts and objects are read.")
            case "array", (int(), tuple(shape), np.dtype() as dtype, bool() | 0 | 1 as fortran, data):
                made = self.array(shape, dtype, bool(fortran), data)
            case _:
                raise Refused("it holds an array in a form that NumPy does not write.")
        for at in begun.noted:
            self.notes[at] = made
        self.push(made)

    def encoded(self, text: str) -> bytes:
        self.spend(len(text))
        return text.encode("latin-1")

    def array(self, shape: tuple[Any, ...], dtype: np.dtype[Any], fortran: bool, data: Any) -> Array:
        self.spend(count(shape) * (1 if dtype.hasobject else dtype.itemsize))
        if isinstance(data, str) and not dtype.hasobject:
            data = self.encoded(data)  # Python 2 has texts for bytes
        return make_array(shape, dtype, fortran, data)


def _unknown(name: str) -> Refused:
    said = re.sub(r"[^\w.<>-]", "?", name)[:80]
    return Refused(f"it asks for {said}, and only arrays and plain containers are read.")


def _short(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > BITS:
        raise Refused(f"it holds a whole number of more than {BITS} bits.")
    return value


def _dict(machine: _Machine, _: Any) -> None:
    parts = machine.since_mark()
    machine.push({})
    machine.fill(dict, parts)


def _drop(machine: _Machine, _: Any) -> None:
    machine.stack.pop()


def _drop_all(machine: _Machine, _: Any) -> None:
    machine.since_mark()


_PUSHED = {
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
    "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "MARK": lambda m, _: m.push(_MARK),
    "POP": _drop,
    "POP_MARK": _drop_all,
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_SET": lambda m, _: m.push(set()),
    "LIST": lambda m, _: m.push(m.since_mark()),
    "TUPLE": lambda m, _: m.push(tuple(m.since_mark())),
    "FROZENSET": lambda m, _: m.push(frozenset(map(check_key, m.since_mark()))),
    "DICT": _dict,
    "TUPLE1": lambda m, _: m.push(m.pops(1)),
    "TUPLE2": lambda m, _: m.push(m.pops(2)),
    "TUPLE3": lambda m, _: m.push(m.pops(3)),
    "APPEND": lambda m, _: m.fill(list, m.pops(1)),
    "APPENDS": lambda m, _: m.fill(list, m.since_mark()),
    "ADDITEMS": lambda m, _: m.fill(set, m.since_mark()),
    "SETITEM": lambda m, _: m.fill(dict, m.pops(2)),
    "SETITEMS": lambda m, _: m.fill(dict, m.since_mark()),
    "PUT": _Machine.note,
    "BINPUT": _Machine.note,
    "LONG_BINPUT": _Machine.note,
    "MEMOIZE": lambda m, _: m.note(len(m.notes)),
    "GET": _Machine.recall,
    "BINGET": _Machine.recall,
    "LONG_BINGET": _Machine.recall,
    "GLOBAL": lambda m, name: m.ask(*name.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.ask(*m.pops(2)),
    "REDUCE": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
}
