"""All settings of a run: checked, as plain values, and by their dotted names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, get_type_hints

from rebll_avalanche.configuration.sections import (
    SECTIONS,
    BenchmarkConfig,
    EvaluationConfig,
    ModelConfig,
    TrainingConfig,
)
from rebll_avalanche.configuration.values import checked
from rebll_avalanche.methods import describe
from rebll_avalanche.words import brief, nearest

# Records that a run adds to its config.yaml, which can itself be used as a recipe.
RECORDS = (
    "class_names",
    "class_order",
    "method_as_run",
    "weights",
    "versions",
    "git",
    "environment",
    "milliseconds_per_step",
    "extensions",  # of runs that an earlier version has extended in place
)


@dataclass(frozen=True)
class Config:
    """All settings of one run.

    Attributes:
        benchmark: The data set and how its classes are split into experiences.
        model: The network.
        method: ``name`` and the method's own parameters, with the method's defaults for those not given.
        training: How every experience is trained.
        evaluation: How the model is evaluated.
        seed: Seed of all random numbers in training.
        loggers: Names of Avalanche loggers to use in addition to the run's own files.
    """

    benchmark: BenchmarkConfig = field(default_factory=BenchmarkConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    method: Mapping[str, Any] = field(default_factory=lambda: {"name": "rebll"})
    training: TrainingConfig = field(default_factory=TrainingConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    seed: int = 0
    loggers: tuple[Literal["text", "tensorboard", "wandb"], ...] = ()

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**32:  # numpy's range
            raise ValueError(f"seed must lie between 0 and {2**32 - 1}, got {self.seed}")
        features, until = self.benchmark.features, self.benchmark.features_until
        if until and not features:
            raise ValueError(f"benchmark.features_until {until!r} requires benchmark.features")
        views = self.benchmark.views
        for option, given in (
            ("features_aspect 'kept'", self.benchmark.features_aspect == "kept"),
            ("features_windows", self.benchmark.features_windows),
        ):
            if given and (until or not features):
                raise ValueError(
                    f"benchmark.{option} is for pooled features: give benchmark.features, and no "
                    "benchmark.features_until"
                )
        if until and (len(views) > 1 or features != views[0][0]):
            raise ValueError(
                f"benchmark.features_until {until!r} requires a single backbone at benchmark.image_size; "
                f"got benchmark.features {features!r}"
            )
        if features and self.model.backbone != (fitting := features if until else "vector"):
            made = f"maps, the input of the rest of {features}" if until else "vectors"
            raise ValueError(
                f"benchmark.features replaces the images by {made}, so model.backbone must be "
                f"{fitting!r}, got {self.model.backbone!r}"
            )
        if self.evaluation.stream == "valid" and not self.benchmark.validation_size:
            raise ValueError(
                "evaluation.stream 'valid' needs benchmark.validation_size, for example 0.1"
            )

    @property
    def method_name(self) -> str:
        """Which method."""
        return str(self.method["name"])

    @property
    def method_options(self) -> dict[str, Any]:
        """The explicitly given parameters of the method."""
        return {key: value for key, value in self.method.items() if key != "name"}

    @property
    def folder_stem(self) -> str:
        """Name of a run of this configuration without its seed."""
        return "_".join([self.benchmark.name, self.benchmark.scenario, self.method_name])

    @property
    def folder_name(self) -> str:
        """Default name of the run folder."""
        return f"{self.folder_stem}_seed{self.seed}"

    def to_dict(self) -> dict[str, Any]:
        """Plain values, ready for YAML."""
        plain = asdict(self) | {"method": dict(self.method), "loggers": list(self.loggers)}
        plain["evaluation"]["thresholds"] = list(self.evaluation.thresholds)
        return plain

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Config:
        """Build a configuration from plain values; records that a run added are ignored.

        Raises:
            ValueError: Naming what is wrong and the nearest valid choice.
        """
        if not isinstance(values, Mapping):
            raise ValueError(f"a configuration must map names to settings, got {brief(values)}")
        given = {key: value for key, value in values.items() if key not in RECORDS}
        method = method_section(given)
        given["method"] = method = {"name": "rebll"} | {
            key: value for key, value in method.items() if value is not None
        }
        kinds = kinds_of(checked("method.name", method["name"], str))
        check_keys(given, kinds, f" of {method['name']}")
        arguments: dict[str, Any] = {}
        for key, value in given.items():
            if isinstance(value, Mapping) and key not in kinds:
                inner = {k: checked(f"{key}.{k}", v, kinds[f"{key}.{k}"]) for k, v in value.items()}
                arguments[key] = SECTIONS[key](**inner) if key in SECTIONS else inner
            else:
                arguments[key] = checked(key, value, kinds[key])
        return cls(**arguments)


def method_section(settings: Mapping[str, Any]) -> Mapping[str, Any]:
    """The name and the parameters of the method, as far as they are given."""
    method = settings.get("method", {})
    if not isinstance(method, Mapping):
        raise ValueError(
            f"method must hold a name and parameters, such as {{name: lwf}}, got {brief(method)}"
        )
    return method


def kinds_of(method: str) -> dict[str, Any]:
    """The type of every setting of a method, by its dotted key."""
    kinds: dict[str, Any] = {}
    for name, kind in get_type_hints(Config).items():
        if name in SECTIONS:
            kinds |= {
                f"{name}.{entry}": inner for entry, inner in get_type_hints(SECTIONS[name]).items()
            }
        elif name == "method":
            parameters = describe(method).parameters
            kinds["method.name"] = str
            kinds |= {f"method.{entry}": about.kind for entry, about in parameters.items()}
        else:
            kinds[name] = kind
    return kinds


def check_keys(settings: Mapping[str, Any], known: Iterable[str], whose: str = "") -> None:
    """Refuse settings that do not exist, and name the nearest valid ones.

    Args:
        settings: Sections with settings, or dotted settings.
        known: Dotted names of valid settings.
        whose: Owner for the message, such as " of lwf".
    """
    known = list(known)
    sections = {name.split(".")[0] for name in known}
    for section, value in settings.items():
        inner = isinstance(value, Mapping) and section not in known
        inner = inner and (bool(value) or section in sections)  # an empty one is named itself
        for key in [f"{section}.{name}" for name in value] if inner else [str(section)]:
            if key not in known:
                own = key.split(".")[0]
                near = [name for name in known if name.split(".")[0] == own]
                words = [name for name in known if "." not in name]
                if not near and (word := nearest(own, words, 1, cutoff=0.8)):
                    raise ValueError(f"{own} is not a setting; did you mean {word}?")
                owner = whose if own == "method" else ""
                raise ValueError(
                    f"{brief(key)[1:-1]} is not a setting{owner}; the nearest are "
                    f"{nearest(key, near or known, 3)}"
                )
