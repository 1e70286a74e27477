"""``synib verify``: do the numbers in a results folder come out again?"""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from synib.studies.verify import Verification


def verify(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    share: Annotated[float, typer.Option(help="How many of its models to train again, of all; at least one.")] = 0.02,
    cells: Annotated[int | None, typer.Option(help="How many, instead of a share.", show_default=False)] = None,
    seed: Annotated[
        int | None, typer.Option(help="Decides which.  \\[default: another each time]", show_default=False)
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="What a metric may differ by.  \\[default: 0.01; 0.1 on another machine or with other versions]",
            show_default=False,
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train a random part of a run's models again and say whether they match. Ends with 1 if they do not."""
    from rich.console import Console

    from synib.cli.reproduce import bar
    from synib.studies.verify import verify as run

    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    console = Console()

    def say(sentence: str) -> None:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    with bar(console) as advance:
        found = run(
            folder,
            share=share,
            cells=cells,
            seed=seed,
            tolerance=tolerance,
            device=device,
            on_progress=advance,
            say=say,
        )
    console.print(table(found))
    for sentence in found.differences:
        say(sentence)
    for name in found.data:
        say(f"The files of {name} are others than those that the run recorded.")
    say(verdict(found, seed))
    if not found.matches:
        raise typer.Exit(1)


def table(found: "Verification") -> "Table":
    """A line for each model that was trained again."""
    from rich.markup import escape
    from rich.table import Table

    grid = Table("model", "metrics equal", "largest difference", "", title="Trained again", title_justify="left")
    for one in found.cells:
        factors = (f"{name}={value}" for name, value in one.cell.factors.items())
        who = ", ".join([one.cell.method, *factors, f"seed {one.cell.seed}"])
        far = f"{one.largest:.6f} ({one.where})" if one.where else "0"
        grid.add_row(escape(who), f"{one.equal} of {one.metrics}", escape(far), one.state)
    return grid


def verdict(found: "Verification", seed: int) -> str:
    """The answer in a sentence or two."""
    how = f"{len(found.cells)} of {found.of} models were trained again (--seed {seed})"
    away = sum(one.state == "differs" for one in found.cells)
    if away:
        why = (
            "On another machine single models can move so by rounding alone"
            if found.differences
            else "Rounding seldom does that on one machine"
        )
        return (
            f"Does not match: {how}, and {away} differ by more than {found.tolerance:g}. {why}; try more with --cells."
        )
    if found.data:
        return f"Does not match: {how} on other data."
    if all(one.state == "identical" for one in found.cells):
        return f"Matches: {how}, and all digits are the same."
    return f"Matches: {how}, and no metric differs by more than {found.tolerance:g}."
