"""Sound and frames from real files, whole or damaged."""

import sys

import numpy as np
import pytest

from synib.data.media import (
    BrokenFile,
    check_complete,
    log_stft,
    read_audio,
    read_frames,
)

soundfile = pytest.importorskip("soundfile")


def cut(path, share=0.6):
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    return path


@pytest.mark.parametrize(
    ("name", "rate"), [("a.wav", 22_050), ("a.wav", 16_000), ("a.wav", 48_000), ("a.opus", 16_000)]
)
def test_a_tone_keeps_its_pitch_and_level_at_another_rate(tmp_path, write_sound, name, rate):
    wave = read_audio(write_sound(tmp_path / name, 1.0, rate, tone=1000.0, channels=2))
    assert wave.dtype == np.float32
    assert len(wave) == pytest.approx(22_050, abs=200)
    middle = wave[4000:-4000]
    assert np.abs(np.fft.rfft(middle)).argmax() * 22_050 / len(middle) == pytest.approx(1000, abs=5)
    assert middle.std() == pytest.approx(0.5 / 2**0.5, rel=0.05)


@pytest.mark.parametrize("seconds", [0.01, 0.7, 3.0, 5.0])
def test_a_spectrogram_is_257_by_188_however_long_the_sound(seconds):
    wave = np.sin(2 * np.pi * 1000 * np.arange(round(seconds * 22_050)) / 22_050).astype(np.float32)
    x = log_stft(wave)
    assert (x.shape, x.dtype) == ((257, 188), np.float32)
    assert np.isfinite(x).all()
    assert x[:, 60:120].mean(1).argmax() == pytest.approx(1000 / (22_050 / 512), abs=1)


def test_a_spectrogram_is_the_log_of_the_windowed_fourier_transform():
    wave = np.random.default_rng(0).normal(0, 0.4, 3 * 22_050).astype(np.float32)
    x = log_stft(wave)
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(512) / 512)
    padded = np.pad(wave.clip(-1, 1), 256)
    for frame in (0, 77, 187):
        piece = padded[frame * 353 : frame * 353 + 512] * window
        assert np.allclose(x[:, frame], np.log(np.abs(np.fft.rfft(piece)) + 1e-7), atol=1e-3)


def test_short_sounds_are_repeated_and_loud_ones_clipped():
    wave = np.random.default_rng(0).normal(0, 0.2, 9000).astype(np.float32)
    assert np.array_equal(log_stft(wave), log_stft(np.tile(wave, 9)))
    assert np.array_equal(log_stft(50 * np.sign(wave)), log_stft(np.sign(wave)))
    assert log_stft(np.full(9, 1e-20, np.float32)).min() == pytest.approx(np.log(1e-7), abs=1e-3)
    with pytest.raises(ValueError, match="at least one sample"):
        log_stft(np.zeros(0, np.float32))


@pytest.mark.parametrize("ending", [".mp4", ".flv"])
def test_frames_are_a_second_apart(tmp_path, write_video, ending):
    x = read_frames(write_video(tmp_path / f"a{ending}"), size=32)
    assert x.shape == (3, 3, 32, 32)
    assert x.dtype == np.uint8
    for frame, colour in zip(x, (40, 120, 200), strict=True):
        assert np.abs(frame.astype(int) - colour).max() <= 12


def test_other_rates_and_counts_of_frames(tmp_path, write_video):
    path = write_video(tmp_path / "a.mp4", (0, 60, 120, 180))
    levels = read_frames(path, count=5, fps=2.0, size=16).mean((1, 2, 3))
    assert np.abs(levels - [0, 0, 60, 60, 120]).max() < 12


def test_a_short_videos_last_frame_is_repeated(tmp_path, write_video):
    x = read_frames(write_video(tmp_path / "a.mp4", (40, 200), fps=3), size=16)
    assert np.array_equal(x[2], x[1])
    assert abs(int(x[2].mean()) - 200) < 12


def test_the_channels_are_red_green_and_blue(tmp_path):
    av = pytest.importorskip("av")
    pixels = np.zeros((48, 64, 3), np.uint8)
    pixels[..., 0] = 220
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("mpeg4", rate=2)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for _ in range(2):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
        container.mux(stream.encode())
    red, green, blue = read_frames(tmp_path / "a.mp4", size=16)[0].mean((1, 2))
    assert red > 180 > 60 > max(green, blue)


@pytest.mark.parametrize("share", [0.05, 0.98])
@pytest.mark.parametrize("name", ["a.wav", "a.opus", "a.mp4", "a.flv"])
def test_a_truncated_file_is_named(tmp_path, write_sound, write_video, name, share):
    sound = name in ("a.wav", "a.opus")
    path = (write_sound if sound else write_video)(tmp_path / name)
    check_complete(path)
    with pytest.raises(BrokenFile, match=rf"{name} (is truncated|cannot be read|is damaged)"):
        (read_audio if sound else read_frames)(cut(path, share))


@pytest.mark.parametrize("share", [0.4, 0.98])
def test_a_video_with_its_index_in_front_is_found_to_be_truncated(tmp_path, write_video, share):
    av = pytest.importorskip("av")
    write_video(tmp_path / "a.mp4")
    path = tmp_path / "b.mp4"
    with av.open(str(tmp_path / "a.mp4")) as given, av.open(str(path), "w", options={"movflags": "faststart"}) as out:
        stream = out.add_stream_from_template(given.streams.video[0])
        for packet in given.demux(video=0):
            if packet.dts is not None:
                packet.stream = stream
                out.mux(packet)
    assert path.read_bytes().index(b"moov") < path.read_bytes().index(b"mdat")
    assert read_frames(path, size=16).shape == (3, 3, 16, 16)
    with pytest.raises(BrokenFile, match=r"b\.mp4 is truncated: it has \d+ bytes, but its headers state \d+"):
        read_frames(cut(path, share))


@pytest.mark.parametrize("name", ["a.wav", "a.opus", "a.mp4", "a.flv"])
@pytest.mark.parametrize(
    ("content", "said"), [(None, "is missing"), (b"", "is empty"), (b"x" * 500, "cannot be read as")]
)
def test_what_is_missing_empty_or_something_else_is_named(tmp_path, name, content, said):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(BrokenFile, match=rf"{name} {said}"):
        (read_audio if name in ("a.wav", "a.opus") else read_frames)(path)


def test_a_playlist_in_a_videos_clothes_opens_nothing(tmp_path, write_video):
    target = write_video(tmp_path / "real.mp4")
    lure = tmp_path / "lure.mp4"
    lure.write_text(f"#EXTM3U\n#EXT-X-TARGETDURATION:1\n#EXTINF:1,\nfile://{target}\n#EXT-X-ENDLIST\n")
    with pytest.raises(BrokenFile, match=r"lure\.mp4 cannot be read as video"):
        read_frames(lure)


def test_sound_without_samples_or_level_is_named(tmp_path):
    soundfile.write(tmp_path / "none.wav", np.zeros((0, 1)), 16_000)
    soundfile.write(tmp_path / "silent.wav", np.zeros(1000), 16_000)
    soundfile.write(tmp_path / "nan.wav", np.full(1000, np.nan), 16_000, subtype="FLOAT")
    for name, said in (
        ("none", "no samples"),
        ("silent", "only silence"),
        ("nan", "values that are not finite"),
    ):
        with pytest.raises(BrokenFile, match=rf"{name}\.wav contains {said}"):
            read_audio(tmp_path / f"{name}.wav")


def test_a_file_of_sound_alone_is_no_video(tmp_path):
    av = pytest.importorskip("av")
    with av.open(str(tmp_path / "a.mp4"), "w") as container:
        stream = container.add_stream("aac", rate=16_000)
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1024), np.float32), format="fltp", layout="mono")
        frame.sample_rate = 16_000
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(BrokenFile, match=r"a\.mp4 contains no video"):
        read_frames(tmp_path / "a.mp4")
    (tmp_path / "a.txt").write_text("x")
    with pytest.raises(BrokenFile, match=r"a\.txt is not a supported video"):
        read_frames(tmp_path / "a.txt")


def test_a_streamed_wav_that_does_not_know_its_length_is_read(tmp_path, write_sound):
    path = write_sound(tmp_path / "a.wav")
    data = bytearray(path.read_bytes())
    at = data.index(b"data") + 4
    data[at : at + 4] = b"\xff" * 4
    path.write_bytes(data)
    check_complete(path)
    assert len(read_audio(path)) > 10_000


def test_a_pointer_of_git_lfs_is_said_to_be_one(tmp_path):
    path = tmp_path / "a.wav"
    path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    with pytest.raises(BrokenFile, match=r"a\.wav is a Git LFS pointer.*: run git lfs pull"):
        read_audio(path)


@pytest.mark.parametrize(("module", "read"), [("soundfile", read_audio), ("av", read_frames)])
def test_a_missing_package_is_said_with_what_to_install(monkeypatch, module, read):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=r'pip install "synib\[audio\]"'):
        read("a.wav")


@pytest.mark.parametrize("name", ["a.wav", "a.opus", "a.mp4", "a.flv"])
def test_flipped_bytes_are_read_or_named_and_nothing_else(tmp_path, write_sound, write_video, name):
    sound = name in ("a.wav", "a.opus")
    path = (write_sound if sound else write_video)(tmp_path / name)
    whole, rng = path.read_bytes(), np.random.default_rng(0)
    for _ in range(12):
        harmed = np.frombuffer(whole, np.uint8).copy()
        harmed[rng.integers(0, min(len(harmed), 500), 8)] = rng.integers(0, 256, 8)
        path.write_bytes(harmed.tobytes())
        try:
            (read_audio if sound else read_frames)(path)
        except BrokenFile as e:
            assert name in str(e)  # noqa: PT017
