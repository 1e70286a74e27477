"""Texts that users read use the field's own terms: a list of private words and phrases stays out of them."""

import ast
import re
from pathlib import Path

import pytest

import synib

SOURCE = Path(synib.__file__).parent
ROOT = SOURCE.parents[1]
PHRASES = (
    r"(?:is|are|was|were|be|cannot be|not) told",  # "is known", "is not shown"
    r"tells what",
    r"(?:says?|said) of",  # "predicts for"
    r"what is said",
    r"nobody",
    r"whoever",
    r"no finite number",  # "not finite"
    r"no numbers? any ?more",  # "NaN"
    r"which (?:\w+ )?has not",  # "does not support"
    r"(?:looks?|looked|looking) at test",  # "uses test data"
    r"anew",  # "again"
    r"afresh",
    r"as (?:it|they) came",
    r"sought",
    r"(?:searched|trained|treated) alike",  # "equally"
    r"(?<!there )(?:is|are) no (?!longer|more|less|better|worse)\w+",  # "is not a"
    r"nothing was touched",  # "was not changed"
    r"(?:model|checkpoint|one)s? of ours",  # "a synib model"
    r"(?:is|are) not there",  # "does not exist"
    r"what (?:was|is) finished",  # "finished results"
    r"(?:learn|learns|learned|learnt) (?:\w+ )?by heart",  # "memorise"
    r"truth values?",  # "boolean"
    r"sure(?:r|st)",  # "more confident"
    r"tak(?:e|es|en|ing) apart",  # "decompose"
    r"says? alike",  # "agree", "redundant"
    r"rests? most",  # "depends most"
    r"stands? for what",  # "replaces"
    r"thought to be there",  # "pseudo-count"
    r"house",
    r"rooms?",
    r"corridors?",
    r"doors?",
)
NAMES = {"told", "said", "sought", "nobody"}  # of variables, arguments, attributes, functions: name what they hold
PRIVATE = re.compile("|".join(rf"\b{phrase}\b" for phrase in PHRASES), re.IGNORECASE)


def texts(path: Path) -> list[tuple[int, str]]:
    """Docstrings and string literals of a module, without the expressions in f-strings."""
    tree = ast.parse(path.read_text())
    pieces = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in ast.walk(node)}
    pieces -= {id(node) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)}
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            text = "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
            text = node.value
        else:
            continue
        found.append((node.lineno, " ".join(text.split())))
    return found


def names(path: Path) -> list[tuple[int, str]]:
    """Names that a module defines or uses: of variables, arguments, attributes, functions and classes."""
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Name):
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.arg):
            found.append((node.lineno, node.arg))
        elif isinstance(node, ast.Attribute):
            found.append((node.lineno, node.attr))
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.append((node.lineno, node.name))
    return found


def prose(page: Path) -> str:
    """The text of a Markdown page without code."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    return " ".join(re.sub(r"`[^`]*`", "", text).split())


# The page of a run is written by ``synib report`` and stays as the run wrote it.
PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if not (page.name == "README.md" and (page.parent / "results.csv").exists())
]


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_messages_and_docstrings_use_no_private_words(path):
    assert [(line, match[0]) for line, text in texts(path) for match in PRIVATE.finditer(text)] == []


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda path: str(path.relative_to(SOURCE)))
def test_names_say_what_they_hold(path):
    assert [(line, name) for line, name in names(path) if name.strip("_") in NAMES] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_use_no_private_words(page):
    assert [match[0] for match in PRIVATE.finditer(prose(page))] == []


@pytest.mark.parametrize(
    "sentence",
    [
        "The oracle is told which coordinates hold the bits.",
        "data is no folder",
        "What was finished is kept.",
        "It is not there.",
        "how much surer the modalities are together",
        "Evidence is taken apart exactly.",
        "rows that stand for what is absent",
    ],
)
def test_the_list_catches_what_it_is_meant_for(sentence):
    assert PRIVATE.search(sentence)


@pytest.mark.parametrize(
    "sentence",
    ["There is no modality 'c'.", "It is no longer valid.", "data is not a folder", "Make sure that it stands."],
)
def test_the_list_leaves_ordinary_english_alone(sentence):
    assert not PRIVATE.search(sentence)
