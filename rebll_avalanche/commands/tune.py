"""``rebll tune``: search for good settings on held-out training images."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rebll_avalanche.commands.options import add_cluster_options, check_counts

HELP = """Search for good settings with Ray Tune and Optuna, for example: rebll tune recipe.yaml
--evaluation.stream valid --benchmark.validation_size 0.2 --space training.lr=1e-4..1e-2:log
method.alpha=0.5..2 training.batch_size=16,32 --trials 20. Trials are scored on held-out training images,
never on test images. Writes the best settings as a recipe, and a table of all trials; after an
interruption, the same command continues."""
SHOWN = 5


def parse(argv: Sequence[str]) -> Any:
    """Parse the recipe and the search space."""
    from rebll_avalanche.configuration.parse import parse_settings
    from rebll_avalanche.configuration.space import FORMS, parse_space

    def more(parser: Any) -> None:
        parser.add_argument(
            "--space", nargs="+", default=[], metavar="SETTING=VALUES", help=f"values are {FORMS}"
        )
        parser.add_argument("--trials", type=int, default=20, help="number of trials (default: 20)")
        parser.add_argument(
            "--metric",
            choices=("last", "average"),
            default="last",
            help="mAP after the last experience, or its average over experiences (default: last)",
        )
        parser.add_argument(
            "--early-stopping",
            type=int,
            metavar="N",
            help="stop the worse half of the trials after N experiences, half of the rest after 2 N, etc. "
            "(default: never, because early experiences say little about the last)",
        )
        parser.add_argument("--jobs", type=int, help="parallel trials (default: as many as fit)")
        add_cluster_options(parser, threads="CPUs of each trial (default: 1)")
        parser.add_argument(
            "--folder", help="folder of the search; by default in runs/, ending in _tune"
        )

    config, arguments = parse_settings(argv, prog="rebll tune", description=HELP, extend=more)
    check_counts(arguments, "trials", "jobs", "threads", "early_stopping")
    if not arguments.space:
        raise ValueError(
            f"give --space: the settings to choose, each as SETTING= with {FORMS}, such as "
            "--space training.lr=1e-4..1e-2:log"
        )
    from rebll_avalanche.running.trials import Search

    space = parse_space(arguments.space, config)
    arguments.search = Search(config, space, arguments.metric, arguments.early_stopping)
    return arguments


def run(arguments: Any) -> int:
    """Run the trials that are missing, and write the best one's recipe; return 1 if all have failed."""
    from rebll_avalanche.process import stop_on_terminate
    from rebll_avalanche.running.folder import locked
    from rebll_avalanche.running.live import LiveTable
    from rebll_avalanche.running.search import run_search
    from rebll_avalanche.running.trials import FAILED, RUNNING, Trials

    search = arguments.search
    root = Path(arguments.folder or Path("runs", f"{search.config.folder_name}_tune"))
    stop_on_terminate()
    with locked(root):
        trials = Trials.read(search, root)
        done = sum(row.state != RUNNING for row in trials.rows)
        with LiveTable(max(arguments.trials - done, 0), unit="trial") as live:

            def show(name: str, row: Any) -> None:
                if row is None:
                    live.end(name)
                else:
                    live.show(name, f"experience {row.experiences + 1}", *_cells(trials, row))

            run_search(
                trials,
                arguments.trials,
                address=arguments.ray or "",
                jobs=arguments.jobs,
                threads=arguments.threads,
                gpus=arguments.gpus,
                on_progress=show,
            )
        best = trials.write_best()
    failed = [row for row in trials.rows if row.state == FAILED]
    for error in dict.fromkeys(row.error for row in failed):
        count = sum(row.error == error for row in failed)
        print(f"{count} of {len(trials.rows)} trials failed: {error}")
    if best is None:
        print("no trial has learned the whole stream; see trials.csv")
        return 1
    for row in trials.best_first()[:SHOWN]:
        print("  ".join(_cells(trials, row)))
    print(f"the best as a recipe: {best}; all trials: {root / 'trials.csv'}")
    return 0


def _cells(trials: Any, row: Any) -> list[str]:
    """The score and the settings of a trial, as text."""
    score = trials.score(row)
    shown = f"mAP {100 * score:5.1f}" if score == score else " " * 9
    values = (f"{value:.4g}" if isinstance(value, float) else value for value in row.point.values())
    return [shown, *(f"{key} {value}" for key, value in zip(row.point, values, strict=True))]
