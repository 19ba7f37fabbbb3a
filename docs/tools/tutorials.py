"""Tutorials: scripts in cells (``# %%``), run as notebooks when the site is built, shown with their output.

``python docs/tools/tutorials.py`` runs them and says how long each took. A tutorial runs again only when its
own text or the package's has changed: what came out is kept in ``.cache/tutorials``.
"""

from __future__ import annotations

import base64
import hashlib
import time
from functools import cache
from pathlib import Path
from typing import Any

import jupytext
import nbformat
from nbclient import NotebookClient

ROOT = Path(__file__).parents[2]
SCRIPTS = ROOT / "docs" / "tutorials"
KEPT = ROOT / ".cache" / "tutorials"
# Run before the first cell, and not shown.
SETUP = """
import warnings
warnings.simplefilter("ignore")  # of what Avalanche imports
import torch
torch.set_num_threads(1)  # the same sums on every machine of one kind
%config InlineBackend.figure_formats = ["svg"]
"""


def names() -> list[str]:
    """Of all tutorials."""
    return sorted(path.stem for path in SCRIPTS.glob("*.py"))


def executed(name: str) -> Any:
    """A tutorial as a notebook, with what it prints and draws."""
    text = (SCRIPTS / f"{name}.py").read_text(encoding="utf-8")
    key = hashlib.sha256(_package() + SETUP.encode() + text.encode()).hexdigest()[:16]
    kept = KEPT / f"{name}-{key}.ipynb"
    if not kept.is_file():
        notebook = jupytext.reads(text, fmt="py:percent")
        notebook.cells.insert(0, nbformat.v4.new_code_cell(SETUP))
        NotebookClient(notebook, timeout=900, startup_timeout=300, kernel_name="python3").execute()
        del notebook.cells[0]
        KEPT.mkdir(parents=True, exist_ok=True)
        for old in KEPT.glob(f"{name}-*.ipynb"):
            old.unlink()
        nbformat.write(notebook, kept)
    return nbformat.read(kept, as_version=4)


@cache
def _package() -> bytes:
    """A hash of the package's source, with which the output may change."""
    found = hashlib.sha256()
    for path in sorted((ROOT / "rebll_avalanche").rglob("*.py")):
        found.update(path.read_bytes())
    return found.digest()


def pages() -> dict[str, str]:
    """A page and a notebook of every tutorial, by place in the site."""
    made = {}
    for name in names():
        notebook = executed(name)
        made[f"tutorials/{name}.md"] = page(name, notebook)
        made[f"tutorials/{name}.ipynb"] = nbformat.writes(notebook)
    return made


def page(name: str, notebook: Any) -> str:
    """A notebook as Markdown."""
    title, *parts = (part for cell in notebook.cells for part in _shown(cell))
    files = f"*Run when this page was built: [script]({name}.py), [notebook]({name}.ipynb).*"
    heading, _, rest = title.partition("\n")
    return "\n\n".join([heading, files, rest, *parts])


def _shown(cell: Any) -> list[str]:
    if cell.cell_type == "markdown":
        return [cell.source]
    parts = [f"```python\n{cell.source}\n```"]
    for output in cell.outputs:
        data = output.get("data", {})
        if "image/svg+xml" in data:
            drawn = base64.b64encode(data["image/svg+xml"].encode()).decode()
            picture = (
                f'<img alt="What the code above draws" src="data:image/svg+xml;base64,{drawn}">'
            )
            parts.append(f'<figure class="drawn output">{picture}</figure>')
        elif text := output.get("text", data.get("text/plain", "")).rstrip():
            parts.append(f"```{{.text .output}}\n{text}\n```")
    return parts


def main() -> None:
    """Run all, and say how long each took."""
    for name in names():
        started = time.perf_counter()
        executed(name)
        print(f"{name}: {time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
