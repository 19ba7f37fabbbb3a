"""``rebll table``: execute missing runs and compare the finished ones."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from rebll_avalanche.commands.options import add_cluster_options, check_counts

HELP = """Compare methods over scenarios and seeds, for example: rebll table recipe.yaml --methods rebll lwf
--scenarios B5-C3 B4-C2 --seeds 0 1 2, or rebll table --methods all. Skips finished runs. A recipe may set
methods, scenarios, seeds and sweeps itself; the command line takes precedence."""


def parse(argv: Sequence[str]) -> Any:
    """Parse the recipe, what to vary, and the folder."""
    from rebll_avalanche.configuration.parse import parse_study
    from rebll_avalanche.configuration.study import plan
    from rebll_avalanche.configuration.values import from_text

    def more(parser: Any) -> None:
        own = "by default the recipe's"
        parser.add_argument("--methods", nargs="+", type=str, help=f"names, or all; {own}")
        parser.add_argument("--scenarios", "--scenario", nargs="+", type=str, help=own)
        parser.add_argument("--seeds", nargs="+", type=int, help=own)
        parser.add_argument(
            "--jobs",
            default="1",
            help="number of parallel runs; auto: one per core, or 1 with a GPU (default: 1)",
        )
        add_cluster_options(parser, threads="threads per run; by default jobs share the cores")
        parser.add_argument(
            "--folder", help="folder of runs and table; by default runs, or runs/PROFILE"
        )

    config, study, arguments = parse_study(argv, prog="rebll table", description=HELP, extend=more)
    if arguments.jobs != "auto":
        arguments.jobs = from_text("--jobs", arguments.jobs, int)
    check_counts(arguments, *(() if arguments.jobs == "auto" else ("jobs",)), "threads")
    given: dict[str, Any] = {
        name: tuple(values)
        for name in ("methods", "scenarios", "seeds")
        if (values := getattr(arguments, name))
    }
    arguments.study = replace(study, **given)
    _check_parameters(arguments.given, config.method_name, arguments.study.method_names)
    arguments.thresholds = config.evaluation.thresholds
    arguments.planned = plan(config, arguments.study)
    return arguments


def _check_parameters(given: Sequence[str], owner: str, methods: Sequence[str]) -> None:
    """Refuse a method parameter that no run of the table would use."""
    shared = ("method.name", "method.mem_size")
    for key in given:
        if key.startswith("method.") and key not in shared and methods and owner not in methods:
            raise ValueError(
                f"--{key} is a parameter of {owner}, which is not in this table; name its method with "
                f"--method.name, one of {', '.join(methods)}"
            )


def run(arguments: Any) -> int:
    """Run, compare, write; return 1 if a run of an explicitly named method failed."""
    from rebll_avalanche.configuration.recipe import ALL
    from rebll_avalanche.process import stop_on_terminate
    from rebll_avalanche.running.folder import is_finished

    root = Path(arguments.folder or Path("runs", arguments.profile or ""))
    stop_on_terminate()
    refused, failed = _run_missing(arguments, root)
    finished = [root / entry.name for entry in arguments.planned if is_finished(root / entry.name)]
    if not finished:
        return 1
    if arguments.study.activation_maps:
        _draw_maps(arguments, root)
    _write(
        finished, root / (Path(arguments.recipe).stem if arguments.recipe else "table"), arguments
    )
    return 1 if failed or (refused and ALL not in arguments.study.methods) else 0


def _run_missing(arguments: Any, root: Path) -> tuple[int, int]:
    """Execute missing runs; return the numbers of runs with invalid settings and of failed runs."""
    from rebll_avalanche.running.folder import check_owner, is_finished, record_to_continue
    from rebll_avalanche.running.live import LiveTable

    planned = arguments.planned
    for entry in planned:
        folder = root / entry.name
        check_owner(record_to_continue(folder), entry.config, folder)
    _share_ceilings(planned, root)
    todo = [entry for entry in planned if not is_finished(root / entry.name) and entry.twin is None]
    refused = failed = 0
    with (
        LiveTable(len(todo)) as live,
        closing(
            _endings(arguments, todo, root, lambda entry, place: live.show(entry.name, place))
        ) as endings,
    ):
        for ended in endings:
            live.end(ended.planned.name)
            for text in dict.fromkeys(ended.warnings):
                live.write(f"warning: {ended.planned.name}: {text}")
            if ended.kind == "KeyboardInterrupt":
                raise KeyboardInterrupt
            # A missing file is missing for all runs.
            if ended.kind in ("FileNotFoundError", "MissingFileError"):
                raise FileNotFoundError(ended.error)
            if ended.kind:
                verb = "is left out" if ended.kind == "ValueError" else f"failed ({ended.kind})"
                live.write(f"rebll table: {ended.planned.name} {verb}: {ended.error}")
                refused += ended.kind == "ValueError"
                failed += ended.kind != "ValueError"
    _share_ceilings(planned, root)
    return refused, failed


def _endings(arguments: Any, todo: list[Any], root: Path, on_progress: Any) -> Any:
    """Runs in processes of this machine, or on a cluster."""
    if arguments.ray is None:
        from rebll_avalanche.running.processes import run_all

        jobs = _as_many_as_fit() if arguments.jobs == "auto" else arguments.jobs
        return run_all(todo, root, jobs=jobs, threads=arguments.threads, on_progress=on_progress)
    from rebll_avalanche.running.cluster import run_all_on_ray

    return run_all_on_ray(
        todo,
        root,
        address=arguments.ray,
        threads=arguments.threads,
        gpus=arguments.gpus,
        on_progress=on_progress,
    )


def _as_many_as_fit() -> int:
    """One run per core, or a single one that has the GPU to itself."""
    import os

    import torch

    return 1 if torch.cuda.is_available() else os.cpu_count() or 1


def _share_ceilings(planned: Sequence[Any], root: Path) -> None:
    """Copy the run of a joint method to every scenario: its results do not depend on it."""
    from rebll_avalanche.configuration.config import Config
    from rebll_avalanche.methods import describe
    from rebll_avalanche.run_files import changes
    from rebll_avalanche.running.folder import copy_for_scenario, is_finished, read_config

    for entry in planned:
        folder, scenario = root / entry.name, entry.config.benchmark.scenario
        if not describe(entry.config.method_name).joint or folder.exists():
            continue
        wanted = entry.config.to_dict()
        for twin in filter(is_finished, sorted(root.glob(entry.name.replace(scenario, "*")))):
            found = Config.from_dict(read_config(twin)).to_dict()
            found["benchmark"]["scenario"] = scenario
            others, _ = changes(found, wanted)
            if not others:
                copy_for_scenario(twin, folder, scenario)
                break


def _draw_maps(arguments: Any, root: Path) -> None:
    """Draw class activation maps for the first run of every method and scenario."""
    from rebll_avalanche.commands.cam import draw_tested
    from rebll_avalanche.run_files import CAM_INDEX, CAMS
    from rebll_avalanche.running.folder import is_finished

    first = {entry.config.folder_stem: root / entry.name for entry in reversed(arguments.planned)}
    for folder in first.values():
        if is_finished(folder) and not (folder / CAMS / CAM_INDEX).is_file():
            draw_tested(folder, arguments.study.activation_maps)


def _write(finished: list[Path], stem: Path, arguments: Any) -> None:
    """Write the table and the report of these runs, named after the recipe."""
    from rebll_avalanche.files import write_text
    from rebll_avalanche.report import comparison, read_run, write_report

    runs = [read_run(folder) for folder in finished]
    rows = comparison.compare(runs, arguments.thresholds)
    forms = {"md": comparison.as_markdown, "csv": comparison.as_csv, "tex": comparison.as_latex}
    for ending, form in forms.items():
        write_text(stem.with_name(f"{stem.name}.{ending}"), form(rows, arguments.thresholds))
    page = write_report(runs, stem.with_name(f"{stem.name}.html"))
    print(comparison.as_text(rows, arguments.thresholds))
    print(f"also in {stem}.md, .csv and .tex; figures in {page}")
