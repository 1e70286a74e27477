"""scikit-learn's models of the clothing reviews, and their predictions of test rows."""

import json
import resource
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

TARGET = "Recommended IND"
COLUMNS = ("age", "department", "class")
FOLDS = 5
PEERS = ("logistic regression", "gradient boosting")
GRID: dict[str, dict[str, list[Any]]] = {"logistic regression": {"model__C": [1.0, 3.0, 10.0, 30.0]}}


def pipeline(name: str) -> Any:
    """TF-IDF and one-hot columns into a logistic regression; or their SVD and the columns into histogram gradient boosting."""
    from sklearn.compose import ColumnTransformer
    from sklearn.decomposition import TruncatedSVD
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

    words = TfidfVectorizer(ngram_range=(1, 2), min_df=3, sublinear_tf=True)
    if name == "logistic regression":
        columns = [
            ("text", words, "review"),
            ("age", make_pipeline(SimpleImputer(), StandardScaler()), ["age"]),
            ("categories", OneHotEncoder(handle_unknown="ignore"), ["department", "class"]),
        ]
        return _named(ColumnTransformer(columns), LogisticRegression(max_iter=1000))
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, encoded_missing_value=np.nan)
    columns = [
        ("text", make_pipeline(words, TruncatedSVD(128, random_state=0)), "review"),
        ("age", "passthrough", ["age"]),
        ("categories", ordinal, ["department", "class"]),
    ]
    return _named(ColumnTransformer(columns), HistGradientBoostingClassifier(early_stopping=True, random_state=0))


def train(work: Path, lacking: Sequence[str]) -> None:
    """Train on all training rows, with C chosen by cross-validated log-loss, and predict the test rows.

    What is missing is an empty text, the mean age, no category (logistic regression), or NaN (gradient boosting).
    """
    from sklearn.model_selection import GridSearchCV

    rows = _frame(work / "train.parquet")
    for name in PEERS:
        if (work / f"{name}.json").exists():
            continue
        before, start = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter()
        model = pipeline(name)
        if name in GRID:
            model = GridSearchCV(model, GRID[name], scoring="neg_log_loss", cv=FOLDS)
        model.fit(rows.drop(columns="recommended"), rows["recommended"])
        after, seconds = resource.getrusage(resource.RUSAGE_SELF), time.perf_counter() - start
        for part in lacking:
            x = _frame(work / f"test-without-{part}.parquet").drop(columns="recommended")
            np.save(work / f"{name}-without-{part}.npy", model.predict_proba(x)[:, 1])
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        found: dict[str, Any] = {"cpu_seconds": used, "seconds": seconds}
        if name in GRID:
            found |= {"best": model.best_params_, "cross_validated_log_loss": -model.best_score_}
        (work / f"{name}.json").write_text(json.dumps(found, indent=1))


def _named(prepare: Any, model: Any) -> Any:
    from sklearn.pipeline import Pipeline

    return Pipeline([("prepare", prepare), ("model", model)])


def _frame(path: Path) -> Any:
    """Rows as both pipelines take them, with every column."""
    import pandas as pd

    rows = pd.read_parquet(path).reindex(columns=["review", *COLUMNS, "recommended"])
    rows["review"] = rows["review"].fillna("").astype(str)
    rows["age"] = rows["age"].astype(float)
    for name in ("department", "class"):
        rows[name] = rows[name].astype(object).where(rows[name].notna(), np.nan)
    return rows
