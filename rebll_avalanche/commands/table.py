"""``rebll table``: run what is missing, compare what is there."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

NAME = "table"
HELP = """Compare methods over scenarios and seeds, for example: rebll table recipe.yaml
--methods rebll lwf --scenarios B5-C3 B4-C2 --seeds 0 1 2. Runs what is missing, skips what is done."""


def parse(argv: Sequence[str]) -> Any:
    """The recipe, what to vary, and where."""
    from rebll_avalanche.experiment.methods import METHOD_OPTIONS
    from rebll_avalanche.experiment.parse import closest, parse_settings

    def more(parser: Any) -> None:
        parser.add_argument("--methods", nargs="+", type=str, help="by default the recipe's")
        parser.add_argument("--scenarios", nargs="+", type=str, help="by default the recipe's")
        parser.add_argument("--seeds", nargs="+", type=int, help="by default the recipe's")
        parser.add_argument("--folder", default="runs", help="of the run folders and the table")

    config, arguments = parse_settings(argv, prog="rebll table", description=HELP, extend=more)
    arguments.config = config
    arguments.methods = arguments.methods or [config.method_name]
    arguments.scenarios = arguments.scenarios or [config.benchmark.scenario]
    arguments.seeds = arguments.seeds or [config.seed]
    for name in arguments.methods:
        if name not in METHOD_OPTIONS:
            raise ValueError(
                f"no method is called {name!r}; the nearest are {closest(name, list(METHOD_OPTIONS))}"
            )
    return arguments


def run(arguments: Any) -> int:
    """Run, compare, write; 1 if a run failed."""
    from tqdm import tqdm

    from rebll_avalanche.commands.run import stop_on_terminate
    from rebll_avalanche.experiment import table
    from rebll_avalanche.experiment.folder import is_finished

    root = Path(arguments.folder)
    configs = table.plan(arguments.config, arguments.methods, arguments.scenarios, arguments.seeds)
    stop_on_terminate()
    finished, failed = [], 0
    bar = tqdm(configs, unit="run", disable=not sys.stderr.isatty())
    for config in bar:
        folder = root / config.folder_name
        bar.set_description(config.folder_name)
        try:
            _run_one(config, folder, bar)
        except (ValueError, FileNotFoundError) as error:
            failed += 1
            print(f"rebll table: {config.folder_name} failed: {error}", file=sys.stderr)
        if is_finished(folder):
            finished.append(folder)
    if not finished:
        return 1
    threshold = arguments.config.evaluation.thresholds[0]
    rows = table.compare(finished, threshold)
    (root / "table.md").write_text(table.as_markdown(rows, threshold))
    (root / "table.csv").write_text(table.as_csv(rows, threshold))
    (root / "table.tex").write_text(table.as_latex(rows, threshold))
    print(table.as_text(rows, threshold))
    print(f"also in {root / 'table.md'}, table.csv and table.tex")
    return 1 if failed else 0


def _run_one(config: Any, folder: Path, bar: Any) -> None:
    from rebll_avalanche.experiment.folder import check_unchanged, copy_for_scenario, is_finished

    if is_finished(folder):
        check_unchanged(config, folder)
        return
    from rebll_avalanche.experiment.progress import EpochsOnBar
    from rebll_avalanche.experiment.run import run_experiment
    from rebll_avalanche.strategies import get_method

    if get_method(config.method_name).joint and not folder.exists():
        twins = folder.parent.glob(folder.name.replace(config.benchmark.scenario, "*"))
        for twin in filter(is_finished, sorted(twins)):
            copy_for_scenario(twin, folder, config.benchmark.scenario)
            check_unchanged(config, folder)
            return
    run_experiment(config, folder, watcher=EpochsOnBar(bar))
