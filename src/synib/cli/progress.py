"""The progress bar of training."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


@contextlib.contextmanager
def progress_bar(console: Any) -> Iterator[Callable[..., None]]:
    """A progress bar with the remaining time, shown from the first call of ``advance(done, of, what)`` on."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:3.0f} %"), TimeElapsedColumn(),
        TextColumn("elapsed,"), TimeRemainingColumn(), TextColumn("left"),
    )  # fmt: skip
    progress = Progress(*columns, console=console)
    task = progress.add_task("training", total=None)

    def advance(done: float, of: float, what: str = "training") -> None:
        progress.start()  # only now, so that an error before training shows no bar
        progress.update(task, completed=done, total=of, description=what)

    try:
        yield advance
    finally:
        if progress.live.is_started:
            progress.stop()
