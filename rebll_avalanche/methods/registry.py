"""All methods by name: built-in, registered by a program, or provided by other packages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, cached_property, partial
from pathlib import Path
from typing import Any

from rebll_avalanche.arguments import check_kind
from rebll_avalanche.methods.parameters import Parameter, parameters_of, presets_of
from rebll_avalanche.words import brief, nearest

BUILT_IN = Path(__file__).with_name("builtin.json")
ENTRY_POINTS = "rebll_avalanche.methods"


@dataclass(frozen=True)
class Description:
    """A description of a method, available without building it.

    Attributes:
        label: Name in tables.
        parameters: Parameters that a configuration can set, by name.
        presets: Defaults changed by each value of its parameter ``preset``, if it has one.
        head: The head of its network.
        joint: Trained once on all classes with all labels: an upper bound, not a continual learner.
    """

    label: str
    parameters: dict[str, Parameter]
    presets: dict[str, dict[str, Any]]
    head: str
    joint: bool

    def as_run(self, given: dict[str, Any]) -> dict[str, Any]:
        """The given values and the defaults of other parameters, as used by a run."""
        values = {name: entry.default for name, entry in self.parameters.items()}
        values |= self.presets.get(given.get("preset", ""), {}) | given
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Method:
    """A named method for learning a stream.

    Attributes:
        label: Name in tables.
        build: Makes the strategy from keyword arguments: ``model``, ``optimizer``, Avalanche's own
            (``train_mb_size``, ``train_epochs``, ``eval_mb_size``, ``device``, ``plugins``,
            ``evaluator``), and the method's parameters.
        head: The head of its network.
        joint: Trained once on all classes with all labels: an upper bound, not a continual learner.
        offers: Names of the parameters that a configuration may set; all plain ones by default.

    >>> from rebll_avalanche import RebLL
    >>> method = Method("RebLL, alpha 0.6", partial(RebLL, alpha=0.6))
    >>> method.parameters["alpha"].default
    0.6
    """

    label: str
    build: Callable[..., Any]
    head: str = "linear"
    joint: bool = False
    offers: Iterable[str] | None = None

    @cached_property
    def description(self) -> Description:
        """Description from the signatures and docstrings of ``build``."""
        found = parameters_of(self.build)
        offered = {name: found[name] for name in self.offers or found}
        presets: dict[str, dict[str, Any]] = {}
        for preset in presets_of(self.build) if "preset" in offered else ():
            then = parameters_of(partial(self.build, preset=preset))
            presets[preset] = {
                name: then[name].default for name in offered if then[name] != offered[name]
            }
        return Description(self.label, offered, presets, self.head, self.joint)

    @property
    def parameters(self) -> dict[str, Parameter]:
        """Parameters that a configuration can set, by name."""
        return self.description.parameters

    @property
    def uses_memory(self) -> bool:
        """Whether it stores images, ``mem_size`` of them."""
        return "mem_size" in self.parameters


METHODS: dict[str, Method] = {}
"""Every registered method by name; ``rebll_avalanche.strategies`` registers the built-in ones."""


def register(name: str, build: Method | Callable[..., Any], **about: Any) -> Method:
    """Make a method available by name to programs and the command line.

    Args:
        name: As in ``--method.name``.
        build: Makes the strategy; usually a :class:`~rebll_avalanche.strategies.MethodStrategy`.
        **about: Other attributes of :class:`Method`; ``label`` is the name by default.

    Raises:
        ValueError: When the name is already in use.

    >>> from rebll_avalanche import RebLL
    >>> register("rebll-gentle", partial(RebLL, alpha=0.6), label="RebLL, alpha 0.6").label
    'RebLL, alpha 0.6'
    >>> del METHODS["rebll-gentle"]  # so that this example can run again
    """
    if not isinstance(name, str) or not name:
        raise TypeError(f"the name of a method must be a text, got {brief(name)}")
    if not callable(build) and not isinstance(build, Method):
        raise TypeError(f"build must make a strategy, got {brief(build)}")
    if name in METHODS:
        raise ValueError(
            f"method {name!r} already exists ({METHODS[name].label}); use another name"
        )
    method = (
        build if isinstance(build, Method) else Method(about.pop("label", name), build, **about)
    )
    METHODS[name] = method
    return method


def method_names() -> list[str]:
    """The names of all methods, without importing them."""
    return list(dict.fromkeys([*_built_in(), *METHODS, *_installed()]))


def describe(name: str) -> Description:
    """The description of a method; imports only methods of other packages.

    Raises:
        ValueError: Listing the names that exist, closest first.
    """
    check_kind("name", name, str, "the name of a method")
    return _built_in().get(name) or get_method(name).description


def get_method(name: str) -> Method:
    """A registered method, or one provided by an installed package.

    Raises:
        ValueError: Listing the names that exist, closest first.

    >>> get_method("lwf").label
    'LwF'
    >>> get_method("rebll").parameters["alpha"].default
    1.2
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a method must be a text, got {brief(name)}")
    if name not in METHODS:
        if name not in _installed():
            names = nearest(name[:100], method_names())
            raise ValueError(f"no method is called {brief(name)}; there are {names}")
        entry = _installed()[name]
        try:
            loaded = entry.load()
        except (ImportError, AttributeError) as error:
            raise ValueError(
                f"the method {name!r} of {entry.value} cannot be loaded: {error}"
            ) from error
        return METHODS.get(name) or register(name, loaded)
    return METHODS[name]


@cache
def _built_in() -> dict[str, Description]:
    content = json.loads(BUILT_IN.read_text(encoding="utf-8"))
    return {name: description_from_dict(values) for name, values in content.items()}


@cache
def _installed() -> dict[str, Any]:
    """Entry points of other packages; built-in names cannot be replaced."""
    from importlib.metadata import entry_points

    found = entry_points(group=ENTRY_POINTS)
    return {entry.name: entry for entry in found if entry.name not in _built_in()}


def description_to_dict(description: Description) -> dict[str, Any]:
    """Convert to the format of ``builtin.json``."""
    parameters = {name: entry.to_dict() for name, entry in description.parameters.items()}
    return vars(description) | {"parameters": parameters}


def description_from_dict(values: dict[str, Any]) -> Description:
    """Invert :func:`description_to_dict`."""
    parameters = {k: Parameter.from_dict(v) for k, v in values["parameters"].items()}
    return Description(**(values | {"parameters": parameters}))
