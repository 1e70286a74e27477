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
