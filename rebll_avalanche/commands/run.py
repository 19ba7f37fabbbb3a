"""``rebll run``: train and evaluate one recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

HELP = """Train and evaluate one recipe, for example: rebll run recipe.yaml --seed 3 --method.alpha 1.0.
After an interruption, the same command continues from the last finished epoch. On several processes, with the
same batch size and the same results: torchrun --nproc-per-node 2 -m rebll_avalanche run recipe.yaml."""


def parse(argv: Sequence[str]) -> Any:
    """Parse the configuration and the folder."""
    from rebll_avalanche.configuration.parse import parse_settings

    def more(parser: Any) -> None:
        parser.add_argument("--folder", help="run folder; by default named after the run, in runs/")
        parser.add_argument(
            "--start-over",
            action="store_true",
            help="delete the files of an earlier run in the folder",
        )

    config, arguments = parse_settings(argv, prog="rebll run", description=HELP, extend=more)
    arguments.config = config
    return arguments


def run(arguments: Any) -> int:
    """Run the recipe, and print the results."""
    config = arguments.config
    folder = Path(arguments.folder or Path("runs") / config.folder_name)
    from rebll_avalanche.distributed.ranks import is_first, start
    from rebll_avalanche.process import stop_on_terminate
    from rebll_avalanche.running.run import run_experiment

    stop_on_terminate()
    start()
    records = run_experiment(config, folder, start_over=arguments.start_over)
    if is_first():
        print_records(folder, records, config.evaluation.thresholds[0])
    return 0


def print_records(folder: Path, records: Sequence[dict[str, Any]], threshold: float) -> None:
    """Print the results of a run in percent, one line per experience, and write its report."""
    from rebll_avalanche.report import read_run, write_report
    from rebll_avalanche.run_files import REPORT

    wanted = ("mAP", *(f"{name}@{threshold:g}" for name in ("CF1", "OF1", "FPR")))
    # A metric may be undefined after some experiences: there is no FPR without negatives.
    names = [name for name in wanted if any(name in record["metrics"] for record in records)]
    print(f"{'experience':>10} {'classes':>8} " + " ".join(f"{name:>8}" for name in names))
    for record in records:
        metrics = record["metrics"]
        values = " ".join(
            f"{100 * metrics[name]:8.1f}" if name in metrics else f"{'-':>8}" for name in names
        )
        print(f"{record['experience']:>10} {record['classes_seen']:>8} {values}")
    last = records[-1]["metrics"]
    if "AvgmAP" in last:
        print(f"average mAP {100 * last['AvgmAP']:.1f}")
    page = write_report([read_run(folder)], folder / REPORT)
    print(f"results in {folder}, report in {page}")
