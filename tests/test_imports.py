"""Imports go one way, and ``import synib`` brings torch and little else."""

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import synib

SOURCE = Path(synib.__file__).parent
PAGE = SOURCE.parents[1] / "docs" / "architecture.md"
# The page's table of folders, from low to high; "synib" is the package's own __init__.
FOLDERS = PAGE.read_text().partition("## The folders")[2].partition("| folder |")[2].partition("\n\n")[0]
LAYERS = [set(re.findall(r"`(\w+)`", row.split("|")[1])) for row in FOLDERS.splitlines()[2:]]
HEIGHT = {name: height for height, layer in enumerate(LAYERS) for name in layer}
FILES = sorted(SOURCE.rglob("*.py"))


def layer(parts: tuple[str, ...]) -> str:
    """The layer of a module of synib, given by its dotted name's parts after ``synib``."""
    return parts[0] if parts else "synib"


def layer_of(file: Path) -> str:
    parts = file.relative_to(SOURCE).with_suffix("").parts
    return layer({("__init__",): (), ("__main__",): ("cli",)}.get(parts, parts))  # python -m synib is the command


def imported(file: Path) -> Iterator[str]:
    """Every module a file imports, at its top or later, by dotted name; not what only type checkers read."""
    tree = ast.parse(file.read_text())
    for block in [node for node in tree.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)]:
        tree.body.remove(block)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file} has a relative import"
            for alias in node.names:
                inside = SOURCE.parent.joinpath(*node.module.split("."), alias.name)
                is_module = inside.is_dir() or inside.with_suffix(".py").exists()
                yield f"{node.module}.{alias.name}" if is_module else node.module


def test_every_file_has_a_layer_and_every_layer_files():
    assert {layer_of(file) for file in FILES} == HEIGHT.keys()
    assert len(FILES) > 30
    assert len(LAYERS) > 10


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(SOURCE)))
def test_a_file_imports_only_from_its_own_layer_and_lower_ones(file):
    mine = layer_of(file)
    for name in imported(file):
        first, *rest = name.split(".")
        if first == "synib":
            theirs = layer(tuple(rest))
            assert HEIGHT[theirs] <= HEIGHT[mine], f"{mine} must not import {name}, which is of {theirs}"


def test_no_file_is_longer_than_350_lines():
    assert [str(file.relative_to(SOURCE)) for file in FILES if len(file.read_text().splitlines()) > 350] == []


def test_ray_is_used_through_its_public_names_alone():
    private = re.compile(r"\bray\._|\b_raylet\b")
    assert [str(file.relative_to(SOURCE)) for file in FILES if private.search(file.read_text())] == []


@pytest.mark.parametrize("package", ["objective", "masks"])
def test_the_objective_and_masks_need_torch_alone(package):
    for file in (SOURCE / package).rglob("*.py"):
        outside = {name.split(".")[0] for name in imported(file)} - sys.stdlib_module_names
        assert outside <= {"torch", "synib"}, file


@pytest.mark.parametrize("module", ["synib", "synib.studies"])
def test_importing_brings_nothing_that_only_the_command_or_the_report_needs(module):
    heavy = (
        "matplotlib",
        "pandas",
        "typer",
        "rich",
        "sklearn",
        "jinja2",
        "transformers",
        "lightning",
        "av",
        "soundfile",
        "pyarrow",
    )
    code = f"import sys, {module}; print(*sorted({{name.split('.')[0] for name in sys.modules}} & set({heavy!r})))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_importing_synib_does_not_bring_torchs_compiler():
    forget = "sys.modules.pop('torch._dynamo', None)"
    code = f"import sys, torch; {forget}; from synib import SynIB; print('torch._dynamo' in sys.modules)"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert told.strip() == "False", "torch._dynamo takes as long to import as torch"


def test_every_public_name_is_imported_from_where_the_package_says():
    block = next(node for node in ast.parse((SOURCE / "__init__.py").read_text()).body if isinstance(node, ast.If))
    found = {}
    for node in block.body:
        module = importlib.import_module(node.module)
        found |= {alias.name: getattr(module, alias.name) for alias in node.names}
    assert found.keys() == set(synib.__all__)
    assert {name: getattr(synib, name) for name in synib.__all__} == found
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        _ = synib.Nothing


def test_the_entry_point_of_the_command_imports_nothing_that_takes_seconds():
    code = "import sys, synib.cli; print(*{'torch', 'numpy', 'typer'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


def test_what_to_install_is_an_extra_in_quotes():
    extras = tomllib.loads((SOURCE.parents[1] / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    for path in SOURCE.rglob("*.py"):
        for quote, names in re.findall(r"pip install (['\"]?)synib\[([\w,]+)\]", path.read_text()):
            assert quote, f"{path.name}: a shell may expand the brackets"
            assert set(names.split(",")) <= set(extras), path.name


def test_the_trainer_without_transformers_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "transformers", None)
    monkeypatch.delitem(sys.modules, "synib.integrations.transformers", raising=False)
    with pytest.raises(ImportError, match=r'pip install "synib\[text\]"'):
        importlib.import_module("synib.integrations.transformers")
