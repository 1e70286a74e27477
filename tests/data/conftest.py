"""Small media files in the real formats, made as the data sets have them."""

import wave

import numpy as np
import pytest


@pytest.fixture(scope="session")
def write_sound():
    """``write_sound(path, seconds, rate, tone)``: a wav or opus file with one tone."""
    soundfile = pytest.importorskip("soundfile")

    def write(path, seconds=0.5, rate=16_000, tone=440.0, channels=1):
        path.parent.mkdir(parents=True, exist_ok=True)
        wave = 0.5 * np.sin(2 * np.pi * tone * np.arange(round(seconds * rate)) / rate)
        kind = {"format": "OGG", "subtype": "OPUS"} if path.suffix == ".opus" else {}
        soundfile.write(path, np.repeat(wave[:, None], channels, 1), rate, **kind)
        return path

    return write


@pytest.fixture(scope="session")
def write_video():
    """``write_video(path, colours, fps)``: an mp4 or flv file with a second of each colour, a grey level."""
    av = pytest.importorskip("av")

    def write(path, colours=(40, 120, 200), fps=4, size=(64, 48)):
        path.parent.mkdir(parents=True, exist_ok=True)
        with av.open(str(path), "w") as container:
            stream = container.add_stream({".flv": "flv", ".mp4": "mpeg4"}[path.suffix], rate=fps)
            stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
            stream.bit_rate = 1_000_000
            for colour in np.repeat(colours, fps):
                pixels = np.full((size[1], size[0], 3), colour, np.uint8)
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
            container.mux(stream.encode())
        return path

    return write


@pytest.fixture(scope="session")
def write_spoken():
    """``write_spoken(path, samples, rate, channels, width)``: a wav file of numbers from -1 to 1, with no other package."""

    def write(path, samples, rate=8000, channels=1, width=2):
        path.parent.mkdir(parents=True, exist_ok=True)
        scale, kind = {1: (127, "u1"), 2: (32767, "<i2")}[width]
        with wave.open(str(path), "wb") as file:
            file.setframerate(rate)
            file.setnchannels(channels)
            file.setsampwidth(width)
            file.writeframes((scale * (np.asarray(samples) + (width == 1))).astype(kind).tobytes())
        return path

    return write


@pytest.fixture(scope="session")
def digits_root(tmp_path_factory, write_spoken):
    """A folder with digits/: five speakers say every digit twice, between silences; 200 and 120 images, no two the same.

    What is heard is a low tone for each digit and speaker under noise, what is seen noise away from the edges.
    """
    root, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    for k, speaker in enumerate(("anna", "b_o", "carl", "dora", "emil")):
        for digit in range(10):
            for take in range(2):
                time = np.arange(int(rng.integers(800, 2400))) / 8000
                said = 0.5 * np.sin(2 * np.pi * (300 + 100 * digit + 15 * k) * time) + 0.02 * rng.normal(size=len(time))
                write_spoken(
                    root / "digits" / "recordings" / f"{digit}_{speaker}_{take}.wav", np.pad(said.clip(-1, 1), 400)
                )
    for name, n in (("valid", 200), ("test", 120)):
        images = np.zeros((n, 28, 28), np.float16)
        images[:, 4:24, 4:24] = rng.uniform(0, 0.996, (n, 20, 20))
        np.savez_compressed(
            root / "digits" / f"mnist-{name}.npz",
            inputs=images.reshape(n, 784),
            targets=rng.integers(0, 10, n).astype(np.int8),
        )
    return root
