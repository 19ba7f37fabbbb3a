"""Docstrings as Markdown, with the parameters that constructors take from their parts.

A public name without a docstring is reported, which fails a strict build.
"""

from __future__ import annotations

import importlib
import inspect
import logging
import re
from typing import Any

import griffe
from markup import PUBLIC, markdown

from rebll_avalanche.methods import signature_of, texts_of
from rebll_avalanche.strategies.template import FineTuning

_OPTIONS = re.compile(r"^    \*\*\w+:.*\n?(?:     +.*\n?)*", flags=re.MULTILINE)
_START_OF_EXAMPLE = re.compile(r"^(?=```pycon|>>> )", flags=re.MULTILINE)
# Counted by mkdocs: `--strict` fails on a warning.
_log = logging.getLogger("mkdocs.rebll")


def add_taken_parameters(found: griffe.Class) -> None:
    """Show what a constructor takes from its parts, instead of its ``**options``."""
    kind = getattr(importlib.import_module(found.module.path), found.name)
    taken = getattr(kind.__init__, "taken", ())
    shared = set(signature_of(FineTuning).parameters) & set(taken)
    own = [name for name in taken if name not in shared]
    if not own:
        return
    texts = {name: " ".join(texts_of(kind)[name].split()) for name in own}
    signature = signature_of(kind).parameters
    written = [
        entry
        for entry in found["__init__"].parameters
        if entry.name not in own and entry.kind is not griffe.ParameterKind.var_keyword
    ]
    added = [_parameter(signature[name]) for name in own]
    if shared:
        texts["**shared"] = "Parameters of :class:`FineTuning`, the base class."
        added.append(
            griffe.Parameter("shared", annotation="Any", kind=griffe.ParameterKind.var_keyword)
        )
    found["__init__"].parameters = griffe.Parameters(*written, *added)
    lines = "".join(f"    {name}: {markdown(text)}\n" for name, text in texts.items())
    found.docstring.value = with_parameters(found.docstring.value, lines)


def with_parameters(text: str, lines: str) -> str:
    """Put entries in place of ``**options``, or as a section of their own in front of the example.

    >>> with_parameters("A.\\n\\nArgs:\\n    a: One.\\n    **options: More.\\n", "    b: Two.\\n")
    'A.\\n\\nArgs:\\n    a: One.\\n    b: Two.\\n'
    """
    if _OPTIONS.search(text):
        return _OPTIONS.sub(lambda _: lines, text, count=1)
    about, example = _START_OF_EXAMPLE.split(text, maxsplit=1)
    return f"{about.rstrip()}\n\nArgs:\n{lines}\n{example}"


def _parameter(entry: inspect.Parameter) -> griffe.Parameter:
    kind = re.sub(r"(?:\w+\.)+(?=\w)", "", inspect.formatannotation(entry.annotation))
    kept = entry.default is not inspect.Parameter.empty
    return griffe.Parameter(
        entry.name,
        annotation=kind,
        kind=griffe.ParameterKind.keyword_only,
        default=repr(entry.default) if kept else None,
    )


class Docstrings(griffe.Extension):
    """Rewrites every docstring, and warns about public names and methods that have none."""

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
            if found.is_class:
                add_taken_parameters(found)
            parts = found.members.values() if found.is_class else ()
            methods = [p for p in parts if p.is_function and not p.name.startswith("_")]
            for part in (found, *methods):
                if not part.has_docstring:
                    _log.warning("%s is public and has no docstring", part.path)
