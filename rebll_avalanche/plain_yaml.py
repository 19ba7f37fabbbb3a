"""Read YAML that may come from a stranger: plain values, of bounded size, and one kind of error."""

from __future__ import annotations

import re
from typing import Any

import yaml

# Values after aliases are expanded; a few lines of aliases to aliases would make billions.
MOST_VALUES = 100_000
# Raised by constructors for tagged values that do not fit their tag, such as "!!bool maybe".
_ODD = (AttributeError, LookupError, OverflowError, TypeError, ValueError)


class _Loader(yaml.SafeLoader):
    """Refuses aliases that expand to too many values, or into themselves."""

    def compose_document(self) -> Any:
        node = super().compose_document()
        _expanded(node, {})
        return node


def _no_set(loader: _Loader, node: yaml.Node) -> None:
    raise yaml.YAMLError(f"line {node.start_mark.line + 1}: a set (!!set) is no list; write [a, b]")


_Loader.add_constructor("tag:yaml.org,2002:set", _no_set)


class _WithExponents(_Loader):
    """YAML in which 1e-4 is a number, as it is in YAML 1.2."""


_WithExponents.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+$"),
    list("-+0123456789"),
)


def load(text: str, *, exponents: bool = False) -> Any:
    """Plain values from YAML.

    Args:
        text: One document.
        exponents: Whether 1e-4 is a number, not a text.

    Raises:
        ValueError: When it is not YAML, or too large, or nested too deeply.

    >>> load("{lr: 1e-4}", exponents=True)
    {'lr': 0.0001}
    """
    try:
        return yaml.load(text, _WithExponents if exponents else _Loader)
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except (yaml.YAMLError, *_ODD) as error:
        said = " ".join(str(error).split()).replace(' in "<unicode string>"', "")
        raise ValueError(said[:300]) from error


def _expanded(node: Any, sizes: dict[int, int]) -> int:
    """Number of values below a node, each counted as often as aliases repeat it."""
    if node is None or isinstance(node, yaml.ScalarNode):
        return 1
    known = sizes.get(id(node))
    if known is not None:
        return known
    sizes[id(node)] = MOST_VALUES + 1  # met again from inside: it would never end
    pairs = isinstance(node, yaml.MappingNode)
    inside = [part for pair in node.value for part in pair] if pairs else node.value
    size = 1
    for part in inside:
        size += _expanded(part, sizes)
        if size > MOST_VALUES:
            raise yaml.YAMLError(f"its aliases expand to more than {MOST_VALUES} values")
    sizes[id(node)] = size
    return size
