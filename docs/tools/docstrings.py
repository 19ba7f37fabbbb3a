"""Docstrings as Markdown: roles become links, formulas become dollars; what is public must be documented."""

from __future__ import annotations

import logging
import re
from typing import Any

import griffe
from pages import public_names

PUBLIC = {path.split(".")[-1]: path for names in public_names().values() for path in names}
_ROLE = re.compile(r":(?:py:)?(?:func|class|mod|meth|attr|data):`~?([^`]+)`")
_FORMULA = re.compile(r"^( *)\.\. math:: ?(.*(?:\n\1 +\S.*)*)", flags=re.MULTILINE)
_INLINE_FORMULA = re.compile(r":math:`([^`]+)`")
_EXAMPLE = re.compile(r"^( *)>>> .*(?:\n\1\S.*)*", flags=re.MULTILINE)
# Counted by mkdocs: `--strict` fails on a warning.
_log = logging.getLogger("mkdocs.rebll")


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


class Docstrings(griffe.Extension):
    """Rewrites every docstring; warns about public names, and their public methods, that have none."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        """Called for everything that is found in the package."""
        if obj.docstring:
            obj.docstring.value = markdown(obj.docstring.value)

    def on_package(self, *, pkg: griffe.Module, **kwargs: Any) -> None:
        """Called when all of the package is there."""
        if pkg.name != "rebll_avalanche":
            return
        for path in PUBLIC.values():
            found = pkg[path]
            found = found.final_target if found.is_alias else found
            parts = found.members.values() if found.is_class else ()
            methods = [p for p in parts if p.is_function and not p.name.startswith("_")]
            for part in (found, *methods):
                if not part.has_docstring:
                    _log.warning("%s is public and has no docstring", part.path)
