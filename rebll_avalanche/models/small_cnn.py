"""A network small enough to learn the embedded scenes from scratch on two cores."""

from __future__ import annotations

import itertools

from torch import Tensor, nn


class SmallCNN(nn.Module):
    """Four convolution blocks; halves the image three times.

    Args:
        width: Channels of the first block; the last has four times as many.
    """

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        channels = (3, width, 2 * width, 4 * width, 4 * width)
        blocks: list[nn.Module] = []
        for index, (inside, outside) in enumerate(itertools.pairwise(channels)):
            blocks += [
                nn.Conv2d(inside, outside, 3, padding=1, bias=False),
                nn.BatchNorm2d(outside),
                nn.ReLU(inplace=True),
            ]
            if index < 3:
                blocks.append(nn.MaxPool2d(2))
        self.blocks = nn.Sequential(*blocks)
        self.num_features = channels[-1]

    def forward(self, images: Tensor) -> Tensor:
        """``[batch, 3, s, s]`` to ``[batch, 4 * width, s / 8, s / 8]``."""
        features: Tensor = self.blocks(images)
        return features

    def stages(self) -> list[nn.Module]:
        """Modules whose outputs are the feature maps between the blocks."""
        return [module for module in self.blocks if isinstance(module, nn.MaxPool2d)]
