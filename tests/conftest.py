"""What every test shares: a fixed seed, and hypothesis without deadlines, examples that repeat, and no folder left behind."""

import gc
import multiprocessing
import os
import runpy
import signal
import socket
import subprocess
import sys
import textwrap
import time
import wave
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import settings
from torch import Tensor

from synib import BlackBoxModel, keys
from synib.masks import Probe
from synib.methods import METHODS

torch.set_num_threads(
    1
)  # tensors here are tiny: a second thread costs more than it brings, much more on a busy machine
settings.register_profile("synib", deadline=None, max_examples=25, derandomize=True, database=None)
settings.load_profile("synib")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in a job that a shell has put into the background
    signal.signal(signal.SIGINT, signal.default_int_handler)  # or processes started here could not be interrupted


def _avoid_amx_where_it_crashes() -> None:
    """Keep oneDNN from AMX where a virtual machine announces it but does not allow it.

    There the first product in bfloat16 ends the process (SIGILL), and with it every test of an xdist worker. Workers and
    the processes that tests start inherit the setting.
    """
    cpu = Path("/proc/cpuinfo")
    if "ONEDNN_MAX_CPU_ISA" in os.environ or not cpu.exists() or "amx_bf16" not in cpu.read_text():
        return
    product = "import torch; x = torch.ones(64, 64, dtype=torch.bfloat16); x @ x"
    if subprocess.run([sys.executable, "-c", product], capture_output=True).returncode == -signal.SIGILL:
        os.environ["ONEDNN_MAX_CPU_ISA"] = "AVX512_CORE_BF16"


_avoid_amx_where_it_crashes()


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


@pytest.fixture(autouse=True, scope="session")
def _absent_devices_need_no_seed() -> Iterator[None]:
    """For every kind of device that is not there ``torch.manual_seed`` notes the whole stack, a hundred times its own work."""
    with pytest.MonkeyPatch.context() as patch:
        for kind in (torch.cuda, torch.xpu, torch.mtia):
            if not kind.is_available():
                patch.setattr(kind, "manual_seed_all", lambda seed: None)
        yield


@pytest.fixture(autouse=True, scope="module")
def _imports_are_no_garbage() -> None:
    """What a file of tests finds alive is imported: the search for garbage at the end of every shard may pass it by."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def key() -> Tensor:
    return keys.key(0)


@pytest.fixture(scope="session")
def settings_of() -> Callable[[str, Mapping[str, int]], dict[str, Any]]:
    """From a method and the widths of the modalities to settings that make it; most methods need none.

    Here is what has no default, a penalty's weight, in which models trained together may differ, and what lets a method do
    all it does within a few epochs.
    """

    def make(method: str, widths: Mapping[str, int]) -> dict[str, Any]:
        some = {name: list(range(min(4, width - 1))) for name, width in widths.items()}
        needed: dict[str, dict[str, Any]] = {
            "unimodal": {"modality": next(iter(widths))},
            "confidence": {"weight": 2.0},
            "masked-random": {"p": 0.4},
            "masked-oracle": {"coordinates": some},
            "modality-dropout": {"p": 0.5, "noise": "shuffled"},
            "synib-random": {"weight": 2.0, "p": 0.4},
            "synib-learned": {"weight": 2.0, "steps": 3, "mask_lr": 1.0, "sparsity": 0.03, "init": -1.0},
            "synib-amortized": {"weight": 2.0, "widths": dict(widths), "sparsity": 0.1},
            "synib-marginal": {"weight": 2.0, "draws": 3},
            "synib-oracle": {"weight": 2.0, "coordinates": some},
            "experts": {"weight": 2.0, "draws": 3},
            "dnr": {"every": 1, "times": 1},
            "reconboost": {"stage": 1, "rectify": 1},
            "gradient-blending": {"every": 1},
            "product-of-experts": {"ahead": 1},
            "learned-mixin": {"ahead": 1},
            "jtt": {"identify": 1, "weight": 3.0},
        }
        assert needed.keys() <= METHODS.keys()
        return needed.get(method, {})

    return make


@pytest.fixture
def probe() -> Probe:
    """A probe of a modality called ``a`` that nobody may ask anything."""

    def refuse(_: Tensor) -> Tensor:
        raise AssertionError("this mask has nothing to ask")

    return Probe("a", refuse, None)


@pytest.fixture(scope="session")
def separate_passes() -> Callable[[Any], BlackBoxModel]:
    """From a model to the same one as a plain function: every counterfactual is a pass of its own, and nothing is shared."""

    def make(model: Any) -> BlackBoxModel:
        def own(name: str) -> Callable[[Any], Tensor]:
            return lambda x: model.head(name, model.encode(name, x))

        return BlackBoxModel(model, {name: own(name) for name in model.names if model.has_head(name)})

    return make


@pytest.fixture(autouse=True)
def _latents_of_their_own(monkeypatch, tmp_path_factory):
    """No test finds what another one has embedded, or leaves anything in the user's cache."""
    monkeypatch.setenv("SYNIB_CACHE", str(tmp_path_factory.getbasetemp() / "synib-cache" / str(time.monotonic_ns())))


@pytest.fixture
def synib_command(monkeypatch, capsys, tmp_path):
    """``synib_command(*arguments)`` → exit code, standard output, standard error; in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.delenv("SYNIB_DEBUG", raising=False)

    from synib.cli import main

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["synib", *map(str, arguments)])
        capsys.readouterr()
        try:
            main()
            code = 0
        except SystemExit as e:
            code = e.code or 0
        said = capsys.readouterr()
        return code, said.out, said.err

    return call


@pytest.fixture(scope="module")
def simple_cross_validation() -> Iterator[None]:
    """A fit to 30 rows or more trains 5 models to judge itself, not 15.

    The model that comes out is the same; its scores come from simple rather than nested cross-validation.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("synib.own.fit.NESTED", 30)
        yield


@pytest.fixture
def untrained(monkeypatch):
    """Fails the test if anything is trained."""

    def train(*_):
        raise AssertionError("nothing should have been trained")

    from synib.training import fleet

    monkeypatch.setattr(fleet, "train", train)


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
def together(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., list[Any]]:
    """``together(script, preload)``: what two processes that train together saved as ``FOLDER/RANK.pt``.

    The script, a text or a file, knows ``ENVIRONMENT``, ``FOLDER``, ``RANK`` and what else is given.
    """

    def started(script: str | Path, preload: list[str], name: str, folder: Path, more: dict[str, Any]) -> list[Any]:
        if isinstance(script, str):
            (folder / "script.py").write_text(textwrap.dedent(script))
            script = folder / "script.py"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = str(free.getsockname()[1])
        # One server imports what both need.
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(preload)
        both = []
        for rank in range(2):
            environment = {
                "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2", "RANK": str(rank),
                "LOCAL_RANK": str(rank), "NODE_RANK": "0", "GLOO_SOCKET_IFNAME": "lo",
            }  # fmt: skip
            given = {"ENVIRONMENT": environment, "FOLDER": str(folder), "RANK": rank, **more}
            both.append(context.Process(target=runpy.run_path, args=(str(script), given, name), daemon=True))
            both[-1].start()
        return both

    def run(
        script: str | Path, preload: list[str], name: str = "__main__", seconds: float = 300, **more: Any
    ) -> list[Any]:
        # Collectives of torch on a CPU corrupt the heap now and then: what a signal ended so, and nothing else, is tried again.
        for crashes in ({-signal.SIGABRT, -signal.SIGSEGV}, set()):
            folder = tmp_path_factory.mktemp("two")
            both = started(script, preload, name, folder, more)
            end = time.monotonic() + seconds
            while any(p.is_alive() for p in both) and not any(p.exitcode for p in both) and time.monotonic() < end:
                time.sleep(0.05)
            ended = {process.exitcode for process in both}
            for process in both:  # one that failed leaves the other waiting
                process.kill()
                process.join()
            if not ended & crashes:
                break
        assert [process.exitcode for process in both] == [0, 0]
        return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]

    return run
