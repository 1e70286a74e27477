"""Damaged and odd inputs for benchmarks/fuzz.py: valid files of every kind that is read, and ways to spoil them."""

import io
import json
import pickle
import random
import re
import shutil
import struct
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ODD_TEXTS = (
    "", " ", "-1", "0", "1", "nan", "inf", "-inf", "1e999", "1e308", "9" * 400, "a" * 400, "<script>alert(1)</script>",
    "</script>", "\u2028", "\u202e", "\x00", "\n", "\t", "\x1b[31m", "../../escape", "/etc/passwd", "..", ".", "C:\\x", "=1+1",
    "[1, 2", "[]", "{}", "'", '"', "%s", "{0}", "${HOME}", "$(id)", "`id`", "--out", "-", "é", "😀", "\ud7ff", "label", "image",
    "text", "train", "True", "None", "image_0", "image=", "=text", "image=image", "image=text",
)  # fmt: skip
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 10**30, 0.5, 1e308, float("nan"), float("inf"), [], {}, [[]], {"a": 1},
    [None], ["vanilla", "vanilla"], [0.1, "x"], *ODD_TEXTS,
)  # fmt: skip
NUMBERS = (0, 1, 0x7F, 0x80, 0xFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 2**63 - 1, 2**63, 2**64 - 1)
FORMATS = ("npz", "safetensors", "csv", "parquet", "npy", "datasets")


def spoiled(rng: random.Random, data: bytes) -> bytes:
    """Bytes with one to four kinds of damage."""
    spoilt = bytearray(data)
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(len(spoilt) + 1)
        match rng.randrange(8):
            case 0 if spoilt:
                spoilt[min(at, len(spoilt) - 1)] ^= 1 << rng.randrange(8)
            case 1:
                del spoilt[at:]
            case 2:
                spoilt[at:at] = rng.randbytes(rng.randint(1, 32))
            case 3:
                del spoilt[at : at + rng.randint(1, 64)]
            case 4:
                number = rng.choice(NUMBERS).to_bytes(8, rng.choice(["little", "big"]))
                wide = rng.choice([1, 2, 4, 8])
                spoilt[at : at + wide] = number[:wide]
            case 5:
                spoilt[at : at + 16] = spoilt[at : at + 16] * rng.randint(2, 40)
            case 6:
                spoilt[at:at] = rng.choice(ODD_TEXTS).encode()
            case _:
                other = rng.randrange(len(spoilt) + 1)
                spoilt[at : at + 24] = spoilt[other : other + 24]
    return bytes(spoilt)


def changed(rng: random.Random, value: Any) -> Any:
    """Plain values with one of them another, gone, or twice."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        name = rng.choice(list(value))
        copy = dict(value)
        match rng.randrange(8):
            case 0:
                del copy[name]
            case 1:
                copy[rng.choice(ODD_TEXTS)] = copy.pop(name)
            case 2:
                copy[rng.choice(ODD_TEXTS)] = rng.choice(ODD_VALUES)
            case _:
                copy[name] = changed(rng, value[name])
        return copy
    if isinstance(value, list) and value and rng.random() < 0.8:
        at = rng.randrange(len(value))
        return [*value[:at], *rng.choice([[], [changed(rng, value[at])], [value[at]] * 2]), *value[at + 1 :]]
    return rng.choice(ODD_VALUES)


def json_bytes(rng: random.Random, data: bytes) -> bytes:
    """A JSON file that is spoiled: in its values, in its bytes, or by going deep."""
    match rng.randrange(6):
        case 0:
            return spoiled(rng, data)
        case 1:
            depth = rng.choice([10, 1000, 100_000])
            return b"[" * depth + b"]" * rng.choice([0, depth])
        case _:
            value = json.loads(data)
            for _ in range(rng.randint(1, 3)):
                value = changed(rng, value)
            return json.dumps(value).encode()


def csv_bytes(rng: random.Random, data: bytes) -> bytes:
    """A table of texts that is spoiled: in its cells, lines, columns or bytes."""
    if rng.random() < 0.3:
        return spoiled(rng, data)
    rows = [line.split(",") for line in data.decode().splitlines()]
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(rows)) if rows else 0
        match rng.randrange(6):
            case 0 if rows:
                del rows[at]
            case 1 if rows:
                rows.insert(at, rows[at])
            case 2 if rows:
                place = rng.randrange(len(rows[0]) or 1)
                rows = [[*row[:place], *row[place + 1 :]] for row in rows]
            case _ if rows and rows[at]:
                rows[at] = [*rows[at]]
                rows[at][rng.randrange(len(rows[at]))] = rng.choice([*ODD_TEXTS, '"' + rng.choice(ODD_TEXTS) + '"'])
    return "\n".join(map(",".join, rows)).encode("utf-8", "surrogatepass")


def npy_bytes(rng: random.Random, array: Any) -> bytes:
    """An array's file, often with a head that says something else."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    data = file.getvalue()
    if rng.random() < 0.6:
        what = rng.choice([rb"\(\d+,[^)]*\)", rb"'[<>|][a-zA-Z]\d*'", rb"False"])
        other = rng.choice([
            b"(99999999999,)", b"(-1,)", b"(0, 3)", b"(24, 0)", b"(2, 2, 2)", b"()", b"'|O'", b"'<U9'", b"'<f2'", b"'>f8'",
            b"'<M8[ns]'", b"'|V3'", b"'<c8'", b"True", b"__import__('os')", b"(4294967296, 4294967296)",
        ])  # fmt: skip
        data = re.sub(what, lambda _: other, data, count=1)
    return spoiled(rng, data) if rng.random() < 0.3 else data


def npz_bytes(rng: random.Random, arrays: dict[str, Any]) -> bytes:
    """An archive of arrays: spoiled as a whole, or a right archive of spoiled, oddly named or swollen members."""
    file = io.BytesIO()
    chosen = rng.choice(list(arrays))
    how = rng.randrange(5)
    with warnings.catch_warnings(), zipfile.ZipFile(file, "w", rng.choice([0, 8])) as archive:
        warnings.simplefilter("ignore")  # of a name that is there twice
        for name, array in arrays.items():
            plain = io.BytesIO()
            np.save(plain, array)
            data = npy_bytes(rng, array) if name == chosen and how in (0, 1) else plain.getvalue()
            named = rng.choice(ODD_TEXTS).replace("\x00", "") if name == chosen and how == 2 else name
            archive.writestr(f"{named or 'x'}.npy", data)
        if how == 3:
            archive.writestr("image.npy", b"\0" * 2**20, compress_type=8)
    return spoiled(rng, file.getvalue()) if how == 4 else file.getvalue()


def safetensors_bytes(rng: random.Random, data: bytes) -> bytes:
    """Tensors: spoiled as a whole, or under a head that says something else."""
    if rng.random() < 0.4:
        return spoiled(rng, data)
    length = struct.unpack("<Q", data[:8])[0]
    head = json_bytes(rng, data[8 : 8 + length])
    return struct.pack("<Q", len(head)) + head + data[8 + length :]


class Payload:
    """What must not run: unpickling it would write a file."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.write_text, (Path("escaped"), "run"))


def pickle_bytes(rng: random.Random, data: bytes) -> bytes:
    """A pickle that is spoiled, holds a payload, or has steps put into it."""
    match rng.randrange(4):
        case 0:
            wrap: Callable[[Any], Any] = rng.choice(
                [lambda x: x, lambda x: {"train": x}, lambda x: np.array([x, 1], object)]
            )
            return pickle.dumps(wrap(Payload()), protocol=rng.randrange(6))
        case 1:
            at = rng.randrange(len(data))
            return (
                data[:at]
                + bytes(rng.choices(b"}])(.N0123t2uaebcRoix\x93\x94\x85\x86\x87", k=rng.randint(1, 40)))
                + data[at:]
            )
        case _:
            return spoiled(rng, data)


def own_arrays(rng: random.Random, odd: float = 0.3) -> dict[str, Any]:
    """A user's columns: 24 rows of two modalities and a label, now and then with something odd in them."""
    values = np.random.default_rng(rng.randrange(2**32))
    columns: dict[str, Any] = {
        "image": values.normal(size=(24, 3)).astype(np.float32),
        "text": values.normal(size=(24, 2)).astype(np.float32),
        "label": np.arange(24) % 2,
        "speaker": np.array([f"s{i // 4}" for i in range(24)]),
        "split": np.array(["train"] * 12 + ["validation"] * 6 + ["test"] * 6),
    }
    while rng.random() < odd:
        name = rng.choice(list(columns))
        size = rng.choice([0, 1, 2, 23, 24, 25])
        others: list[Any] = [
            np.full((size, 3), np.nan), np.full((size, 2), np.inf), np.zeros((size, 0)), np.zeros(size), np.float64(3.0),
            np.arange(size) * 2**60, np.zeros((size, 2), complex), np.zeros((size, 2, 2)), np.array(["x\u2028<b>"] * size),
            np.array(["a" * 999] * size), np.array(list(map(str, range(size)))), np.zeros((size, 3), bool),
            np.zeros(size, "M8[s]"), np.full((size, 2), 1e300), np.full((size, 3), 7, np.int8),
        ]  # fmt: skip
        columns[name] = rng.choice(others)
        if rng.random() < 0.3:
            columns[rng.choice(ODD_TEXTS).replace("/", "_").replace("\x00", "") or "x"] = columns[name]
    return columns


def write_own(rng: random.Random, folder: Path, kind: str) -> Path:
    """A user's file, or folder, of a format; spoiled more often than not."""
    spoil, arrays = rng.random() < 0.8, own_arrays(rng)
    path = folder / (kind if kind in ("npy", "datasets") else f"data.{kind}")
    if kind == "npz":
        right = io.BytesIO()
        np.savez(right, **{name: x for name, x in arrays.items() if name != "file"})
        path.write_bytes(npz_bytes(rng, arrays) if spoil else right.getvalue())
    elif kind == "safetensors":
        from safetensors.numpy import save

        plain = own_arrays(rng, 0)
        data = save({name: plain[name] for name in ("image", "text", "label")})
        path.write_bytes(safetensors_bytes(rng, data) if spoil else data)
    elif kind == "npy":
        path.mkdir()
        chosen = rng.choice(list(arrays))
        for name, array in arrays.items():
            if "/" not in name and len(name) < 200 and name not in (".", ".."):
                target = path / f"{name}.npy"
                if spoil and name == chosen:
                    target.write_bytes(npy_bytes(rng, array))
                else:
                    np.save(target, array)
        if rng.random() < 0.1:
            (path / "link.npy").symlink_to("/etc/passwd")
    elif kind == "csv":
        data = _as_csv(own_arrays(rng, 0))
        path.write_bytes(csv_bytes(rng, data) if spoil else data)
    else:
        _write_arrow(rng, path, kind, spoil)
    return path


def _as_csv(arrays: dict[str, Any]) -> bytes:
    names = [f"image_{k}" for k in range(3)] + ["text", "label", "speaker", "split"]
    lines = [",".join(names)]
    for i in range(24):
        vector = " ".join(f"{x:.3f}" for x in arrays["text"][i])
        cells = [*(f"{x:.3f}" for x in arrays["image"][i]), f"[{vector}]", arrays["label"][i], arrays["speaker"][i]]
        lines.append(",".join(map(str, [*cells, arrays["split"][i]])))
    return "\n".join(lines).encode()


def _write_arrow(rng: random.Random, path: Path, kind: str, spoil: bool) -> None:
    import pyarrow as pa  # type: ignore[import-untyped]
    from pyarrow import parquet

    plain = own_arrays(rng, 0)
    columns: dict[str, Any] = {
        "image": pa.array(plain["image"].tolist(), pa.list_(pa.float32())),
        "text": pa.array(plain["text"].tolist(), pa.list_(pa.float64(), rng.choice([2, -1]))),
        "label": pa.array(plain["label"]),
        "speaker": pa.array(plain["speaker"].tolist()).dictionary_encode(),
    }
    if rng.random() < 0.5:
        odd: list[Any] = [
            [None] * 24, [[1.0]] * 23 + [[1.0, 2.0]], [[]] * 24, [[None, 1.0]] * 24, ["x"] * 24, [{"a": 1}] * 24,
            [2**63 - 1] * 24,
            [True] * 24, [b"\xff"] * 24, [[["x"]]] * 24, [float("nan")] * 24, ["a" * 400] * 24, [[float("inf"), 1.0]] * 24,
        ]  # fmt: skip
        columns[rng.choice([*columns, "new", "\u2028", "<b>"])] = pa.array(rng.choice(odd))
    table = pa.table(columns)
    if kind == "parquet":
        parquet.write_table(table, path, compression=rng.choice(["none", "snappy"]), row_group_size=rng.choice([5, 24]))
        files = [path]
    else:
        path.mkdir()
        with (
            pa.OSFile(str(path / "data-00000-of-00001.arrow"), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as stream,
        ):
            stream.write_table(table)
        (path / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
        (path / "dataset_info.json").write_text("{}")
        files = [path / "data-00000-of-00001.arrow", path / "state.json"]
    if spoil:
        chosen = rng.choice(files)
        data = chosen.read_bytes()
        chosen.write_bytes(json_bytes(rng, data) if chosen.suffix == ".json" else spoiled(rng, data))


def spoil_folder(rng: random.Random, valid: Path, folder: Path) -> None:
    """A copy of a folder with one or two of its files spoiled, gone, a folder, or a link."""
    shutil.copytree(valid, folder)
    files = sorted(p for p in folder.rglob("*") if p.is_file())
    for chosen in rng.sample(files, rng.randint(1, 2)):
        data = chosen.read_bytes()
        match rng.randrange(12):
            case 0:
                chosen.unlink()
            case 1:
                chosen.unlink()
                chosen.mkdir()
            case 2:
                chosen.write_bytes(b"")
            case _:
                kinds = {
                    ".json": json_bytes,
                    ".csv": csv_bytes,
                    ".safetensors": safetensors_bytes,
                    ".pkl": pickle_bytes,
                }
                chosen.write_bytes(kinds.get(chosen.suffix, spoiled)(rng, data))
