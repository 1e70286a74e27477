"""Text of our own pages can be read: contrast of WCAG AA in light and in dark, and on paper."""

import re
from pathlib import Path

import pytest

import synib.report
from synib.report.contrast import contrast

STYLE = (Path(synib.report.__file__).parent / "page_style.html").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{([^}]*)\}", STYLE)[:2]
)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
@pytest.mark.parametrize("text", ["ink", "soft", "accent", "present", "none", "unclear"])
def test_text_has_the_contrast_of_wcag_aa_on_both_backgrounds(colours, text):
    assert contrast(colours[text], colours["paper"]) >= 4.5
    assert contrast(colours[text], colours["page"]) >= 4.5


def test_both_schemes_name_the_same_colours():
    assert set(LIGHT) == set(DARK)
    assert len(LIGHT) == 9
