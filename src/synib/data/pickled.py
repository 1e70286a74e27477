"""What may be in a pickle: arrays from their bytes, keys, and containers that come to an end."""

import math
import re
from typing import Any

import numpy as np

DEPTH = 32  # of containers in containers
DIMENSIONS = 32

Array = np.ndarray[Any, Any]

_CODE = re.compile(r"[<>|=]?([biufcSUO])(\d*)")
_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_LEAVES = (str, bytes, bytearray, int, float, bool, type(None), np.generic)


class Refused(ValueError):
    """A pickle asks for something that is not read, or for more than its size allows."""


def make_dtype(code: str, order: str) -> np.dtype[Any]:
    """The type of an array of numbers, texts or objects."""
    found = _CODE.fullmatch(code)
    if not found or order not in ("<", ">", "|", "="):
        raise Refused(
            f"it holds an array of type {code[:20]!r}, and only arrays of numbers, texts and objects are read."
        )
    kind, size = found[1], int(found[2][:10] or 0)
    if kind == "O":
        return np.dtype(object)
    if size not in _SIZES.get(kind, (size,)) or not 0 < size < 2**24:
        raise Refused(f"it holds an array of type {code[:20]!r}, which NumPy does not write.")
    return np.dtype(f"{'=' if order == '|' else order}{kind}{size}")


def count(shape: tuple[Any, ...]) -> int:
    """How many numbers an array of this shape has, if it is one."""
    if len(shape) > DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise Refused(f"it holds an array of shape {str(shape)[:60]}.")
    return math.prod(shape)


def make_array(shape: tuple[int, ...], dtype: np.dtype[Any], fortran: bool, data: Any) -> Array:
    """An array on the bytes (or, for objects, the list) that it has; it cannot be written to."""
    n = count(shape)
    if dtype.hasobject:
        if type(data) is not list or len(data) != n:
            raise Refused(f"it holds an array of {n} objects without as many objects.")
        made = np.empty(n, dtype=object)
        for i, item in enumerate(data):
            made[i] = item
    else:
        if not isinstance(data, bytes | bytearray) or len(data) != n * dtype.itemsize:
            held = f"{len(data)} bytes" if isinstance(data, bytes | bytearray) else "none"
            raise Refused(f"it holds an array of {n} times {dtype.itemsize} bytes with {held} in it.")
        made = np.frombuffer(data, dtype) if n else np.empty(0, dtype)
        _check_values(made)
    made.flags.writeable = False
    return made.reshape(shape, order="F" if fortran else "C")


def check_key(key: Any) -> Any:
    """A key of a dict or member of a set, if it is one text or number: the hash of tuples in tuples can take for ever."""
    if isinstance(key, bytearray) or not isinstance(key, _LEAVES):
        raise Refused(f"it has a {type(key).__name__.strip('_')} as a key, and keys are texts and numbers here.")
    return key


def check_plain(whole: Any) -> None:
    """Nothing but leaves and containers, none in itself and none too deep: whoever walks through it comes to an end."""
    heights: dict[int, int] = {}
    open_now: set[int] = set()
    todo: list[Any] = [whole]
    while todo:
        one = todo[-1]
        if id(one) in heights or isinstance(one, _LEAVES):
            todo.pop()
            continue
        parts = _parts(one)
        if id(one) in open_now:  # all of its parts are done
            open_now.remove(id(one))
            heights[id(one)] = 1 + max((heights.get(id(part), 0) for part in parts), default=0)
            todo.pop()
        else:
            open_now.add(id(one))
            if any(id(part) in open_now for part in parts):
                raise Refused("it holds a container that is inside itself.")
            todo += [part for part in parts if not isinstance(part, _LEAVES)]
        if len(open_now) > DEPTH or heights.get(id(one), 0) > DEPTH:
            raise Refused(f"its containers are more than {DEPTH} deep.")


def _parts(one: Any) -> list[Any]:
    if type(one) is dict:
        return list(one.values())
    if type(one) in (list, tuple, set, frozenset):
        return list(one)
    if isinstance(one, np.ndarray):
        return one.ravel().tolist() if one.dtype.hasobject else []
    raise Refused("it holds a part of NumPy that is no array.")


def _check_values(x: Array) -> None:
    """Bytes that are no value of their type would be undefined in whatever computes with them."""
    if x.dtype.kind == "b" and x.size and x.view(np.uint8).max() > 1:
        raise Refused("it holds an array of truth values with others than true and false in it.")
    if x.dtype.kind == "U" and x.size and x.view(x.dtype.str[0] + "u4").max() > 0x10FFFF:
        raise Refused("it holds an array of texts with numbers that are no characters in it.")
