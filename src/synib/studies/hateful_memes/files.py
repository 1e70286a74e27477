"""Hateful Memes: is an image with its text hateful? Read from its jsonl files and images."""

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

MAX_PIXELS = 64_000_000  # larger pictures are refused before they are decoded
ADVICE = "download the images again, or skip such memes with skip_broken=True."

HATEFUL_MEMES = Source(
    name="hateful-memes",
    about="Images with texts, hateful or not, often only in combination (Hateful Memes challenge)",
    where="https://hatefulmemeschallenge.com (Meta; after accepting its terms)",
    licence="Meta's research licence for the Hateful Memes data set; redistribution is not allowed",
    files=(
        File("train.jsonl", "8,500 memes for training"),
        File("dev_unseen.jsonl", "540 memes for validation"),
        File("test_seen.jsonl", "1,000 memes for testing, with labels"),
        File("img/*.png", "the images"),
    ),
    folder="hateful-memes",
)


@dataclass(frozen=True, eq=False)
class Memes:
    """The memes of a split.

    Args:
        ids: The memes' ids.
        images: Paths of their images, not yet decoded.
        texts: The texts on them.
        labels: 1 if hateful, 0 if not.
        skipped: Id of an excluded meme → what is wrong with its image.
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
    """Memes of the training, validation and test split."""

    train: Memes
    validation: Memes
    test: Memes


def load(root: str | Path | None = None, *, skip_broken: bool = False) -> HatefulMemes:
    """The three splits of the paper: train, dev_unseen for validation, test_seen for testing.

    Every image must exist and be inside the folder; images are decoded later, by :func:`dataset`. With ``skip_broken``
    all are decoded once here, and memes whose image is missing or broken are excluded and listed in ``skipped``.

    Args:
        root: The folder of the data set or its parent; ``None`` is ``$SYNIB_DATA``.
        skip_broken: Whether to skip memes whose image is missing or broken.
    """
    parts = (read_memes(HATEFUL_MEMES.file(root, number), skip_broken=skip_broken) for number in range(3))
    return HatefulMemes(*parts)


def read_memes(path: str | Path, *, skip_broken: bool = False) -> Memes:
    """The memes of one jsonl file, with images in the file's folder."""
    path = Path(path)
    ids, images, texts, labels = [], [], [], []
    skipped: dict[str, str] = {}
    seen: set[str] = set()
    try:
        lines = path.read_text(encoding="utf-8").split("\n")
    except FileNotFoundError:
        raise ValueError(f"{path} is missing: download it from {HATEFUL_MEMES.where}.") from None
    except UnicodeDecodeError as e:
        raise ValueError(f"{path} is not UTF-8 text ({e.reason} at byte {e.start}).") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        name, img, text, label = _record(line, f"{path}, line {number}")
        if name in seen:
            raise ValueError(f"{path}, line {number}: meme {name} is listed twice.")
        seen.add(name)
        picture = inside(path.parent, img)
        try:
            if skip_broken:
                read_picture(picture)
            elif not picture.is_file():
                raise BrokenFile(f"{picture} is missing")
        except BrokenFile as e:
            if not skip_broken:
                raise ValueError(f"{e}: {ADVICE}") from None
            skipped[name] = str(e)
            continue
        ids.append(name)
        images.append(picture)
        texts.append(text)
        labels.append(label)
    if not ids:
        raise ValueError(f"{path} has no meme{' with a readable image' if skipped else ''}.")
    return Memes(tuple(ids), tuple(images), tuple(texts), torch.tensor(labels), skipped)


def read_picture(path: str | Path) -> Any:
    """A png or jpeg, decoded, as a Pillow image in RGB."""
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as e:
        raise ImportError('Reading images needs pillow: pip install "synib[vision]"') from e
    path = Path(path)
    if not path.is_file():
        raise BrokenFile(f"{path} is missing.")
    try:
        with Image.open(path, formats=("PNG", "JPEG")) as image:
            if image.width * image.height > MAX_PIXELS:
                raise BrokenFile(
                    f"{path} has {image.width} × {image.height} pixels, more than the {MAX_PIXELS} allowed."
                )
            # Palette images are converted through RGBA, since a colour of the palette may be transparent.
            return (image.convert("RGBA") if image.mode == "P" else image).convert("RGB")
    except UnidentifiedImageError:
        raise BrokenFile(f"{path} is not a png or jpeg.") from None
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
    """Images as bytes, cropped as CLIP crops them, and texts as token ids: the inputs of :func:`~synib.models.memes_model`.

    Images are decoded once and cached in a folder, memory-mapped; a changed image is decoded again. ``columns`` contain
    each meme's ``id`` and the number of ``tokens`` of its text before truncation.

    Args:
        memes: The result of :func:`load`.
        tokenizer: The text model's tokenizer from transformers, or a callable like it.
        cache: Folder for the decoded images.
        size: Side of an image in pixels.
        longest: Maximum number of tokens of a text, including special tokens.
        workers: Number of decoding threads.
        on_file: Called with the number of decoded images of a split, and with their total.
    """
    check_whole("size", size)
    check_whole("longest", longest)
    parts = {"train": memes.train, "validation": memes.validation, "test": memes.test}
    check_disjoint("meme", *(part.ids for part in parts.values()))
    pad = getattr(tokenizer, "pad_token_id", None)
    if not isinstance(pad, int):
        raise ValueError(f"The tokenizer must have a padding token; its pad_token_id is {shown(pad)}.")
    lengths = {name: [len(ids) for ids in _ids(tokenizer, part)] for name, part in parts.items()}
    width = min(longest, max(map(max, lengths.values())))
    splits: dict[str, Split] = {}
    for name, part in parts.items():
        ids = _ids(tokenizer, part, truncation=True, max_length=longest)
        text = torch.tensor([row + [pad] * (width - len(row)) for row in ids])
        files = dict(zip(part.ids, part.images, strict=True))
        pictures, broken = cached(
            cache, f"pictures-{name}-{size}", files, lambda path: picture_bytes(path, size), (3, size, size), "uint8",
            "CLIP's square", workers=workers, on_file=on_file,
        )  # fmt: skip
        if broken:
            first = next(iter(broken.values())).rstrip(".")
            raise ValueError(f"{first}{f', and {len(broken) - 1} more' if len(broken) > 1 else ''}: {ADVICE}")
        columns = {"id": part.ids, "tokens": lengths[name]}
        splits[name] = Split({"image": pictures, "text": text}, part.labels, columns=columns)
    return Dataset(splits["train"], splits["validation"], splits["test"])


def picture_bytes(path: str | Path, size: int = 224) -> NDArray[np.uint8]:
    """The central square of an image, resized as in CLIP, as ``(3, size, size)`` bytes."""
    image = read_picture(path)
    side = min(image.size)
    left, top = ((n - side) / 2 for n in image.size)
    square = image.resize((size, size), resample=3, box=(left, top, left + side, top + side))  # 3: bicubic
    return np.ascontiguousarray(np.asarray(square, np.uint8).transpose(2, 0, 1))


def _ids(tokenizer: Any, memes: Memes, **settings: Any) -> list[list[int]]:
    ids: list[list[int]] = tokenizer(list(memes.texts), **settings)["input_ids"]
    return ids


def _record(line: str, where: str) -> tuple[str, str, str, int]:
    """Id, path of the image, text and label from a line of a jsonl file."""
    try:
        record = json.loads(line)
    except (json.JSONDecodeError, RecursionError):
        record = None
    if not isinstance(record, dict):
        raise ValueError(f"{where}: expected a JSON object; got {shown(line)}.")
    name, img, text, label = (record.get(key) for key in ("id", "img", "text", "label"))
    has_id = isinstance(name, int | str) and not isinstance(name, bool)
    if not has_id or not isinstance(img, str) or not isinstance(text, str):
        raise ValueError(f"{where}: a meme must have an id, a path img and a text; got {shown(record)}.")
    if label not in (0, 1) or isinstance(label, bool | float):
        got = "none" if label is None else shown(label)
        raise ValueError(
            f"{where}: a label must be 0 or 1; got {got}. Use a file with labels, such as test_seen.jsonl."
        )
    return str(name), img, text, label
