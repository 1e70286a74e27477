"""Is plain fusion trained to convergence?"""

from synib.own.fitting import train
from synib.own.folds import folds
from synib.own.learning_curve import changes, learning_curve


def test_hardly_trained_fusion_is_not_adequate_and_well_trained_fusion_is(table):
    one = table(n=120, kind="unique")
    parts = folds(one, 3)
    short, long = (
        learning_curve(train(one, parts, ["vanilla"], budget=1, epochs=epochs, device="cpu"), "cpu")
        for epochs in (2, 20)
    )
    assert not short.adequate
    assert "not trained to convergence" in short.sentence()
    assert long.adequate
    assert short.epochs.value < long.epochs.value
    assert [name for name, _ in changes(long)] == ["twice the epochs", "twice the width", "half of the rows"]
