"""Area under the ROC curve: against scikit-learn, and properties that need no other code."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from synib.measure import auc

# Few values, so that there are ties.
EXAMPLES = st.lists(st.tuples(st.integers(-3, 3), st.booleans()), min_size=1, max_size=30)


def ranked(examples):
    score, positive = zip(*examples, strict=True)
    return np.array(score, float), np.array(positive)


@given(EXAMPLES)
def test_auc_is_scikit_learns_and_nan_where_one_kind_is_missing(examples):
    metrics = pytest.importorskip("sklearn.metrics")
    score, positive = ranked(examples)
    if len(set(positive.tolist())) == 1:
        assert math.isnan(auc(score, positive))
    else:
        assert auc(score, positive) == pytest.approx(metrics.roc_auc_score(positive, score), abs=1e-12)


@given(EXAMPLES, st.randoms(use_true_random=False))
def test_auc_knows_only_the_order_and_what_is_lost_on_one_side_is_won_on_the_other(examples, random):
    score, positive = ranked(examples)
    order = list(range(len(score)))
    random.shuffle(order)
    value = auc(score, positive)
    same = [
        auc(np.exp(score), positive),
        auc(score[order], positive[order]),
        auc(torch.tensor(score), torch.tensor(positive)),
    ]
    assert same == pytest.approx([value] * 3, nan_ok=True)
    mirrored = [auc(-score, positive), auc(score, ~positive)]
    assert mirrored == pytest.approx([1 - value] * 2, nan_ok=True)
