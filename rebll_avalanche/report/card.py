"""A model card and a data card of a run: known facts are filled in, the rest is left as questions."""

from __future__ import annotations

from html import escape

from jinja2 import Environment, PackageLoader, StrictUndefined

from rebll_avalanche.report.names import percent
from rebll_avalanche.report.one_run import class_rows
from rebll_avalanche.report.runs import Run
from rebll_avalanche.words import printable

# File names, and the templates that they are made from.
CARDS = {"MODEL_CARD.md": "model_card.md", "DATA_CARD.md": "data_card.md"}


def cards(run: Run) -> dict[str, str]:
    """The text of each card, by the name of its file."""
    # Names of classes and methods may come from untrusted files; they must not become markup.
    environment = Environment(
        loader=PackageLoader("rebll_avalanche.report", "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        finalize=_plain,
    )
    config, last = run.config, run.last
    known = {
        "run": run,
        "benchmark": {"name": "unknown", "scenario": "unknown", "mode": "overlap"}
        | config.get("benchmark", {}),
        "backbone": config.get("model", {}).get("backbone", "unknown"),
        "weights": config.get("model", {}).get("pretrained") or "none, trained from scratch",
        "stream": config.get("evaluation", {}).get("stream", "test"),
        "classes": sorted(last.per_class_ap.items(), key=lambda pair: pair[1]),
        "thresholds": config.get("evaluation", {}).get("thresholds", []),
        "images": {row.name: row.present for row in class_rows(run, ())},
        "preparation": _preparation(run),
        "measured": lambda name: percent(last.metrics.get(name)),
        "percent": percent,
        "minutes": sum(step.seconds for step in run.steps) / 60,
        "versions": config.get("versions", {}),
    }
    return {
        name: environment.get_template(template).render(known) for name, template in CARDS.items()
    }


def _preparation(run: Run) -> str:
    seconds = run.preparation
    return (
        ""
        if seconds is None
        else f"; reading images and computing features took {seconds / 60:.1f} more"
    )


def _plain(value: object) -> object:
    if not isinstance(value, str):
        return value
    return escape(printable(value), quote=False).replace("|", r"\|").replace("`", "'")
