"""The notebooks of the gallery: ``python docs/notebooks.py`` executes and rewrites them; mkdocs shows them as pages."""

import base64
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from nbformat import NotebookNode

GALLERY = Path(__file__).parent / "gallery"
KERNEL = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
KEPT = ("alt",)  # of a cell's metadata: what its picture shows, for readers who cannot see it
STYLE = (
    "<style>.nb-output pre > code { border-left: .2rem solid var(--md-default-fg-color--lighter); "
    "background: transparent; white-space: pre-wrap } .nb-output { overflow-x: auto }</style>"
)


def execute(notebook: NotebookNode) -> NotebookNode:
    """Run all cells in a fresh kernel, in an empty folder, on one thread; an error ends it."""
    from nbclient import NotebookClient
    from traitlets.config import Config

    with tempfile.TemporaryDirectory() as folder:
        settings = {
            "IPYTHONDIR": folder,
            "JUPYTER_RUNTIME_DIR": folder,
            "SYNIB_CACHE": folder,
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "PYTHONWARNINGS": "ignore:IProgress not found",  # tqdm would like ipywidgets
        }
        socket = Config({"ConnectionFileMixin": {"transport": "ipc", "ip": f"{folder}/kernel"}})  # opens no port
        where = {"metadata": {"path": folder}}
        client = NotebookClient(notebook, config=socket, timeout=300, coalesce_streams=True, resources=where)
        client.execute(env=os.environ | settings)
    return notebook


def cleaned(notebook: NotebookNode) -> NotebookNode:
    """The notebook without anything that differs between two executions of it, or between machines."""
    notebook.metadata = nbformat.from_dict(KERNEL)
    count = 0
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number}"
        cell.metadata = {name: cell.metadata[name] for name in KEPT if name in cell.metadata}
        if cell.cell_type == "code":
            count += 1
            cell.execution_count = count
            for output in cell.outputs:
                output.pop("execution_count", None)
                if output.output_type == "execute_result":
                    output.execution_count = count
                if "metadata" in output:
                    output.metadata = {}
                if "image/png" in output.get("data", {}):
                    output.data.pop("text/plain", None)  # has the size of the figure, or an address in memory
    return notebook


def as_markdown(notebook: NotebookNode, name: str) -> tuple[str, dict[str, bytes]]:
    """The page of a notebook, and its pictures by file name."""
    pictures: dict[str, bytes] = {}
    blocks: list[str] = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            blocks.append(cell.source.replace(".ipynb)", ".md)"))  # to the other's page, not to its file
        else:
            blocks.append(f"```python\n{cell.source}\n```")
        for output in cell.get("outputs", []):
            data: dict[str, Any] = output.get("data", {})
            if "image/png" in data:
                picture = f"{name}-{len(pictures) + 1}.png"
                pictures[picture] = base64.b64decode(data["image/png"])
                blocks.append(f"![{cell.metadata.get('alt', '')}]({picture})")
            elif "text/html" in data:
                lines = (line for line in data["text/html"].splitlines() if line.strip())
                blocks.append('<div class="nb-output">\n' + "\n".join(lines) + "\n</div>")
            else:
                text = output.get("text") or data["text/plain"]
                blocks.append(f"``` {{.text .nb-output}}\n{text.rstrip()}\n```")
    title, *rest = blocks
    link = f"*This page is a notebook: [download it]({name}.ipynb), open it in Jupyter, and change it.*"
    return "\n\n".join([title, link, *rest, STYLE]) + "\n", pictures


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Called by mkdocs: beside each notebook its page, so that the site's nav can name it as ``gallery/NAME.md``."""
    for file in [file for file in files if file.src_uri.endswith(".ipynb")]:
        path = Path(file.src_uri)
        page, pictures = as_markdown(nbformat.read(str(file.abs_src_path), as_version=4), path.stem)
        files.append(File.generated(config, path.with_suffix(".md").as_posix(), content=page))
        for name, content in pictures.items():
            files.append(File.generated(config, (path.parent / name).as_posix(), content=content))
    return files


def main(names: list[str]) -> None:
    """Execute and rewrite these notebooks, or all."""
    for path in [GALLERY / f"{name}.ipynb" for name in names] or sorted(GALLERY.glob("*.ipynb")):
        print(path.name, flush=True)
        nbformat.write(cleaned(execute(nbformat.read(path, as_version=4))), path)


if __name__ == "__main__":
    main(sys.argv[1:])
