"""``rebll card``: write a model card and a data card of a run, or a model card of a learner."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Write MODEL_CARD.md and DATA_CARD.md of a run, or MODEL_CARD.md of a learner. Known facts are
filled in; the rest is left as questions for you. Existing cards are not overwritten."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", type=Path, help="a run folder, or a learner's file")
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="DIR",
        help="the folder to write to (default: the run, or that of the file)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the cards; refuses to overwrite answers."""
    from rebll_avalanche.files import write_text

    about = _of_learner if arguments.run.is_file() else _of_run
    folder, written = about(arguments.run)
    folder = arguments.output or folder
    there = [name for name in written if (folder / name).exists()]
    if there:
        raise ValueError(
            f"{folder / there[0]} exists already, maybe with your answers; move it, or choose another "
            "folder with -o"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in written.items():
        write_text(folder / name, text)
        print(folder / name)
    return 0


def _of_run(path: Path) -> tuple[Path, dict[str, str]]:
    """The folder of a run, and the text of its cards by file name."""
    from rebll_avalanche.report import read_runs
    from rebll_avalanche.report.card import cards
    from rebll_avalanche.words import printable

    runs, left_out = read_runs([path])
    if len(runs) != 1:
        problem = "; ".join(left_out) or f"{path} holds {len(runs)} runs"
        raise ValueError(f"one run is needed: {printable(problem)}")
    return runs[0].folder, cards(runs[0])


def _of_learner(path: Path) -> tuple[Path, dict[str, str]]:
    """The same for a learner's file."""
    from rebll_avalanche.learner.hub import card
    from rebll_avalanche.learner.learner import Learner

    text = card(Learner.load(path), path.stem, f"load({path.name!r})")
    return path.parent, {"MODEL_CARD.md": text}
