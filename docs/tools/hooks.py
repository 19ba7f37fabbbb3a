"""What mkdocs calls while it builds the site; see https://www.mkdocs.org/user-guide/plugins/#events."""

from __future__ import annotations

import html
import re
import runpy
import sys
import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from posixpath import dirname, join, normpath, relpath
from typing import Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path.insert(0, str(Path(__file__).parent))
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of what Avalanche imports
    import figures
    import pages
    import results
    import tutorials

ROOT = Path(__file__).parents[2]
# Files outside docs/ that the site shows, at the same place as in the repository.
TAKEN_OVER = [
    *("SECURITY.md", "CONTRIBUTING.md", "CHANGELOG.md"),
    "benchmarks/RESULTS.md",
    *(f"benchmarks/results/{path.name}" for path in ROOT.glob("benchmarks/results/*.md")),
    "benchmarks/speed/RESULTS.md",
]
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)#\s:]+)(#[^)]*)?\)")
_FIGURE = re.compile(r"!\[([^\]]*)\]\((?:\.\./)*figures/([\w-]+)\.svg\)")
_FLOWCHART = re.compile(r"```mermaid\nflowchart BT\n(.*?)```", flags=re.DOTALL)
_THIN = '<mspace width="0.167em"/>'
_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', flags=re.DOTALL)


@cache
def drawn() -> dict[str, str | bytes]:
    """Pages written by hand, with tables below them that are drawn from measured rows."""
    paper, closed_form = ROOT / "benchmarks/paper", ROOT / "benchmarks/closed_form"
    compare, report = _script(paper / "compare.py"), _script(closed_form / "report.py")
    rows = report["read_rows"](closed_form / "results.csv")
    return {
        "benchmarks/paper/README.md": compare["page_of"](paper / "measured.csv"),
        "benchmarks/closed_form/notes.md": report["page"](rows),
        "benchmarks/closed_form/reliability.png": report["reliability"](rows),
    }


def _script(path: Path) -> dict[str, Any]:
    """The names of a script, which imports the files beside it."""
    sys.path.insert(0, str(path.parent))
    try:
        return runpy.run_path(str(path))
    finally:
        sys.path.remove(str(path.parent))


@cache
def made() -> dict[str, str]:
    """Pages that no file holds."""
    return {
        **pages.method_pages(),
        **pages.reference_pages(),
        **tutorials.pages(),
        "results.md": results.page(),
    }


def on_config(config: Any) -> Any:
    """Put the pages that are made into the navigation."""
    for section in config.nav:
        [(title, folder)] = section.items()
        if isinstance(folder, str) and folder.endswith("/"):
            section[title] = [page for page in made() if page.startswith(folder)]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add what is made, and what lies outside docs/."""
    for path, text in made().items():
        files.append(File.generated(config, path, content=text))
    colours = File.generated(config, "assets/figures.css", content=figures.stylesheet())
    files.append(colours)
    for path, content in drawn().items():
        files.append(File.generated(config, path, content=content))
    for path in TAKEN_OVER:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Any) -> str:
    """Links as the repository has them become links of the site; figures are drawn."""
    uri = page.file.src_uri
    markdown = _LINK.sub(lambda link: relinked(link, uri, files.get_file_from_path), markdown)
    markdown = markdown.replace("<!-- compatibility -->", pages.compatibility())
    markdown = _FLOWCHART.sub(lambda found: pages.flowchart_table(found[1]), markdown)
    return _FIGURE.sub(lambda image: figures.inline(image[2], image[1]), markdown)


def relinked(link: re.Match[str], uri: str, find: Callable[[str], Any]) -> str:
    """A link to a file of the repository: to its page, or, where it has none, just its text."""
    place = uri if uri in TAKEN_OVER or uri in made() or uri in drawn() else f"docs/{uri}"
    target = normpath(join(dirname(place), link[2]))
    shown = "index.md" if target == "README.md" else target.removeprefix("docs/")
    if find(shown):
        return f"[{link[1]}]({relpath(shown, dirname(uri) or '.')}{link[3] or ''})"
    if (ROOT / target).exists():
        return f"{link[1]} (`{target}`)"
    return link[0]


def on_page_content(content: str, page: Any, config: Any, files: Any) -> str:
    """Formulas become MathML, which browsers show by themselves."""
    return _FORMULA.sub(lambda found: mathml(found[2], found[1], page), content)


def mathml(formula: str, element: str, page: Any) -> str:
    """A formula of LaTeX."""
    try:
        shown = convert(html.unescape(formula), display="block" if element == "div" else "inline")
        return shown.replace("<mi>log</mi>", f"{_THIN}<mi>log</mi>{_THIN}")
    except Exception as error:
        raise PluginError(f"{page.file.src_uri}: cannot show {formula}: {error}") from error
