"""Spoken and written digits: labels, cues, disjoint splits, and files that are not what they should be."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from synib.data.files import check
from synib.studies.digits.data import BANDS, DIGITS, FRAMES, RATE, SOURCES, TONES, cue_coordinates, digits

SIZES = {"train": 600, "validation": 200, "test": 300}
MIXTURE = (0.3, 0.2, 0.3, 0.2)
PLAIN = (0.0, 0.0, 0.0, 1.0)


def parts(data):
    return {"train": data.train, "validation": data.validation, "test": data.test}


@pytest.fixture(scope="module")
def plain(digits_root):
    return digits(digits_root, PLAIN, **SIZES)


@pytest.fixture(scope="module")
def cued(digits_root):
    return digits(digits_root, MIXTURE, **SIZES)


@pytest.fixture(scope="module")
def known(digits_root):
    """Of each file the inside of its images, where no bar is, and their digits."""
    found = {}
    for name in ("valid", "test"):
        file = np.load(digits_root / "digits" / f"mnist-{name}.npz")
        found[name] = inner(torch.from_numpy(file["inputs"].astype(np.float32))), torch.from_numpy(file["targets"])
    return found


def inner(images):
    return images.view(-1, 28, 28)[:, 4:24, 4:24].flatten(1)


def which_image(data, known):
    """Of every example of every split its image's number in its file, by correlation with all of them."""
    numbers = {}
    for name, split in parts(data).items():
        images = known["test" if name == "test" else "valid"][0]
        seen = inner(split.modalities["image"])
        alike = torch.corrcoef(torch.cat([seen, images]))[: len(seen), len(seen) :]
        best = alike.max(1)
        assert best.values.min() > 0.8
        numbers[name] = best.indices
    return numbers


def which_recording(split):
    """Of every example of a split without cues the number of its recording among those that are heard in it."""
    rows, number = torch.unique(split.modalities["audio"], dim=0, return_inverse=True)
    return rows, number


def test_splits_have_their_sizes_and_training_data_are_standardised(cued):
    assert {name: len(split) for name, split in parts(cued).items()} == SIZES
    assert cued.widths == {"audio": BANDS * FRAMES, "image": 784}
    assert all(x.isfinite().all() for split in parts(cued).values() for x in split.modalities.values())
    for name, x in cued.train.modalities.items():
        assert x.mean(0).abs().max() < 1e-3, name
        varied = x.std(0) > 0.5
        assert torch.allclose(x.std(0)[varied], torch.ones(()), atol=0.1)
        assert varied.float().mean() > 0.4


def test_the_label_is_the_parity_of_the_sum_of_both_digits(plain, known):
    for name, numbers in which_image(plain, known).items():
        split = getattr(plain, name)
        written = known["test" if name == "test" else "valid"][1][numbers]
        spoken_is_odd = (split.target - written) % 2
        _, recording = which_recording(split)
        # Whatever is written with it, one recording has one digit, and digits of both parities are said.
        of = {int(r): set(spoken_is_odd[recording == r].tolist()) for r in recording.unique()}
        assert all(len(parities) == 1 for parities in of.values())
        assert set.union(*of.values()) == {0, 1}


def test_the_spoken_digit_is_the_one_in_the_files_name(tmp_path, digits_root):
    # Speakers who only say even digits: the parity is that of the written one.
    root = Path(shutil.copytree(digits_root / "digits", tmp_path / "even"))
    for file in root.glob("recordings/*.wav"):
        if int(file.name[0]) % 2:
            file.unlink()
    file = np.load(root / "mnist-test.npz")
    np.savez(root / "mnist-test.npz", inputs=file["inputs"], targets=np.full(120, 7))
    assert (digits(root, PLAIN, train=20, validation=20, test=50).test.target == 1).all()


def test_neither_digit_alone_tells_the_label(plain):
    _, recording = which_recording(plain.train)
    odd = torch.zeros(int(recording.max()) + 1).index_add_(0, recording, plain.train.target.float())
    share = odd / torch.bincount(recording)
    assert share.min() > 0.05
    assert share.max() < 0.95


def test_groups_are_a_partition_in_the_mixtures_proportions(digits_root):
    data = digits(digits_root, MIXTURE, train=4000, validation=2000, test=2000)
    for split in parts(data).values():
        assert tuple(split.groups) == SOURCES
        every = torch.stack(list(split.groups.values()))
        assert (every.sum(0) == 1).all()
        error = (torch.tensor(MIXTURE) * (1 - torch.tensor(MIXTURE)) / len(split)).sqrt()
        assert ((every.float().mean(1) - torch.tensor(MIXTURE)).abs() < 4 * error).all()
    without = digits(digits_root, (0.45, 0.0, 0.45, 0.10), **SIZES)
    assert not without.train.groups["U2"].any()


def test_no_image_is_in_two_splits(cued, known):
    numbers = which_image(cued, known)
    train, validation = (set(numbers[name].tolist()) for name in ("train", "validation"))
    assert not train & validation
    assert train <= set(range(160))
    assert validation <= set(range(160, 200))
    assert len(set(numbers["test"].tolist())) > 100  # of the other file


@pytest.mark.parametrize(("k", "who"), [(1, "b_o"), (4, "emil")])
def test_no_speaker_is_in_two_splits_and_the_seed_says_who_is_held_out(k, who, digits_root, tmp_path):
    # Other recordings of a speaker change the one split that the speaker is in, and no other.
    root = Path(shutil.copytree(digits_root / "digits", tmp_path / "digits"))
    for file in root.glob(f"recordings/*_{who}_?.wav"):
        sound = file.read_bytes()
        file.write_bytes(sound[:44] + sound[44:][::-1])
    for seed, where in ((k, "test"), (k + 5, "test"), (k + 4, "validation")):
        before, after = (digits(folder, PLAIN, seed, **SIZES) for folder in (digits_root, root))
        same = {
            name: torch.equal(split.modalities["audio"], parts(before)[name].modalities["audio"])
            for name, split in parts(after).items()
        }
        assert same == {name: name != where for name in SIZES}
        assert len(which_recording(before.train)[0]) == 60  # all of the other three


def test_a_bar_is_in_exactly_the_u2_and_r_images_left_for_0_and_right_for_1(cued, plain):
    for name, split in parts(cued).items():
        pages = split.modalities["image"].view(-1, 28, 28)
        usual = parts(plain)[name].modalities["image"].view(-1, 28, 28)
        assert torch.equal(pages[:, :, 2:26], usual[:, :, 2:26])  # the same pairs, elsewhere untouched
        barred = split.groups["U2"] | split.groups["R"]
        for label, columns in ((0, slice(0, 2)), (1, slice(26, 28))):
            edge = pages[:, :, columns].flatten(1)
            with_bar = barred & (split.target == label)
            assert edge[with_bar].min() > 0 > edge[~with_bar].max()
            assert torch.equal(edge[with_bar], edge[with_bar][:1].expand_as(edge[with_bar]))


def test_a_tone_is_in_exactly_the_u1_and_r_recordings_and_says_the_label(cued, plain):
    mel = 2595 * np.log10(1 + np.array(TONES[:2]) / 700)
    bands = mel / (2595 * np.log10(1 + RATE / 2 / 700)) * (BANDS + 1) - 1
    toned = {name: s.groups["U1"] | s.groups["R"] for name, s in parts(cued).items()}
    # Both are standardised, each by its own statistics: what is plain in both lies on one line for every coordinate.
    x, y = (d.train.modalities["audio"][~toned["train"]].double() for d in (cued, plain))
    slope = ((x - x.mean(0)) * (y - y.mean(0))).sum(0) / ((x - x.mean(0)) ** 2).sum(0)
    for name, split in parts(cued).items():
        expected = y.mean(0) + slope * (split.modalities["audio"] - x.mean(0))
        added = expected - parts(plain)[name].modalities["audio"]
        assert added[~toned[name]].abs().max() < 1e-2
        assert (added[toned[name]].abs().amax(1) > 1).all()
        for label, band in enumerate(bands):
            rows = added[toned[name] & (split.target == label)].view(-1, BANDS, FRAMES)
            assert rows.mean((0, 2)).argmax().item() == pytest.approx(band, abs=1)


def test_a_silent_recording_is_read(digits_root, tmp_path, write_spoken):
    root = Path(shutil.copytree(digits_root / "digits", tmp_path / "digits"))
    for file in root.glob("recordings/*_anna_?.wav"):
        write_spoken(file, np.zeros(256))
    data = digits(root, MIXTURE, **SIZES)
    assert data.test.modalities["audio"].isfinite().all()
    assert len(data.test.modalities["audio"].unique(dim=0)) == 3  # as it is, and with each tone


def test_a_check_counts_recordings_and_finds_both_files(digits_root):
    recordings, *images = check(DIGITS, digits_root).findings
    assert (recordings.state, len(recordings.paths)) == ("incomplete", 100)
    assert [finding.state for finding in images] == ["there", "there"]


def one(root):
    return root / "recordings" / "3_anna_0.wav"


def cut(root, to):
    whole = one(root).read_bytes()
    one(root).write_bytes(whole[:to])


def save(root, name="valid", n=10, inputs=None, targets=None):
    inputs = np.zeros((n, 784), np.float16) if inputs is None else inputs
    np.savez(root / f"mnist-{name}.npz", inputs=inputs, targets=np.zeros(n, int) if targets is None else targets)


def lead_out(root, file):
    outside = root.parent / "outside"
    shutil.move(root / file, outside)
    (root / file).symlink_to(outside)


WRONG = {
    "no recordings": (lambda r, w: shutil.rmtree(r / "recordings"), r"There are no recordings in .*<digit>_<speaker>"),
    "no digit": (lambda r, w: one(r).rename(one(r).with_name("13_anna_0.wav")), "13_anna_0.wav is not named"),
    "no index": (lambda r, w: one(r).rename(one(r).with_name("3_anna.wav")), "3_anna.wav is not named"),
    "another rate": (lambda r, w: w(one(r), np.zeros(900), rate=16_000), "has 16000 Hz, 16 bits, 1 channels; expected 8000"),
    "stereo": (lambda r, w: w(one(r), np.zeros(900), channels=2), "has 8000 Hz, 16 bits, 2 channels; expected"),
    "eight bits": (lambda r, w: w(one(r), np.zeros(900), width=1), "has 8000 Hz, 8 bits, 1 channels; expected"),
    "no wav": (lambda r, w: one(r).write_text("three" * 200), "3_anna_0.wav is not a readable WAV file .*RIFF"),
    "empty": (lambda r, w: cut(r, 0), r"is not a readable WAV file \(it ends too early\)"),
    "cut in a sample": (lambda r, w: cut(r, 44 + 701), "3_anna_0.wav is truncated: it contains 701 of .* bytes"),
    "a folder": (lambda r, w: (one(r).unlink(), one(r).mkdir()), "3_anna_0.wav is not a readable WAV file"),
    "too short": (lambda r, w: w(one(r), np.zeros(255)), "shorter than 0.032 s: it contains 255 samples"),
    "two speakers": (
        lambda r, w: [f.unlink() for f in r.glob("recordings/*") if f.name.split("_")[1] not in ("anna", "carl")],
        "Three disjoint splits need recordings of at least 3 speakers; .* has 2",
    ),
    "small images": (lambda r, w: save(r, inputs=np.zeros((10, 64))), r"\(10, 64\) and targets .*expected \(n, 784\)"),
    "fewer labels": (lambda r, w: save(r, targets=np.zeros(9, int)), r"targets \(9,\); expected"),
    "bytes": (lambda r, w: save(r, inputs=np.full((10, 784), 255)), "inputs outside of 0 to 1 .*divide"),
    "not finite": (lambda r, w: save(r, inputs=np.full((10, 784), np.nan)), "inputs outside of 0 to 1"),
    "letters": (lambda r, w: save(r, targets=np.arange(10) + 1), "targets other than whole numbers from 0 to 9"),
    "one image": (lambda r, w: save(r, n=1), "mnist-valid.npz contains 1 images; expected at least 2"),
    "a recording elsewhere": (lambda r, w: lead_out(r, "recordings/3_anna_0.wav"), "points outside of"),
    "images elsewhere": (lambda r, w: lead_out(r, "mnist-test.npz"), "points outside of"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_an_invalid_file_is_refused(case, digits_root, tmp_path, write_spoken):
    root = Path(shutil.copytree(digits_root / "digits", tmp_path / "digits"))
    spoil, sentence = WRONG[case]
    spoil(root, write_spoken)
    with pytest.raises(ValueError, match=sentence) as raised:
        digits(root, **SIZES)
    assert "\n" not in str(raised.value)


@pytest.mark.skipif(
    not (Path(os.environ.get("SYNIB_DATA") or "/none") / "digits" / "recordings").is_dir(),
    reason="SYNIB_DATA names no folder with the real digits",
)
def test_the_real_recordings_and_images_load():
    assert check(DIGITS).complete
    data = digits()
    assert {name: len(split) for name, split in parts(data).items()} == {
        "train": 4000,
        "validation": 1000,
        "test": 4000,
    }
    for split in parts(data).values():
        assert split.target.float().mean().item() == pytest.approx(0.5, abs=0.06)
        assert all(x.isfinite().all() for x in split.modalities.values())
        cue = split.modalities["image"].view(-1, 28, 28)[:, 0, [0, -1]]  # MNIST is black there
        cued = cue.argmax(1)[split.groups["R"]]
        assert torch.equal(cued, split.target[split.groups["R"]])


@pytest.mark.parametrize("rule", ["halves", "modulo-3", "pairs"])
def test_other_rules_make_labels_that_neither_digit_tells_and_cues_that_do(digits_root, known, rule):
    shape = {**SIZES, "train": 3000}
    data = digits(digits_root, (0.0, 0.5, 0.0, 0.5), rule=rule, **shape)
    written = known["valid"][1][which_image(data, known)["train"]]
    label, labels = data.train.target, 3 if rule == "modulo-3" else 2
    assert torch.equal(label.unique(), torch.arange(labels))
    assert written.max() == {"halves": 9, "modulo-3": 8, "pairs": 7}[rule]
    for digit in written.unique():  # about 300 examples each
        counts = torch.bincount(label[written == digit], minlength=labels) / (written == digit).sum()
        assert counts.tolist() == pytest.approx([1 / labels] * labels, abs=0.12)
    pages = data.train.modalities["image"].view(-1, 28, 28)
    bars = (pages[:, 6:22, 0], pages[:, 6:22, 27], pages[:, 0, 6:22])
    for name, edge in enumerate(bars[:labels]):
        has_bar = edge.min(1).values > 0
        assert torch.equal(has_bar, data.train.groups["U2"] & (label == name))


def test_an_unknown_rule_is_refused(digits_root):
    with pytest.raises(ValueError, match="rule must be 'parity', 'halves', 'modulo-3' or 'pairs'; got 'sum'"):
        digits(digits_root, PLAIN, rule="sum", **SIZES)


def test_cue_coordinates_are_where_examples_with_a_cue_differ_most_between_labels(cued):
    coordinates = cue_coordinates()
    assert coordinates["audio"].view(BANDS, FRAMES).all(1).nonzero().flatten().tolist() == [32, 33, 36, 37, 38]
    split = cued.train

    def apart(name, *groups):
        rows = torch.stack([split.groups[group] for group in groups]).any(0)
        means = [split.modalities[name][rows & (split.target == label)].mean(0) for label in (0, 1)]
        return (means[0] - means[1]).abs()

    pixels = apart("image", "U2", "R")
    assert pixels[coordinates["image"]].min() > pixels[~coordinates["image"]].max()
    bands = apart("audio", "U1", "R").view(BANDS, FRAMES).mean(1)
    cues = coordinates["audio"].view(BANDS, FRAMES)[:, 0]
    # A tone that begins and ends leaks into the bands beside its own.
    beside = torch.tensor([cues[max(i - 1, 0) : i + 2].any() for i in range(BANDS)])
    assert bands[cues].min() > bands[~beside].max()
