"""Tables, figures and the page, built from a results folder or from an audit."""

from synib.report.build import build
from synib.report.page import Page, render_page, write_page

__all__ = ["Page", "build", "render_page", "write_page"]
