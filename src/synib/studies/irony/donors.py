"""The construction of irony for one split: which examples become ironic, and which donor provides each voice."""

import zlib
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from synib import keys
from synib.checks import check_choice, check_number, check_whole, shown

Donors = Literal["paper", "balanced", "matched"]
Contradictions = Mapping[str, Sequence[str]]
Rows = NDArray[np.int64]

IRONY = "irony"
# Odds of a pair of the map against another pair of different emotions, among balanced donors.
PREFERENCE = 10.0


class Triplets(NamedTuple):
    """Examples of one split: the clip seen, the clip heard, and the label, whose last class is irony."""

    video: Rows
    audio: Rows
    label: Rows


def make_ironic(
    video: ArrayLike,
    audio: ArrayLike,
    label: ArrayLike,
    alpha: float,
    contradictions: Contradictions,
    *,
    donors: Donors = "paper",
    seed: int = 0,
    split: str = "train",
    within: Sequence[Hashable] | None = None,
) -> Triplets:
    r"""Make some examples of a split ironic; the order of the examples does not change.

    :math:`|I| = \lfloor \alpha \bar N \rfloor` examples keep their video, get the audio of a donor from the same split, and
    the label :math:`K` (irony); :math:`\bar N` is the mean number of examples in each of the :math:`K` base classes.

    With ``donors="paper"`` the examples are drawn uniformly without replacement; for each, a label uniformly among those that
    contradict its own, and a donor uniformly among that label's examples, with replacement. A larger α adds to the ironic
    examples of a smaller one. With ``donors="balanced"`` every class contributes its share of ironic examples, and these
    exchange their audio among each other so that every pair differs in emotion, with the map's pairs preferred. Then each
    audio is heard once, and each modality's emotions have the same distribution over ironic and other examples, up to
    rounding: neither modality alone predicts irony.

    With ``donors="matched"`` two classes with the same key (``within``: actor, statement and intensity) exchange the voices of
    all their takes, and every other example gets the voice of another take of its own class. So every example joins two takes
    of one key, and is ironic if and only if their classes differ. Each voice is heard once, and classes and keys are ironic
    in proportion to their size, up to rounding; :math:`|I|` is rounded to whole exchanges.

    Args:
        video, audio: Clip indices; equal in examples that are not ironic.
        label: Base class indices, in the order of the map's keys.
        alpha: Number of ironic examples, relative to the mean size of a base class.
        contradictions: Base class → classes that contradict it. Its keys are the base classes in their order.
        donors: ``"paper"``, ``"balanced"`` or ``"matched"``.
        seed: Seed for the choice of examples and donors, independent of the seed of training.
        split: Name of the split; each split and each set of clips has independent random numbers.
        within: A key for each example, such as its actor: a donor must have the same key. Voice and face then belong to
            one person, so an ironic pair cannot be recognised by its persons. Balanced donors are then drawn from all
            examples of the key.
            Matched donors need keys, and at least two examples of each class that a key has.
    """
    follows = check_contradictions(contradictions)
    v, a, y = _triplet(video, audio, label, list(contradictions))
    check_number("alpha", alpha, least=0)
    check_whole("seed", seed, least=None)
    check_choice("donors", donors, Donors)
    if within is not None and len(within) != len(y):
        raise ValueError(f"within must have a key for each of the {len(y)} examples; got {len(within)}.")
    n = int(alpha * len(y) / len(follows) + 1e-9)  # floor, without falling below a whole number by rounding
    if n > len(y):
        raise ValueError(
            f"alpha must be at most {len(follows)}; alpha={alpha:g} needs {n} ironic examples, but split "
            f"{split!r} has {len(y)} examples."
        )
    # The draws depend on the clips: two folds whose labels have the same order must differ in who is ironic.
    key = keys.fold(keys.key(seed), "irony", donors, split, zlib.crc32(v.astype("<i8").tobytes()))
    groups: list[Hashable] = [None] * len(y) if within is None else list(within)
    examples = _Examples(y, groups, follows, list(contradictions), split, key)
    if donors == "matched":
        if within is None:
            raise ValueError(
                "Matched donors need within, a key for each example such as its actor and statement; got None."
            )
        rows, exchanged = _matched_rows(examples, n)
        examples.check_classes_left(exchanged, alpha)
        return Triplets(v, a[rows], np.where(exchanged, len(follows), y))
    order = keys.permutation(keys.fold(key, "order"), len(y)).numpy()
    ironic = order[:n] if donors == "paper" else _stratified(examples, order, n)
    examples.check_classes_left(ironic, alpha)
    exchange = within is None
    rows = _paper_donors(examples, ironic) if donors == "paper" else _balanced_donors(examples, ironic, exchange)
    new_audio, new_label = a.copy(), y.copy()
    new_audio[ironic] = a[rows]
    new_label[ironic] = len(follows)
    return Triplets(v, new_audio, new_label)


class _Examples(NamedTuple):
    """The examples of a split.

    Attributes:
        label: Class number of each.
        group: Key of each, which its donor must share.
        follows: Class index → class indices that contradict it.
        names: The classes.
        split: The split's name.
        key: Key of the random draws.
    """

    label: Rows
    group: list[Hashable]
    follows: list[list[int]]
    names: list[str]
    split: str
    key: Tensor

    def members(self, rows: Rows) -> dict[tuple[Hashable, int], list[int]]:
        """Group and label → the rows that have them, in order."""
        members: dict[tuple[Hashable, int], list[int]] = {}
        for i in rows.tolist():
            members.setdefault((self.group[i], int(self.label[i])), []).append(i)
        return members

    def check_classes_left(self, ironic: Rows | NDArray[np.bool_], alpha: float) -> None:
        """Raise ``ValueError`` if every example of a class is ironic."""
        if used_up := sorted(set(self.label.tolist()) - set(np.delete(self.label, ironic).tolist())):
            raise ValueError(
                f"alpha={alpha:g} makes all examples of {self.names[used_up[0]]!r} in split {self.split!r} ironic, which "
                "leaves the class empty: choose a smaller alpha."
            )

    def no_donor(self, row: int, labels: Sequence[int]) -> ValueError:
        """The error for an example without a possible donor."""
        names = " or ".join(repr(self.names[k]) for k in labels)
        with_key = "" if self.group[row] is None else f" with {self.group[row]!r}"
        return ValueError(
            f"Split {self.split!r} has no donor for {self.names[self.label[row]]!r}: no example of {names}{with_key}."
        )


def check_contradictions(contradictions: Contradictions) -> list[list[int]]:
    """Class index → the class indices that contradict it."""
    if not isinstance(contradictions, Mapping) or len(contradictions) < 2:
        raise ValueError(f"contradictions must map at least 2 classes to others; got {shown(contradictions)}.")
    number = {name: k for k, name in enumerate(contradictions)}
    for name, others in contradictions.items():
        wrong = [other for other in others if other not in number or other == name]
        if wrong or not others or isinstance(others, str) or name == IRONY:
            raise ValueError(
                f"contradictions must map each class to others among {', '.join(map(repr, number))}; got {name!r} "
                f"→ {shown(others)}."
            )
    return [[number[other] for other in others] for others in contradictions.values()]


def _triplet(video: ArrayLike, audio: ArrayLike, label: ArrayLike, names: list[str]) -> tuple[Rows, Rows, Rows]:
    v, a, y = (check_rows(name, x) for name, x in (("video", video), ("audio", audio), ("label", label)))
    if not len(v) == len(a) == len(y):
        raise ValueError(f"video, audio and label must have equal length; got {len(v)}, {len(a)} and {len(y)}.")
    if wrong := sorted({*y.tolist()} - {*range(len(names))}):
        raise ValueError(f"Labels must be class indices 0 to {len(names) - 1} ({', '.join(names)}); got {wrong[0]}.")
    return v, a, y


def check_rows(name: str, x: ArrayLike) -> Rows:
    array = np.asarray(x)
    if array.ndim != 1 or (array.dtype.kind not in "iu" and array.size):
        raise ValueError(
            f"{name} must be a list of whole numbers; got an array of {array.dtype} of shape {array.shape}."
        )
    return array.astype(np.int64)


def _stratified(examples: _Examples, order: Rows, n: int) -> Rows:
    """The first examples of each class in an order, n in total: proportional to the classes, by the largest remainder."""
    y = examples.label
    sizes = np.bincount(y, minlength=len(examples.names))
    exact = n * sizes / max(len(y), 1)
    shares = np.floor(exact + 1e-9).astype(np.int64)
    tie = keys.permutation(keys.fold(examples.key, "ties"), len(sizes)).numpy()
    by_remainder = np.lexsort((tie, -np.round(exact - shares, 9)))
    shares[by_remainder[: n - shares.sum()]] += 1
    return np.concatenate([order[y[order] == k][:share] for k, share in enumerate(shares)])


def _paper_donors(examples: _Examples, ironic: Rows) -> Rows:
    y, follows = examples.label, examples.follows
    # A draw for each example, used or not: the donor of an example does not change with alpha.
    which, who = (
        keys.uniform(keys.fold(examples.key, name), (len(y),)).double().numpy() for name in ("label", "donor")
    )
    members = examples.members(np.arange(len(y)))
    donors = np.empty_like(ironic)
    for at, i in enumerate(ironic):
        group = examples.group[i]
        labels = [k for k in follows[y[i]] if (group, k) in members]
        if not labels:
            raise examples.no_donor(i, follows[y[i]])
        pool = members[group, labels[int(which[i] * len(labels))]]
        donors[at] = pool[int(who[i] * len(pool))]
    return donors


def _balanced_donors(examples: _Examples, ironic: Rows, exchange: bool) -> Rows:
    """A donor for each: the donors' labels are a permutation of the examples' labels, and no pair agrees."""
    if not len(ironic):
        return ironic
    heard = _derangement(examples, examples.label[ironic])
    order = keys.permutation(keys.fold(examples.key, "donor"), len(examples.label)).numpy()
    members = examples.members(order[np.isin(order, ironic)] if exchange else order)
    used: Counter[tuple[Hashable, int]] = Counter()
    donors = np.empty_like(ironic)
    for at, (i, k) in enumerate(zip(ironic, heard.tolist(), strict=True)):
        pool = members.get((examples.group[i], k))
        if pool is None:
            raise examples.no_donor(i, [k])
        donors[at] = pool[used[examples.group[i], k] % len(pool)]  # in turn: no donor is used again before all were
        used[examples.group[i], k] += 1
    return donors


def _derangement(examples: _Examples, y: Rows) -> Rows:
    """A permutation of the labels y that nowhere agrees with y and prefers the map's pairs."""
    classes = len(examples.names)
    rows = np.bincount(y, minlength=classes)
    columns = rows.copy()
    most = int(rows.argmax())
    if 2 * rows[most] > len(y):
        raise ValueError(
            "Balanced donors need every label in at most half of the ironic examples, but in split "
            f"{examples.split!r} {rows[most]} of {len(y)} are {examples.names[most]!r}: use a larger split, "
            "another alpha, or donors='paper'."
        )
    preference = 1.0 - np.eye(classes)
    for k, others in enumerate(examples.follows):
        preference[k, others] *= PREFERENCE
    draws = keys.uniform(keys.fold(examples.key, "pairs"), (len(y),)).double().numpy()
    assigned: list[list[int]] = [[] for _ in range(classes)]
    for step, u in enumerate(draws):
        weights = preference * rows[:, None] * columns
        # The rest can be paired as long as no label has more rows and columns than pairs are left: a label that has as many
        # must be in this pair.
        for tight in np.flatnonzero(rows + columns == len(y) - step):
            needed = np.zeros_like(weights, dtype=bool)
            needed[tight], needed[:, tight] = True, True
            weights = weights * needed
        total = np.cumsum(weights)
        pair = int(np.searchsorted(total, u * total[-1], side="right"))
        seen, new = divmod(min(pair, int(np.flatnonzero(weights.ravel())[-1])), classes)
        rows[seen] -= 1
        columns[new] -= 1
        assigned[seen].append(new)
    turns = [iter(labels) for labels in assigned]
    return np.array([next(turns[k]) for k in y], np.int64)


def _matched_rows(examples: _Examples, n: int) -> tuple[Rows, NDArray[np.bool_]]:
    """For every example the row whose voice it gets, and which examples are ironic: about n, in whole exchanges."""
    members = examples.members(np.arange(len(examples.label)))
    if alone := next((cell for cell, rows in members.items() if len(rows) < 2), None):
        raise ValueError(
            f"Matched donors need two takes of each class for each key; split {examples.split!r} has one of "
            f"{examples.names[alone[1]]!r} with {alone[0]!r}."
        )
    voices = np.empty_like(examples.label)
    ironic = np.zeros(len(voices), bool)
    exchanged = _exchanges(examples, members, n)
    for cell, rows in members.items():
        donors = members[exchanged.get(cell, cell)]
        # Every take gets another one: in its own class the next, in the other class any.
        voices[rows] = np.roll(donors, 1)
        ironic[rows] = cell in exchanged
    return voices, ironic


_Cell = tuple[Hashable, int]  # a key, and a class that has examples with it


def _exchanges(examples: _Examples, members: Mapping[_Cell, Sequence[int]], n: int) -> dict[_Cell, _Cell]:
    """Cell → the cell with the same key that it exchanges its voices with; keys and classes in proportion to their size."""
    classes: dict[Hashable, list[int]] = {}
    for group, k in members:
        classes.setdefault(group, []).append(k)
    if not members:
        return {}
    count = max(int(n > 0), round(n * len(members) / (2 * len(examples.label))))
    # Keys with equally many classes lie side by side, in random order; those with few come first, since others can make up
    # for what they lack.
    shuffled = [list(classes)[i] for i in keys.permutation(keys.fold(examples.key, "groups"), len(classes))]
    groups = sorted(shuffled, key=lambda group: len(classes[group]))
    counts = _systematic([sum(len(members[g, k]) for k in classes[g]) for g in groups], count, examples.key)
    order = keys.permutation(keys.fold(examples.key, "order"), len(examples.names)).numpy()
    cells = np.bincount([k for _, k in members], minlength=len(examples.names))
    wanted = np.empty_like(cells)
    wanted[order] = _systematic(cells[order], 2 * count, keys.fold(examples.key, "quota"))
    tie = keys.uniform(keys.fold(examples.key, "classes"), (len(groups), len(examples.names))).numpy()
    exchanged: dict[_Cell, _Cell] = {}
    for at, group in enumerate(groups):
        left = sorted(classes[group], key=lambda k: (-wanted[k], tie[at, k]))
        for _ in range(counts[at]):
            pairs = ((a, b) for i, a in enumerate(left) for b in left[i + 1 :])
            pair = next((p for p in pairs if len(members[group, p[0]]) == len(members[group, p[1]])), None)
            if pair is None:
                raise ValueError(
                    f"Split {examples.split!r} has no two classes left with as many takes for {group!r} to exchange voices: "
                    "choose a smaller alpha."
                )
            for a, b in (pair, pair[::-1]):
                exchanged[group, a] = (group, b)
                wanted[a] -= 1
                left.remove(a)
    return exchanged


def _systematic(sizes: ArrayLike, n: int, key: Tensor) -> Rows:
    """Shares of n in proportion to sizes, each rounded up or down at random: on average they are exact."""
    ends = np.cumsum(sizes)
    points = (float(keys.uniform(keys.fold(key, "start"), (1,))) + np.arange(n)) * ends[-1] / max(n, 1)
    return np.bincount(np.searchsorted(ends, points, side="right"), minlength=len(ends))
