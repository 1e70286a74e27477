"""SynIB as scikit-learn estimators: two or more modalities in the columns of one matrix."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from synib.checks import check_modality, shown
from synib.own.fit import AUTO, BUDGET, SYNIB
from synib.own.fit import fit as fit_model
from synib.own.predictor import Predictor
from synib.own.table import Table

try:
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import-untyped]
    from sklearn.utils import check_random_state  # type: ignore[import-untyped]
    from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import-untyped]
    from sklearn.utils.validation import check_is_fitted, validate_data  # type: ignore[import-untyped]
except ImportError as error:
    raise ImportError("The estimators need scikit-learn: pip install 'synib[audit]'") from error

Array = NDArray[Any]
Columns = slice | Sequence[int] | Sequence[str]
LEAST = 5  # rows: one of them validates


class _Estimator(BaseEstimator):  # type: ignore[misc]
    """Base of both estimators: the columns of each modality, and the training."""

    def __init__(
        self,
        modalities: Mapping[str, Columns] | None = None,
        method: str = SYNIB,
        *,
        budget: int = BUDGET,
        epochs: int | None = None,
        seeds: int = 1,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.modalities = modalities
        self.method = method
        self.budget = budget
        self.epochs = epochs
        self.seeds = seeds
        self.device = device
        self.random_state = random_state

    def needs_both(self, X: Any) -> Array:
        """How much of each prediction needs both modalities, see :meth:`synib.own.predictor.Predictor.needs_both`."""
        return self._model().needs_both(self._parts(X))

    def _fit(
        self, x: dict[str, Array], target: Array, classes: tuple[str, ...], weight: Array | None, group: Array | None
    ) -> None:
        present: dict[str, Array] = {name: np.asarray(~np.isnan(v).all(1)) for name, v in x.items()}
        for name, v in x.items():
            if not present[name].any():
                raise ValueError(f"{name!r} is NaN in every row: leave that modality out.")
            partly = np.flatnonzero(present[name] & np.isnan(v).any(1))
            if partly.size:
                raise ValueError(
                    f"{name!r} has NaN next to numbers in row {partly[0]} (from 0): a modality must be complete or "
                    "missing in each row."
                )
        filled = {name: np.where(present[name][:, None], v, 0.0).astype(np.float32) for name, v in x.items()}
        table = Table(filled, present, target, classes, group=group, source="X", weight=weight)
        self.model_ = fit_model(
            table,
            self.method,
            budget=self.budget,
            epochs=self.epochs,
            seeds=self.seeds,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
            device=self.device,
            baselines=self.method == AUTO,
            incomplete=not all(there.all() for there in present.values()),  # the second model doubles the time
        )

    def _model(self) -> Predictor:
        check_is_fitted(self)
        return self.model_

    def _parts(self, X: Any) -> dict[str, Array]:
        """The modalities of rows to predict."""
        self._model()
        if _is_dict(X):
            return _arrays(X)
        return self._cut(validate_data(self, X, reset=False, ensure_all_finite="allow-nan"))

    def _cut(self, x: Array) -> dict[str, Array]:
        modalities = self.modalities
        if not isinstance(modalities, Mapping) or len(modalities) < 2:
            raise ValueError(
                "modalities must assign columns to two or more modalities, for example {'image': slice(0, 512), "
                f"'text': slice(512, 640)}}; got {shown(modalities)}."
            )
        at = {check_modality(name, module=True): self._columns(name, c, x.shape[1]) for name, c in modalities.items()}
        used = np.concatenate(list(at.values()))
        if len(np.unique(used)) < len(used):
            raise ValueError("Modalities cannot share columns, but a column belongs to two of them, or twice to one.")
        return {name: x[:, columns] for name, columns in at.items()}

    def _columns(self, name: str, columns: Any, count: int) -> Array:
        """The values of a modality's columns."""
        if isinstance(columns, slice):
            at = np.arange(count)[columns]
        elif not isinstance(columns, Sequence | np.ndarray) or isinstance(columns, str):
            raise ValueError(
                f"{name!r} must be a slice, indices or names of columns, such as ['x_0', 'x_1']; got {shown(columns)}."
            )
        elif len(columns) and isinstance(columns[0], str):
            names = list(columns)
            known = list(getattr(self, "feature_names_in_", []))
            unknown = [column for column in names if column not in known]
            if unknown:
                has = f"X has {', '.join(known[:8])}" if known else "X has no column names"
                raise ValueError(f"{name!r} refers to columns such as {unknown[0]!r}, but {has}.")
            at = np.array([known.index(column) for column in names])
        else:
            at = np.asarray(columns)
        if not len(at) or at.dtype.kind not in "iu" or at.min() < -count or at.max() >= count:
            raise ValueError(
                f"{name!r} has no columns, or some that do not exist: {shown(columns)} of X with n_features={count}."
            )
        return at % count

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # a modality that is NaN throughout a row is missing there
        return tags


class SynIBClassifier(ClassifierMixin, _Estimator):  # type: ignore[misc]
    """A classifier that uses the interaction of its modalities.

    Settings are chosen and probabilities calibrated by cross-validation, as in :func:`synib.fit`.
    ``model_.about["scores"]`` contains the log-loss, accuracy and calibration error on rows not used for training or
    selection, with 95 % confidence intervals.

    Args:
        modalities: Name → its columns of X: a slice, indices, or names in a data frame. Not needed if X is a dict of
            name → ``(rows, width)``. A modality whose columns are all NaN in a row is missing there.
        method: ``"synib"``, any other method such as ``"vanilla"``, or ``"auto"`` for the best of SynIB and simpler
            models by cross-validated log-loss.
        budget: Number of settings to try, at most 18.
        epochs: Number of passes over the rows; by default depends on the number of rows.
        seeds: Number of models per setting, of which the best is kept.
        device: ``"cpu"``, ``"cuda"`` or ``"auto"``.
        random_state: Seed of all random draws.

    Attributes:
        classes_: The classes, in the order of the probabilities.
        model_: The trained :class:`~synib.own.predictor.Predictor`.

    Example:
        >>> import numpy as np
        >>> from synib.integrations.sklearn import SynIBClassifier
        >>> bits = np.random.default_rng(0).integers(0, 2, (80, 2))
        >>> model = SynIBClassifier({"a": [0], "b": [1]}, budget=1, random_state=0)
        >>> model.fit(bits, bits[:, 0] ^ bits[:, 1]).predict([[0, 0], [0, 1]])
        array([0, 1])
    """

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> "SynIBClassifier":
        """Fit the estimator.

        Args:
            X: Rows: a matrix, a data frame, or a dict of modality → matrix.
            y: Their classes.
            sample_weight: Weight of each row in training, selection and calibration; only ratios matter.
            groups: The group (speaker, patient) of each row; a group is never both in the training and in the
                validation rows.
        """
        x, y, weight, group = _training_rows(self, X, y, sample_weight, groups, numeric=False)
        check_classification_targets(y)
        self.classes_, target = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"A classifier needs at least 2 classes; y has 1 class, {str(self.classes_[0])!r}.")
        self._fit(x, target.astype(np.int64), tuple(map(str, range(len(self.classes_)))), weight, group)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Calibrated probabilities, ``(rows, classes)``."""
        return self._model().predict(self._parts(X))

    def predict(self, X: Any) -> Array:
        """The most probable class of each row."""
        probabilities = self.predict_proba(X)
        return np.asarray(self.classes_)[probabilities.argmax(1)]


class SynIBRegressor(RegressorMixin, _Estimator):  # type: ignore[misc]
    """A regressor that uses the interaction of its modalities; see :class:`SynIBClassifier` for its arguments.

    Attributes:
        model_: The trained :class:`~synib.own.predictor.Predictor`.
    """

    def fit(
        self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, *, groups: ArrayLike | None = None
    ) -> "SynIBRegressor":
        """Fit the estimator; see :meth:`SynIBClassifier.fit`."""
        x, y, weight, group = _training_rows(self, X, y, sample_weight, groups, numeric=True)
        self._fit(x, np.asarray(y, dtype=np.float64), (), weight, group)
        return self

    def predict(self, X: Any, return_std: bool = False) -> Array | tuple[Array, Array]:
        """The mean for each row, and with ``return_std`` its standard deviation."""
        mean, deviation = self._model().predict(self._parts(X)).T
        return (mean, deviation) if return_std else mean


def _training_rows(
    estimator: _Estimator,
    X: Any,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    groups: ArrayLike | None,
    numeric: bool,
) -> tuple[dict[str, Array], Array, Array | None, Array | None]:
    """The modalities, targets, weights and groups of the training rows: all rows with positive weight."""
    x, target = _checked(estimator, X, y, numeric)
    group = None if groups is None else np.asarray(groups).astype(str)
    if group is not None and group.shape != target.shape:
        raise ValueError(f"groups must have one value for each of {len(target)} rows; got shape {group.shape}.")
    if sample_weight is None:
        return x, target, None, group
    weight = _weights(sample_weight, len(target))
    keep = weight > 0
    group = None if group is None else group[keep]
    return {name: v[keep] for name, v in x.items()}, target[keep], weight[keep], group


def _checked(estimator: _Estimator, X: Any, y: ArrayLike, numeric: bool) -> tuple[dict[str, Array], Array]:
    """The modalities and targets of all rows."""
    if _is_dict(X):
        x, target = _arrays(X), np.asarray(y)
        rows = {name: len(v) for name, v in x.items()}
        if len(x) < 2 or set(rows.values()) != {len(target)} or target.ndim != 1:
            got = ", ".join(f"{name} {n}" for name, n in rows.items())
            raise ValueError(
                f"X must have two or more modalities with one row for each of {len(target)} targets; got {got}."
            )
        for name in x:
            check_modality(name, module=True)
        return x, target
    matrix, target = validate_data(
        estimator, X, y, ensure_all_finite="allow-nan", ensure_min_samples=LEAST, y_numeric=numeric
    )
    return estimator._cut(matrix), target


def _is_dict(X: Any) -> bool:
    return isinstance(X, Mapping) and not hasattr(X, "nnz")  # a sparse matrix of keys is a dict, too


def _arrays(modalities: Mapping[Any, Any]) -> dict[str, Array]:
    arrays = {name: np.asarray(v, dtype=np.float64) for name, v in modalities.items()}
    for name, v in arrays.items():
        if v.ndim != 2:
            raise ValueError(f"{name!r} must have shape (rows, width); got {v.shape}.")
    return arrays


def _weights(sample_weight: ArrayLike, rows: int) -> Array:
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.shape != (rows,):
        raise ValueError(f"sample_weight must have one number for each of {rows} rows; got shape {weight.shape}.")
    if not np.isfinite(weight).all() or weight.min() < 0 or not weight.any():
        raise ValueError("sample_weight must be finite and non-negative, and not zero in every row.")
    return weight
