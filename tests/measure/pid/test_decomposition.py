"""The summary of an estimate and its null."""

import numpy as np
import pytest

from synib.measure.pid import PID, PIDEstimate
from synib.measure.stats import Estimate


def test_the_summary_of_nulls():
    value = Estimate(0.5, 0.4, 0.6, 10)
    null = tuple(PID(0.0, 0.1, 0.5, s) for s in (0.2, 0.4, 0.6))
    found = PIDEstimate(value, value, value, value, null)
    assert found.null_mean == pytest.approx({"redundant": 0, "unique1": 0.1, "unique2": 0.5, "synergy": 0.4})
    assert found.null_spread["synergy"] == pytest.approx(0.2)
    assert found.p_value == {"redundant": 0.25, "unique1": 0.25, "unique2": 1.0, "synergy": 0.5}
    assert found.pid == PID(0.5, 0.5, 0.5, 0.5)
    assert "synergy   0.500 [0.400, 0.600]     0.400 ± 0.200   p 0.500" in str(found)
    none = PIDEstimate(value, value, value, value, ())
    assert np.isnan(none.null_mean["synergy"])
    assert none.p_value["synergy"] == 1.0
    assert str(none).endswith("none")
    assert "at least" not in str(none)


@pytest.mark.parametrize("value", [Estimate(np.nan, np.nan, np.nan, 10), Estimate(0.5, 0.4, 0.6, 10)])
def test_what_is_not_a_number_has_no_p(value):
    bad = PIDEstimate(value, value, value, value, (PID(0.0, 0.0, 0.0, 0.1), PID(0.0, 0.0, 0.0, np.nan)))
    assert np.isnan(bad.p_value["synergy"])
    assert np.isnan(bad.p_value["redundant"]) == np.isnan(value.value)
