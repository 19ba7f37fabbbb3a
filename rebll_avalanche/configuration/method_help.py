"""What the parameters of a method mean and what they are by default, read from its source.

Importing a method imports torch, and nobody who asks for help should wait for that. So source is parsed
instead: the registry says which class or function makes a method; the docstrings and signatures of this,
of the plugins that it makes and of what it inherits from say the rest.
"""

from __future__ import annotations

import ast
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import docstring_parser  # comes with jsonargparse[signatures]

from rebll_avalanche.configuration.methods import METHOD_OPTIONS

PACKAGE = Path(__file__).parents[1]
Definition = ast.ClassDef | ast.FunctionDef
# Texts that say no more than where to look, or what the choices are.
EMPTY = re.compile(r'See the plugin|This and the following|"\w+" or "\w+"$')


class Explained(NamedTuple):
    """A parameter for people; its default is ``None`` if the text says what happens then."""

    text: str
    default: Any


def explained_options(method: str) -> dict[str, Explained]:
    """Text and default of each of a method's parameters.

    >>> explained_options("lwf")["temperature"].default
    2.0
    """
    names = METHOD_OPTIONS[method]
    if not names:
        return {}
    maker, given = _maker(method)
    own = _definitions()[maker]
    texts: dict[str, str] = _texts(own)
    inner: dict[str, Any] = {}
    for part in _parts(maker):
        texts = _texts(part) | texts
        inner |= _defaults(part)
    values = _defaults(own) | given
    preset = _constant("plugins/rebll.py", "PRESETS").get(values.get("preset"), {})
    values = inner | preset | values
    return {name: Explained(texts.get(name, ""), values.get(name)) for name in names}


def _maker(method: str) -> tuple[str, dict[str, Any]]:
    """Which class or function makes a method, and the parameters that the registry gives it."""
    registry = _assigned("strategies/registry.py", "METHODS")
    assert isinstance(registry, ast.Dict)
    names = [ast.literal_eval(key) for key in registry.keys if key is not None]
    entry = registry.values[names.index(method)]
    assert isinstance(entry, ast.Call)
    build = entry.args[1]
    if isinstance(build, ast.Name):
        return build.id, {}
    assert isinstance(build, ast.Call)  # partial(RebLL, ...) or partial(adopt, EWC, ...)
    makers = [argument.id for argument in build.args if isinstance(argument, ast.Name)]
    return makers[-1], _plain({word.arg: word.value for word in build.keywords})


def _parts(name: str) -> Iterator[Definition]:
    """What a class makes, in order; then itself; then what it inherits from."""
    definition = _definitions()[name]
    bases = getattr(definition, "bases", [])
    inherited = [base.id for base in bases if isinstance(base, ast.Name)]
    found = [node for node in ast.walk(definition) if isinstance(node, ast.Name)]
    found.sort(key=lambda node: (node.lineno, node.col_offset))
    used = dict.fromkeys(node.id for node in found if node.id in _definitions())
    for other in used:
        if other not in (name, *inherited):
            yield from _parts(other)
    yield definition
    for base in inherited:
        if base in _definitions():
            yield from _parts(base)


@cache
def _definitions() -> dict[str, Definition]:
    """Strategies and plugins of this package, and the strategies of Avalanche, by name."""
    avalanche = importlib.util.find_spec("avalanche")  # finds it without importing it
    assert avalanche is not None
    assert avalanche.origin is not None
    files = [Path(avalanche.origin).parent / "training" / "supervised" / "strategy_wrappers.py"]
    for room in ("plugins", "strategies"):
        files += sorted((PACKAGE / room).glob("*.py"))
    return {
        node.name: node
        for file in files
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef | ast.FunctionDef)
    }


def _called(definition: Definition) -> ast.FunctionDef | None:
    """The function whose parameters count."""
    if isinstance(definition, ast.FunctionDef):
        return definition
    methods = (node for node in definition.body if isinstance(node, ast.FunctionDef))
    return next((method for method in methods if method.name == "__init__"), None)


def _texts(definition: Definition) -> dict[str, str]:
    found = {}
    called = _called(definition)
    for node in (definition, *([called] if called else [])):
        for entry in docstring_parser.parse(ast.get_docstring(node) or "").params:
            found[entry.arg_name] = _for_terminals(entry.description or "")
    return {name: text for name, text in found.items() if not EMPTY.match(text)}


def _for_terminals(text: str) -> str:
    """The first sentence of a description, without the marks of Sphinx.

    >>> _for_terminals('``"mean"`` as in\\n :class:`~a.b.C`. More.')
    '"mean" as in C'
    """
    text = re.sub(r":\w+:`~?(?:[\w.]*\.)?(\w+)`", r"\1", " ".join(text.split()))
    return text.replace("`", "").split(". ")[0].rstrip(".")


def _defaults(definition: Definition) -> dict[str, Any]:
    """The plain values that parameters have if they are not given."""
    called = _called(definition)
    if called is None:
        return {}
    taken = called.args
    several = [*taken.posonlyargs, *taken.args]
    pairs = [*zip(reversed(several), reversed(taken.defaults), strict=False)]
    pairs += [
        (name, value)
        for name, value in zip(taken.kwonlyargs, taken.kw_defaults, strict=True)
        if value
    ]
    return _plain({name.arg: value for name, value in pairs})


def _plain(values: dict[str | None, ast.expr]) -> dict[str, Any]:
    """Of some expressions those that are a number, a word or a truth value."""
    constants = {
        name: node.value for name, node in values.items() if isinstance(node, ast.Constant)
    }
    return {name: value for name, value in constants.items() if name and value is not None}


def _constant(file: str, name: str) -> Any:
    return ast.literal_eval(_assigned(file, name))


@cache
def _assigned(file: str, name: str) -> ast.expr:
    """The expression that a module of this package assigns to a name."""
    for node in ast.parse((PACKAGE / file).read_text(encoding="utf-8")).body:
        if isinstance(node, ast.AnnAssign) and node.value and ast.unparse(node.target) == name:
            return node.value
    raise LookupError(f"{file} assigns no {name}")
