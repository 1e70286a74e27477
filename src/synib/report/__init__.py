"""Tables, figures and the page, made from a results folder or from what an audit found."""

from synib.report.build import build
from synib.report.page import Page, render_page, write_page

__all__ = ["Page", "build", "render_page", "write_page"]
