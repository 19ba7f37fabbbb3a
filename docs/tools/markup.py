"""Public names, and docstrings as Markdown with links to them."""

from __future__ import annotations

import importlib
import re

import rebll_avalanche

# Rooms of the package, by the page of the reference that shows their public names.
ROOMS = {
    "Streams and tables": ("benchmarks", "tables", "scenario"),
    "Labels and metrics": ("labels", "metrics"),
    "Plugins": ("plugins", "memory"),
    "Methods": ("strategies",),
    "Networks": ("models",),
    "Runs": ("running", "inference", "process"),
    "Learner": ("learner",),
}
LOSSES = "losses"
# Documented names that are imported from their own module.
SUBMODULES = (
    "closed_form.learner.RidgeLearner",
    "strategies.template.FineTuning",
    "strategies.closed_form.ClosedForm",
    "plugins.closed_form.ClosedFormPlugin",
    "learner.estimator.RidgeMultiLabel",
    "benchmarks.features.FrozenFeatures",
    "distributed.ranks.start",
)


def public_names() -> dict[str, list[str]]:
    """What the reference shows: paths below the package, by page."""
    page_of = {room: page for page, rooms in ROOMS.items() for room in rooms}
    names: dict[str, list[str]] = {page: [] for page in ROOMS}
    for name, place in sorted(rebll_avalanche._EXPORTS.items(), key=lambda entry: entry[0].lower()):
        names[page_of[place.split(".")[0]]].append(name)
    found = vars(importlib.import_module(f"rebll_avalanche.{LOSSES}"))
    own = [
        name for name, value in found.items() if getattr(value, "__module__", "").endswith(LOSSES)
    ]
    return names | {
        "Losses": [f"{LOSSES}.{name}" for name in own if not name.startswith("_")],
        "Submodules": list(SUBMODULES),
    }


PUBLIC = {path.split(".")[-1]: path for names in public_names().values() for path in names}
_ROLE = re.compile(r":(?:py:)?(?:func|class|mod|meth|attr|data):`~?([^`]+)`")
_FORMULA = re.compile(r"^( *)\.\. math:: ?(.*(?:\n\1 +\S.*)*)", flags=re.MULTILINE)
_INLINE_FORMULA = re.compile(r":math:`([^`]+)`")
_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n\1\S.*)*", flags=re.MULTILINE)


def markdown(text: str) -> str:
    """A docstring without reStructuredText.

    >>> markdown("As :class:`~a.b.Memory` has it: :math:`x`, namely::")
    'As [`Memory`][rebll_avalanche.Memory] has it: $x$, namely:'
    """
    text = _FORMULA.sub(lambda m: f"{m[1]}$$\n{m[1]}{' '.join(m[2].split())}\n{m[1]}$$", text)
    text = _INLINE_FORMULA.sub(r"$\1$", text)
    text = _ROLE.sub(_link, text)
    text = re.sub(r"::$", ":", text, flags=re.MULTILINE)
    return _EXAMPLE.sub(lambda m: f"{m[1]}```pycon\n{m[0]}\n{m[1]}```", text)


def _link(match: re.Match[str]) -> str:
    name = match[1].rpartition(".")[2]
    return f"[`{name}`][rebll_avalanche.{PUBLIC[name]}]" if name in PUBLIC else f"`{name}`"
