"""The page for whoever opens the code first names files and things that are there."""

import importlib
import re
from pathlib import Path

import synib

SOURCE = Path(synib.__file__).parent
PAGE = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
HOMES = (
    "",
    ".objective",
    ".masks",
    ".models",
    ".data",
    ".methods",
    ".training",
    ".training.cells",
    ".studies",
    ".methods.hooks",
)


def test_every_file_that_it_names_is_there():
    paths = re.findall(r"`((?:\w+/)+(?:\w+\.py)?)`", PAGE)
    assert len(paths) > 20
    homes = (SOURCE, SOURCE.parents[1])
    assert [path for path in paths if not any((home / path).exists() for home in homes)] == []


def test_every_name_that_it_uses_is_one_of_the_codes():
    words = set(re.findall(r"`([A-Z]\w+)`", PAGE))
    homes = [importlib.import_module(f"synib{home}") for home in HOMES]
    assert len(words) > 20
    assert {word for word in words if not any(hasattr(home, word) for home in homes)} == set()
