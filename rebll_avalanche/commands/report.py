"""``rebll report``: one HTML page from run folders."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

HELP = """Write one self-contained HTML page from runs: the table, mAP over experiences, scores, memory,
parameters, class activation maps, AP per class, forgetting, cost. Reads result files only."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of the command."""
    parser.add_argument("runs", nargs="+", type=Path, help="run folders, or folders that hold some")
    parser.add_argument(
        "-o", "--output", type=Path, default=None,
        help="the HTML file; by default report.html, inside the run if there is only one",
    )  # fmt: skip
    parser.add_argument(
        "--figures", type=Path, metavar="DIR", help="also write every figure there, as SVG and PNG"
    )


def run(arguments: argparse.Namespace) -> int:
    """Write the report; return 1 if a folder was left out."""
    from rebll_avalanche.report import read_runs, write_report
    from rebll_avalanche.run_files import REPORT
    from rebll_avalanche.words import told

    runs, left_out = read_runs(arguments.runs)
    for reason in left_out:
        print(f"left out: {told(reason)}", file=sys.stderr)
    if not runs:
        raise FileNotFoundError("no run to report; give folders that `rebll run` wrote")
    output = arguments.output or (runs[0].folder if len(runs) == 1 else Path()) / REPORT
    if output.is_dir():
        raise ValueError(f"{output} is a folder; name a file, such as -o {output / REPORT}")
    path = write_report(runs, output, figures=arguments.figures, left_out=left_out)
    print(path)
    return 1 if left_out else 0
