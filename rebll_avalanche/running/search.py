"""Search for good settings: Ray Tune runs the trials, Optuna proposes them.

A trial is a run in its own folder, scored on held-out training images. A search resumes from ``trials.csv``:
Optuna gets the earlier trials, and unfinished trials continue from their checkpoints.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.space import Choice
from rebll_avalanche.errors import MissingFileError
from rebll_avalanche.running.cluster import ATTEMPTS, connected, gpus_per_run
from rebll_avalanche.running.trials import (
    FAILED,
    FILLED_IN,
    FINISHED,
    METRICS,
    RUNNING,
    STOPPED,
    Search,
    Trial,
    Trials,
)

OF_RAY = ".ray"  # a folder for Ray Tune's own files
# Ctrl-C ends this process, as elsewhere in this package, which also reports and stores the results itself.
QUIET = {
    "TUNE_DISABLE_SIGINT_HANDLER": "1",
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",
    "RAY_AIR_NEW_OUTPUT": "0",
}


def run_search(
    trials: Trials,
    count: int,
    *,
    address: str = "",
    jobs: int | None = None,
    threads: int | None = None,
    gpus: float | None = None,
    on_progress: Callable[[str, Trial | None], None] | None = None,
) -> None:
    """Run trials until there are ``count`` of them.

    Args:
        trials: Earlier trials; new ones are added.
        count: Total number of trials.
        address: Address of a Ray cluster; by default, one is started on this machine.
        jobs: Number of parallel trials; by default as many as fit. With 1, the same seed proposes the
            same trials.
        threads: CPUs per trial; 1 by default.
        gpus: GPUs per trial; by default 1 if the cluster has any.
        on_progress: Called with a trial's name and its state; with None when it has ended.

    Raises:
        MissingFileError: When the data set is missing.
        ValueError: When Ray or Optuna is not installed, or the cluster cannot be reached.
    """
    under_way = [row for row in trials.rows if row.state == RUNNING]
    done = len(trials.rows) - len(under_way)
    if done >= count:
        return
    os.environ.update(QUIET)
    with connected(address) as ray:
        try:
            import optuna
            from ray import tune
        except ImportError as error:
            raise ValueError(
                f"a search needs {error.name}: pip install rebll-avalanche[cluster], on every machine"
            ) from error
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        logging.getLogger("ray.tune").setLevel(logging.ERROR)
        search = trials.search
        options: dict[str, Any] = {}
        if search.stop_after is not None:
            options["scheduler"] = tune.schedulers.ASHAScheduler(
                time_attr="experiences",
                max_t=10**6,  # never reached
                grace_period=search.stop_after,
                reduction_factor=2,
            )
        shares = {"cpu": threads or 1, "gpu": gpus_per_run(ray) if gpus is None else gpus}
        work = tune.with_parameters(
            _trial, search=search, root=str(trials.root.resolve()), threads=threads or 1
        )
        noting = _noting(trials, under_way, on_progress)
        storage = trials.root.resolve() / OF_RAY
        tuner = tune.Tuner(
            tune.with_resources(work, shares),
            tune_config=tune.TuneConfig(
                metric=METRICS[search.metric],
                mode="max",
                num_samples=count - done,
                search_alg=_searcher(trials, under_way),
                max_concurrent_trials=jobs,
                **options,
            ),
            run_config=tune.RunConfig(
                name="search",
                storage_path=str(storage),
                # Restarts after losing a machine or process; failed runs are recorded and not repeated.
                failure_config=tune.FailureConfig(max_failures=ATTEMPTS),
                callbacks=[noting],
                verbose=0,
            ),
        )
        try:
            tuner.fit()
        except tune.TuneError:
            if noting.missing:
                raise MissingFileError(noting.missing) from None
            raise
        shutil.rmtree(storage, ignore_errors=True)  # all results are in the runs and trials.csv


def _searcher(trials: Trials, under_way: list[Trial]) -> Any:
    """Optuna with the results of earlier trials."""
    from ray.tune.search.optuna import OptunaSearch

    class Searcher(OptunaSearch):
        def on_trial_complete(
            self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
        ) -> None:
            """Use only scores after the whole stream: with fewer classes, scores are higher."""
            state = result.get("state") if result else FAILED
            whole = result if state == FINISHED else None
            super().on_trial_complete(trial_id, whole, error or state == FAILED)

    metric = METRICS[trials.search.metric]
    searcher = Searcher(
        {key: _distribution(choice) for key, choice in trials.search.space.items()},
        metric=metric,
        mode="max",
        points_to_evaluate=[row.point for row in under_way],
        # Another seed after resuming; the same one would propose the same trials again.
        seed=trials.search.config.seed + len(trials.rows),
    )
    for row in (row for row in trials.rows if row.state != RUNNING):
        score = trials.score(row)
        searcher.add_evaluated_point(
            row.point,
            score,
            error=row.state == FAILED,
            pruned=row.state == STOPPED,
            intermediate_values=[score] * row.experiences,
        )
    return searcher


def _distribution(choice: Choice) -> Any:
    from optuna import distributions

    if not choice.between:
        return distributions.CategoricalDistribution(choice.values)
    kind = distributions.IntDistribution if choice.whole else distributions.FloatDistribution
    low, high = choice.values
    return kind(low, high, log=choice.log)


def _noting(
    trials: Trials,
    under_way: list[Trial],
    on_progress: Callable[[str, Trial | None], None] | None,
) -> Any:
    """A Ray Tune callback that records trials in ``trials.csv``."""
    from ray import tune

    class Noting(tune.Callback):
        def __init__(self) -> None:
            self._rows: dict[str, Trial] = {}
            # Kept until they have started again, so that a second interruption does not lose them.
            self._to_go_on = list(under_way)
            self.missing = ""

        def on_trial_start(self, trial: Any, **_: Any) -> None:
            if trial.trial_id not in self._rows:
                row = Trial(dict(trial.config))
                known = next((known for known in self._to_go_on if known.point == row.point), None)
                if known is None:
                    trials.rows.append(row)
                else:
                    row = known
                    self._to_go_on.remove(row)
                self._rows[trial.trial_id] = row
            self._tell(trial)

        def on_trial_result(self, trial: Any, result: dict[str, Any], **_: Any) -> None:
            if result.get("missing"):  # for all trials
                self.missing = result["error"]
                raise MissingFileError(self.missing)
            row = self._rows[trial.trial_id]
            for name in FILLED_IN:
                if name in result:
                    setattr(row, name, result[name])
            self._tell(trial)

        def on_trial_complete(self, trial: Any, **_: Any) -> None:
            row = self._rows[trial.trial_id]
            if row.state == RUNNING:
                row.state = STOPPED
            self._tell(trial, ended=True)

        def on_trial_error(self, trial: Any, **_: Any) -> None:
            row = self._rows[trial.trial_id]
            row.state, row.error = FAILED, f"its process or machine was lost {ATTEMPTS + 1} times"
            self._tell(trial, ended=True)

        def _tell(self, trial: Any, *, ended: bool = False) -> None:
            trials.write()
            if on_progress is not None:
                row = self._rows[trial.trial_id]
                on_progress(f"trial {trials.rows.index(row)}", None if ended else row)

    return Noting()


def _trial(point: dict[str, Any], *, search: Search, root: str, threads: int) -> None:
    """Execute one trial in a Ray process."""
    from filelock import FileLock
    from ray import tune

    from rebll_avalanche.process import keep_freed_memory

    keep_freed_memory()
    folder = Path(root, Trial(point).folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        # Optuna may propose the same settings twice; the second waits for the first one's result.
        with FileLock(folder.with_suffix(".lock")):
            _learn(search.settings(point), folder, threads)
    except Exception as error:
        missing = isinstance(error, FileNotFoundError)
        said = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        nothing = {name: float("nan") for name in METRICS.values()}
        tune.report({"state": FAILED, "error": said, "missing": missing, **nothing})


def _learn(config: Config, folder: Path, threads: int) -> None:
    """Train on the stream, and report after every experience."""
    import torch
    from avalanche.training.plugins import SupervisedPlugin
    from ray import tune

    from rebll_avalanche.running.folder import read_records
    from rebll_avalanche.running.run import run_experiment

    class Reports(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
        def __init__(self) -> None:
            super().__init__()
            self.told = 0

        def tell(self, *, finished: bool) -> None:
            records = read_records(folder)
            for number, record in enumerate(records[self.told :], start=self.told + 1):
                last = finished and number == len(records)
                scores = {name: record["metrics"].get(name, 0.0) for name in METRICS.values()}
                state = FINISHED if last else RUNNING
                tune.report({"experiences": number, "state": state, **scores})
            self.told = len(records)

        def before_training_exp(self, strategy: Any, **kwargs: Any) -> None:
            """Report the experiences before: their results and checkpoints are on disk by now."""
            self.tell(finished=False)

        def close(self) -> None:
            """Nothing is open."""

    torch.set_num_threads(threads)
    reports = Reports()
    run_experiment(config, folder, watcher=reports)
    reports.tell(finished=True)
