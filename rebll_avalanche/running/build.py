"""Build the benchmark and the strategy of a configuration."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from rebll_avalanche import benchmarks
from rebll_avalanche.benchmarks import MultiLabelBenchmark
from rebll_avalanche.benchmarks.features import Spread
from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.sections import BenchmarkConfig
from rebll_avalanche.distributed.ranks import active
from rebll_avalanche.metrics import multilabel_evaluator
from rebll_avalanche.models import MultiLabelModel
from rebll_avalanche.plugins import SchedulePlugin, build_optimizer
from rebll_avalanche.plugins.gradients import GradientPlugin
from rebll_avalanche.running.loggers import build_loggers
from rebll_avalanche.running.network import feature_maker
from rebll_avalanche.scenario import JOINT, Scenario
from rebll_avalanche.strategies import get_method
from rebll_avalanche.words import brief

# Settings that not every data set has, by the names of those that do.
TAKEN_BY = {
    "root": ("voc", "coco", "csv"),
    "labels": ("csv",),
    "train_size": ("scenes",),
    "test_size": ("scenes", "csv"),
}


def build_benchmark(config: Config, spread: Spread | None = None) -> MultiLabelBenchmark:
    """The streams of a run; a joint method gets all classes in one experience.

    Args:
        config: The settings.
        spread: Computes missing features elsewhere; see ``FrozenFeatures``.
    """
    if not get_method(config.method_name).joint:
        return _benchmark(config.benchmark, config.benchmark.scenario, spread)
    # Every image once, with all its labels, whatever the mode of the stream.
    benchmark = _benchmark(replace(config.benchmark, mode="overlap"), JOINT, spread)
    Scenario.parse(config.benchmark.scenario, benchmark.num_classes)  # raises if it is invalid
    return benchmark


def _benchmark(
    config: BenchmarkConfig, scenario: str, spread: Spread | None
) -> MultiLabelBenchmark:
    for setting, takers in TAKEN_BY.items():
        value = getattr(config, setting)
        if config.name not in takers and value is not None:
            raise ValueError(
                f"benchmark.{setting} is for {' and '.join(takers)}, not for {config.name!r}, got "
                f"{brief(value)}; set benchmark.name, or leave {setting} out"
            )
    order: Any = config.class_order
    if isinstance(order, str) and "," in order:
        order = [name.strip() for name in order.split(",")]
    options: dict[str, Any] = {
        "class_order": order,
        "mode": config.mode,
        "experiences": config.experiences,
        "return_chance": config.return_chance,
        "images_per_class": config.images_per_class,
        "missing": config.missing,
        "validation_size": config.validation_size,
        "seed": config.seed,
    }
    names = ("image_size", "root", "train_size", "test_size")
    given: dict[str, Any] = {
        name: value for name in names if (value := getattr(config, name)) is not None
    }
    if config.features:
        options["features"] = feature_maker(config, spread)
    if config.name == "scenes":
        if "test_size" in given:
            size = given["test_size"]  # elsewhere a fraction, so it comes as a float
            given["test_size"] = int(size) if float(size).is_integer() else size
        return benchmarks.MultiLabelScenes(scenario, **given, **options)
    options |= {"image_cache": config.image_cache, "on_error": config.on_error}
    if config.features:
        options["image_cache"] = None  # only the feature vectors will be read
    if config.name == "voc":
        return benchmarks.VOC2007(scenario, **given, **options)
    if config.name == "coco":
        return benchmarks.COCO2014(scenario, **given, **options)
    given["images"] = given.pop("root")
    return benchmarks.from_csv(str(config.labels), scenario=scenario, **given, **options)


def input_shape(benchmark: MultiLabelBenchmark) -> tuple[int, ...]:
    """The shape of one test input."""
    return tuple(benchmark.test_stream[0].dataset[0][0].shape)


def device_of(config: Config) -> torch.device:
    """Return the device to train on.

    Raises:
        ValueError: When the device is not available.
    """
    name = config.training.device
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda" and active():
        name = f"cuda:{torch.cuda.current_device()}"  # the one of this rank
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        raise ValueError(
            f"training.device {name!r} is not available here ({error}); choose cpu or auto"
        ) from error
    return device


def build_strategy(
    config: Config, model: MultiLabelModel, benchmark: MultiLabelBenchmark, folder: Path
) -> Any:
    """The method of a run as an Avalanche strategy, with its optimizer, schedule and metrics."""
    training = config.training
    device = device_of(config)
    optimizer = build_optimizer(
        model,
        name=training.optimizer,
        lr=training.lr,
        weight_decay=training.weight_decay,
        backbone_lr_scale=training.backbone_lr_scale,
        decay_head=training.decay_head,
    )
    evaluator = multilabel_evaluator(
        thresholds=config.evaluation.thresholds,
        class_names=benchmark.class_names,
        loggers=build_loggers(config, folder),
    )
    strategy = get_method(config.method_name).build(
        model=model,
        optimizer=optimizer,
        train_mb_size=training.batch_size,
        train_epochs=training.epochs,
        eval_mb_size=config.evaluation.batch_size or training.batch_size,
        device=device,
        evaluator=evaluator,
        **config.method_options,
    )
    # After the method's own plugins, which may replace the data loader whose batches the schedule counts.
    strategy.plugins.append(
        SchedulePlugin(
            schedule=training.schedule,
            later_lr_scale=training.later_lr_scale,
            later_backbone_lr_scale=training.later_backbone_lr_scale,
        )
    )
    scaled = training.precision == "float16"
    if training.accumulate > 1 or scaled:
        strategy.plugins.append(
            GradientPlugin(accumulate=training.accumulate, scaled=scaled, device=device.type)
        )
    return strategy
