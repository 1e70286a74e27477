"""Tables, figures and the page, made from a results folder."""

from synib.report.build import build

__all__ = ["build"]
