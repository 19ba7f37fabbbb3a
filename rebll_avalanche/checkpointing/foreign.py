"""Save and restore the state of Avalanche's own plugins, which have no ``state_dict``."""

from __future__ import annotations

import copy
from collections import defaultdict
from itertools import accumulate
from typing import Any

import torch
from avalanche.benchmarks.utils.data import AvalancheDataset
from avalanche.benchmarks.utils.flat_data import FlatData
from avalanche.benchmarks.utils.utils import concat_datasets
from avalanche.training.regularization import LearningWithoutForgetting
from avalanche.training.storage_policy import ExperienceBalancedBuffer, ReservoirSamplingBuffer
from avalanche.training.utils import ParamData
from torch import Tensor, nn

from rebll_avalanche.benchmarks.dataset import Samples
from rebll_avalanche.plugins.buffer import PolicyBuffer
from rebll_avalanche.plugins.teacher import load_resized
from rebll_avalanche.protocols import Strategy, Stream

# Attributes to save, by class.
ATTRIBUTES: dict[str, tuple[str, ...]] = {
    "ReplayPlugin": ("storage_policy",),
    "DrawingAGEMPlugin": ("buffers",),
    "GEMPlugin": ("memory_x", "memory_y", "memory_tid"),
    "EWCPlugin": ("saved_params", "importances"),
    "SynapticIntelligencePlugin": ("ewc_data", "syn_data"),
    "MASPlugin": ("params", "importance"),
    "LwFPlugin": ("lwf",),
    "Cumulative": ("dataset",),
}
# Classes without lasting state, or whose state is saved elsewhere (the clock, the metrics).
STATELESS = ("Clock", "EvaluationPlugin", "PeriodicEval")
# Avalanche's strategies that consist only of their plugins, and the base classes of plugins.
WRAPPERS = ("avalanche.training.supervised.strategy_wrappers", "avalanche.training.templates")
BASES = ("rebll_avalanche.", "builtins", "typing", "abc", "avalanche.core", *WRAPPERS)
OBJECTS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (
        ExperienceBalancedBuffer,
        LearningWithoutForgetting,
        PolicyBuffer,
        ReservoirSamplingBuffer,
    )
}


def unsaved(strategy: Strategy) -> list[str]:
    """Names of the strategy's parts whose state cannot be saved; their runs cannot be resumed."""
    home = type(strategy).__module__
    lost = []
    if home.startswith("avalanche.") and not home.startswith(WRAPPERS) and not _listed(strategy):
        lost.append(type(strategy).__name__)
    for plugin in strategy.plugins:
        kept = hasattr(plugin, "state_dict") or _listed(plugin)
        if not kept and type(plugin).__name__ not in STATELESS and _foreign(type(plugin)):
            lost.append(type(plugin).__name__)
    return lost


def _foreign(kind: type) -> bool:
    """Whether a class or one of its bases is not from this package."""
    return any(not base.__module__.startswith(BASES) for base in kind.__mro__)


def _listed(part: Any) -> tuple[str, ...]:
    found = (ATTRIBUTES.get(kind.__name__) for kind in type(part).__mro__)
    return next((names for names in found if names), ())


def with_state(part: Any, strategy: Strategy, stream: Stream) -> Any:
    """The part itself if it has a ``state_dict``, else an adapter for it; or None."""
    if hasattr(part, "state_dict"):
        return part
    return ForeignState(part, strategy, stream) if _listed(part) else None


class ForeignState:
    """Adapter that saves and restores the attributes of a part without ``state_dict``.

    Images are saved as references into the stream, networks as weights.

    Args:
        part: A plugin or a strategy of Avalanche.
        strategy: The strategy, whose model is the template for saved networks.
        stream: The training stream that images come from.
    """

    def __init__(self, part: Any, strategy: Strategy, stream: Stream) -> None:
        self.part = part
        self.strategy = strategy
        self.stream = stream

    @property
    def name(self) -> str:
        """Name of the part."""
        return type(self.part).__name__

    def state_dict(self) -> dict[str, Any]:
        """The listed attributes as plain containers of tensors."""
        return {name: self._plain(getattr(self.part, name)) for name in _listed(self.part)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the attributes."""
        for name, value in state.items():
            setattr(self.part, name, self._built(value, getattr(self.part, name)))

    def _plain(self, value: Any) -> Any:
        if isinstance(value, AvalancheDataset):
            return {"@": "images", "of": references(value, self.stream)}
        if isinstance(value, nn.Module):
            return {"@": "network", "of": value.state_dict(), "training": value.training}
        if isinstance(value, ParamData):
            return {"@": "parameter", "of": value.data, "name": value.name}
        if type(value).__name__ in OBJECTS:
            attributes = {name: self._plain(entry) for name, entry in vars(value).items()}
            return {"@": "object", "of": attributes, "kind": type(value).__name__}
        if hasattr(value, "state_dict"):  # a sampling policy
            return {"@": "state", "of": value.state_dict()}
        if isinstance(value, dict):
            return {key: self._plain(entry) for key, entry in value.items()}
        if isinstance(value, list | tuple):
            return type(value)(self._plain(entry) for entry in value)
        return value

    def _built(self, value: Any, here: Any) -> Any:
        """Rebuild a value from its plain form; ``here`` is the current value."""
        if isinstance(value, list | tuple):
            return type(value)(self._built(entry, None) for entry in value)
        if isinstance(value, Tensor):
            return value.clone()
        if not isinstance(value, dict):
            return value
        kind, content = value.get("@"), value.get("of")
        if kind == "images":
            return self._images(value["of"])
        if kind == "network":
            network = copy.deepcopy(self.strategy.model)
            load_resized(network, value["of"])
            return network.train(value["training"])
        if kind == "parameter":
            data = value["of"].to(self.strategy.device)
            return ParamData(value["name"], init_tensor=data.clone(), device=data.device)
        if kind == "state":
            here.load_state_dict(content)
            return here
        if kind == "object":
            wanted = OBJECTS[value["kind"]]
            built = here if isinstance(here, wanted) else wanted.__new__(wanted)
            for name, entry in value["of"].items():
                vars(built)[name] = self._built(entry, vars(built).get(name))
            return built
        entries = {key: self._built(entry, None) for key, entry in value.items()}
        return (
            defaultdict(here.default_factory, entries) if isinstance(here, defaultdict) else entries
        )

    def _images(self, wanted: Tensor) -> AvalancheDataset:
        numbers = sorted(set(wanted[:, 0].tolist()))
        datasets = [self.stream[number].dataset for number in numbers]
        ends = accumulate(map(len, datasets), initial=0)
        starts = dict(zip(numbers, ends, strict=False))
        everything: AvalancheDataset = concat_datasets(datasets)
        return everything.subset([starts[number] + index for number, index in wanted.tolist()])


def references(dataset: Any, stream: Stream) -> Tensor:
    """``[samples, 2]``: the experience and the index in it that each sample of a data set comes from.

    Raises:
        ValueError: When a sample is not from the stream.
    """
    numbers = {}
    for experience in stream:
        leaf = experience.dataset
        while not isinstance(leaf, Samples):
            leaf = _parts(leaf)[0]
        numbers[id(leaf)] = int(experience.current_experience)

    def trace(part: Any) -> Tensor:
        if id(part) in numbers:
            index = torch.arange(len(part))
            return torch.stack([torch.full_like(index, numbers[id(part)]), index], dim=1)
        below = [trace(inner) for inner in _parts(part)]
        found = torch.cat(below) if below else torch.empty(0, 2, dtype=torch.long)
        chosen = part._indices if isinstance(part, FlatData) else None
        return found if chosen is None else found[torch.tensor(list(chosen), dtype=torch.long)]

    return trace(dataset)


def _parts(dataset: Any) -> list[Any]:
    if isinstance(dataset, AvalancheDataset):
        return [dataset._flat_data]
    if isinstance(dataset, FlatData):
        return list(dataset._datasets)
    raise ValueError(
        f"a sample comes from a {type(dataset).__name__}, not from the training stream, so a "
        "checkpoint could not find it again"
    )
