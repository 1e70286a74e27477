"""The values that a pickle may contain: arrays built from their bytes, plain keys, containers of limited depth."""

import math
import re
from typing import Any

import numpy as np

MAX_DEPTH = 32  # of containers in containers
MAX_DIMENSIONS = 32

Array = np.ndarray[Any, Any]

_CODE = re.compile(r"[<>|=]?([biufcSUO])(\d*)")
_SIZES = {"b": (1,), "i": (1, 2, 4, 8), "u": (1, 2, 4, 8), "f": (2, 4, 8), "c": (8, 16)}
_LEAVES = (str, bytes, bytearray, int, float, bool, type(None), np.generic)


class Refused(ValueError):
    """A pickle contains an unsupported object, or requests more memory than its size allows."""


def make_dtype(code: str, order: str) -> np.dtype[Any]:
    """The dtype of an array of numbers, strings or objects."""
    match = _CODE.fullmatch(code)
    if not match or order not in ("<", ">", "|", "="):
        raise Refused(
            f"it contains an array of type {code[:20]!r}, but only arrays of numbers, strings and objects are "
            "supported."
        )
    kind, size = match[1], int(match[2][:10] or 0)
    if kind == "O":
        return np.dtype(object)
    if size not in _SIZES.get(kind, (size,)) or not 0 < size < 2**24:
        raise Refused(f"it contains an array of type {code[:20]!r}, which NumPy does not write.")
    return np.dtype(f"{'=' if order == '|' else order}{kind}{size}")


def count(shape: tuple[Any, ...]) -> int:
    """The number of elements of an array of this shape, if the shape is valid."""
    if len(shape) > MAX_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise Refused(f"it contains an array of invalid shape {str(shape)[:60]}.")
    return math.prod(shape)


def make_array(shape: tuple[int, ...], dtype: np.dtype[Any], fortran: bool, data: Any) -> Array:
    """A read-only array of these bytes (or, for objects, of this list)."""
    n = count(shape)
    if dtype.hasobject:
        if type(data) is not list or len(data) != n:
            raise Refused(f"it contains an array of {n} objects with another number of objects.")
        array = np.empty(n, dtype=object)
        for i, item in enumerate(data):
            array[i] = item
    else:
        if not isinstance(data, bytes | bytearray) or len(data) != n * dtype.itemsize:
            size = f"{len(data)} bytes" if isinstance(data, bytes | bytearray) else "none"
            raise Refused(f"it contains an array of {n} times {dtype.itemsize} bytes with {size} of data.")
        array = np.frombuffer(data, dtype) if n else np.empty(0, dtype)
        _check_values(array)
    array.flags.writeable = False
    return array.reshape(shape, order="F" if fortran else "C")


def check_key(key: Any) -> Any:
    """Return a key of a dict or member of a set if it is a string or number: hashing nested tuples can take
    exponential time.
    """
    if isinstance(key, bytearray) or not isinstance(key, _LEAVES):
        raise Refused(f"it has a {type(key).__name__.strip('_')} as a key, but only strings and numbers are supported.")
    return key


def check_plain(root: Any) -> None:
    """Raise an error for anything but plain values and containers, for cyclic containers, and for too deep nesting."""
    heights: dict[int, int] = {}
    ancestors: set[int] = set()
    stack: list[Any] = [root]
    while stack:
        node = stack[-1]
        if id(node) in heights or isinstance(node, _LEAVES):
            stack.pop()
            continue
        children = _children(node)
        if id(node) in ancestors:  # all of its children are done
            ancestors.remove(id(node))
            heights[id(node)] = 1 + max((heights.get(id(child), 0) for child in children), default=0)
            stack.pop()
        else:
            ancestors.add(id(node))
            if any(id(child) in ancestors for child in children):
                raise Refused("it contains a container that contains itself.")
            stack += [child for child in children if not isinstance(child, _LEAVES)]
        if len(ancestors) > MAX_DEPTH or heights.get(id(node), 0) > MAX_DEPTH:
            raise Refused(f"its containers are nested more than {MAX_DEPTH} levels deep.")


def _children(node: Any) -> list[Any]:
    if type(node) is dict:
        return list(node.values())
    if type(node) in (list, tuple, set, frozenset):
        return list(node)
    if isinstance(node, np.ndarray):
        return node.ravel().tolist() if node.dtype.hasobject else []
    raise Refused("it contains a NumPy object that is not an array.")


def _check_values(x: Array) -> None:
    """Raise an error for bytes that are not valid values of their dtype: computing with them would be undefined."""
    if x.dtype.kind == "b" and x.size and x.view(np.uint8).max() > 1:
        raise Refused("it contains a boolean array with values other than true and false.")
    if x.dtype.kind == "U" and x.size and x.view(x.dtype.str[0] + "u4").max() > 0x10FFFF:
        raise Refused("it contains a string array with invalid characters.")
