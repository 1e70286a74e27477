"""The colour scale of triangles and heat maps."""

from synib.report.scale import scale_ticks


def test_ticks_divide_the_scale_and_its_ends_say_where_values_lie_beyond():
    ticks, labels = scale_ticks((0.5, 1.0), [0.5, None, 1.0])
    assert ticks == [0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    assert labels == ["0.5", "0.6", "0.7", "0.8", "0.9", "1"]
    assert scale_ticks((0.5, 1.0), [0.4])[1][::5] == ["≤ 0.5", "1"]
    assert scale_ticks((0.5, 1.0), [1.1])[1][::5] == ["0.5", "≥ 1"]
