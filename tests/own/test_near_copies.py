"""Near-copies: found where they are, not found in ordinary data of any kind, and joined with the user's groups."""

from dataclasses import replace

import numpy as np
import pytest

from synib.own.near_copies import check_split, dependence_groups, near_copies
from synib.own.table import Table


def make(a, b, **more):
    x = {"a": np.asarray(a, np.float32).reshape(len(a), -1), "b": np.asarray(b, np.float32).reshape(len(b), -1)}
    there = np.ones(len(a), bool)
    return Table(x, {"a": there, "b": there}, np.arange(len(a)) % 2, ("no", "yes"), **more)


def copied(rows, widths, times, noise, seed=0, offset=0.0):
    """Rows in random order, each so many times, and which of them are one."""
    rng = np.random.default_rng(seed)
    which = rng.permutation(np.repeat(np.arange(rows), times))
    x = [(rng.normal(size=(rows, w)) + offset)[which] + noise * rng.normal(size=(rows * times, w)) for w in widths]
    return make(*x), which


def same_partition(found, truth):
    pairs = np.unique(np.stack([found, truth]), axis=1).shape[1]
    return pairs == len(np.unique(found)) == len(np.unique(truth))


@pytest.mark.parametrize(("rows", "times"), [(20, 3), (200, 2), (100, 10), (700, 3)])
@pytest.mark.parametrize("widths", [(3, 2), (16, 16), (512, 64)])
@pytest.mark.parametrize("noise", [0.0, 1e-4])
def test_rows_that_occur_several_times_are_found(rows, times, widths, noise):
    table, which = copied(rows, widths, times, noise, offset=3.0)
    assert same_partition(near_copies(table), which)


def ordinary(kind, rows, rng):
    signs = rng.choice([-1.0, 1.0], (rows, 2))
    classes = rng.integers(0, 20, rows)
    latent, noise = rng.normal(size=(rows, 1)), 0.1 * rng.normal(size=(rows, 6))
    return {
        "wide": lambda: (rng.normal(size=(rows, 64)), rng.normal(size=(rows, 64))),
        "one number each": lambda: (rng.normal(size=(rows, 1)), rng.normal(size=(rows, 1))),
        "two numbers that are almost one": lambda: (latent, latent + 1e-3 * rng.normal(size=(rows, 1))),
        "bits": lambda: (signs[:, :1], signs[:, 1:]),
        "noisy bits": lambda: (signs[:, :1] + noise[:, :3], signs[:, 1:] + noise[:, 3:]),
        "categories": lambda: (np.eye(6)[rng.integers(0, 6, rows)], np.eye(9)[rng.integers(0, 9, rows)]),
        "one category twice": lambda: (np.eye(20)[classes], np.eye(20)[classes]),
        "whole numbers": lambda: (rng.integers(0, 5, (rows, 2)), rng.integers(0, 5, (rows, 2))),
        "clusters": lambda: (5 * np.eye(20)[classes] + rng.normal(size=(rows, 20)), rng.normal(size=(rows, 8))),
        "constant": lambda: (np.ones((rows, 3)), rng.normal(size=(rows, 8))),
        "on a curve": lambda: (np.c_[np.cos(latent), np.sin(latent)], np.c_[latent, latent**2]),
        "heavy tails": lambda: (rng.standard_t(2, (rows, 8)), np.exp(2 * rng.normal(size=(rows, 8)))),
        "a large column": lambda: (rng.normal(size=(rows, 4)) * [1, 1, 1, 1e4], rng.normal(size=(rows, 4))),
    }[kind]()  # fmt: skip


KINDS = ["wide", "one number each", "two numbers that are almost one", "bits", "noisy bits", "categories", "one category twice",
         "whole numbers", "clusters", "constant", "on a curve", "heavy tails", "a large column"]  # fmt: skip


@pytest.mark.parametrize("rows", [60, 1000])
@pytest.mark.parametrize("kind", KINDS)
def test_ordinary_data_have_none(kind, rows):
    if kind == "one category twice" and rows == 60:
        pytest.skip("of 60 rows of 20 kinds nobody can tell whether they are copies")
    for seed in range(5):
        table = make(*ordinary(kind, rows, np.random.default_rng(seed)))
        assert len(np.unique(near_copies(table))) == rows
        assert dependence_groups(table) is None


def test_a_few_copies_in_ordinary_data_are_found_and_nothing_else():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(3000, 24)), rng.normal(size=(3000, 40))
    a[17], b[17] = a[2900] + 1e-5, b[2900]
    b[40] = b[41]  # one modality only: no copy
    found = near_copies(make(a, b))
    assert found[17] == found[2900]
    assert len(np.unique(found)) == 2999


def test_what_a_row_lacks_must_be_lacking_in_its_copy():
    table, which = copied(50, (8, 8), 2, 0.0)
    has = np.ones(100, bool)
    has[np.flatnonzero(which == 3)[0]] = False
    has[np.flatnonzero(which == 4)] = False
    x = {"a": table.modalities["a"], "b": np.where(has[:, None], table.modalities["b"], 0)}
    found = near_copies(replace(table, modalities=x, present={"a": np.ones(100, bool), "b": has}))
    one, other = np.flatnonzero(which == 3)
    assert found[one] != found[other]
    one, other = np.flatnonzero(which == 4)
    assert found[one] == found[other]
    assert len(np.unique(found)) == 51


def test_groups_and_copies_are_joined():
    table, which = copied(40, (8, 8), 3, 1e-4)
    group = np.array([f"g{w % 40 // 4}" for w in which])
    assert same_partition(dependence_groups(replace(table, group=group)), which // 4)
    across = np.array([f"r{row}" for row in range(120)])
    across[np.flatnonzero(which == 0)[0]] = across[np.flatnonzero(which == 1)[0]] = "both"
    joined = dependence_groups(replace(table, group=across))
    assert same_partition(joined, np.where(which == 1, 0, which))
    plain = make(*np.random.default_rng(0).normal(size=(2, 30, 4)), group=np.array(["x", "y", "z"] * 10))
    assert same_partition(dependence_groups(plain), np.arange(30) % 3)


def test_copies_on_both_sides_of_a_given_split_are_named_by_their_rows():
    rng = np.random.default_rng(0)
    x = {name: np.tile(rng.normal(size=(20, 3)), (2, 1)) for name in "ab"}
    part = np.repeat(["train", "test"], 20)
    table = Table.from_arrays(x, np.arange(40) % 2, split=part)
    with pytest.raises(ValueError, match=r"Row 0 and its copy, row 20 \(from 0\), .* train and test, as are 19 other"):
        check_split(table)
    check_split(Table.from_arrays(x, np.arange(40) % 2, split=np.tile(np.repeat(["train", "test"], 10), 2)))
