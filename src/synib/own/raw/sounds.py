"""Decoding of sounds, with a limit on their length."""

import io
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from synib.data.media import BrokenFile, resample, truncation

RATE = 16_000  # samples per second of decoded sounds
SECONDS = 600  # length of a sound, at most
RATES = (1_000, 768_000)  # valid sample rates of a file
CHANNELS = 64  # channels of a file, at most
FRAMES = 2**16  # frames decoded at a time
SUFFIXES = (
    ".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".m4a", ".mp4", ".webm", ".mka",
)  # fmt: skip
MAGIC = (b"fLaC", b"OggS", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2", b".snd", b"FORM")


class Wave(NamedTuple):
    """A sound with one channel, at 16,000 samples a second."""

    samples: NDArray[np.float32]
    rate: int


def looks_like_sound(content: bytes) -> bool:
    """Whether bytes begin like a sound file."""
    return (
        content.startswith(MAGIC) or (content[:4] == b"RIFF" and content[8:12] == b"WAVE") or bool(_container(content))
    )


def need_soundfile() -> None:
    """Raise ``ValueError`` if soundfile is not installed."""
    try:
        import soundfile  # type: ignore[import-untyped]  # noqa: F401
    except (ImportError, OSError) as e:
        raise ValueError('Sounds are read with soundfile, which is not installed: pip install "synib[raw]"') from e


def decode(content: bytes) -> Wave:
    """Decode a complete sound of at most 10 minutes; :class:`BrokenFile` if that fails."""
    if why := truncation(io.BytesIO(content), len(content)):
        raise BrokenFile(why)
    if container := _container(content):
        return _finite(_decoded_by_av(content, container), RATE)
    import soundfile

    try:
        with soundfile.SoundFile(io.BytesIO(content)) as file:
            rate, channels = file.samplerate, file.channels
            if not RATES[0] <= rate <= RATES[1] or channels > CHANNELS:
                raise BrokenFile(f"has {channels} channels of {rate:,} samples per second, which is not valid audio")
            if file.frames > SECONDS * rate:
                raise _too_long()
            parts: list[NDArray[np.float32]] = []
            samples_read = 0
            while len(block := file.read(FRAMES, dtype="float32", always_2d=True)):
                parts.append(block.mean(1))
                samples_read += len(block)
                if samples_read > SECONDS * rate:  # the header may state less
                    raise _too_long()
    except (soundfile.LibsndfileError, RuntimeError, OSError, TypeError, MemoryError) as e:
        raise BrokenFile(f"cannot be read as audio ({str(e).rstrip('.')})") from e
    return _finite(parts, rate)


def _finite(parts: list[NDArray[np.float32]], rate: int) -> Wave:
    if not parts:
        raise BrokenFile("contains no samples")
    wave = np.concatenate(parts)
    if not np.isfinite(wave).all():
        raise BrokenFile("contains values that are not finite")
    return Wave(resample(wave, rate, RATE), RATE)


def _container(content: bytes) -> str:
    """The container of a recording that soundfile does not read; given explicitly, so that the decoder does not guess."""
    if content[4:8] == b"ftyp":
        return "mp4"
    return "matroska" if content.startswith(b"\x1aE\xdf\xa3") else ""


def _decoded_by_av(content: bytes, container: str) -> list[NDArray[np.float32]]:
    """One channel at 16,000 samples a second."""
    if find_spec("av") is None:
        raise BrokenFile('is read with PyAV, which is not installed: pip install "synib[audio]"')
    import av

    parts: list[NDArray[np.float32]] = []
    samples_read = 0
    try:
        with av.open(io.BytesIO(content), "r", format=container, metadata_errors="replace") as file:
            if not file.streams.audio:
                raise BrokenFile("contains no audio")
            resampler: Any = av.AudioResampler(format="flt", layout="mono", rate=RATE)
            for frame in file.decode(file.streams.audio[0]):
                blocks = [part.to_ndarray().reshape(-1) for part in resampler.resample(frame)]
                parts += blocks
                samples_read += sum(map(len, blocks))
                if samples_read > SECONDS * RATE:
                    raise _too_long()
    except (av.FFmpegError, ValueError, MemoryError) as e:
        if isinstance(e, BrokenFile):
            raise
        raise BrokenFile(f"cannot be read as audio ({getattr(e, 'strerror', '') or e})") from e
    return parts


def _too_long() -> BrokenFile:
    return BrokenFile(f"is longer than {SECONDS} seconds and is not decoded")
