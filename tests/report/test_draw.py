"""Charts as SVG."""

import xml.etree.ElementTree as ElementTree

import matplotlib

from synib.experiments.charts import Chart, Series
from synib.methods import METHODS
from synib.report.draw import STYLES, svg

CHART = Chart(
    file="figure",
    title="Test accuracy",
    x="β",
    y="accuracy",
    series=[
        Series("vanilla", "vanilla fusion", [0.0, 1.0], [1.0, 0.5], [0.0, 0.1]),
        Series("somebody-else", "another", [0.0, 1.0], [0.9, 0.6], [0.0, 0.0], dashed=True),
    ],
    reading="",
    chance=0.5,
    limits=(0.4, 1.0),
    ticks=(0.0, 1.0),
)


def test_the_same_chart_gives_the_same_bytes_and_they_are_xml():
    first = svg(CHART)
    assert svg(CHART) == first
    assert ElementTree.fromstring(first).tag.endswith("svg")
    assert not [e for e in ElementTree.fromstring(first).iter() if e.tag.endswith("}date")]  # no clock in it


def test_every_method_has_a_colour_and_a_marker_of_its_own():
    assert set(METHODS) <= set(STYLES)
    assert len({style["color"] for style in STYLES.values()}) == len(STYLES)
    assert len({style["marker"] for style in STYLES.values()}) == len(STYLES)
    text = svg(CHART)
    assert STYLES["vanilla"]["color"] in text
    assert "#444444" in text  # a name without a style is drawn all the same


def test_drawing_leaves_the_settings_of_matplotlib_as_they_were():
    before = dict(matplotlib.rcParams)
    svg(CHART)
    assert dict(matplotlib.rcParams) == before
