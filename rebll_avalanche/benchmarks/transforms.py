"""From a picture to the tensor a network takes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

Transform = Callable[[Any], Any]


def to_unit_range(picture: Any) -> Tensor:
    """A picture as ``float32 [3, height, width]`` between 0 and 1.

    Args:
        picture: An RGB ``PIL.Image``, or a ``uint8`` tensor that is already channels first.
    """
    if not isinstance(picture, Tensor):
        picture = torch.from_numpy(np.array(picture)).permute(2, 0, 1)
    return picture.to(torch.float32, memory_format=torch.contiguous_format).div_(255)
