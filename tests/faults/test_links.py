"""Nothing is written through a symbolic link: a folder from somebody else cannot have files elsewhere overwritten."""

import os
import shutil

import numpy as np
import pytest
import torch

from synib.data import Dataset, Split
from synib.data.cache import cached
from synib.models import FusionModel, cache_features
from synib.studies import run


@pytest.fixture
def outside(tmp_path):
    """A folder with a file that must stay as it is."""
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "precious").write_text("precious")
    yield folder
    assert {p.name: p.read_text() for p in folder.iterdir()} == {"precious": "precious"}


@pytest.mark.parametrize("name", [".lock", "shards", "failed", "config.json", "results.csv", "run.json", "shards.json"])
@pytest.mark.parametrize("begun", [False, True])
def test_a_link_in_a_run_folder_is_refused_in_a_sentence(small, whole, tmp_path, outside, untrained, name, begun):
    path = tmp_path / "run"
    if begun:
        shutil.copytree(whole, path)
        is_folder = (path / name).is_dir()
        shutil.rmtree(path / name) if is_folder else (path / name).unlink(missing_ok=True)
    path.mkdir(exist_ok=True)
    (path / name).symlink_to(outside if name in ("shards", "failed") else outside / "precious")
    with pytest.raises(
        (ValueError, OSError), match=rf"{name} is a symbolic link, and nothing is written through links"
    ):
        run(small, path, device="cpu", together=1)


def test_a_lock_that_is_another_name_of_a_file_is_refused(small, tmp_path, outside):
    (tmp_path / "run").mkdir()
    os.link(outside / "precious", tmp_path / "run" / ".lock")
    with pytest.raises((ValueError, OSError), match=r"\.lock"):
        run(small, tmp_path / "run", device="cpu")


def test_an_output_folder_may_itself_be_a_link(small, whole, tables, tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "real")
    run(small, tmp_path / "run", device="cpu", together=1)
    assert tables(tmp_path / "real") == tables(whole)


def test_a_cache_is_not_written_through_a_link(tmp_path, outside):
    source = tmp_path / "a.txt"
    source.write_text("1")

    def make(folder):
        return cached(folder, "x", {"a": source}, lambda path: np.ones(2), (2,), "float64", "r").values

    (tmp_path / "cache").symlink_to(outside)
    with pytest.raises((ValueError, OSError), match="cache is a symbolic link"):
        make(tmp_path / "cache")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "x.json").symlink_to(outside / "precious")
    with pytest.raises((ValueError, OSError), match=r"x\.json is a symbolic link"):
        make(tmp_path / "other")


def test_latents_are_not_written_through_a_link(tmp_path, outside):
    model = FusionModel({"a": torch.nn.Identity(), "b": torch.nn.Identity()}, torch.nn.Identity())
    split = Split({"a": torch.ones(3, 2), "b": torch.ones(3, 2)}, torch.zeros(3))
    (tmp_path / "latents").symlink_to(outside)
    with pytest.raises((ValueError, OSError), match="latents is a symbolic link"):
        cache_features(model, Dataset(split, split, None), tmp_path / "latents")
