"""Numbers as a reader sees them."""

import pytest

from synib.report.numbers import mean, number, published, value


@pytest.mark.parametrize(
    ("value", "digits", "text"),
    [(0.12345, 3, "0.123"), (-0.0004, 3, "0.000"), (-0.0006, 3, "-0.001"), (0.0, 2, "0.00"), (-1.5, 1, "-1.5")],
)
def test_zero_has_no_sign_and_other_numbers_keep_theirs(value, digits, text):
    assert number(value, digits) == text


@pytest.mark.parametrize(("value", "text"), [(0.5, "0.50"), (0.83, "0.83"), (0.944, "0.944")])
def test_a_published_number_has_the_decimals_that_were_published(value, text):
    assert published(value) == text


def test_a_mean_has_its_error_where_there_is_one_and_a_dash_where_there_is_nothing():
    assert mean({"mean": 0.5, "se": 0.25, "n": 2}) == "0.500 ± 0.250"
    assert mean({"mean": 0.5, "se": 0.25, "n": 2}, digits=2, error=False) == "0.50"
    assert mean({"mean": 0.5, "se": None, "n": 1}) == "0.500"
    assert mean({"mean": 0.5, "low": 0.2, "high": 0.75, "n": 9}, digits=2) == "0.50 [0.20, 0.75]"
    assert mean({"mean": None, "se": None, "n": 0}) == mean(None) == "–"


def test_a_p_value_is_never_written_as_zero():
    assert value({"metric": "adjusted_p", "mean": 0.0002}) == "< 0.001"
    assert value({"metric": "adjusted_p", "mean": 0.004}) == "0.004"
    assert value({"metric": "accuracy", "mean": 0.0}) == "0.000"
