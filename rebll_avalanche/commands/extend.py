"""``rebll extend``: teach a finished run more, as a learner in a file of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from rebll_avalanche.commands.learn import add_lesson, print_lesson

HELP = """Teach a finished run more, for example: rebll extend runs/mine more.csv --images photos. The run's
images and tables are not needed. The run is opened as a learner, which learns the table with the run's
method and is written to runs/mine.rebll; later tables continue from that file. The run is not changed."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", type=Path, help="the folder of a finished run")
    add_lesson(parser)
    parser.add_argument("--to", type=Path, help="the learner's file (default: RUN.rebll)")


def run(arguments: argparse.Namespace) -> int:
    """Open the run or continue its learner, teach the lesson, and print what was learned."""
    from rebll_avalanche.process import stop_on_terminate

    stop_on_terminate()
    from rebll_avalanche.errors import RebllError
    from rebll_avalanche.learner import Learner
    from rebll_avalanche.learner.held import changing
    from rebll_avalanche.run_files import config_of

    folder: Path = arguments.run
    config_of(folder)  # raises if there is no run
    file = arguments.to or folder.with_name(f"{folder.resolve().name}.rebll")
    continued = file.exists()
    with changing(file, lambda: Learner.from_run(folder)) as learner:
        if continued:
            if not any(lesson.is_of_run(folder) for lesson in learner.lessons):
                raise RebllError(
                    f"{file} is another learner, with no lesson of the run {folder.resolve().name}: give "
                    f"another file with --to, or teach that one with rebll learn {file}"
                )
            print(f"continuing with {file}; the run is not read again")
        print_lesson(learner, arguments)
    print(
        f"\n{file} knows {len(learner.class_names)} classes; ask it: rebll predict {file} PICTURES"
    )
    return 0
