"""The development of one recipe, and the parts of the fair comparison that were left, by processes that share one GPU.

    python benchmarks/fair_gpu.py develop --root carry --out runs --seconds 500 --tar "$OUT/fair.tar.gz"
    python benchmarks/fair_gpu.py recipe --root carry --out runs --seconds 500 --tar "$OUT/fair.tar.gz"

``develop`` compares candidates on development data, without reading test data; ``others`` searches and tests fills and rivals
on two tasks; ``recipe`` searches and tests the chosen recipe, and everything on a fresh task. When the time is over, processes
are stopped; what was finished is packed, and the same command goes on from there (``--resume fair.tar.gz`` unpacks it before).
``benchmarks/join_runs.py`` joins the parts of a comparison in one folder, of which ``synib report`` makes the page. (Earlier
versions of this file made the second to fifth runs of the plan.)
"""

import argparse
import contextlib
import json
import multiprocessing
import multiprocessing.connection
import os
import shlex
import shutil
import subprocess
import tarfile
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

FURTHER = ("product of experts", "learned mixin", "JTT", "Gradient-Blending")
FRESH = 24  # first seed of the draws of PID-XOR that no run has read
FRESH_TASK = "digits-pairs"
TASKS = ("digits", "digits-modulo-3", "digits-halves", "pid-xor", "irony")
PARTS = {"digits-tokens": 8}  # of the candidates of a task; 3 of the others
TOGETHER = 128  # models of a shard
EVERY = 45.0  # seconds after which what is finished is packed
MPS = "nvidia-cuda-mps-control"


class Job(NamedTuple):
    """Something to train in a folder of its own.

    Args:
        folder: Below the folder of all runs.
        name: Of the experiment.
        options: Of the experiment.
        needs: What is trained before; a search among them gives the settings.
    """

    folder: str
    name: str
    options: dict[str, Any]
    needs: tuple["Job", ...] = ()


def split(forms: Sequence[str], parts: int) -> list[tuple[str, ...]]:
    """Forms in so many groups of similar cost: neighbours in the catalogue cost the same."""
    return [tuple(forms[part::parts]) for part in range(parts)]


def _forms(task: str, keep: Callable[[Iterable[str]], Iterable[str]]) -> list[str]:
    from synib.studies.fair.catalogue import fair_forms
    from synib.studies.fair.tasks import fair_tasks

    of_task = fair_tasks("")[task]
    settings = of_task.experiment.defaults()["vanilla"]
    return list(keep(fair_forms(task, of_task, settings["batch_size"], settings["epochs"])))


def _search(group: str, task: str, part: object, forms: Sequence[str]) -> Job:
    return Job(f"{group}-search/{task}/{part}", "fair-search", {"task": (task,), "form": tuple(forms)})


def tested(search: Job) -> Job:
    """The test of what a search chose."""
    return Job(search.folder.replace("-search/", "/"), search.name.removesuffix("-search"), search.options, (search,))


def develop() -> list[Job]:
    """The third round of candidates for one recipe; on tokens with fewer seeds, because these models take longest."""
    from synib.studies.fair.candidates import THIRD_ROUND, name_of
    from synib.studies.fair.recipes import DEVELOPMENT, TOKENS

    names = [name_of(candidate) for candidate in THIRD_ROUND]
    return [
        Job(
            f"fair-recipes-third/{task}/{part}",
            "fair-recipes",
            {"task": (task,), "form": forms, "seeds": 3 if task == TOKENS else 6},
        )
        for task in DEVELOPMENT[::-1]
        for part, forms in enumerate(split(names, PARTS.get(task, 3)))
    ]


def others() -> list[Job]:
    """Fills and further rivals on the two tasks that lacked them."""
    jobs = []
    for task in ("irony", "digits-halves"):
        fills = _forms(task, lambda names: [n for n in names if "Gaussian" in n or "zeros" in n])
        jobs += [_search("fair-fills", task, part, own) for part, own in enumerate(split(fills, 3))]
        jobs.append(_search("fair-rivals", task, 0, _forms(task, lambda names: [n for n in names if n in FURTHER])))
    return [tested(search) for search in jobs]


def recipe() -> list[Job]:
    """Search and test of the chosen recipe on all tasks, fresh draws of PID-XOR, and a fresh task with all forms."""
    from synib.studies.fair.catalogue import CHEAP_RECIPE, CHOSEN_RECIPE, NO_CUES, RECIPE, THIRD_RECIPE, core
    from synib.studies.irony.forms_experiment import THIRD_ROUND

    def attention(task: str, part: int, forms: Sequence[str]) -> Job:
        return Job(f"attention-third-search/{task}/{part}", "attention-search", {"task": (task,), "form": tuple(forms)})

    tokens = [attention("digits", part, (form,)) for part, form in enumerate((THIRD_RECIPE, CHOSEN_RECIPE))]
    irony = Job("irony-third-search/irony-matched/0", "irony-forms-search", {"form": (THIRD_ROUND,)})
    every = [_search("fair-third", task, 0, (THIRD_RECIPE,)) for task in TASKS]
    fresh = [
        _search("fair-third", FRESH_TASK, part, own) for part, own in enumerate(split(_forms(FRESH_TASK, core), 6))
    ]
    swapped = "SynIB learned, swapped"
    rivals = ("vanilla", "confidence, annealed", "masked inputs, swapped, annealed", swapped, f"{swapped}, annealed",
              "product of experts", RECIPE, CHEAP_RECIPE, CHOSEN_RECIPE, NO_CUES)  # fmt: skip
    draws = [
        Job(f"fair-fresh-third/pid-xor/{part}", "fair", {"task": ("pid-xor",), "form": forms, "first": FRESH})
        for part, forms in enumerate(split(rivals, 2))
    ]
    search = next(job for job in every if job.options["task"] == ("pid-xor",))
    mine = {**search.options, "first": FRESH}
    draws.append(Job("fair-fresh-third/pid-xor/third", "fair", mine, (search, tested(search))))
    first = [
        tested(search) for search in (*tokens, irony, *fresh, *every) if search.options.get("task") != ("pid-xor",)
    ]
    return [*first, *draws]


STAGES = {"develop": develop, "others": others, "recipe": recipe}


def train(job: Job, options: argparse.Namespace) -> None:
    """Train what is unfinished of a job, after the searches that it needs."""
    from synib.files import read_csv
    from synib.studies import EXPERIMENTS, Fair, IronyForms, load, run

    chosen: dict[str, Any] = {}
    for other in job.needs:
        train(other, options)
        if other.name.endswith("-search"):
            folder = options.out / other.folder
            search: Any = load(folder)
            conclusions = search.conclusions(search.summary(read_csv(folder / "results.csv")))
            found = conclusions[getattr(search, "outcome", "settings")]
            chosen |= {name: chosen.get(name, {}) | own for name, own in found.items()}  # by task, or by form
    asked = dict(job.options)
    if hasattr(EXPERIMENTS[job.name], "root"):
        asked["root"] = str(options.root)
    if options.tiny:
        asked |= tiny(job)
    experiment = EXPERIMENTS[job.name](**asked)
    if isinstance(experiment, Fair | IronyForms) and not options.tiny:
        # The committed settings, and those of a search in this run.
        committed = experiment._chosen
        every = {name: committed.get(name, {}) | chosen.get(name, {}) for name in {*committed, *chosen}}
        vars(experiment)["_chosen"] = every
        if experiment.caution:
            raise RuntimeError(f"{job.folder} is not tested. {experiment.caution}")
    run(
        experiment,
        options.out / job.folder,
        device=options.device,
        precision=options.precision,
        together=TOGETHER,
        command=command(job, options),
    )


def tiny(job: Job) -> dict[str, Any]:
    """Options with which a job is only tried out: one epoch, narrow networks, one or two seeds."""
    from synib.studies import EXPERIMENTS

    narrow = {"width": 8} if "pid-xor" in job.options.get("task", ()) else {}
    methods = EXPERIMENTS[job.name](**job.options).methods
    return {"seeds": 1, "overrides": {method: {"epochs": 1, **narrow} for method in methods}}


def command(job: Job, options: argparse.Namespace) -> str:
    """The command line that trains the same."""
    words = ["synib", "reproduce", job.name]
    for name, value in job.options.items():
        for one in value if isinstance(value, tuple) else (value,):
            words += [f"--{name}", str(one)]
    words += ["--root", "DATA", "--device", options.device, "--precision", options.precision]
    return shlex.join([*words, "--together", str(TOGETHER)])


def work(jobs: Any, options: argparse.Namespace) -> None:
    """A process: train one job after the other, and write down how each ended."""
    import torch

    torch.set_num_threads(1)
    while True:
        job = jobs.get()
        if job is None:
            return
        began, ended = time.time(), "finished"
        try:
            train(job, options)
        except Exception:
            ended = traceback.format_exc(limit=6)
        line = json.dumps({"job": job.folder, "seconds": round(time.time() - began, 1), "ended": ended})
        print(f"{time.strftime('%H:%M:%S')} {line}", flush=True)
        with (options.out / "jobs.jsonl").open("a", encoding="utf-8") as text:
            text.write(f"{line}\n")


def share_the_gpu(folder: Path) -> bool:
    """Start CUDA's MPS, with which processes share the GPU at the same time; whether it was started here."""
    if shutil.which(MPS) is None:
        print("CUDA MPS was not found: processes take turns.")
        return False
    pipe, log = (folder / f"mps-{name}" for name in ("pipe", "log"))
    for path, variable in ((pipe, "CUDA_MPS_PIPE_DIRECTORY"), (log, "CUDA_MPS_LOG_DIRECTORY")):
        path.mkdir(parents=True, exist_ok=True)
        os.environ[variable] = str(path)
    return subprocess.run([MPS, "-d"], check=False).returncode == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", nargs="+", choices=STAGES)
    parser.add_argument("--root", type=Path, required=True, help="folder of digits/ and ravdess/")
    parser.add_argument("--out", type=Path, default=Path("runs"))
    parser.add_argument("--tar", type=Path, required=True, help="the archive of all results")
    parser.add_argument("--resume", type=Path, help="an archive of an earlier run")
    parser.add_argument("--commit", default="", help="of the code, if the machine has a copy without history")
    parser.add_argument("--seconds", type=float, default=500.0)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--precision", default="tf32")
    parser.add_argument("--only", nargs="+", default=[""], help="only jobs whose folder contains one of these")
    parser.add_argument("--list", action="store_true", help="only name the jobs")
    parser.add_argument("--tiny", action="store_true", help="only try it out")
    options = parser.parse_args()
    end = time.time() + options.seconds
    jobs = [
        job for stage in options.stage for job in STAGES[stage]() if any(part in job.folder for part in options.only)
    ]
    if options.list:
        print("\n".join(job.folder for job in jobs))
        return
    options.out = options.out.resolve()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.resume is not None and options.resume.exists():
        with tarfile.open(options.resume) as archive:
            archive.extractall(options.out, filter="data")
    os.environ["OMP_NUM_THREADS"] = "1"
    if options.commit:
        (options.out / "commit.txt").write_text(f"{options.commit}\n", "utf-8")
    ours = options.device == "cuda" and share_the_gpu(Path("/tmp") / "synib-mps")
    context = multiprocessing.get_context("spawn")
    queue = context.Queue()
    for job in [*jobs, *[None] * options.workers]:
        queue.put(job)
    workers = [context.Process(target=work, args=(queue, options)) for _ in range(options.workers)]
    for process in workers:
        process.start()
    while any(process.is_alive() for process in workers) and (left := end - time.time()) > 0:
        multiprocessing.connection.wait(
            [process.sentinel for process in workers if process.is_alive()], min(left, EVERY)
        )
        pack(options.out, options.tar)
    stopped = [process for process in workers if process.is_alive()]
    for process in stopped:
        process.terminate()
    for process in stopped:
        process.join(5)
        process.kill()
    if ours:
        subprocess.run([MPS], input="quit\n", text=True, check=False, timeout=20)
    print(f"Processes stopped at the end of the time: {len(stopped)} of {len(workers)}.")
    pack(options.out, options.tar)


def pack(folder: Path, archive: Path) -> None:
    """Pack the tables of all runs; parameters of failed models stay."""
    archive.parent.mkdir(parents=True, exist_ok=True)
    half = archive.with_name(f".{archive.name}")
    with tarfile.open(half, "w:gz", compresslevel=1) as packed:
        for path in sorted(folder.rglob("*")):
            kept = path.suffix not in (".html", ".svg")  # the joined folder gets a page of its own
            if kept and path.is_file() and "failed" not in path.parts and not path.name.startswith("."):
                with contextlib.suppress(FileNotFoundError):  # replaced at this moment
                    packed.add(path, path.relative_to(folder))
    half.replace(archive)
    print(f"{archive.name}: {archive.stat().st_size / 2**20:.1f} MiB")


if __name__ == "__main__":
    main()
