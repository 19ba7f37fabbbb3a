"""Run the experiments of a table, each in its own process.

Peak memory is then measured per run, and a crash affects only one run. Where the operating system can,
processes are forked from one that has already imported everything.
"""

from __future__ import annotations

import multiprocessing
import os
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field
from multiprocessing import connection
from pathlib import Path
from typing import Any

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.study import Planned
from rebll_avalanche.process import keep_freed_memory, pass_on_warnings, stop_on_terminate

HEAVY = "rebll_avalanche.running.run"


@dataclass
class Ended:
    """How a run ended.

    Attributes:
        planned: The run.
        error: Error message; empty on success.
        kind: Name of the exception; "exit" if the process died without one.
        warnings: Messages of its warnings.
    """

    planned: Planned
    error: str = ""
    kind: str = ""
    warnings: list[str] = field(default_factory=list)


def run_all(
    planned: Iterable[Planned],
    root: Path,
    *,
    jobs: int = 1,
    threads: int | None = None,
    on_progress: Callable[[Planned, str], None] | None = None,
) -> Generator[Ended, None, None]:
    """Run configurations in parallel and yield how each ended.

    Args:
        planned: Runs, in order.
        root: Folder of the run folders.
        jobs: Number of parallel processes.
        threads: Threads per process; by default the processes share the cores.
        on_progress: Called with a run and a text that describes its progress.
    """
    can_fork = "forkserver" in multiprocessing.get_all_start_methods()
    context: Any = multiprocessing.get_context("forkserver" if can_fork else "spawn")
    if can_fork:
        context.set_forkserver_preload([HEAVY])
    if threads is None and jobs > 1:
        threads = max(1, (os.cpu_count() or 1) // jobs)
    waiting = iter(planned)
    running: dict[Any, tuple[Any, Ended]] = {}
    try:
        while True:
            while len(running) < jobs and (following := next(waiting, None)) is not None:
                receiver, sender = context.Pipe(duplex=False)
                folder = root / following.name
                arguments = (following.config, folder, sender, threads)
                process = context.Process(target=_work, args=arguments)
                process.start()
                sender.close()  # with only the child's copy open, its death closes the pipe
                running[receiver] = (process, Ended(following))
            if not running:
                return
            for receiver in connection.wait(list(running)):
                process, ended = running[receiver]
                if _listen(receiver, ended, on_progress):
                    continue
                process.join()
                if process.exitcode and not ended.kind:
                    ended.kind = "exit"
                    ended.error = f"its process ended with code {process.exitcode}"
                del running[receiver]
                yield ended
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.join()


def _listen(
    receiver: Any, ended: Ended, on_progress: Callable[[Planned, str], None] | None
) -> bool:
    """Handle one message of a run; False if there will be no more."""
    try:
        message = receiver.recv()
    except EOFError:
        return False
    note(ended, message, on_progress)
    return True


def note(
    ended: Ended, message: Sequence[str], on_progress: Callable[[Planned, str], None] | None
) -> None:
    """Handle a message of a run: its progress, a warning, or its error."""
    kind, text = message
    if kind == "at":
        if on_progress is not None:
            on_progress(ended.planned, text)
    elif kind == "warning":
        ended.warnings.append(text)
    else:
        ended.kind, ended.error = kind, text


def _work(config: Config, folder: Path, sender: Any, threads: int | None) -> None:
    """Execute one run in the child process."""
    _end_with_parent()
    stop_on_terminate()
    work(config, folder, sender.send, threads)


def work(
    config: Config, folder: Path, tell: Callable[[tuple[str, str]], None], threads: int | None
) -> None:
    """Execute one run in its own process.

    Args:
        config: Settings of the run.
        folder: The run folder.
        tell: Called with the run's progress, its warnings, and its error if it fails.
        threads: Number of torch threads; unchanged if not given.
    """
    keep_freed_memory()
    try:
        import torch

        from rebll_avalanche.running.progress import EpochReports
        from rebll_avalanche.running.run import run_experiment

        if threads is not None:
            torch.set_num_threads(threads)
        pass_on_warnings(lambda message: tell(("warning", message)))
        run_experiment(config, folder, watcher=EpochReports(lambda text: tell(("at", text))))
    except KeyboardInterrupt:
        tell(("KeyboardInterrupt", "stopped"))
    except Exception as error:
        tell((type(error).__name__, str(error) or repr(error)))


def _end_with_parent() -> None:
    """End this run when its parent dies, so that its folder is unlocked for the next attempt."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            connection.wait([parent.sentinel])
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
