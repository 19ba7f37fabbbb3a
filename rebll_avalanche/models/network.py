"""The network shared by all methods: a backbone and a growing head."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from rebll_avalanche.arguments import check_kind
from rebll_avalanche.models.adaptable import Adaptable
from rebll_avalanche.models.folded import FoldedBackbone
from rebll_avalanche.models.heads import GrowingHead
from rebll_avalanche.models.windows import seen_twice
from rebll_avalanche.protocols import Experience
from rebll_avalanche.words import check_choice

# Number formats that a network may compute in.
PRECISIONS = {"float32": None, "bfloat16": torch.bfloat16, "float16": torch.float16}
BN_MODES = ("train", "frozen_after_base", "frozen")


class MultiLabelModel(Adaptable):
    """``model(x) -> [batch, classes learned so far]`` logits.

    Args:
        backbone: Maps images to a feature map ``[batch, channels, h, w]``, or vectors to vectors.
        head: A head that grows when Avalanche adapts the model to a training experience.
        bn_mode: ``"train"`` updates batch-norm statistics in every experience;
            ``"frozen_after_base"`` keeps those of the first experience; ``"frozen"`` always uses those
            of the initial weights.
        input_mean: Mean per channel, subtracted from images in [0, 1], as the backbone's weights expect.
        input_std: Standard deviation per channel, by which images are divided.
        weights: Origin of the backbone's weights: name, source and hash, for result files.
        windows: Inputs are vectors, which may include vectors of windows:
            ``[batch, 1 + windows, channels]``, see :mod:`rebll_avalanche.models.windows`.
    """

    bn_frozen: Tensor
    input_mean: Tensor | None
    input_std: Tensor | None

    def __init__(
        self,
        backbone: nn.Module,
        head: GrowingHead,
        *,
        bn_mode: str = "train",
        input_mean: tuple[float, ...] | None = None,
        input_std: tuple[float, ...] | None = None,
        weights: dict[str, Any] | None = None,
        windows: bool = False,
    ) -> None:
        super().__init__()
        check_kind("backbone", backbone, nn.Module, "a torch module")
        check_choice("bn_mode", bn_mode, BN_MODES)
        self.backbone = backbone
        self.head = head
        self.bn_mode = bn_mode
        self.weights = weights or {}
        self._windows = windows
        # The type to compute in, float32 if None; logits are float32 in any case.
        self.precision: torch.dtype | None = None
        # The memory layout of maps, which changes results by rounding only. Networks with many convolutions
        # train in two thirds of the time; vision transformers gain nothing. Kernels keep their layout,
        # because Avalanche's plugins flatten them and their gradients.
        convolutions = sum(isinstance(module, nn.Conv2d) for module in backbone.modules())
        self.channels_last = convolutions > 1
        self._folded = FoldedBackbone()
        # A buffer, so that a resumed run knows whether the first experience is over.
        self.register_buffer("bn_frozen", torch.zeros((), dtype=torch.bool))
        trivial = input_mean is None or (not any(input_mean) and set(input_std or (1.0,)) == {1.0})
        mean = None if trivial else torch.tensor(input_mean).view(-1, 1, 1)
        std = None if trivial else torch.tensor(input_std or (1.0,)).view(-1, 1, 1)
        self.register_buffer("input_mean", mean, persistent=False)
        self.register_buffer("input_std", std, persistent=False)

    @property
    def num_classes(self) -> int:
        """Number of classes that the model predicts now."""
        return self.head.num_classes

    def has_windows(self, x: Tensor) -> bool:
        """Whether inputs are vectors of whole images together with vectors of their windows."""
        return self._windows and x.ndim == 3

    def whole(self, x: Tensor) -> Tensor:
        """Inputs without windows."""
        return x[:, 0] if self.has_windows(x) else x

    def features(self, x: Tensor) -> Tensor:
        """The feature map before pooling; for vectors with windows, the vector of the whole image."""
        x = self.whole(x)
        # Before the layout changes: with channels last, the three means would be fetched for every pixel.
        if self.input_mean is not None and self.input_std is not None:
            x = (x - self.input_mean) / self.input_std
        if self.channels_last and x.ndim == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        if self.training or torch.is_grad_enabled():
            if not torch.compiler.is_compiling():
                self._folded.forget()  # weights may be about to change
            backbone = self.backbone
        else:
            backbone = self._folded.of(self.backbone, x)
        features: Tensor = backbone(x)
        return features

    def forward(self, x: Tensor) -> Tensor:
        """Logits of the classes learned so far; windows are used in evaluation only."""
        if self.has_windows(x) and not self.training:
            return seen_twice(self._logits(x.flatten(0, 1)).unflatten(0, x.shape[:2]))
        return self._logits(x)

    def _logits(self, x: Tensor) -> Tensor:
        logits: Tensor
        if self.precision is None:
            logits = self.head(self.features(x))
            return logits
        with torch.autocast(x.device.type, dtype=self.precision):
            logits = self.head(self.features(x))
            return logits.float()

    def adaptation(self, experience: Experience) -> None:
        """Avalanche's hook; the second training experience ends the base experience."""
        if self.training and self.bn_mode == "frozen_after_base" and self.num_classes > 0:
            known = len(getattr(experience, "previous_classes", ()))
            if known > 0:
                self.bn_frozen.fill_(True)
                self.train(self.training)

    def train(self, mode: bool = True) -> MultiLabelModel:
        """As in torch, but frozen batch norms stay in evaluation mode."""
        super().train(mode)
        if mode:
            self._folded.forget()
            all_frozen = self.bn_mode == "frozen" or bool(self.bn_frozen)
            for norm in self._batch_norms():
                if all_frozen or (norm.affine and not norm.weight.requires_grad):
                    norm.eval()
        return self

    def _batch_norms(self) -> Iterator[nn.modules.batchnorm._BatchNorm]:
        kind = nn.modules.batchnorm._BatchNorm
        return (module for module in self.modules() if isinstance(module, kind))
