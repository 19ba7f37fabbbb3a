"""Multi-label class-incremental learning for Avalanche.

Importing this package costs nothing: torch and Avalanche are imported when a name is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

# Where each public name lives.
_EXPORTS = {
    "keep_freed_memory": "process",
    "PartialLabelBCE": "labels",
    "Scenario": "scenario",
    "class_range": "scenario",
    "Memory": "memory",
    "COCO2014": "benchmarks",
    "MultiLabelScenes": "benchmarks",
    "VOC2007": "benchmarks",
    "from_csv": "benchmarks",
    "from_table": "benchmarks",
    "read_table": "tables",
    "multilabel_benchmark": "benchmarks",
    "multilabel_evaluator": "metrics",
    "multilabel_metrics": "metrics",
    "read_metrics": "metrics",
    "last_evaluation": "metrics",
    "run_stream": "running.stream",
    "seed_everything": "running.environment",
    "run_experiment": "running.run",
    "load_run": "inference",
    "Learner": "learner",
    "build_model": "models",
    "AKDPlugin": "plugins",
    "OnlineRelabelPlugin": "plugins",
    "RebLLPlugin": "plugins",
    "SchedulePlugin": "plugins",
    "TaughtPlugin": "plugins",
    "Teacher": "plugins",
    "build_optimizer": "plugins",
    "METHODS": "strategies",
    "Method": "strategies",
    "MethodStrategy": "strategies",
    "RebLL": "strategies",
    "get_method": "strategies",
    "register": "strategies",
}

__all__ = [
    "COCO2014",
    "METHODS",
    "VOC2007",
    "AKDPlugin",
    "Learner",
    "Memory",
    "Method",
    "MethodStrategy",
    "MultiLabelScenes",
    "OnlineRelabelPlugin",
    "PartialLabelBCE",
    "RebLL",
    "RebLLPlugin",
    "Scenario",
    "SchedulePlugin",
    "TaughtPlugin",
    "Teacher",
    "__version__",
    "build_model",
    "build_optimizer",
    "class_range",
    "from_csv",
    "from_table",
    "get_method",
    "keep_freed_memory",
    "last_evaluation",
    "load_run",
    "multilabel_benchmark",
    "multilabel_evaluator",
    "multilabel_metrics",
    "read_metrics",
    "read_table",
    "register",
    "run_experiment",
    "run_stream",
    "seed_everything",
]

if TYPE_CHECKING:
    from rebll_avalanche.benchmarks import (
        COCO2014,
        VOC2007,
        MultiLabelScenes,
        from_csv,
        from_table,
        multilabel_benchmark,
    )
    from rebll_avalanche.inference.predictor import load_run
    from rebll_avalanche.labels import PartialLabelBCE
    from rebll_avalanche.learner import Learner
    from rebll_avalanche.memory import Memory
    from rebll_avalanche.metrics import (
        last_evaluation,
        multilabel_evaluator,
        multilabel_metrics,
        read_metrics,
    )
    from rebll_avalanche.models import build_model
    from rebll_avalanche.plugins import (
        AKDPlugin,
        OnlineRelabelPlugin,
        RebLLPlugin,
        SchedulePlugin,
        TaughtPlugin,
        Teacher,
        build_optimizer,
    )
    from rebll_avalanche.process import keep_freed_memory
    from rebll_avalanche.running.environment import seed_everything
    from rebll_avalanche.running.run import run_experiment
    from rebll_avalanche.running.stream import run_stream
    from rebll_avalanche.scenario import Scenario, class_range
    from rebll_avalanche.strategies import (
        METHODS,
        Method,
        MethodStrategy,
        RebLL,
        get_method,
        register,
    )
    from rebll_avalanche.tables import read_table


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)


def __dir__() -> list[str]:
    return __all__
