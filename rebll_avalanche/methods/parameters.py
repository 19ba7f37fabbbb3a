"""The parameters of a method, read from its signatures and docstrings."""

from __future__ import annotations

import inspect
import re
import types
import typing
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, TypeVar

Init = TypeVar("Init", bound=Callable[..., None])
# Arguments that every run passes to every strategy.
SUPPLIED = (
    *("model", "optimizer", "criterion", "device", "plugins", "evaluator"),
    *("train_mb_size", "train_epochs", "eval_mb_size", "eval_every", "peval_mode"),
)
PLAIN = {kind.__name__: kind for kind in (bool, int, float, str)}


@dataclass(frozen=True)
class Parameter:
    """A parameter that a configuration can set.

    Attributes:
        kind: ``bool``, ``int``, ``float``, ``str``, or a ``Literal`` of words.
        default: ``None`` if the text describes the default.
        text: Description in one sentence.
    """

    kind: Any
    default: Any
    text: str

    def to_dict(self) -> dict[str, Any]:
        """Convert to JSON values; a ``Literal`` becomes the list of its words."""
        words = list(typing.get_args(self.kind))
        return {"type": words or self.kind.__name__, "default": self.default, "text": self.text}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Parameter:
        """Invert :meth:`to_dict`."""
        kind = values["type"]
        kind = Literal[tuple(kind)] if isinstance(kind, list) else PLAIN[kind]
        return cls(kind, values["default"], values["text"])


def signature_of(build: Callable[..., Any]) -> inspect.Signature:
    """Signature of a function, or of a constructor without ``self``, with annotations as types."""
    called = build.__init__ if isinstance(build, type) else build  # type: ignore[misc]
    signature = inspect.signature(called, eval_str=True)
    kept = [entry for name, entry in signature.parameters.items() if name != "self"]
    return signature.replace(parameters=kept)


def takes_also(*parts: Callable[..., Any], without: Container[str] = ()) -> Callable[[Init], Init]:
    """Adds the parameters of parts to the signature of a constructor with ``**options``.

    The first of several parameters with the same name counts. Avalanche refuses arguments missing from
    the signatures of a strategy's constructors, and editors use them for completion.

    Args:
        *parts: Classes or functions.
        without: Names of parameters that the constructor supplies itself.
    """

    def decorate(init: Init) -> Init:
        # The options' type may exist for type checkers only, so it is removed before types are read.
        init.__annotations__.pop("options", None)
        own = inspect.signature(init, eval_str=True)
        found = {k: v for k, v in own.parameters.items() if v.kind is not v.VAR_KEYWORD}
        taken: dict[str, inspect.Parameter] = {}
        for name, entry in (pair for part in parts for pair in _keywords(part)):
            if name not in found and name not in without:
                taken.setdefault(name, entry)
        parameters = [*found.values(), *taken.values()]
        init.__signature__ = own.replace(parameters=parameters)  # type: ignore[attr-defined]
        init.parts, init.taken = parts, tuple(taken)  # type: ignore[attr-defined]
        return init

    return decorate


def composed(
    parts: Iterable[Callable[..., Any]], values: Mapping[str, Any], also: Container[str] = ()
) -> list[Any]:
    """Call each part with the values that it accepts.

    Args:
        parts: Classes or functions.
        values: Parameters by name.
        also: Names accepted elsewhere.

    Raises:
        TypeError: When no part accepts a value.
    """
    made, taken = [], set()
    for part in parts:
        own = {name: values[name] for name in signature_of(part).parameters if name in values}
        taken |= set(own)
        made.append(part(**own))
    for name in values:
        if name not in taken and name not in also:
            raise TypeError(f"got an unexpected keyword argument {name!r}")
    return made


def parameters_of(build: Callable[..., Any]) -> dict[str, Parameter]:
    """The parameters of a method that a configuration can set.

    Args:
        build: A strategy or a function that makes one; ``partial(build, alpha=0)`` sets a default, and
            ``partial(adopt, EWC)`` has the parameters of both.
    """
    given = build.keywords if isinstance(build, partial) else {}
    texts, presets = texts_of(build), presets_of(build)
    found: dict[str, Parameter] = {}
    for name, entry in (pair for source in _sources(build) for pair in _keywords(source)):
        kind = _plain(entry.annotation)
        if kind is not None and name not in SUPPLIED:
            default = given.get(name, entry.default)
            default = None if default is inspect.Parameter.empty else default
            found.setdefault(name, Parameter(kind, default, for_terminals(texts.get(name, ""))))
    preset = presets.get(found["preset"].default, {}) if "preset" in found else {}
    return {
        name: Parameter(entry.kind, (preset | given).get(name, entry.default), entry.text)
        for name, entry in found.items()
    }


def texts_of(build: Callable[..., Any]) -> dict[str, str]:
    """Descriptions of parameters by name: from its own docstrings, or else those of its parts."""
    texts: dict[str, str] = {}
    for part in (part for source in _sources(build) for part in _with_parts(source)):
        texts = _texts(part) | texts
    return texts


def presets_of(build: Callable[..., Any]) -> dict[str, dict[str, Any]]:
    """The defaults of each value of a parameter ``preset``: ``presets`` of its class."""
    source = build.func if isinstance(build, partial) else build
    return next((p.presets for p in _with_parts(source) if hasattr(p, "presets")), {})


def _sources(build: Callable[..., Any]) -> list[Callable[..., Any]]:
    return [build.func, *build.args] if isinstance(build, partial) else [build]


def _keywords(build: Callable[..., Any]) -> Iterator[tuple[str, inspect.Parameter]]:
    for name, entry in signature_of(build).parameters.items():
        if entry.kind in (entry.KEYWORD_ONLY, entry.POSITIONAL_OR_KEYWORD):
            yield name, entry.replace(kind=entry.KEYWORD_ONLY)


def _with_parts(build: Callable[..., Any]) -> Iterator[Any]:
    """A function or class, its base classes, and the parts of its constructors."""
    build = build.func if isinstance(build, partial) else build
    for kind in build.__mro__ if isinstance(build, type) else [build]:
        yield kind
        init = vars(kind).get("__init__") if isinstance(kind, type) else kind
        for part in getattr(init, "parts", ()):
            yield from _with_parts(part)


def _plain(annotation: Any) -> Any:
    """The type among those of an annotation that a configuration can hold, or None."""
    union = typing.get_origin(annotation) in (typing.Union, types.UnionType)
    for kind in typing.get_args(annotation) if union else (annotation,):
        if kind in PLAIN.values() or typing.get_origin(kind) is Literal:
            return kind
    return None


def _texts(part: Any) -> dict[str, str]:
    import docstring_parser

    init = vars(part).get("__init__") if isinstance(part, type) else None
    documented = [inspect.getdoc(init) if init else "", part.__doc__]
    entries = [e for doc in documented for e in docstring_parser.parse(doc or "").params]
    return {entry.arg_name: entry.description or "" for entry in entries}


def for_terminals(text: str) -> str:
    """The first sentence of a description, without Sphinx markup.

    >>> for_terminals('``"mean"`` as in\\n :class:`~a.b.C`. More.')
    '"mean" as in C'
    """
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", " ".join(text.split()))
    return text.replace("`", "").split(". ")[0].rstrip(".")
