"""When a layer may use its own operators in place of torch's."""

from __future__ import annotations

import torch
from torch import Tensor


def is_eager(maps: Tensor) -> bool:
    """Whether these are float32 on a CPU, without compiling, exporting or autocasting."""
    return (
        maps.device.type == "cpu"
        and maps.dtype == torch.float32
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
    )
