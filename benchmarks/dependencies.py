"""What is pinned, what is installed, and which part of synib asks for it: the list that an audit of dependencies begins with.

    python benchmarks/dependencies.py

Ends with 1 if something is installed in another version than the one that constraints.txt pins. Known weaknesses of the pinned
versions are looked up by pip-audit, which needs a network and is not part of the tests:

    pip install pip-audit && pip-audit --no-deps --requirement constraints.txt
"""

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]


def plain(name: str) -> str:
    """A name as packages are compared by."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned() -> dict[str, str]:
    """Name → version, of every line of constraints.txt that has one."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    matches = (re.fullmatch(r"([\w.-]+)==(\S+)", line.strip()) for line in lines)
    return {plain(match[1]): match[2] for match in matches if match}


def requested_by() -> dict[str, list[str]]:
    """Name → the parts of synib that ask for it, as pyproject.toml has them."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    parts = {"synib": project["dependencies"], **project["optional-dependencies"]}
    by: dict[str, list[str]] = {}
    for part, requirements in parts.items():
        for requirement in requirements:
            name = re.match(r"[\w.-]+", requirement)
            if name and name[0] != "synib":
                by.setdefault(plain(name[0]), []).append(part)
    return by


def main() -> None:
    versions, by = pinned(), requested_by()
    other = []
    print("name,pinned,installed,asked for by")
    for name, version in sorted(versions.items()):
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            installed = ""
        if installed and installed.partition("+")[0] != version:
            other.append(name)
        print(f"{name},{version},{installed},{' '.join(by.get(name, ['another package']))}")
    unpinned = sorted(set(by) - set(versions))
    if unpinned:
        print(f"Asked for and not pinned: {', '.join(unpinned)}.", file=sys.stderr)
    if other:
        sys.exit(f"Installed in another version than pinned: {', '.join(other)}.")


if __name__ == "__main__":
    main()
