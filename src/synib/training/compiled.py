"""The gradient of a fleet's step, compiled by Inductor where that pays; what was compiled is kept between runs.

A compiled gradient equals the other one up to rounding. It is a file in the user's cache folder, beside the measured
times that decide about its use: steps ahead times the time saved in each must exceed the time to load it.
"""

import hashlib
import json
import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

import torch
from torch import Tensor
from torch.utils._pytree import tree_flatten, tree_unflatten

from synib.files import write_json
from synib.keys.ops import CHAINS
from synib.training.recorded import RECORDING

Mode = Literal["auto", "always", "never"]
Run = Callable[[Sequence[Tensor]], list[Tensor]]

LOAD = 6.0  # seconds to trace and to load, until they have been measured
FASTER = 0.97  # of the time of an ordinary step, or it is not used
FARTHEST = 0.05  # relative distance of the compiled gradient from the other one; rounding is far below
log = logging.getLogger(__name__)


def mode() -> Mode:
    """``$SYNIB_COMPILE``: ``auto`` (use what was compiled before, if that pays), ``always`` or ``never``."""
    value = os.environ.get("SYNIB_COMPILE", "auto")
    if value not in get_args(Mode):
        raise ValueError(f"SYNIB_COMPILE must be auto, always or never; got {value!r}.")
    return cast(Mode, value)


def folder() -> Path:
    """Where compiled steps are kept: in ``$SYNIB_CACHE``, or ``synib`` in the user's cache folder."""
    cache = os.environ.get("SYNIB_CACHE")
    home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return (Path(cache) if cache else home / "synib") / "steps"


class CompiledGradient:
    """Calls a function, or what was compiled from it for tensors of these shapes.

    Args:
        steps: Number of steps ahead.
        device: Device of the tensors.
    """

    def __init__(self, steps: int, device: torch.device) -> None:
        self.steps, self.device = steps, device
        self.mode: Mode = mode() if device.type == "cuda" else "never"
        self.ready: dict[Any, tuple[Run, Any] | None] = {}

    def __call__(self, function: Callable[..., Any], *arguments: Any) -> Any:
        if self.mode == "never":
            return function(*arguments)
        tensors, form = tree_flatten(arguments)
        like = tuple((x.shape, x.stride(), x.dtype) for x in tensors)
        if like not in self.ready and not _capturing(self.device):
            with RECORDING:  # it captures graphs, and frees cached memory
                self.ready[like] = self._prepare(function, tensors, form)
        ready = self.ready.get(like)
        if ready is None:
            return function(*arguments)
        return tree_unflatten(ready[0](tensors), ready[1])

    def _prepare(self, function: Callable[..., Any], tensors: list[Tensor], form: Any) -> tuple[Run, Any] | None:
        place = folder() / _digest(_circumstances(tensors, self.device))
        if self.mode == "auto" and not place.is_dir():
            return None
        try:
            return self._made_or_loaded(place, function, tensors, form)
        except (Exception, SystemExit) as e:  # the compiler is another project's; training goes on without it
            log.warning("Steps are not compiled: %s: %s", type(e).__name__, str(e)[:500])
            if self.mode == "always":
                log.warning("The compiler's error", exc_info=True)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            return None

    def _made_or_loaded(
        self, place: Path, function: Callable[..., Any], tensors: list[Tensor], form: Any
    ) -> tuple[Run, Any] | None:
        start = time.perf_counter()
        graph, fakes, out_form = trace(function, tensors, form)
        name = _digest(graph.code)
        artefact, facts_file = place / f"{name}.bin", place / f"{name}.json"
        facts: dict[str, float] = json.loads(facts_file.read_text()) if facts_file.is_file() else {}
        if self.mode == "auto" and not (artefact.is_file() and pays(facts, self.steps)):
            return None
        if artefact.is_file():
            run = load(artefact)
        else:
            place.mkdir(parents=True, exist_ok=True)
            run = build(graph, fakes, artefact)
        seconds = time.perf_counter() - start

        def plain() -> list[Tensor]:
            return tree_flatten(function(*tree_unflatten(tensors, form)))[0]

        check_close(run(tensors), plain())
        if "compiled_seconds" not in facts:
            each = {"plain_seconds": plain, "compiled_seconds": lambda: run(tensors)}
            facts = {"build_seconds": seconds, **{what: _timed(call, self.device) for what, call in each.items()}}
        else:
            facts["load_seconds"] = max(seconds, facts.get("load_seconds", 0.0))  # the compiler is imported once
        write_json(facts_file, facts)
        if self.device.type == "cuda":
            torch.cuda.empty_cache()  # of what was recorded to measure it
        faster = facts["compiled_seconds"] < FASTER * facts["plain_seconds"]
        return (run, out_form) if faster or self.mode == "always" else None


def pays(facts: dict[str, float], steps: int) -> bool:
    """Whether loading a compiled step saves time in so many steps."""
    if "compiled_seconds" not in facts or facts["compiled_seconds"] >= FASTER * facts["plain_seconds"]:
        return False
    saved = steps * (facts["plain_seconds"] - facts["compiled_seconds"])
    return saved > facts.get("load_seconds", LOAD) + 2 * facts["plain_seconds"]


def trace(function: Callable[..., Any], tensors: Sequence[Tensor], form: Any) -> tuple[torch.fx.GraphModule, Any, Any]:
    """The tensor operations of a function, derivatives and draws included; tensors without values; the outputs' form."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.fx.experimental.symbolic_shapes import ShapeEnv

    fake = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    fakes = [fake.from_tensor(x, static_shapes=True) for x in tensors]
    out_form: list[Any] = []

    def flat(*inputs: Tensor) -> list[Tensor]:
        outputs, found = tree_flatten(function(*tree_unflatten(list(inputs), form)))
        out_form.append(found)
        return outputs

    with fake:
        graph = make_fx(flat, decomposition_table=CHAINS)(*fakes)
    held = [node.target for node in graph.graph.nodes if node.op == "get_attr"]
    if held:
        raise ValueError(f"the step holds tensors that are not its arguments: {held[:3]}")
    return graph, fakes, out_form[-1]


def build(graph: torch.fx.GraphModule, fakes: Sequence[Tensor], path: Path) -> Run:
    """Compile a graph, and keep what was compiled."""
    from torch._guards import TracingContext, tracing
    from torch._inductor import standalone_compile

    fake_mode = cast(Any, fakes[0]).fake_mode
    options = {"config_patches": {"triton.autotune_at_compile_time": False}}  # would need the memory of all models
    with tracing(TracingContext(fake_mode)), _without_autocast(fakes[0].device):
        artefact = standalone_compile(graph, list(fakes), dynamic_shapes="from_tracing_context", options=options)
    temporary = path.with_suffix(f".{os.getpid()}")
    artefact.save(path=str(temporary), format="binary")
    temporary.replace(path)
    return _callable(artefact)


def load(path: Path) -> Run:
    """What was compiled before."""
    import torch._inductor

    return _callable(cast(Any, torch._inductor).CompiledArtifact.load(path=str(path), format="binary"))


def check_close(ours: Sequence[Tensor], theirs: Sequence[Tensor]) -> None:
    """Raise ``ValueError`` if the outputs of the compiled function differ by more than rounding."""
    pairs = [(a, b) for a, b in zip(ours, theirs, strict=True) if b.is_floating_point()]
    apart = torch.stack([(a - b).norm() for a, b in pairs]).norm()
    size = torch.stack([b.norm() for _, b in pairs]).norm()
    if not bool(apart <= FARTHEST * size + 1e-6):
        raise ValueError(f"the compiled gradient is {float(apart / size):.2g} of its size away")


def _callable(artefact: Any) -> Run:
    def run(tensors: Sequence[Tensor]) -> list[Tensor]:
        with torch.no_grad(), _without_autocast(tensors[0].device):
            return list(artefact(*tensors))

    return run


def _without_autocast(device: torch.device) -> Any:
    return torch.autocast(device.type, enabled=False)  # casts are in the graph


def _circumstances(tensors: Sequence[Tensor], device: torch.device) -> str:
    """What a compiled step depends on besides its graph."""
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    like = [(tuple(x.shape), x.stride(), str(x.dtype)) for x in tensors]
    return repr((torch.__version__, name, torch.get_float32_matmul_precision(), like))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _capturing(device: torch.device) -> bool:
    return device.type == "cuda" and torch.cuda.is_current_stream_capturing()


def _timed(call: Callable[[], object], device: torch.device, times: int = 3) -> float:
    """Seconds of a call, recorded as a CUDA graph as in training."""
    replay: Callable[[], object] = call
    if device.type == "cuda":
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, capture_error_mode="thread_local"):
            call()
        replay = graph.replay
        replay()
        torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(times):
        replay()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / times
