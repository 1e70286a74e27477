"""``synib verify``: check that the numbers in a results folder can be reproduced."""

import random
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.table import Table

    from synib.studies.verify import Verification

SHOWN = 20  # models in the table


def verify(
    folder: Annotated[Path, typer.Argument(help="Folder of a finished run.")],
    share: Annotated[
        float,
        typer.Option(
            help="Minimum fraction of the models to train again; at least one group that is trained together."
        ),
    ] = 0.02,
    cells: Annotated[
        int | None, typer.Option(help="Minimum number of models, instead of a fraction.", show_default=False)
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(help="Seed of the selection of models.  \\[default: different each time]", show_default=False),
    ] = None,
    tolerance: Annotated[
        float | None,
        typer.Option(
            help="Tolerated difference of a metric.  \\[default: 0.01; 0.1 on another machine, with other versions "
            "or in other groups]",
            show_default=False,
        ),
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Train a random part of a run's models again and check whether they match. Exits with 1 if they do not."""
    from rich.console import Console

    from synib.cli.progress import progress_bar
    from synib.studies.verify import verify as run

    seed = random.SystemRandom().randrange(10**6) if seed is None else seed
    console = Console()

    def say(sentence: str) -> None:
        console.print(sentence, markup=False, highlight=False, soft_wrap=True)

    with progress_bar(console) as advance:
        outcome = run(
            folder,
            share=share,
            cells=cells,
            seed=seed,
            tolerance=tolerance,
            device=device,
            on_progress=advance,
            say=say,
        )
    console.print(table(outcome))
    for sentence in outcome.differences:
        say(sentence)
    for name in outcome.changed_data:
        say(f"The files of {name} differ from those recorded by the run.")
    say(verdict(outcome, seed))
    if not outcome.matches:
        raise typer.Exit(1)


def table(outcome: "Verification") -> "Table":
    """One line per retrained model; for many models, only those that differ most."""
    from rich.markup import escape
    from rich.table import Table

    models = outcome.cells
    title = "Trained again"
    if len(models) > SHOWN:
        models = tuple(sorted(models, key=lambda model: -model.largest)[:SHOWN])
        title += f": the {SHOWN} largest differences of {len(outcome.cells)} models"
    grid = Table("model", "metrics equal", "largest difference", "", title=title, title_justify="left")
    for model in models:
        factors = (f"{name}={value}" for name, value in model.cell.factors.items())
        name = ", ".join([model.cell.method, *factors, f"seed {model.cell.seed}"])
        difference = f"{model.largest:.6f} ({model.where})" if model.where else "0"
        grid.add_row(escape(name), f"{model.equal} of {model.metrics}", escape(difference), model.state)
    return grid


def verdict(outcome: "Verification", seed: int) -> str:
    """The result in one or two sentences."""
    trained = f"{len(outcome.cells)} of {outcome.total} models were trained again (--seed {seed})"
    different = sum(model.state == "differs" for model in outcome.cells)
    if different:
        reason = (
            "Under these conditions, rounding alone can change single models that much; try more with --cells."
            if outcome.differences
            else "On the same machine with the same versions, rounding does not explain this."
        )
        return f"Does not match: {trained}, and {different} differ by more than {outcome.tolerance:g}. {reason}"
    if outcome.changed_data:
        return f"Does not match: {trained}, but on different data."
    if all(model.state == "identical" for model in outcome.cells):
        return f"Matches: {trained}, and all digits are equal."
    return f"Matches: {trained}, and no metric differs by more than {outcome.tolerance:g}."
