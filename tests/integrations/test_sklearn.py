"""SynIB as scikit-learn estimators."""

import pickle

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.utils.estimator_checks import check_regressors_train, parametrize_with_checks

from synib.integrations.sklearn import SynIBClassifier, SynIBRegressor

pytestmark = pytest.mark.usefixtures("simple_cross_validation")
BOTH = {"a": slice(0, 3), "b": slice(3, None)}
FAST = {"method": "vanilla", "budget": 1, "epochs": 2, "random_state": 0}
CHECKED = [kind({"a": slice(0, 1), "b": slice(1, None)}, **FAST) for kind in (SynIBClassifier, SynIBRegressor)]


def exceptions(estimator):
    """Where scikit-learn's checks and modalities do not go together, and why."""
    found = {
        "check_estimators_pickle": "puts NaN into single cells; here a row has all of a modality or none of it",
        "check_sample_weight_equivalence_on_dense_data": "a row that counts twice is in other batches than two rows",
        "check_sample_weight_equivalence_on_sparse_data": "the same",
    }
    if isinstance(estimator, SynIBRegressor):
        found["check_regressors_train"] = "requests a good score, which 2 epochs do not give; made up for below"
    return found


@parametrize_with_checks(CHECKED, expected_failed_checks=exceptions)
def test_scikit_learns_own_checks_pass(estimator, check):
    check(estimator)


def test_a_regressor_trained_for_longer_scores_what_scikit_learns_check_asks_for():
    check_regressors_train("SynIBRegressor", clone(CHECKED[1]).set_params(epochs=40), readonly_memmap=True)


def xor(n=160, seed=0):
    rng = np.random.default_rng(seed)
    signs = rng.choice([-1.0, 1.0], (n, 2))
    x = 0.2 * rng.normal(size=(n, 5))
    x[:, 0] += signs[:, 0]
    x[:, 3] += signs[:, 1]
    return x, np.where(signs.prod(1) > 0, "same", "other"), 4 + 3 * signs.prod(1)


@pytest.fixture(scope="module")
def fitted(simple_cross_validation):
    x, label, number = xor()
    settings = {"budget": 1, "epochs": 30, "random_state": 0}
    return SynIBClassifier(BOTH, **settings).fit(x, label), SynIBRegressor(BOTH, **settings).fit(x, number)


def test_what_only_both_tell_is_found(fitted):
    x, label, number = xor(seed=1)
    classifier, regressor = fitted
    assert classifier.score(x, label) > 0.9
    assert regressor.score(x, number) > 0.6
    assert classifier.classes_.tolist() == ["other", "same"]
    assert np.allclose(classifier.predict_proba(x).sum(1), 1)
    mean, deviation = regressor.predict(x, return_std=True)
    assert np.array_equal(mean, regressor.predict(x))
    assert (deviation > 0).all()
    assert classifier.needs_both(x).mean() > 0.3


def test_a_modality_that_is_nan_throughout_a_row_is_missing_there(fitted):
    x, _, _ = xor(seed=1)
    x[:4, 3:] = np.nan
    said = fitted[0].predict_proba(x)
    assert np.abs(said[:4] - 0.5).max() < 0.25
    assert np.array_equal(said[4:], fitted[0].predict_proba(x[4:]))
    assert (fitted[0].needs_both(x)[:4] == 0).all()
    trained = SynIBClassifier(BOTH, **FAST).fit(x, xor()[1])
    assert trained.model_.missing == ("b",)


def test_a_dict_of_arrays_and_a_data_frame_give_what_the_matrix_gives():
    x, label, _ = xor()
    whole = SynIBClassifier(BOTH, **FAST).fit(x, label)
    parts = {"a": x[:, :3], "b": x[:, 3:]}
    by_dict = SynIBClassifier(**FAST).fit(parts, label)
    assert np.allclose(by_dict.predict_proba(parts), whole.predict_proba(x))
    assert np.allclose(by_dict.predict_proba({"a": x[:, :3]}), whole.model_.predict({"a": x[:, :3]}))
    from_the_end = SynIBClassifier({"a": [0, 1, 2], "b": np.array([-2, -1])}, **FAST).fit(x, label)
    assert np.array_equal(from_the_end.predict_proba(x), whole.predict_proba(x))
    frame = pd.DataFrame(x[:, ::-1], columns=["b1", "b0", "a2", "a1", "a0"])
    named = SynIBClassifier({"a": ["a0", "a1", "a2"], "b": ["b0", "b1"]}, **FAST).fit(frame, label)
    assert np.allclose(named.predict_proba(frame), whole.predict_proba(x))
    assert whole.model_.widths == named.model_.widths == {"a": 3, "b": 2}


def test_it_works_in_pipelines_cross_validation_and_grid_search():
    x, label, _ = xor(60)
    model = SynIBClassifier(BOTH, **FAST)
    scores = cross_val_score(make_pipeline(StandardScaler(), model), x, label, cv=3, error_score="raise")
    assert scores.shape == (3,)
    assert np.isfinite(scores).all()
    groups = np.arange(len(x)) // 4
    assert len(cross_val_score(model, x, label, cv=GroupKFold(3), groups=groups, error_score="raise")) == 3
    search = GridSearchCV(
        make_pipeline(FunctionTransformer(), model),
        {"synibclassifier__method": ["vanilla", "synib"], "synibclassifier__epochs": [1]},
        cv=2,
        error_score="raise",
    ).fit(x, label)
    assert search.best_params_["synibclassifier__method"] in ("vanilla", "synib")
    assert search.predict(x).shape == (60,)


def test_clones_and_pickles_are_the_same_and_a_seed_decides(fitted):
    x, label, _ = xor()
    classifier = fitted[0]
    again = clone(classifier)
    assert again.get_params() == classifier.get_params()
    assert not hasattr(again, "model_")
    lacking = np.where((np.arange(160) < 9)[:, None] & (np.arange(5) > 2), np.nan, x)
    for trained in (classifier, SynIBClassifier(BOTH, **FAST).fit(lacking, label)):
        kept = pickle.loads(pickle.dumps(trained))
        assert np.array_equal(kept.predict_proba(lacking), trained.predict_proba(lacking))
    one, same, other = (SynIBClassifier(BOTH, **FAST | {"random_state": s}).fit(x, label) for s in (3, 3, 4))
    assert np.array_equal(one.predict_proba(x), same.predict_proba(x))
    assert not np.array_equal(one.predict_proba(x), other.predict_proba(x))


def test_rows_count_as_much_as_their_weights_say():
    x, label, number = xor(n=100)
    other = np.where(label == "same", "other", "same")
    twice, labels, numbers = (np.concatenate(pair) for pair in ((x, x), (label, other), (number, 8 - number)))
    weight = np.repeat([1.0, 0.02], len(x))
    settings = {"budget": 1, "epochs": 15, "random_state": 0}
    for method, weights, truth in (("vanilla", weight, label), ("synib", weight[::-1], other)):
        trained = SynIBClassifier(BOTH, method, **settings).fit(twice, labels, sample_weight=weights)
        assert trained.score(x, truth) > 0.9
        assert trained.predict_proba(x).max(1).mean() > 0.85  # calibrated by weighted rows, of which few contradict
    mean = SynIBRegressor(BOTH, "vanilla", **settings).fit(twice, numbers, weight).predict(x)
    assert np.corrcoef(mean, number)[0, 1] > 0.8


def test_a_row_of_weight_0_is_as_if_it_were_not_there():
    x, label, _ = xor()
    weight = np.r_[np.ones(120), np.zeros(40)]
    weighted = SynIBClassifier(BOTH, **FAST).fit(x, np.where(weight > 0, label, "none of them"), weight)
    without = SynIBClassifier(BOTH, **FAST).fit(x[:120], label[:120], np.ones(120))
    assert weighted.classes_.tolist() == ["other", "same"]
    assert np.array_equal(weighted.predict_proba(x), without.predict_proba(x))


def test_groups_are_never_both_trained_on_and_chosen_on():
    x, label, _ = xor()
    fitted = SynIBClassifier(BOTH, **FAST).fit(x, label, groups=np.arange(160) // 7)
    assert fitted.model_.about["judged"].endswith(", with each group in one fold")
    alone = SynIBClassifier(BOTH, **FAST).fit(x, label).model_.about
    assert "group" not in alone["judged"]
    assert alone["scores"]["accuracy"].keys() == {"value", "low", "high"}
    assert set(alone["of_methods"]) == {"frequencies", "vanilla"}
    with pytest.raises(ValueError, match="3 folds need at least 3 groups"):
        SynIBClassifier(BOTH, **FAST).fit(x, label, groups=np.arange(160) // 80)


X, LABEL, _ = xor(n=20)


@pytest.mark.parametrize(
    ("modalities", "x", "said"),
    [
        (None, X, "modalities must assign columns to .*; got None"),
        ({"a": slice(0, 5)}, X, "two or more modalities"),
        ({"a": slice(0, 5), "b": slice(5, 9)}, X, r"'b' has no columns, or some that do not exist: .* n_features=5"),
        ({"a": [0, 1], "b": [7]}, X, r"'b' has no columns, or some .*: \[7\]"),
        ({"a": [0, 1], "b": [1, 2]}, X, "a column belongs to two of them"),
        ({"a": [0, 4], "b": [-1, 2]}, X, "a column belongs to two of them"),
        ({"a": "x", "b": [1]}, X, "'a' must be a slice, indices or names of columns"),
        ({"a": ["x"], "b": [1]}, X, "'a' refers to columns such as 'x', but X has no column names"),
        (BOTH, np.where(np.arange(5) == 1, np.nan, X), "'a' has NaN next to numbers in row 0"),
        (BOTH, np.where(np.arange(5) > 2, np.nan, X), "'b' is NaN in every row: leave that modality out"),
        (None, {"a": X, "b": X[:3]}, "with one row for each of 20 targets; got a 20, b 3"),
        (None, {"a": X, "b": X[:, 0]}, r"'b' must have shape \(rows, width\); got \(20,\)"),
    ],
)
def test_a_mistake_is_one_sentence(modalities, x, said):
    with pytest.raises(ValueError, match=said):
        SynIBClassifier(modalities, **FAST).fit(x, LABEL)


def test_one_class_and_no_fit_are_said():
    with pytest.raises(ValueError, match="at least 2 classes; y has 1 class, 'same'"):
        SynIBClassifier(BOTH, **FAST).fit(X, ["same"] * 20)
    with pytest.raises(NotFittedError):
        SynIBRegressor(BOTH).predict(X)
