"""Run when the site is made: docstrings become Markdown, and formulas MathML, which browsers read without a script."""

import re
from typing import Any

from griffe import Extension, Object
from latex2mathml.converter import convert

CODE = re.compile(r"(```.*?```|`[^`\n]*`)", re.DOTALL)


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Of a page: ``$…$`` outside of code, and ``$$…$$`` on lines of their own."""
    parts = CODE.split(markdown)
    block = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
    parts[::2] = [block.sub(lambda found: formula(found[1], block=True), part) for part in parts[::2]]
    parts[::2] = [re.sub(r"\$([^$\n]+)\$", lambda found: formula(found[1]), part) for part in parts[::2]]
    return "".join(parts)


def formula(latex: str, block: bool = False) -> str:
    """A formula in a line of text, or on a line of its own."""
    latex = " ".join(latex.split()).replace(r"\|", "‖")
    tag = "div" if block else "span"
    return f"<{tag}>{convert(latex, display='block' if block else 'inline')}</{tag}>"


def plain(docstring: str) -> str:
    """A docstring of ours as mkdocstrings wants it."""
    docstring = re.sub(
        r"^( *)\.\. math::(.*?)(?=\n\s*\n|\Z)",
        lambda found: f"\n{found[1]}{formula(found[2], block=True)}\n",
        docstring,
        flags=re.DOTALL | re.MULTILINE,
    )
    docstring = re.sub(r":math:`([^`]+)`", lambda found: formula(found[1]), docstring)
    docstring = re.sub(r":(?:class|func|meth|attr|mod):`~?([^`]+)`", r"`\1`", docstring)
    docstring = re.sub(r"^>>> .*?(?=\n\s*\n|\Z)", r"```pycon\n\g<0>\n```", docstring, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"^( *)Example:$", r"\1Examples:", docstring, flags=re.MULTILINE)


class Docstrings(Extension):
    """Rewrites docstrings when mkdocstrings reads them."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring:
            obj.docstring.value = plain(obj.docstring.value)
