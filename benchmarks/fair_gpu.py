"""Pieces of the fair comparison and the ablations, by several processes that share one GPU.

    python benchmarks/fair_gpu.py first --root carry --out runs --seconds 500 --tar "$OUT/fair.tar.gz"
    python benchmarks/fair_gpu.py second --root carry --out runs --seconds 500 --tar "$OUT/fair.tar.gz"

A piece begins with the jobs of most value. When the time is over its processes are stopped; what was finished is packed, and
the same command goes on from there (``--resume fair.tar.gz`` unpacks it before). ``first`` reads no test data;
``second`` tests what ``first`` searched. ``benchmarks/join_runs.py`` joins the parts of a comparison
in one folder, of which ``synib report`` makes the page.
"""

import argparse
import contextlib
import itertools
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

# The forms of the first run on digits-halves, whose settings are committed.
HALVES = ("vanilla", "stacked", "confidence, annealed", "masked inputs, swapped, annealed",
          "modality dropout, swapped, annealed", "SynIB whole, swapped, annealed", "SynIB marginal, swapped, annealed",
          "experts, annealed", "recipe, marginal", "ceiling, no cues", "ceiling, cue-free examples alone")  # fmt: skip
TASKS = ("digits-modulo-3", "digits", "pid-xor")
FURTHER = ("product of experts", "learned mixin", "JTT", "Gradient-Blending")
RECIPES, CANDIDATES = 14, 19  # of the first round, and of both
AGAIN = (
    "learned, 16 draws, 30 to 0",
    "learned, 16 draws, 10 to 0",
    "learned, 1 draw, 3 to 0",
    "learned, 1 draw, 10 to 0.3",
)
FRESH = 12  # first seed of the draws of PID-XOR that no run has read
SEEDS = 5  # of ablations and mask recovery
LIMIT = 64  # models of an ablation at once
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


def searches() -> list[Job]:
    """Searches of fills on three tasks, of the forms with swapped fill that two other tasks lack, and of matched irony."""
    from synib.studies import IronyFormsSearch
    from synib.studies.fair.catalogue import CHOSEN_RECIPE, core
    from synib.studies.irony.matched_search import TASK

    matched = split(list(IronyFormsSearch()._forms(TASK)), 6)
    jobs = [
        Job(f"irony-forms-search/{TASK}/{part}", "irony-forms-search", {"form": own})
        for part, own in enumerate(matched)
    ]
    for task in (*TASKS, "digits-halves", "irony"):
        fills = _forms(task, lambda names: [n for n in names if "Gaussian" in n or "zeros" in n])
        jobs += [_search("fair-fills", task, part, own) for part, own in enumerate(split(fills, 3))]
        if task not in TASKS:  # the others have theirs in folders of an earlier run
            rivals = _forms(task, lambda names: [n for n in names if n in FURTHER])
            jobs.append(_search("fair-rivals", task, 0, tuple(rivals)))
    halves = [form for form in _forms("digits-halves", core) if form not in (*HALVES, CHOSEN_RECIPE)]
    jobs += [_search("fair-halves", "digits-halves", part, own) for part, own in enumerate(split(halves, 3))]
    return jobs + [
        _search("fair-irony", "irony", part, own) for part, own in enumerate(split(_forms("irony", core), 4))
    ]


def _search(group: str, task: str, part: object, forms: tuple[str, ...]) -> Job:
    return Job(f"{group}-search/{task}/{part}", "fair-search", {"task": (task,), "form": forms})


def tested(search: Job) -> Job:
    """The test of what a search chose."""
    return Job(search.folder.replace("-search/", "/"), search.name.removesuffix("-search"), search.options, (search,))


def first() -> list[Job]:
    """Searches on validation data, ablations and mask recovery."""
    from synib.studies.ablations.catalogue import MAPS
    from synib.studies.fair.catalogue import recipes

    names = list(recipes(1))[:RECIPES]
    develop = [
        Job(f"fair-recipes/{task}/{part}", "fair-recipes", {"task": (task,), "form": forms})
        for task in ("pid-xor", "digits-modulo-3", "digits")
        for part, forms in enumerate(split(names, 3))
    ]
    ablations = [
        Job(f"ablations/{task}/{part}", "ablations", {"task": (task,), "maps": maps, "seeds": SEEDS})
        for task in ("pid-xor", "digits")
        for part, maps in enumerate(split(list(MAPS), 2))
    ]
    masks = [
        Job(f"mask-recovery/{task}/0", "mask-recovery", {"task": (task,), "seeds": SEEDS})
        for task in ("spurious-xor", "digits", "pid-xor")
    ]
    found = searches()
    order = ("irony-forms", "fair-fills", "fair-halves", "fair-irony", "fair-rivals")  # by value
    matched, fills, *others = ([job for job in found if job.folder.startswith(group)] for group in order)
    return [*develop, *matched, *fills, *ablations[:2], *masks, *ablations[2:], *itertools.chain(*others)]


def second() -> list[Job]:
    """Tests of all searches of the first piece; search and test of the chosen recipe; what the first piece did not finish."""
    from synib.studies.fair.catalogue import CHEAP_RECIPE, CHOSEN_RECIPE, NO_CUES, RECIPE, recipes

    candidates = [*AGAIN, *list(recipes(1))[RECIPES:CANDIDATES]]
    develop = [
        Job(f"fair-recipes-again/{task}/{part}", "fair-recipes", {"task": (task,), "form": forms, "seeds": 12})
        for task in ("digits", "digits-modulo-3", "pid-xor")
        for part, forms in enumerate(split(candidates, 3))
    ]
    chosen: list[Job] = []
    new = _forms("pid-xor", lambda names: [n for n in names if n == CHOSEN_RECIPE])
    for task in (*TASKS, "digits-halves") if new else ():
        search = _search("fair-chosen", task, 0, tuple(new))
        test = tested(search)
        if task == "pid-xor":  # two tests by the settings of one search
            fresh = {**test.options, "first": FRESH}
            test = Job(f"fair-fresh/{task}/chosen", "fair", fresh, (search, test))
        chosen.append(test)
    swapped = "SynIB learned, swapped"
    others = ("vanilla", "confidence, annealed", "masked inputs, swapped, annealed", swapped, f"{swapped}, annealed",
              "product of experts", RECIPE, CHEAP_RECIPE, NO_CUES)  # fmt: skip
    draws = [
        Job(f"fair-fresh/pid-xor/{part}", "fair", {"task": ("pid-xor",), "form": forms, "first": FRESH})
        for part, forms in enumerate(split(others, 2))
    ]
    halves = [
        Job(f"fair-halves/digits-halves/first-{part}", "fair", {"task": ("digits-halves",), "form": forms})
        for part, forms in enumerate(split(HALVES, 2))
    ]
    unfinished = [job for job in first() if "search" not in job.name]
    return [*develop, *chosen, *draws, *(tested(search) for search in searches()), *halves, *unfinished]


STAGES = {"first": first, "second": second}


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
            found = conclusions["settings" if other.name == "fair-search" else search.outcome]
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
        together=LIMIT if job.name == "ablations" else 128,
        command=command(job, options),
    )


def tiny(job: Job) -> dict[str, Any]:
    """Options with which a job is only tried out: one epoch, narrow networks, one or two seeds."""
    from synib.studies import EXPERIMENTS

    task = job.options.get("task", ("irony-matched",))[0]
    pid = {"width": 8} if task == "pid-xor" and job.name != "mask-recovery" else {}
    methods = EXPERIMENTS[job.name](**job.options).methods
    changes: dict[str, Any] = {"seeds": 1, "overrides": {method: {"epochs": 1, **pid} for method in methods}}
    return changes | ({"width": 8} if task == "pid-xor" and job.name == "mask-recovery" else {})


def command(job: Job, options: argparse.Namespace) -> str:
    """The command line that trains the same."""
    words = ["synib", "reproduce", job.name]
    for name, value in job.options.items():
        flag = {"maps": "map"}.get(name, name)
        for one in value if isinstance(value, tuple) else (value,):
            words += [f"--{flag}", str(one)]
    words += ["--root", "DATA", "--device", options.device, "--precision", options.precision]
    return shlex.join([*words, "--together", str(LIMIT if job.name == "ablations" else 128)])


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
    parser.add_argument("stage", choices=STAGES)
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
    jobs = [job for job in STAGES[options.stage]() if any(part in job.folder for part in options.only)]
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
