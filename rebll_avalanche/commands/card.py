"""``rebll card``: write a model card and a data card of a run."""

from __future__ import annotations

import argparse
from pathlib import Path

HELP = """Write MODEL_CARD.md and DATA_CARD.md of a run. Facts from its files are filled in; the rest is left
as questions for you. Existing cards are not overwritten."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("run", type=Path, help="a run folder")
    parser.add_argument(
        "-o", "--output", type=Path, metavar="DIR", help="the folder to write to (default: the run)"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the cards; refuses to overwrite answers."""
    from rebll_avalanche.files import write_text
    from rebll_avalanche.report import read_runs
    from rebll_avalanche.report.card import cards
    from rebll_avalanche.words import printable

    runs, left_out = read_runs([arguments.run])
    if len(runs) != 1:
        problem = "; ".join(left_out) or f"{arguments.run} holds {len(runs)} runs"
        raise ValueError(f"one run is needed: {printable(problem)}")
    folder = arguments.output or runs[0].folder
    written = cards(runs[0])
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
