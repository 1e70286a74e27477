"""Data whose truth is known, for the coverage study of the audit: how rows come about, with and without an interaction."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
KINDS = ("product", "lookup", "gate")
CLUSTERS = 4


class Truth:
    """How rows of one set come about; rows can be drawn again and again."""

    def __init__(self, setting: dict[str, Any], seed: int) -> None:
        self.setting = setting
        rng = np.random.default_rng([seed, 7])
        width, count = setting["width"], setting["modalities"]
        self.directions = [np.linalg.qr(rng.normal(size=(width, 4)))[0].T for _ in range(count)]
        self.centres = [2.5 * rng.normal(size=(CLUSTERS, min(width, 4))) for _ in range(count)]
        table = rng.choice([-1.0, 1.0], (CLUSTERS, CLUSTERS))
        self.table = table - table.mean(0) - table.mean(1, keepdims=True) + table.mean()
        self.contrast = rng.permutation([-1.0, -0.5, 0.0, 0.5, 1.0])
        self.signs = rng.choice([-1.0, 1.0], 3)
        self.intercept = self._intercept(np.random.default_rng([seed, 8]))

    def draw(self, rows: int, rng: np.random.Generator, groups: int | None) -> dict[str, Any]:
        """Modalities, target, group, and the linear predictors with and without the interaction."""
        kind, strength = self.setting["kind"], self.setting["strength"]
        x = [rng.normal(size=(rows, self.setting["width"])) for _ in self.directions]
        group = None if groups is None else rng.integers(groups, size=rows)
        if kind == "copied":
            shift = x[0] @ self.directions[0][0] - x[1] @ self.directions[1][0]
            x[1] += shift[:, None] * self.directions[1][0]
        cluster = [rng.integers(CLUSTERS, size=rows) for _ in x]
        if kind == "lookup":
            for values, label, centres in zip(x, cluster, self.centres, strict=True):
                values[:, : centres.shape[1]] += centres[label]
        if group is not None:
            for values, direction in zip(x, self.directions, strict=True):
                values += 0.7 * rng.normal(size=(int(group.max()) + 1, 1))[group] * direction[1]
        s = [values @ direction[0] for values, direction in zip(x, self.directions, strict=True)]
        main, interaction = np.zeros(rows), np.zeros(rows)
        if kind in ("additive", *KINDS):
            main = 0.8 * (s[0] + s[1])
        if kind == "unique":
            main = 1.5 * np.sin(2.0 * s[0]) + s[0]
        if kind == "copied":
            main = 0.8 * (np.square(s[0]) - 1)
        if kind == "product":
            interaction = strength * np.sign(s[0] * s[1])
        if kind == "gate":
            interaction = strength * np.sign(s[0]) * s[1]
        if kind == "lookup":
            interaction = strength * self.table[cluster[0], cluster[1]]
        if group is not None:
            main = main + 0.5 * rng.normal(size=int(group.max()) + 1)[group]
        with_it, without = self._predictor(main + interaction), self._predictor(main)
        if self.setting["target"] == "number":
            y: NDArray[Any] = with_it[:, 0] + rng.normal(size=rows)
        elif self.setting["target"] == "five":
            share = np.cumsum(_softmax(with_it), 1)
            y = np.minimum((share < rng.random((rows, 1))).sum(1), 4)
        else:
            y = (rng.random(with_it.shape) < 1 / (1 + np.exp(-with_it))).astype(np.int64)
            y = y if self.setting["target"] == "labels" else y[:, 0]
        if kind == "redundant":  # views that are independent given the target: their log-odds add up exactly
            for values, direction in zip(x, self.directions, strict=True):
                if self.setting["target"] == "labels":
                    values += 1.2 * (y[:, :, None] * direction[[0, 2, 3]]).sum(1)
                else:
                    shift = y if self.setting["target"] != "five" else 2 * self.contrast[y]
                    values += 1.2 * shift[:, None] * direction[0]
        modalities = {f"m{i}": values.astype(np.float32) for i, values in enumerate(x)}
        return {"modalities": modalities, "target": y, "group": group, "with": with_it, "without": without}

    def _predictor(self, evidence: Numbers) -> Numbers:
        if self.setting["target"] == "five":
            return evidence[:, None] * self.contrast + self.intercept
        if self.setting["target"] == "labels":
            return evidence[:, None] * self.signs + self.intercept
        return evidence[:, None] + self.intercept

    def _intercept(self, rng: np.random.Generator) -> Numbers:
        """So that classes are even, or one has 5 %."""
        target, rare = self.setting["target"], self.setting["balance"] == "rare"
        if target == "number":
            return np.zeros(1)
        if target == "five":
            self.intercept = np.zeros(5)
            wanted = np.array([0.05, *[0.95 / 4] * 4]) if rare else np.full(5, 0.2)
        else:
            wanted = np.array([0.05 if rare else 0.5] * (3 if target == "labels" else 1))
            self.intercept = np.zeros(len(wanted))
        eta = self.draw(4000, rng, None)["with"]
        for _ in range(60):
            got = (_softmax(eta) if target == "five" else 1 / (1 + np.exp(-eta))).mean(0)
            step = np.log(wanted / got) if target == "five" else np.log(wanted / (1 - wanted)) - np.log(got / (1 - got))
            self.intercept = self.intercept + step
            eta = eta + step
        return self.intercept


def _softmax(eta: Numbers) -> Numbers:
    odds = np.exp(eta - eta.max(1, keepdims=True))
    return np.asarray(odds / odds.sum(1, keepdims=True))
