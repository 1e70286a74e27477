"""What a user does with data is there, and imported when first used; the lowest versions tested are those promised."""

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import synib

ROOT = Path(__file__).parent.parent


def test_what_a_user_does_with_data_is_reachable_from_the_package():
    from synib.own.audit import audit
    from synib.own.fit import fit
    from synib.own.saved import load
    from synib.own.table import Table, read

    names = (synib.audit, synib.fit, synib.load, synib.read, synib.Table)
    assert names == (audit, fit, load, read, Table)
    assert {"audit", "fit", "load", "read", "Table", "SynIB"} <= set(dir(synib))
    with pytest.raises(AttributeError, match="has no attribute 'reed'"):
        _ = synib.reed


def test_nothing_of_it_is_imported_before():
    code = (
        "import sys, synib; before = 'synib.own' in sys.modules; synib.read; print(before, 'synib.own' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_the_lowest_versions_that_are_tested_are_those_that_are_promised():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    promised = (
        project["dependencies"] + project["optional-dependencies"]["audit"] + project["optional-dependencies"]["raw"]
    )
    lowest = dict(
        line.split("==") for line in (ROOT / "constraints-lowest.txt").read_text().splitlines() if "==" in line
    )
    lowest["torch"] = re.search(r"LOWEST_TORCH \?= (\S+)", (ROOT / "Makefile").read_text())[1]
    for name, bound in re.findall(r"([\w-]+)>=([\d.]+)", "\n".join(promised)):
        assert re.fullmatch(rf"{re.escape(bound)}(\.0|\.post\d)*", lowest[name]), (
            f"{name}>={bound}, {lowest[name]} is tested"
        )


def test_all_files_name_the_same_version():
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["dynamic"]["version"] == {
        "attr": "synib.__version__"
    }
    citation = re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)[1]
    newest = re.search(r"^## (\d+\.\d+\.\d+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert citation == newest == synib.__version__
    assert (ROOT / "docs" / f"release-notes-{synib.__version__.rpartition('.')[0]}.md").exists()
