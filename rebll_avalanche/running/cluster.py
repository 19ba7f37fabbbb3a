"""Execute the runs of a table as Ray tasks on many machines.

Ray schedules the runs, and restarts those of a lost machine elsewhere. A restarted run continues from the
checkpoint in its folder, which must therefore be on a file system that all machines share.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.study import Planned
from rebll_avalanche.running.feature_blocks import fill_caches, on_ray
from rebll_avalanche.running.folder import wait_until_free
from rebll_avalanche.running.processes import Ended, note, work

# Seconds between updates of the progress.
EVERY = 0.5
# Seconds that a run waits for its folder, which a disconnected machine may still have locked.
PATIENCE = 300
# Maximum restarts of a run whose machine or process was lost.
ATTEMPTS = 5


def run_all_on_ray(
    planned: Sequence[Planned],
    root: Path,
    *,
    address: str = "",
    threads: int | None = None,
    gpus: float | None = None,
    on_progress: Callable[[Planned, str], None] | None = None,
) -> Generator[Ended, None, None]:
    """Run configurations on a Ray cluster, in parallel, and yield how each ended.

    Args:
        planned: What to run.
        root: Folder of the run folders, shared by all machines.
        address: Address of the cluster; by default, one is started on this machine.
        threads: CPUs per run; 1 by default.
        gpus: GPUs per run; by default 1 if the cluster has any.
        on_progress: Called with a run and a text that describes its progress.

    Raises:
        ValueError: When Ray is not installed, or the cluster cannot be reached.
    """
    with connected(address) as ray:
        if gpus is None:
            gpus = gpus_per_run(ray)
        fill_caches([entry.config for entry in planned], on_ray(ray, threads or 1))
        # On this machine, so that it is not lost with another one.
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=False
        )
        board = ray.remote(num_cpus=0, scheduling_strategy=here)(Board).remote()
        task = ray.remote(
            num_cpus=threads or 1,
            num_gpus=gpus,
            max_retries=ATTEMPTS,
            max_calls=1,  # a new process per run
        )(_task)
        folder = str(root.resolve())
        running = {
            task.remote(entry.name, entry.config, folder, board, threads or 1): Ended(entry)
            for entry in planned
        }
        try:
            while running:
                done, _ = ray.wait(list(running), timeout=EVERY)
                # The board may be busy; then nothing new is shown.
                with suppress(ray.exceptions.RayActorError):
                    under_way = {ended.planned.name: ended for ended in running.values()}
                    for name, text in ray.get(board.take.remote()):
                        if name in under_way:
                            note(under_way[name], ("at", text), on_progress)
                for reference in done:
                    ended = running.pop(reference)
                    try:
                        for message in ray.get(reference):
                            note(ended, message, on_progress)
                    except ray.exceptions.RayError as error:
                        ended.kind, ended.error = "exit", str(error).splitlines()[0]
                    yield ended
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def gpus_per_run(ray: Any) -> float:
    """1 if the cluster has any GPU, else 0."""
    return 1.0 if ray.cluster_resources().get("GPU") else 0.0


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """The ray module, connected to a cluster while the block lasts.

    Args:
        address: Address of the cluster; if empty, one is started on this machine.

    Raises:
        ValueError: When Ray is not installed, or the cluster cannot be reached.
    """
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError as error:
        raise ValueError(
            "this needs Ray: pip install rebll-avalanche[cluster], on every machine"
        ) from error
    on_terminate = signal.getsignal(signal.SIGTERM)
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if not address:
        # No dashboard, which accepts jobs from anyone, and no usage statistics.
        options["include_dashboard"] = False
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        ray.init(address=address or "local", **options)
    except (ConnectionError, RuntimeError, ray.exceptions.RayError) as error:
        raise ValueError(
            f"no Ray cluster can be joined at {address!r}: {error}; start one with `ray start --head`, or "
            "give no address to have one here"
        ) from error
    signal.signal(signal.SIGTERM, on_terminate)  # Ray has replaced the handler
    try:
        yield ray
    finally:
        ray.shutdown()


class Board:
    """A Ray actor that collects the progress of runs."""

    def __init__(self) -> None:
        self._lines: list[tuple[str, str]] = []

    def put(self, name: str, text: str) -> None:
        """Add a message about a run."""
        self._lines.append((name, text))

    def take(self) -> list[tuple[str, str]]:
        """Return all messages since the last call."""
        taken, self._lines = self._lines, []
        return taken


def _task(name: str, config: Config, root: str, board: Any, threads: int) -> list[tuple[str, str]]:
    """Execute one run in a Ray process; return its warnings and its error, if any."""
    import ray

    node = f"{socket.gethostname()}/{ray.get_runtime_context().get_node_id()[:6]}"
    said: list[tuple[str, str]] = []

    def tell(message: tuple[str, str]) -> None:
        kind, text = message
        if kind == "at":
            board.put.remote(name, f"{node} {text}")
        else:
            said.append(message)

    wait_until_free(Path(root) / name, timeout=PATIENCE)
    work(config, Path(root) / name, tell, threads)
    return said
