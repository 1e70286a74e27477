"""The notebooks of the gallery are executed, what they conclude holds, and what is committed is what they print."""

import importlib.util
import json
import re
from pathlib import Path

import nbformat
import pytest

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "docs" / "gallery").glob("*.ipynb"))

spec = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
assert spec is not None
assert spec.loader is not None
tool = importlib.util.module_from_spec(spec)
spec.loader.exec_module(tool)

# Evaluated in each notebook's kernel after its last cell.
CONCLUSIONS = {
    "the-idea": """
        assert accuracy(plain, validation) > 0.95 and accuracy(plain, deployed) < 0.6
        assert accuracy(with_synib, validation) > 0.95 and accuracy(with_synib, deployed) > 0.95
        assert probability_of_label(plain, "text").mean() > 0.9
        assert abs(probability_of_label(with_synib, "text").mean() - 0.5) < 0.15
    """,
    "own-loop": """
        assert scores["plain"] < 0.92 < 0.95 < scores["SynIB, annealed"] and scores["SynIB, constant weight"] > 0.95
        assert scores["plain, three"] < 0.6 and scores["SynIB, three"] > 0.95
        assert right[has_sound].mean() > 0.9 and confidence[has_sound].mean() > confidence[~has_sound].mean() + 0.1
    """,
    "audit-your-data": """
        assert found.verdict.synergy == "present" and found.verdict.interaction.low > 0.2
        assert nothing.verdict.synergy == "absent"
        assert all(0.02 < size < 0.25 for size in nothing.verdict.detectable.values())
        assert accuracy["value"] > 0.9 and model.about["of_methods"]["additive"]["accuracy"]["value"] < 0.6
        assert ((model.predict(new).argmax(1) == 1) == (truth == "yes"))[:3].all()
        assert abs(model.predict(new)[3, 1] - 0.5) < 0.25 and model.needs_both(new)[3] == 0
    """,
    "explain-and-export": """
        assert accuracy > 0.9 and difference < 1e-5
        assert np.abs(rows.synergy.value).mean() > 2 * np.abs(rows.alone["text"].value).mean()
        assert (in_parts.parts["text"].together.argmax(1) == 3).all()
    """,
    "raw-columns": """
        assert audit.verdict.synergy == "present" and audit.verdict.candidates["vanilla"].lead.low > 0.2
        assert sum(not has.all() for has in table.present.values()) == 2
        assert accuracy["low"] > 0.85 and difference < 1e-5
        assert ((probability[:3] > 0.5) == (np.array(truth[:3]) == "yes")).all() and np.ptp(without) < 0.3
    """,
    "large-models": """
        for accuracies in (trainer_scores, lightning_scores):
            assert accuracies["plain"] < 0.6 and accuracies["SynIB"] > 0.9
    """,
    "vision-language": """
        assert scores["plain"] < 0.6 and scores["SynIB"] > 0.75
        assert sure["plain"]["image"] > 0.5 and sure["SynIB"]["image"] < 0.2
        assert 2 < costs[1] < costs[4] < costs[16] and torch.allclose(along, difference, rtol=0.01)
    """,
}


def texts(notebook: nbformat.NotebookNode) -> list[str]:
    """What the cells print, numbers left out: their last digits differ between machines."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    printed = [output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs]
    return [re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d.,]*", "#", text)) for text in printed]


def test_every_notebook_has_its_conclusions() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(CONCLUSIONS)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
@pytest.mark.filterwarnings("default:::(jupyter_client|nbclient|zmq|traitlets|tornado|asyncio)")
def test_a_notebook_runs_and_concludes_what_it_says(path: Path) -> None:
    committed = nbformat.read(path, as_version=4)
    notebook = nbformat.read(path, as_version=4)
    lines = CONCLUSIONS[path.stem].strip("\n").splitlines()
    notebook.cells.append(nbformat.v4.new_code_cell("\n".join(line[8:] for line in lines)))
    tool.execute(notebook)  # raises where a cell does
    assert notebook.cells.pop().outputs == []
    assert texts(tool.cleaned(notebook)) == texts(committed), (
        "run docs/notebooks.py: the notebook prints something else now"
    )


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_a_committed_notebook_has_results_and_nothing_of_the_machine(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert len(notebook.cells) <= 30
    assert path.stat().st_size < 300_000
    assert "Read on" in notebook.cells[-1].source
    assert set(notebook.metadata) == {"kernelspec", "language_info"}
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell.outputs]
    assert outputs
    assert all(output.output_type != "error" and output.get("name") != "stderr" for output in outputs)
    assert not re.search(r"(/home|/tmp|/root|/work|/usr|Users)/|Warning|object at 0x", json.dumps(outputs))
    for cell in code:
        if any("image/png" in output.get("data", {}) for output in cell.outputs):
            assert cell.metadata.get("alt"), "a picture needs a text for readers who cannot see it"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_local_links_of_a_notebook_exist(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    prose = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)#]+)\)", prose)
    assert links
    for link in links:
        assert link.startswith("https://") or (path.parent / link).exists(), f"{path.name} points to {link}"
