"""``synib data``: what there is, and what is missing."""

import pickle

import numpy as np
import pytest

from synib.studies.sources import SOURCES


@pytest.fixture
def mosi(tmp_path):
    """A folder that holds mosi/mosi_raw.pkl."""
    draw = np.random.default_rng(0)
    parts = {
        name: {m: draw.normal(size=(3, 50, 2)) for m in ("vision", "audio", "text")} | {"labels": np.ones((3, 1))}
        for name in ("train", "valid", "test")
    }
    (tmp_path / "mosi").mkdir()
    (tmp_path / "mosi" / "mosi_raw.pkl").write_bytes(pickle.dumps(parts))
    return tmp_path


@pytest.fixture(autouse=True)
def _nowhere(monkeypatch):
    monkeypatch.delenv("SYNIB_DATA", raising=False)


def test_every_data_set_is_listed_with_its_licence_and_where_to_get_it(synib_command):
    code, out, err = synib_command("data", "list")
    assert (code, err) == (0, "")
    for source in SOURCES.values():
        assert f"{source.name}: {source.about}\n" in out
        assert source.where in out
        assert source.licence in out


@pytest.mark.parametrize("place", ["", "mosi"])
def test_a_whole_data_set_is_said_to_be_there_with_counts_and_checksum(synib_command, mosi, place):
    code, out, err = synib_command("data", "check", "mosi", "--root", mosi / place)
    assert (code, err) == (0, "")
    assert "train 3 of 3 (vision 2, audio 2, text 2)" in out
    assert "sha256 " in out
    assert out.endswith("All files are present.\n")


def test_what_is_missing_is_said_with_where_to_get_it_and_exit_code_1(synib_command, mosi):
    code, out, err = synib_command("data", "check", "ur-funny", "--root", mosi)
    assert (code, err) == (1, "")
    assert "MISSING  humor.pkl" in out
    assert f"Download it from {SOURCES['ur-funny'].where}\n" in out
    assert f"Licence: {SOURCES['ur-funny'].licence}\n" in out


def test_what_cannot_be_read_is_said_and_not_run(synib_command, mosi):
    (mosi / "mosi" / "mosi_raw.pkl").write_bytes(b"cos\nsystem\n(S'touch here'\ntR.")
    code, out, err = synib_command("data", "check", "mosi", "--root", mosi)
    assert (code, err) == (1, "")
    assert "UNREADABLE  mosi_raw.pkl" in out
    assert "it requests os.system" in out
    assert not (mosi / "here").exists()


def test_another_version_is_said_with_both_checksums(synib_command, tmp_path):
    n = 4
    np.savez(
        tmp_path / "features.npz", label=np.arange(n), fold=np.arange(n), audio=np.ones((n, 2)),
        audio_logmel=np.ones((n, 2)), visual=np.ones((n, 3)),
    )  # fmt: skip
    code, out, _ = synib_command("data", "check", "ravdess-features", "--root", tmp_path)
    assert code == 1
    assert "DIFFERENT VERSION  features.npz" in out
    assert "4 examples (fold 0 1, 1 1, 2 1, 3 1); audio 2, audio_logmel 2, visual 3" in out
    assert f"expected {SOURCES['ravdess-features'].files[0].sha256}" in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["moosi", "--root", "."], "Unknown data set 'moosi': did you mean 'mosi'?"),
        (["zzz", "--root", "."], f"Unknown data set 'zzz': choose from {', '.join(SOURCES)}."),
        (["mosi"], "The data folder is not set: give a folder as root, or set SYNIB_DATA."),
        (["mosi", "--root", "none"], "root must be a folder with data; none does not exist."),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(synib_command, arguments, said):
    assert synib_command("data", "check", *arguments) == (2, "", f"synib: {said}\n")
