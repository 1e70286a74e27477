"""Every example in the documentation is executed, and every local link leads somewhere."""

import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
WITH_CODE = [page for page in PAGES if "```python" in page.read_text()]


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda p: str(p.relative_to(ROOT)))
def test_the_examples_of_a_page_run_one_after_the_other(page: Path) -> None:
    torch.manual_seed(0)
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert blocks
    names: dict[str, object] = {"__name__": "example"}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_local_links_and_pictures_exist(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith(("http://", "https://", "mailto:")):
            assert (page.parent / target).exists(), f"{page.name} points to {target}, which is not there"
