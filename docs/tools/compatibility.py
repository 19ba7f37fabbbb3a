"""Strategies and plugins of Avalanche on a stream of partial labels: which learn, which are refused.

``python docs/tools/compatibility.py`` tries them all and writes compatibility.csv, which the site shows;
a test tries them again and compares.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from avalanche.training import plugins, supervised
from torch.optim import SGD

from rebll_avalanche import PartialLabelBCE, build_model, multilabel_benchmark, multilabel_evaluator

TABLE = Path(__file__).with_name("compatibility.csv")
COLUMNS = ("part of Avalanche", "verdict", "instead, or why")
LEARNS, REFUSED, FAILS = "learns", "refused", "does not work"
# Arguments that a part cannot do without.
STRATEGIES: dict[str, dict[str, Any]] = {
    "Naive": {}, "Cumulative": {}, "FromScratchTraining": {}, "Replay": {"mem_size": 8},
    "EWC": {"ewc_lambda": 1.0}, "SynapticIntelligence": {"si_lambda": 1.0}, "MAS": {},
    "LFL": {"lambda_e": 0.1}, "GEM": {"patterns_per_exp": 4}, "AGEM": {"patterns_per_exp": 4},
    "LwF": {"alpha": 1.0, "temperature": 2.0}, "GDumb": {"mem_size": 8},
    "MIR": {"mem_size": 8, "subsample": 4}, "GSS_greedy": {"mem_size": 8, "input_size": [6]},
    "DER": {"mem_size": 8}, "ER_ACE": {"mem_size": 8}, "ER_AML": {"mem_size": 8, "feature_extractor": None},
    "CWRStar": {"cwr_layer_name": "head"}, "BiC": {"mem_size": 8},
}  # fmt: skip
PLUGINS: dict[str, dict[str, Any]] = {
    "ReplayPlugin": {"mem_size": 8}, "EWCPlugin": {"ewc_lambda": 1.0},
    "SynapticIntelligencePlugin": {"si_lambda": 1.0}, "MASPlugin": {},
    "GEMPlugin": {"patterns_per_experience": 4, "memory_strength": 0.5},
    "AGEMPlugin": {"patterns_per_experience": 4, "sample_size": 4},
    "EarlyStoppingPlugin": {"patience": 2, "val_stream_name": "test", "metric_name": "mAP"},
    "LRSchedulerPlugin": {"scheduler": None}, "LwFPlugin": {}, "GDumbPlugin": {"mem_size": 8},
    "MIRPlugin": {"batch_size_mem": 8, "mem_size": 8, "subsample": 4}, "BiCPlugin": {"mem_size": 8},
}  # fmt: skip


def verdicts() -> list[tuple[str, str, str]]:
    """Rows of the table."""
    tried: dict[str, Callable[[Any], Any]] = {}
    for name, options in STRATEGIES.items():
        tried[name] = lambda model, n=name, o=options: _strategy(getattr(supervised, n), model, **o)
    for name, options in PLUGINS.items():
        tried[name] = lambda model, n=name, o=options: _with_plugin(n, model, o)
    return [(name, *_verdict(build)) for name, build in tried.items()]


def _verdict(build: Callable[[Any], Any]) -> tuple[str, str]:
    torch.manual_seed(0)
    x, y = torch.randn(24, 6), torch.eye(4).repeat(6, 1)
    benchmark = multilabel_benchmark((x, y), (x, y), "B2-C2")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Avalanche's own, of its deprecated names
            strategy = build(build_model("vector", in_features=6))
            for experience in benchmark.train_stream:
                strategy.train(experience)
            strategy.eval([benchmark.test_stream[-1]])
    except ValueError as error:
        said = str(error)
        if "; use " in said:
            return REFUSED, said.partition("; use ")[2]
        return FAILS, f"{type(error).__name__}: {said}"
    except Exception as error:
        return FAILS, f"{type(error).__name__}: {error}"
    return LEARNS, ""


def _strategy(kind: Any, model: Any, **options: Any) -> Any:
    options.setdefault("optimizer", SGD(model.parameters(), lr=0.1))
    return kind(
        model=model, criterion=PartialLabelBCE(), train_mb_size=8,
        evaluator=multilabel_evaluator(loggers=[]), **options,
    )  # fmt: skip


def _with_plugin(name: str, model: Any, options: dict[str, Any]) -> Any:
    optimizer = SGD(model.parameters(), lr=0.1)
    if "scheduler" in options:
        options = {"scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}
    plugin = getattr(plugins, name)(**options)
    return _strategy(supervised.Naive, model, optimizer=optimizer, plugins=[plugin])


def main() -> None:
    """Try all, write the table."""
    with open(TABLE, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        writer.writerows(verdicts())


if __name__ == "__main__":
    main()
