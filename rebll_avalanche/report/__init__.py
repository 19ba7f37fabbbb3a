"""Reports: read the result files of runs, draw the figures, write one HTML page.

Nothing here imports torch or Avalanche: a report needs only the result files.
"""

from rebll_avalanche.report.page import write_report
from rebll_avalanche.report.runs import Run, Step, read_run, read_runs

__all__ = ["Run", "Step", "read_run", "read_runs", "write_report"]
