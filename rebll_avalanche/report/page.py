"""Write the report as one self-contained HTML file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from rebll_avalanche.files import replacing, write_text
from rebll_avalanche.report.groups import Setting, settings_of
from rebll_avalanche.report.names import percent
from rebll_avalanche.report.runs import Run
from rebll_avalanche.report.sections import Panel, Section, embedded_picture, sections_of
from rebll_avalanche.report.style import THEME, inline_svg, looks, svg_text
from rebll_avalanche.report.table import Table, setting_table


@dataclass(frozen=True)
class Chapter:
    """All sections of one setting."""

    anchor: str
    setting: Setting
    table: Table
    sections: list[Section]


def write_report(
    runs: Sequence[Run],
    path: str | Path,
    *,
    figures: str | Path | None = None,
    left_out: Sequence[str] = (),
) -> Path:
    """Write the report of some runs.

    Args:
        runs: The result of :func:`read_runs`.
        path: The HTML file.
        figures: Optional folder for every figure as SVG and PNG.
        left_out: Folders that could not be read, with the reason; the page lists them.

    Returns:
        The path of the HTML file.
    """
    if not runs:
        raise ValueError("no run to report; give folders that `rebll run` wrote")
    settings = settings_of(runs)
    groups = [group for setting in settings for group in setting.groups]
    known = {group.label for setting in settings for group in setting.shown}
    # Experiments shown in figures get solid lines first.
    groups.sort(key=lambda group: group.label not in known)
    appearance = looks((group.method, group.label) for group in groups if not group.ceiling)
    chapters = []
    for place, setting in enumerate(settings):
        anchor = f"setting-{place + 1}"
        sections = sections_of(setting, anchor, appearance)
        chapters.append(Chapter(anchor, setting, setting_table(setting), sections))
    environment = Environment(
        loader=PackageLoader("rebll_avalanche.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"svg": _svg, "percent": percent, "jpeg": embedded_picture}
    page = environment.get_template("report.html").render(
        chapters=chapters, theme=THEME, runs=runs, left_out=left_out
    )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, page)
    if figures is not None:
        _save_figures(chapters, Path(figures))
    return path


def _svg(panel: Panel) -> Markup:
    """Both drawings of a panel; the page shows the one that fits."""
    wide = inline_svg(svg_text(panel.figure), panel.name, panel.description)
    if panel.phone is None:
        return Markup(wide)
    phone = inline_svg(svg_text(panel.phone), f"{panel.name}-phone", panel.description)
    return Markup(f'<div class="on-wide">{wide}</div><div class="on-phone">{phone}</div>')


def _save_figures(chapters: Sequence[Chapter], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for chapter in chapters:
        title = re.sub(r"[^\w.-]+", "-", chapter.setting.title).strip("-")
        for section in chapter.sections:
            for panel in section.panels:
                name = panel.name.replace(chapter.anchor, title, 1)
                write_text(folder / f"{name}.svg", svg_text(panel.figure))
                with replacing(folder / f"{name}.png") as stream:
                    panel.figure.savefig(stream, format="png", dpi=200, facecolor="white")
