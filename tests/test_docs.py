"""Every example in the documentation is executed, and every local link leads somewhere."""

import importlib
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_examples_of_a_page_run_one_after_the_other_and_print_what_it_says(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch.manual_seed(0)
    # An example, and the block of text right after it, if there is one: its output.
    blocks = re.findall(r"```python\n(.*?)```(?:\n\n```text\n(.*?)```)?", page.read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {"__name__": "example"}
    for block, said in blocks:
        exec(compile(block, str(page), "exec"), names)
        printed = capsys.readouterr().out
        assert not said or printed == said


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_local_links_and_pictures_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} points to {target}, which is not there"


@pytest.mark.parametrize(
    "package", ["synib", "synib.data", "synib.training", "synib.measure", "synib.methods", "synib.models"]
)
def test_every_public_class_and_function_is_in_the_reference(package: str) -> None:
    text = "\n".join(page.read_text() for page in (ROOT / "docs" / "reference").glob("*.md"))
    module = importlib.import_module(package)
    called = [name for name in module.__all__ if callable(getattr(module, name))]
    assert called
    shown = set(re.findall(r"^::: [\w.]*?(\w+)$", text, re.MULTILINE))
    listed = set(re.findall(r"^ +- (\w+)$", text, re.MULTILINE))
    assert set(called) <= shown | listed


GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
SITE = (ROOT / "mkdocs.yml").read_text()


def test_the_readme_can_be_read_to_its_end():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 120


def test_there_are_at_most_twelve_guides_and_the_site_shows_each_of_them():
    guides = [page for page in GUIDES if page.name not in ("index.md", "command.md")]
    assert 0 < len(guides) <= 12
    assert [page.name for page in GUIDES if f"guides/{page.name}" not in SITE] == []
    listed = (ROOT / "docs" / "guides" / "index.md").read_text()
    assert [page.name for page in guides if f"]({page.name})" not in listed] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_every_picture_says_in_words_what_it_shows(page: Path) -> None:
    assert [target for words, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", page.read_text()) if not words] == []


def test_an_old_address_leads_to_a_page_that_is_there_and_hides_none():
    moved = re.findall(r"^ {8}([\w/-]+\.md): ([\w/-]+\.md)$", SITE, re.MULTILINE)
    assert len(moved) == 20
    assert [new for _, new in moved if not (ROOT / "docs" / new).exists()] == []
    assert [old for old, _ in moved if (ROOT / "docs" / old).exists()] == []


def test_the_page_of_the_command_has_every_option(monkeypatch: pytest.MonkeyPatch) -> None:
    import typer

    from synib.cli.app import app

    monkeypatch.syspath_prepend(ROOT / "docs")
    hook = importlib.import_module("command_options")
    page = hook.on_page_markdown((ROOT / "docs" / "guides" / "command.md").read_text())
    sections = dict(re.findall(r"^##+ `(synib [\w -]+)`\n(.*?)(?=^##+ `|\Z)", page, re.DOTALL | re.MULTILINE))
    leaves = 0

    def look(command: object, path: str, above: str) -> None:
        nonlocal leaves
        for name, child in getattr(command, "commands", {}).items():
            said = above + sections[f"{path} {name}"]
            look(child, f"{path} {name}", said if hasattr(child, "commands") else "")
            if not hasattr(child, "commands"):
                leaves += 1
                options = [option for parameter in child.params for option in parameter.opts if option != "--help"]
                assert [o for o in options if f"`{o}" not in said and f"`{o.upper()}`" not in said] == []

    look(typer.main.get_command(app), "synib", "")
    assert leaves > 20
