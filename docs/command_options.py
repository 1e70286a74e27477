"""Run when the site is made: the page of the command gets its tables from the command itself, so that they cannot go stale."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

MARKER = "<!-- every option of the command -->"
DEFAULT = re.compile(r"\\?\[default: ([^\]]*)\]")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Replace the marker of a page by a section for each subcommand."""
    return markdown.replace(MARKER, options_of_the_command()) if MARKER in markdown else markdown


def options_of_the_command() -> str:
    """A section for each subcommand: what it does, how it is called, and a table of arguments and options."""
    import typer

    from synib.cli.app import app

    return "\n\n".join(_sections(typer.main.get_command(app), "synib", level=2))


def _sections(command: Any, path: str, level: int) -> Iterator[str]:
    heading = "#" * level
    for name, child in command.commands.items():
        yield f"{heading} `{path} {name}`\n\n{_plain(child.help)}"
        if not hasattr(child, "commands"):
            yield _table(child.params)
            continue
        shared = _shared(child.commands.values())
        if shared:  # what the commands of a group have in common is shown once
            yield f"Every `{path} {name} NAME` takes these options:\n\n{_table(shared.values())}"
        for leaf_name, leaf in child.commands.items():
            own = [parameter for parameter in leaf.params if _key(parameter) not in shared]
            yield f"{heading}# `{path} {name} {leaf_name}`\n\n{_plain(leaf.help)}\n\n{_table(own)}"


def _key(parameter: Any) -> tuple[str, str]:
    return parameter.name, _plain(getattr(parameter, "help", None))


def _shared(commands: Iterable[Any]) -> dict[tuple[str, str], Any]:
    """The options that all of several commands have with the same words."""
    every = [{_key(parameter): parameter for parameter in command.params} for command in commands]
    return {key: parameter for key, parameter in every[0].items() if all(key in other for other in every[1:])}


def _table(parameters: Iterable[Any]) -> str:
    rows = [
        f"| {_name(p)} | {_plain(getattr(p, 'help', None))} | {_default(p)} |"
        for p in parameters
        if p.name != "help" and not getattr(p, "hidden", False)
    ]
    if not rows:
        return "No other options."
    return "\n".join(["| argument or option | meaning | default |", "|---|---|---|", *rows])


def _name(parameter: Any) -> str:
    if not parameter.opts[0].startswith("-"):
        return f"`{parameter.name.upper()}`"
    value = "" if parameter.is_flag else " VALUE"
    repeated = " (repeatable)" if parameter.multiple else ""
    return ", ".join(f"`{option}{value}`" for option in parameter.opts) + repeated


def _default(parameter: Any) -> str:
    said = DEFAULT.search(parameter.help or "")
    default = parameter.default
    if said:
        return _escaped(said[1])
    if parameter.required:
        return "required"
    if default is None or default is False or default in ((), [], ""):
        return "–"
    return f"`{', '.join(map(str, default)) if isinstance(default, list | tuple) else default}`"


def _plain(text: str | None) -> str:
    """Help as one line, without the default, which has a column of its own."""
    return _escaped(DEFAULT.sub("", text or ""))


def _escaped(text: str) -> str:
    text = re.sub(r"\[/?(?:bold|dim|green|cyan|yellow|red|italic)\]", "", text)
    return " ".join(text.split()).replace("\\[", "[").replace("|", "\\|").replace("<", "&lt;")
