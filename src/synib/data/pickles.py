"""Arrays and plain containers from untrusted pickle files.

A pickle is a program, which Python's reader executes. This reader interprets the same opcodes but calls no function
named in the file: it builds containers, strings and numbers itself, arrays from their bytes, and rejects all other
names. NumPy's own functions are not called either, since they would trust the shapes and dtypes of the file.
"""

import os
import pickletools
import re
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO, cast

import numpy as np

from synib.data.pickle_values import Array, Refused, check_key, check_plain, count, make_array, make_dtype

MAX_OPCODES = 2_000_000  # files of arrays have a few for each example's name
MAX_BITS = 64  # of an integer

_NUMPY = ("numpy.core", "numpy._core")  # the name before and since NumPy 2
KNOWN = {
    ("numpy", "ndarray"): "ndarray",
    ("numpy", "dtype"): "dtype",
    ("_codecs", "encode"): "encode",  # bytes in a file of protocol 2
    # Sets and empty bytes, in protocols that have no opcodes for them.
    **{(module, name): name for module in ("builtins", "__builtin__") for name in ("bytes", "set", "frozenset")},
    **{(f"{numpy}.multiarray", name): name for numpy in _NUMPY for name in ("_reconstruct", "scalar")},
    **{(f"{numpy}.numeric", "_frombuffer"): "_frombuffer" for numpy in _NUMPY},
}


def read_pickle(path: str | Path) -> Any:
    """The content of a pickle file of arrays and plain containers; anything else raises ``ValueError``. Nothing is executed.

    It may contain lists, tuples, dicts, sets, strings, bytes, numbers, booleans, ``None``, NumPy scalars, and arrays of
    numbers, strings or such objects, written by any version of Python and NumPy. Arrays are read-only.

    A file cannot request much more memory than its own size: opcodes, depth, and the bytes of all arrays are limited.

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
        raise ValueError(f"A pickle must be a file; {path} {'is not a file' if path.exists() else 'does not exist'}.")
    try:
        with path.open("rb") as stream, warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # for unknown escapes in a text
            return _Interpreter(stream).run()
    except Refused as refused:
        raise ValueError(f"{path} cannot be read: {refused}") from None
    except (ValueError, IndexError, KeyError, TypeError, OverflowError) as mistake:
        why = " ".join(str(mistake).split())[:100]
        raise ValueError(f"{path} is not a pickle, or is truncated or damaged ({why}): download it again.") from mistake


class _Stream:
    """A file that checks how many bytes are left before it reads, because a length in a file may be wrong."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream, self.size = stream, os.fstat(stream.fileno()).st_size
        self.readline, self.tell = stream.readline, stream.tell

    def read(self, n: int) -> bytes:
        missing = self.stream.tell() + n - self.size
        if missing > 0:
            raise ValueError(f"{missing} bytes are missing")
        return self.stream.read(n)


class _Global:
    """One of the few supported names."""

    def __init__(self, name: str) -> None:
        self.name = name


class _Unfinished:
    """An array or dtype whose content follows with a later opcode, and the places in the memo that refer to it."""

    def __init__(self, what: str, code: str = "") -> None:
        self.what, self.code = what, code
        self.memo_keys: list[int] = []


_MARK = _Global("mark")  # where the parts of a container begin on the stack


class _Interpreter:
    """The stack and the memo of one file."""

    def __init__(self, stream: BinaryIO) -> None:
        self.stream = _Stream(stream)
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}
        # A byte of a file is used once or, where bytes are written as a text, twice; a file that uses more expands itself.
        self.budget = 2 * self.stream.size

    def run(self) -> Any:
        for number, (opcode, argument, _) in enumerate(pickletools.genops(cast(BinaryIO, self.stream))):
            if number == MAX_OPCODES:
                raise Refused(f"it has more than {MAX_OPCODES:,} opcodes, which is too many for a file of arrays.")
            if opcode.name in _LITERALS:
                self.push(_check_size(argument))
            elif opcode.name in _HANDLERS:
                _HANDLERS[opcode.name](self, argument)
            elif opcode.name not in ("PROTO", "FRAME", "STOP"):
                raise _unknown(str(argument).replace(" ", ".") if opcode.name == "INST" else opcode.name)
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

    def drop(self) -> None:
        self.stack.pop()

    def drop_to_mark(self) -> None:
        self.since_mark()

    def push_dict(self, parts: list[Any]) -> None:
        self.push({})
        self.fill(dict, parts)

    def spend(self, n: int) -> None:
        self.budget -= n
        if self.budget < 0:
            raise Refused("it expands to more than its own size, as no file of arrays does.")

    def put(self, key: int) -> None:
        self.memo[key] = self.stack[-1]
        if isinstance(self.stack[-1], _Unfinished):
            self.stack[-1].memo_keys.append(key)

    def get(self, key: int) -> None:
        self.push(self.memo[key])

    def fill(self, kind: type, parts: list[Any] | tuple[Any, ...]) -> None:
        """Add items to the container on the stack: members, or alternating keys and values."""
        container = self.stack[-1]
        fits = type(container) is kind and not (kind is dict and len(parts) % 2)
        if not fits:
            raise ValueError(f"a {kind.__name__} was expected")
        if kind is list:
            container.extend(parts)
        elif kind is set:
            container.update(map(check_key, parts))
        else:
            container.update(zip(map(check_key, parts[::2]), parts[1::2], strict=True))

    def find_global(self, module: Any, name: Any) -> None:
        """Push one of the supported names; others raise an error."""
        if not (isinstance(module, str) and isinstance(name, str)) or (module, name) not in KNOWN:
            raise _unknown(f"{module}.{name}" if isinstance(module, str) and isinstance(name, str) else "no name")
        self.push(_Global(KNOWN[module, name]))

    def call(self) -> None:
        """Emulate a call of one of the supported functions."""
        function, arguments = self.pops(2)
        if not isinstance(function, _Global) or type(arguments) is not tuple:
            raise Refused("it calls something that is not a NumPy function.")
        match function.name, arguments:
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
                raise Refused(f"it calls {function.name} in a way that NumPy does not.")

    def build(self) -> None:
        """Complete an array or dtype with its content."""
        unfinished, state = self.pops(2)
        if not isinstance(unfinished, _Unfinished) or type(state) is not tuple:
            raise Refused("it sets the state of an object that is not an array.")
        value: Any
        match unfinished.what, state:
            case "dtype", (int(), str(order), None, None, None, *_):
                value = make_dtype(unfinished.code, order)
            case "dtype", _:
                raise Refused(
                    "it contains an array of records, but only arrays of numbers, strings and objects are supported."
                )
            case "array", (int(), tuple(shape), np.dtype() as dtype, bool() | 0 | 1 as fortran, data):
                value = self.array(shape, dtype, bool(fortran), data)
            case _:
                raise Refused("it contains an array in a form that NumPy does not write.")
        for key in unfinished.memo_keys:
            self.memo[key] = value
        self.push(value)

    def encoded(self, text: str) -> bytes:
        self.spend(len(text))
        return text.encode("latin-1")

    def array(self, shape: tuple[Any, ...], dtype: np.dtype[Any], fortran: bool, data: Any) -> Array:
        self.spend(count(shape) * (1 if dtype.hasobject else dtype.itemsize))
        if isinstance(data, str) and not dtype.hasobject:
            data = self.encoded(data)  # Python 2 wrote bytes as texts
        return make_array(shape, dtype, fortran, data)


def _unknown(name: str) -> Refused:
    printable = re.sub(r"[^\w.<>-]", "?", name)[:80]
    return Refused(f"it requests {printable}, but only arrays and plain containers are supported.")


def _check_size(value: Any) -> Any:
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise Refused(f"it contains an integer of more than {MAX_BITS} bits.")
    return value


_LITERALS = {  # opcodes whose argument is the value
    "INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT",
    "STRING", "BINSTRING", "SHORT_BINSTRING", "BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8",
    "UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8",
}  # fmt: skip
_HANDLERS: dict[str, Callable[[_Interpreter, Any], None]] = {
    "NONE": lambda m, _: m.push(None),
    "NEWTRUE": lambda m, _: m.push(True),
    "NEWFALSE": lambda m, _: m.push(False),
    "MARK": lambda m, _: m.push(_MARK),
    "POP": lambda m, _: m.drop(),
    "POP_MARK": lambda m, _: m.drop_to_mark(),
    "EMPTY_LIST": lambda m, _: m.push([]),
    "EMPTY_TUPLE": lambda m, _: m.push(()),
    "EMPTY_DICT": lambda m, _: m.push({}),
    "EMPTY_SET": lambda m, _: m.push(set()),
    "LIST": lambda m, _: m.push(m.since_mark()),
    "TUPLE": lambda m, _: m.push(tuple(m.since_mark())),
    "FROZENSET": lambda m, _: m.push(frozenset(map(check_key, m.since_mark()))),
    "DICT": lambda m, _: m.push_dict(m.since_mark()),
    "TUPLE1": lambda m, _: m.push(m.pops(1)),
    "TUPLE2": lambda m, _: m.push(m.pops(2)),
    "TUPLE3": lambda m, _: m.push(m.pops(3)),
    "APPEND": lambda m, _: m.fill(list, m.pops(1)),
    "APPENDS": lambda m, _: m.fill(list, m.since_mark()),
    "ADDITEMS": lambda m, _: m.fill(set, m.since_mark()),
    "SETITEM": lambda m, _: m.fill(dict, m.pops(2)),
    "SETITEMS": lambda m, _: m.fill(dict, m.since_mark()),
    "PUT": _Interpreter.put,
    "BINPUT": _Interpreter.put,
    "LONG_BINPUT": _Interpreter.put,
    "MEMOIZE": lambda m, _: m.put(len(m.memo)),
    "GET": _Interpreter.get,
    "BINGET": _Interpreter.get,
    "LONG_BINGET": _Interpreter.get,
    "GLOBAL": lambda m, name: m.find_global(*name.split(" ", 1)),
    "STACK_GLOBAL": lambda m, _: m.find_global(*m.pops(2)),
    "REDUCE": lambda m, _: m.call(),
    "BUILD": lambda m, _: m.build(),
}
