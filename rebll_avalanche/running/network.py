"""Build the network or the frozen feature extractor of a configuration; without Avalanche."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.sections import BenchmarkConfig, TrainingConfig
from rebll_avalanche.methods import describe
from rebll_avalanche.models import MultiLabelModel, build_model
from rebll_avalanche.models.adaptable import inference_only
from rebll_avalanche.models.network import PRECISIONS

if TYPE_CHECKING:
    from rebll_avalanche.benchmarks.features import FrozenFeatures, SideBySide, Spread


def feature_maker(
    config: BenchmarkConfig, spread: Spread | None = None
) -> FrozenFeatures | SideBySide:
    """Build the frozen feature extractor; the features of several backbones are concatenated.

    Args:
        config: Names the backbones.
        spread: Computes blocks of images elsewhere; see ``FrozenFeatures``.
    """
    from rebll_avalanche.benchmarks.features import FrozenFeatures, SideBySide

    makers = [
        FrozenFeatures(
            name,
            pretrained=config.features_pretrained,
            until=config.features_until,
            image_size=size,
            keep_aspect=config.features_aspect == "kept",
            windows=config.features_windows,
            folder=config.image_cache,
            spread=spread,
        )
        for name, size in config.views
    ]
    return makers[0] if len(makers) == 1 else SideBySide(makers)


def build_network(
    config: Config, input_shape: tuple[int, ...], *, pretrained: bool = True
) -> MultiLabelModel:
    """Build the network of a run.

    Args:
        config: Names backbone, head and weights.
        input_shape: Shape of one input, without the batch dimension.
        pretrained: ``False`` when weights will be loaded from a checkpoint.

    Raises:
        ValueError: When the network does not accept inputs of this shape.
    """
    if config.model.backbone == "vector" and len(input_shape) > 2:  # 2: vectors of windows
        raise ValueError(
            f"model.backbone 'vector' takes vectors, but the inputs are images of shape "
            f"{' x '.join(map(str, input_shape))}; give benchmark.features, such as "
            "tf_efficientnet_lite0, or a backbone for images"
        )
    model = build_model(
        config.model.backbone,
        pretrained=config.model.pretrained if pretrained else None,
        head=config.model.head or describe(config.method_name).head,
        bn_mode=config.model.bn_mode,
        freeze_until=config.model.freeze_until,
        start_after=config.benchmark.features_until,
        in_features=input_shape[-1] if config.model.backbone == "vector" else None,
        hidden_layer=config.model.hidden,
    )
    model.precision = PRECISIONS[config.training.precision]
    set_up_speed(model, config.training)
    return model


def build_for_inference(config: Config, input_shape: tuple[int, ...]) -> MultiLabelModel:
    """The network of a run before its weights are loaded, without Avalanche.

    Nor with the speed options of training, which would only cost accuracy and start-up time.
    """
    plain = replace(config.training, precision="float32", compile=False)
    with inference_only():
        return build_network(replace(config, training=plain), input_shape, pretrained=False)


def set_up_speed(model: MultiLabelModel, training: TrainingConfig) -> None:
    """Apply memory layout and compilation where the configuration sets them."""
    if training.channels_last is not None:
        model.channels_last = training.channels_last
    if training.compile and model.backbone._compiled_call_impl is None:
        model.backbone.compile()
