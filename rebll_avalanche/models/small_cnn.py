"""A network small enough to train on the built-in scenes from scratch on two cores."""

from __future__ import annotations

from torch import Tensor, nn


def _block(inside: int, outside: int, kernel: int = 3, stride: int = 1) -> list[nn.Module]:
    return [
        nn.Conv2d(inside, outside, kernel, stride, kernel // 2, bias=False),
        nn.BatchNorm2d(outside),
        nn.ReLU(inplace=True),
    ]


class SmallCNN(nn.Module):
    """Four convolution blocks that downsample the image by a factor of eight."""

    num_features = 128

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.Sequential(
            *_block(3, 24, kernel=5, stride=2),
            *_block(24, 48),
            nn.MaxPool2d(2),
            *_block(48, 96),
            nn.MaxPool2d(2),
            *_block(96, self.num_features),
        )

    def forward(self, images: Tensor) -> Tensor:
        """``[batch, 3, s, s]`` to ``[batch, 128, s / 8, s / 8]``."""
        features: Tensor = self.blocks(images)
        return features

    def stages(self) -> list[nn.Module]:
        """The modules whose outputs are the intermediate feature maps."""
        return [module for module in self.blocks if isinstance(module, nn.MaxPool2d)]
