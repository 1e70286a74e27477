"""Audio and video files as log spectrograms and frames; a truncated or damaged file raises an error that names it."""

import math
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray

from synib.checks import check_number, check_whole

RATE, SECONDS, WINDOW, HOP, FLOOR = 22_050, 3.0, 512, 353, 1e-7

# The suffix decides the container, which is never guessed: some that FFmpeg would guess are playlists of other files.
CONTAINERS = {
    ".flv": "flv",
    ".mp4": "mp4",
    ".m4v": "mp4",
    ".mov": "mov",
    ".avi": "avi",
    ".mkv": "matroska",
    ".webm": "matroska",
}


class BrokenFile(ValueError):
    """A media file that is missing, truncated or unreadable; the message names it."""


def read_audio(path: str | Path, rate: int = RATE) -> NDArray[np.float32]:
    """An audio file (wav, flac, ogg, opus, ...) as one channel at ``rate`` samples per second."""
    try:
        import soundfile  # type: ignore[import-untyped]
    except ImportError as e:
        raise ImportError('Reading audio files needs soundfile: pip install "synib[audio]"') from e
    path = _complete(path)
    check_whole("rate", rate)
    try:
        samples, rate_of_file = soundfile.read(path, dtype="float32", always_2d=True)
    except (soundfile.LibsndfileError, RuntimeError) as e:
        raise BrokenFile(f"{path} cannot be read as audio: {str(e).rstrip('.')}.") from None
    wave = samples.mean(1)
    if not wave.size:
        raise BrokenFile(f"{path} contains no samples.")
    if not np.isfinite(wave).all():
        raise BrokenFile(f"{path} contains values that are not finite.")
    if not wave.any():
        raise BrokenFile(f"{path} contains only silence.")
    return resample(wave, rate_of_file, rate)


def resample(wave: NDArray[np.float32], old_rate: int, new_rate: int) -> NDArray[np.float32]:
    """The same sound at another sampling rate, by a polyphase filter."""
    if old_rate == new_rate:
        return wave
    from scipy.signal import resample_poly

    common = math.gcd(old_rate, new_rate)
    return np.asarray(resample_poly(wave, new_rate // common, old_rate // common), np.float32)


def log_stft(wave: NDArray[np.float32], rate: int = RATE) -> NDArray[np.float32]:
    r"""The log magnitude of the short-time Fourier transform, 257 × 188 for a wave at 22,050 Hz (App. "Irony").

    The wave is repeated or cut to 3 s and clipped to [-1, 1]. Hann windows of 512 samples, 353 apart, the first centred
    on the first sample, zero-padded at the ends; :math:`\log(|\cdot| + 10^{-7})`.
    """
    length = round(SECONDS * rate)
    if not wave.size:
        raise ValueError("A spectrogram needs at least one sample; got an empty wave.")
    tiled = np.tile(wave, -(-length // len(wave)))[:length].clip(-1, 1)
    window = torch.hann_window(WINDOW)
    x = torch.stft(torch.from_numpy(tiled), WINDOW, HOP, window=window, pad_mode="constant", return_complex=True)
    return (x.abs() + FLOOR).log().numpy()


def read_frames(path: str | Path, count: int = 3, fps: float = 1.0, size: int = 224) -> NDArray[np.uint8]:
    """Frames of a video file, ``(count, 3, size, size)``, RGB.

    The first frame and those ``1 / fps``, ``2 / fps``, ... seconds later, each resized to a square; for a shorter
    video, the last frame is repeated.
    """
    try:
        import av
    except ImportError as e:
        raise ImportError('Reading video files needs PyAV: pip install "synib[audio]"') from e
    path = _complete(path)
    check_whole("count", count)
    check_whole("size", size)
    check_number("fps", fps, above=0)
    if path.suffix.lower() not in CONTAINERS:
        raise BrokenFile(f"{path} is not a supported video: its suffix must be one of {', '.join(CONTAINERS)}.")
    frames: list[NDArray[np.uint8]] = []
    try:
        # From an open file, so that a container that refers to other files finds none; titles may have any encoding.
        kind = CONTAINERS[path.suffix.lower()]
        with path.open("rb") as file, av.open(file, "r", format=kind, metadata_errors="replace") as container:
            if not container.streams.video:
                raise BrokenFile(f"{path} contains no video.")
            stream = container.streams.video[0]
            step = 1 / float(stream.average_rate or 30)
            start, last = None, None
            for number, frame in enumerate(container.decode(stream)):
                if frame.is_corrupt:
                    raise BrokenFile(f"{path} is damaged at frame {number}.")
                now = float(frame.time) if frame.time is not None else number * step
                start = now if start is None else start
                last = frame
                while len(frames) < count and now - start >= len(frames) / fps - step / 2:
                    frames.append(_square(frame, size))
                if len(frames) == count:
                    break
            if last is None:
                raise BrokenFile(f"{path} contains a video without frames.")
            frames += [_square(last, size)] * (count - len(frames))
    except av.FFmpegError as e:
        raise BrokenFile(f"{path} cannot be read as video: {e.strerror}.") from None
    return np.stack(frames)


def check_complete(path: Path) -> None:
    """Raise :class:`BrokenFile` if a wav, ogg, mp4 or flv file is shorter than its headers state."""
    with path.open("rb") as file:
        why = truncation(file, path.stat().st_size)
    if why:
        raise BrokenFile(f"{path} {why}.")


def truncation(file: BinaryIO, size: int) -> str:
    """Why a wav, ogg, mp4 or flv file is incomplete, such as ``"is empty"``; the empty text if it is not.

    Decoders read truncated files without an error. A cut between two frames of an flv file cannot be detected.
    """
    if not size:
        return "is empty"
    head = file.read(40)
    if head.startswith(b"version https://git-lfs"):
        return "is a Git LFS pointer, not the file itself: run git lfs pull"
    expected = size
    if head[:4] == b"RIFF":
        expected = _end_of_riff(file, size)
    elif head[:3] == b"FLV":
        expected = _end_of_flv(file, size)
    elif head[4:8] == b"ftyp":
        expected = _end_of_mp4(file, size)
    elif head[:4] == b"OggS" and not _ogg_ends(file, size):
        return "is truncated: the last page of an Ogg file is missing"
    return f"is truncated: it has {size} bytes, but its headers state {expected}" if expected > size else ""


def _complete(path: str | Path) -> Path:
    path = Path(path)
    if not path.is_file():
        raise BrokenFile(f"{path} is {'not a file' if path.exists() else 'missing'}.")
    check_complete(path)
    return path


def _square(frame: Any, size: int) -> NDArray[np.uint8]:
    pixels = frame.reformat(width=size, height=size, format="rgb24", interpolation="BILINEAR").to_ndarray()
    return np.ascontiguousarray(pixels.transpose(2, 0, 1))


def _end_of_riff(file: BinaryIO, size: int) -> int:
    """The end of the samples of a wav file according to its header; unknown for a streamed file."""
    at = 12
    while at + 8 <= size:
        file.seek(at)
        head = file.read(8)
        length = int.from_bytes(head[4:], "little")
        if head[:4] == b"data":
            return size if length >= 0x7FFFF000 else at + 8 + length
        at += 8 + length + length % 2
    return max(at, size + 1) if at != size else size + 8  # the chunk with the sound is still to come


def _end_of_flv(file: BinaryIO, size: int) -> int:
    file.seek(5)
    at = int.from_bytes(file.read(4), "big") + 4
    while at + 11 <= size:
        file.seek(at)
        head = file.read(4)
        if head[0] not in (8, 9, 18):  # sound, picture, data; anything else is not checked
            return size
        at += 11 + int.from_bytes(head[1:], "big")
        if at > size:
            return at
        at += 4
    return size if at >= size else at + 11


def _end_of_mp4(file: BinaryIO, size: int) -> int:
    at, index = 0, False
    while at + 8 <= size:
        file.seek(at)
        head = file.read(16)
        length = int.from_bytes(head[:4], "big")
        index = index or head[4:8] in (b"moov", b"moof")
        if length == 1:
            length = int.from_bytes(head[8:16], "big")
        if length < 8:  # the last box, or none: what follows is not checked
            return size
        at += length
    return at if index or at > size else size + 8  # the index is still to come


def _ogg_ends(file: BinaryIO, size: int) -> bool:
    """Whether the last page is complete and marked as the last."""
    file.seek(max(0, size - 65_536))
    tail = file.read()
    at = tail.rfind(b"OggS")
    if at < 0 or len(tail) < at + 27:
        return False
    segments = tail[at + 27 : at + 27 + tail[at + 26]]
    return bool(tail[at + 5] & 4) and len(tail) >= at + 27 + len(segments) + sum(segments)
