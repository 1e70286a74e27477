"""Hateful Memes: is a picture with its text hateful? Read from its jsonl files and images."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from synib.checks import check_whole, shown
from synib.data.cache import cached
from synib.data.dataset import Dataset, Split
from synib.data.files import File, Source, check_disjoint, inside
from synib.data.media import BrokenFile

MOST_PIXELS = 64_000_000  # a picture that unpacks to more is refused before it is unpacked
AGAIN = "get the pictures again, or leave such memes out with skip_broken=True (--skip-broken)."

HATEFUL_MEMES = Source(
    name="hateful-memes",
    about="Pictures with texts, hateful or not, often only together (Hateful Memes challenge)",
    where="https://hatefulmemeschallenge.com (Meta; after accepting its terms)",
    licence="Meta's own research licence for the Hateful Memes data set; not to be passed on",
    files=(
        File("train.jsonl", "8,500 memes to train on"),
        File("dev_unseen.jsonl", "540 memes to validate on"),
        File("test_seen.jsonl", "1,000 memes to test on, with labels"),
        File("img/*.png", "the pictures"),
    ),
    folder="hateful-memes",
)


@dataclass(frozen=True, eq=False)
class Memes:
    """The memes of a split.

    Args:
        ids: Their numbers.
        images: Where their pictures are; nothing is decoded yet.
        texts: What is written on them.
        labels: 1 if hateful, 0 if not.
        skipped: Number → what is wrong with the picture of a meme that was left out.
    """

    ids: tuple[str, ...]
    images: tuple[Path, ...]
    texts: tuple[str, ...]
    labels: Tensor
    skipped: dict[str, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True, eq=False)
class HatefulMemes:
    """Memes to train, validate and test on."""

    train: Memes
    validation: Memes
    test: Memes


def load(root: str | Path | None = None, *, skip_broken: bool = False) -> HatefulMemes:
    """The three splits of the paper: train, dev_unseen to validate, test_seen to test.

    Every picture must be there and lie in the folder. Whether it can be decoded shows when it is (:func:`dataset`); with
    ``skip_broken`` all are decoded once, now, and memes whose picture is missing or broken are left out, named in ``skipped``.

    Args:
        root: The data set's folder or the one that holds it; ``None`` is ``$SYNIB_DATA``.
        skip_broken: Whether to go on without them.
    """
    parts = (read_memes(HATEFUL_MEMES.file(root, number), skip_broken=skip_broken) for number in range(3))
    return HatefulMemes(*parts)


def read_memes(path: str | Path, *, skip_broken: bool = False) -> Memes:
    """The memes of one jsonl file; pictures are looked for in its folder."""
    path = Path(path)
    ids, images, texts, labels = [], [], [], []
    skipped: dict[str, str] = {}
    seen: set[str] = set()
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: get it from {HATEFUL_MEMES.where}.") from None
    except UnicodeDecodeError as e:
        raise ValueError(f"{path} is not text in UTF-8 ({e.reason} at byte {e.start}).") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, img, text, label = _record(line, f"{path}, line {number}")
        if name in seen:
            raise ValueError(f"{path}, line {number}: meme {name} is there twice.")
        seen.add(name)
        picture = inside(path.parent, img)
        try:
            if skip_broken:
                read_picture(picture)
            elif not picture.is_file():
                raise BrokenFile(f"{picture} is missing")
        except BrokenFile as e:
            if not skip_broken:
                raise ValueError(f"{e}: {AGAIN}") from None
            skipped[name] = str(e)
            continue
        ids.append(name)
        images.append(picture)
        texts.append(text)
        labels.append(label)
    if not ids:
        raise ValueError(f"{path} holds no meme{' whose picture can be read' if skipped else ''}.")
    return Memes(tuple(ids), tuple(images), tuple(texts), torch.tensor(labels), skipped)


def read_picture(path: str | Path) -> Any:
    """A png or jpeg as a Pillow image in red, green and blue, decoded whole."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as e:
        raise ImportError('Pictures are read with pillow: pip install "synib[vision]"') from e
    path = Path(path)
    if not path.is_file():
        raise BrokenFile(f"{path} is missing.")
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MOST_PIXELS:
                raise BrokenFile(
                    f"{path} unpacks to {image.width} × {image.height} pixels, more than the {MOST_PIXELS} allowed."
                )
            # By way of RGBA where colours come from a table, in which one may be transparent.
            return (image.convert("RGBA") if image.mode == "P" else image).convert("RGB")
    except UnidentifiedImageError:
        raise BrokenFile(f"{path} is no png or jpeg.") from None
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as e:
        if isinstance(e, BrokenFile):
            raise
        raise BrokenFile(f"{path} is damaged or truncated ({str(e).rstrip('.')}).") from None


def dataset(
    memes: HatefulMemes,
    tokenizer: Any,
    cache: str | Path,
    *,
    size: int = 224,
    longest: int = 128,
    workers: int = 4,
    on_file: Callable[[int, int], None] | None = None,
) -> Dataset:
    """Pictures as bytes, cropped as CLIP's are, and texts as token ids: what :func:`~synib.models.memes_model` takes.

    Pictures are decoded once and kept in the folder, memory-mapped; one that changed is decoded again. What is known of each
    meme besides: its ``id``, and its text's length in ``tokens``, of which ``longest`` are kept.

    Args:
        memes: What :func:`load` gave.
        tokenizer: The text model's, of transformers (or anything called like one).
        cache: The folder in which pictures are kept.
        size: Of a picture.
        longest: The most tokens of a text, with those that a tokenizer adds.
        workers: Threads that decode.
        on_file: Called with how many pictures of a split were decoded, and of how many.
    """
    check_whole("size", size)
    check_whole("longest", longest)
    parts = {"train": memes.train, "validation": memes.validation, "test": memes.test}
    check_disjoint("meme", *(part.ids for part in parts.values()))
    pad = getattr(tokenizer, "pad_token_id", None)
    if not isinstance(pad, int):
        raise ValueError(f"tokenizer is one of transformers' that pads; its pad_token_id is {shown(pad)}.")
    lengths = {name: [len(ids) for ids in _ids(tokenizer, part)] for name, part in parts.items()}
    wide = min(longest, max(n for of in lengths.values() for n in of))
    made: dict[str, Split] = {}
    for name, part in parts.items():
        ids = _ids(tokenizer, part, truncation=True, max_length=longest)
        text = torch.tensor([row + [pad] * (wide - len(row)) for row in ids])
        files = dict(zip(part.ids, part.images, strict=True))
        pictures, broken = cached(
            cache, f"pictures-{name}-{size}", files, lambda path: picture_bytes(path, size), (3, size, size), "uint8",
            "CLIP's square", workers=workers, on_file=on_file,
        )  # fmt: skip
        if broken:
            said = next(iter(broken.values())).rstrip(".")
            raise ValueError(f"{said}{f', and {len(broken) - 1} more' if len(broken) > 1 else ''}: {AGAIN}")
        known = {"id": part.ids, "tokens": lengths[name]}
        made[name] = Split({"image": pictures, "text": text}, part.labels, columns=known)
    return Dataset(made["train"], made["validation"], made["test"])


def picture_bytes(path: str | Path, size: int = 224) -> NDArray[np.uint8]:
    """The square in the middle of a picture, as ``(3, size, size)`` bytes: resized and cropped as CLIP's pictures are."""
    image = read_picture(path)
    side = min(image.size)
    left, top = ((n - side) / 2 for n in image.size)
    square = image.resize((size, size), resample=3, box=(left, top, left + side, top + side))  # 3: bicubic
    return np.ascontiguousarray(np.asarray(square, np.uint8).transpose(2, 0, 1))


def _ids(tokenizer: Any, memes: Memes, **settings: Any) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(list(memes.texts), **settings)["input_ids"]
    return ids


def _record(line: str, where: str) -> tuple[str, str, str, int]:
    try:
        told = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        raise ValueError(f"{where}: a line is one JSON object; got {shown(line)}.") from None
    if not isinstance(told, dict):
        raise ValueError(f"{where}: a line is one JSON object; got {shown(line)}.")
    name, img, text, label = (told.get(key) for key in ("id", "img", "text", "label"))
    if (
        isinstance(name, bool)
        or not isinstance(name, int | str)
        or not isinstance(img, str)
        or not isinstance(text, str)
    ):
        raise ValueError(f"{where}: a meme has an id, the path img and a text; got {shown(told)}.")
    if label not in (0, 1) or isinstance(label, bool | float):
        got = "none" if label is None else shown(label)
        raise ValueError(
            f"{where}: a meme's label is 0 or 1; got {got}. Take a file with labels, such as test_seen.jsonl."
        )
    return str(name), img, text, label
