"""Outputs of modules inside a network, recorded during its own forward pass."""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle


class OutputTap:
    """Keeps the last outputs of modules between :meth:`open` and :meth:`close`.

    It is open for one forward pass at a time: a hook left on the model would be copied into teachers
    and checkpoints.
    """

    def __init__(self) -> None:
        self._handles: list[RemovableHandle] = []
        self._outputs: list[Any] = []

    def open(self, *modules: nn.Module) -> None:
        """Add the hooks; call it in ``before_forward``."""
        self.close()
        self._outputs = [None] * len(modules)
        for place, module in enumerate(modules):
            self._handles.append(module.register_forward_hook(partial(self._keep, place)))

    def close(self) -> list[Any]:
        """Remove the hooks and return the outputs; call it in ``after_forward``."""
        for handle in self._handles:
            handle.remove()
        outputs, self._outputs, self._handles = self._outputs, [], []
        return outputs

    def _keep(self, place: int, _module: nn.Module, _inputs: Any, output: Any) -> None:
        self._outputs[place] = output


def stage_modules(backbone: nn.Module) -> list[nn.Module]:
    """The final modules of a backbone's last four stages, from fine to coarse.

    Args:
        backbone: A module with a method ``stages()``, or around a timm network; others have no stages.
    """
    stages = getattr(backbone, "stages", None)
    if callable(stages):
        modules: list[nn.Module] = stages()
        return modules[-4:]
    network = getattr(backbone, "network", None)
    names = [entry["module"] for entry in getattr(network, "feature_info", ())]
    return [network.get_submodule(name) for name in names if name][-4:] if network else []


class FeatureTap(OutputTap):
    """Keeps the feature maps of a model's backbone."""

    def watch(self, model: Any) -> None:
        """Add the hooks."""
        self.open(*stage_modules(model.backbone), model.backbone)

    def features(self) -> tuple[list[Tensor], Tensor]:
        """Remove the hooks.

        Returns:
            The outputs of the stages, ``[batch, channels, h, w]`` each, of which transformers have none;
            and the last feature map, averaged over positions.
        """
        *maps, last = self.close()
        maps = [output for output in maps if output.ndim == 4]
        return maps, last.mean(dim=(2, 3)) if last.ndim == 4 else last
