"""Matched irony from spectrograms: reading recordings, standardisation, the network, search and comparison."""

import numpy as np
import pytest
import torch

from synib.studies import IronyMatched, IronyVoices, VoicesSearch
from synib.studies.irony.matched import matched_irony
from synib.studies.irony.voices import BANDS, CACHE, FLOOR, FRAMES, RATE, log_mel, read_voices, voice_irony, voices
from synib.training import fleet


def tone(frequency, seconds, before=0.5):
    time = np.arange(int(seconds * RATE)) / RATE
    return np.pad(0.5 * np.sin(2 * np.pi * frequency * time), int(before * RATE)).astype(np.float32)


def test_a_spectrogram_begins_with_the_sound_and_is_filled_with_silence():
    low, high, long = log_mel(tone(300, 1.0)), log_mel(tone(3000, 1.0)), log_mel(tone(300, 4.0))
    assert {x.shape for x in (low, high, long)} == {(FRAMES, BANDS)}
    assert low[20].argmax() < high[20].argmax()
    np.testing.assert_allclose(log_mel(tone(300, 1.0, before=0.9))[5:30], low[5:30], atol=2.0)
    assert (low[60:] == np.float32(np.log(FLOOR))).all()
    assert (long[-1] > np.log(FLOOR) + 1).any()


def test_recordings_are_read_from_the_sounds_or_from_the_file_of_their_spectrograms(tmp_path):
    soundfile = pytest.importorskip("soundfile")
    (tmp_path / "audio_opus16k").mkdir()
    for name, frequency in (("a", 300), ("b", 3000)):
        file = tmp_path / "audio_opus16k" / f"{name}.opus"
        soundfile.write(file, tone(frequency, 1.0), RATE, format="OGG", subtype="OPUS")
    read = read_voices(tmp_path, ["b", "a"])
    assert read.shape == (2, FRAMES, BANDS)
    assert read[0, 20].argmax() > read[1, 20].argmax()
    np.savez(tmp_path / CACHE, id=np.array(["a", "b"]), log_mel=read[::-1].astype(np.float16))
    np.testing.assert_allclose(read_voices(tmp_path, ["b", "a"]), read, atol=0.02)
    with pytest.raises(ValueError, match="does not contain the recording 'c'"):
        read_voices(tmp_path, ["c"])


def test_bands_are_standardised_for_each_actor_and_examples_are_those_of_matched_irony(voices_root):
    folder = str(voices_root / "ravdess")
    x = voices(folder)
    assert x.shape[1:] == (FRAMES, BANDS)
    ours, theirs = voice_irony(folder, 0.5, 3), matched_irony(folder, 0.5, 3)
    for split, other in ((ours.data.train, theirs.data.train), (ours.data.test, theirs.data.test)):
        assert torch.equal(split.target, other.target)
        assert torch.equal(split.modalities["video"], other.modalities["video"])
    test = ours.irony.splits["test"]
    assert torch.equal(ours.data.test.modalities["audio"], x[test.audio])
    own = x[np.unique(test.audio)]
    torch.testing.assert_close(own.mean((0, 1)), torch.zeros(BANDS), atol=1e-2, rtol=0)


@pytest.mark.parametrize("kind", [VoicesSearch, IronyVoices])
def test_every_form_is_trained_in_the_fleet_with_a_convolutional_encoder(voices_root, kind):
    small = {"channels": 4, "hidden": 4, "latent": 4, "epochs": 1, "batch_size": 256}
    experiment = kind(root=str(voices_root), seeds=1)
    experiment = kind(root=str(voices_root), seeds=1, overrides=dict.fromkeys(experiment.methods, small))
    for cell in {c.factors["form"]: c for c in experiment.cells()}.values():
        trained = fleet.train(experiment, [cell], "cpu")
        assert not trained.failures
        metric = "synergy" if kind is VoicesSearch else "irony_auc"
        assert 0 <= trained.metrics[0][metric] <= 1
        assert (experiment.data(cell).test is None) == (kind is VoicesSearch)


def test_search_and_comparison_have_settings_of_their_own_and_the_tested_rate():
    search = VoicesSearch()
    assert {tuple(search.axes("irony-matched", form)["dropout"]) for form in search.form} == {(0.2,)}
    assert search._tasks["irony-matched"].experiment.searched_at() == {"alpha": 0.1}
    assert (search.seeds, IronyVoices().seeds, IronyVoices().alpha) == (3, 24, (0.1,))
    assert IronyVoices.outcome != IronyMatched.outcome
