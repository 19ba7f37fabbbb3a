"""The sections of a report: panels drawn from the runs that have the data."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from matplotlib.figure import Figure

from rebll_avalanche.report.bars import cost_bars, pooled_scores, score_histogram
from rebll_avalanche.report.curves import metric_curves, relabelling_curves, sweep_curves
from rebll_avalanche.report.groups import Setting, Spread, sweeps_of
from rebll_avalanche.report.matrices import class_ap_matrix, memory_matrix, memory_shares
from rebll_avalanche.report.names import duration, percent, size
from rebll_avalanche.report.one_run import ClassRow, WorstImage, class_rows, worst_images
from rebll_avalanche.report.reliability import calibration_error, reliability_curve
from rebll_avalanche.report.runs import Run
from rebll_avalanche.report.style import Look
from rebll_avalanche.report.table import thresholds
from rebll_avalanche.run_files import CAMS

WIDE, PANEL, PHONE = 960, 330, 350
CAM_IMAGES = 12


@dataclass(frozen=True)
class Panel:
    """A figure with a heading; wide ones are drawn again for a phone."""

    name: str
    title: str
    description: str
    figure: Figure
    phone: Figure | None = None
    note: str = ""


@dataclass(frozen=True)
class Numbers:
    """The points of a curve as a table: a row per experiment."""

    seen: list[int]
    rows: list[tuple[str, list[Spread | None]]]


@dataclass(frozen=True)
class Section:
    """A question about the runs and the panels that answer it."""

    kind: str
    title: str
    text: str
    panels: Sequence[Panel] = ()
    legend: Sequence[tuple[str, str]] = ()
    numbers: Numbers | None = None
    cams: Sequence[dict[str, Any]] = ()
    thresholds: Sequence[str] = ()
    classes: Sequence[ClassRow] = ()
    worst: Sequence[WorstImage] = ()


def sections_of(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> list[Section]:
    """Every section that the runs of a setting have data for.

    Args:
        setting: The runs.
        anchor: Prefix of every panel's name.
        appearance: The look of each experiment, by label.
    """
    builders = (
        _one_run,
        _course,
        _scores,
        _reliability,
        _memory,
        _sweeps,
        _cams,
        _class_ap,
        _forgetting,
        _cost,
    )
    return [section for build in builders for section in build(setting, anchor, appearance)]


def _one_run(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> Iterator[Section]:
    """For a page about one experiment: what its model knows, and where it is wrong."""
    if len(setting.groups) != 1:
        return
    run, used = setting.groups[0].first, thresholds(setting) or ["0.5"]
    if classes := class_rows(run, [float(threshold) for threshold in used]):
        text = (
            "Test images with and without each class, average precision, and precision and recall of "
            "decisions at each threshold. Classes in order of learning."
        )
        if len(setting.groups[0].runs) > 1:
            text += f" Of seed {run.seed}."
        yield Section("one-run", "Every class", text, thresholds=used, classes=classes)
    lowest = min(used, key=float)
    if worst := worst_images(run, float(lowest)):
        text = (
            "The test images whose labels are least probable by the model's scores, with the decisions "
            f"that are wrong at {lowest}. A label may be wrong too. `rebll cam RUN IMAGE` shows where in "
            "the image a class is seen."
        )
        yield Section("one-run", "Worst images", text, worst=worst)


def _course(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> Iterator[Section]:
    if setting.shown and setting.has("mAP"):
        panel = _curve_panel(setting, "mAP", f"{anchor}-map", "mAP, %", appearance)
        text = (
            "Mean average precision over all classes seen so far. "
            "Bands are one standard deviation over seeds."
        )
        yield Section(
            "curve", "mAP after each experience", text, [panel], numbers=_numbers(setting, "mAP")
        )


def _forgetting(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> Iterator[Section]:
    if any(group.curve("Forgetting") for group in setting.shown):
        panel = _curve_panel(
            setting, "Forgetting", f"{anchor}-forgetting", "forgetting, points", appearance
        )
        text = (
            "How far the AP of a class has fallen below its best earlier value, "
            "mean over the classes of earlier experiences. Lower is better."
        )
        yield Section(
            "forgetting", "Forgetting", text, [panel], numbers=_numbers(setting, "Forgetting")
        )


def _curve_panel(
    setting: Setting, metric: str, name: str, title: str, appearance: Mapping[str, Look]
) -> Panel:
    ends = [
        f"{group.label} {percent(spread.mean)}"
        for group in setting.groups
        if (spread := group.last(metric))
    ]
    return Panel(
        name,
        "",
        f"{metric} after each experience. At the end: {', '.join(ends)}",
        metric_curves(setting, metric, title, appearance, width=WIDE),
        metric_curves(setting, metric, title, appearance, width=PHONE),
    )


def _numbers(setting: Setting, metric: str) -> Numbers:
    curves = [(group.label, dict(group.curve(metric))) for group in setting.groups]
    seen = sorted({place for _, curve in curves for place in curve})
    return Numbers(
        seen, [(label, [curve.get(n) for n in seen]) for label, curve in curves if curve]
    )


def _scores(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> Iterator[Section]:
    headline = float((thresholds(setting) or ["0.8"])[0])
    panels = []
    for place, group in enumerate(setting.shown):
        present, absent = pooled_scores(group.runs)
        if len(present) and len(absent):
            figure = score_histogram(
                present, absent, appearance[group.label], threshold=headline, width=PANEL
            )
            text = f"Score histogram of {group.label} for present and absent labels"
            panels.append(Panel(f"{anchor}-scores-{place + 1}", group.label, text, figure))
    if panels:
        text = (
            "The final model's scores on the test images, for present and for absent labels, as shares of "
            "each. The scale is logarithmic; the dashed line is the threshold."
        )
        yield Section("scores", "Scores of present and absent labels", text, panels)


def _reliability(
    setting: Setting, anchor: str, appearance: Mapping[str, Look]
) -> Iterator[Section]:
    panels = []
    for place, group in enumerate(setting.shown):
        present, absent = pooled_scores(group.runs)
        if len(present) and len(absent):
            error = percent(calibration_error(present, absent))
            panels.append(
                Panel(
                    f"{anchor}-reliability-{place + 1}",
                    group.label,
                    f"Reliability of the scores of {group.label}: calibration error {error} %",
                    reliability_curve(present, absent, appearance[group.label], width=PANEL),
                )
            )
    if panels:
        text = (
            "The fraction of present labels over their score. On the dashed line the scores are calibrated "
            "probabilities; below it the model is overconfident. The calibration error is the mean distance "
            "from that line, over all labels of the test images."
        )
        yield Section("reliability", "Calibration of the scores", text, panels)


def _memory(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> Iterator[Section]:
    panels, legend = [], []
    for place, group in enumerate(setting.shown):
        memory = group.first.memory
        if memory is None or not len(memory["labels"]):
            continue
        legend = [(name, colour) for name, colour, _ in memory_shares(memory)]
        shares = ", ".join(
            f"{percent(share, 0)} % {name}" for name, _, share in memory_shares(memory)
        )
        said = f"Labels: {shares}. {_relabels(group.first.last.relabelling)}".strip()
        name = f"{anchor}-memory-{place + 1}"
        text = f"Label block matrix of the memory of {group.label}. {said}"
        figure = memory_matrix(memory, group.first.last.relabelling_blocks, width=PANEL)
        panels.append(Panel(name, group.label, text, figure, note=said))
        course = relabelling_curves(group, width=PANEL)
        if course is not None:
            text = f"Share of right relabels of {group.label} after each experience"
            panels.append(Panel(f"{name}-relabels", f"{group.label}: right relabels", text, course))
    if panels:
        text = (
            "Each row is an image in memory after the last experience (lowest seed), each column a class. "
            "Strong colour: present. Faint: absent. Empty: unknown. Numbers: percent of the block's "
            "relabels that are correct, compared with the ground truth, which training never sees."
        )
        yield Section("memory", "Labels in memory", text, panels, legend)


def _relabels(scored: Mapping[str, float]) -> str:
    """Quality of relabelling; accuracy alone would be too optimistic, because most labels are absent."""
    if not scored:
        return ""
    return (
        f"{percent(scored['accuracy'])} % of the relabelled entries are right: "
        f"{percent(scored['precision'], 0)} % of what was called present is there, "
        f"{percent(scored['recall'], 0)} % of what is there was found."
    )


def _sweeps(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> Iterator[Section]:
    panels = [
        Panel(
            f"{anchor}-sweep-{place + 1}",
            sweep.title,
            f"mAP of {sweep.title} at {len(sweep.points)} values",
            sweep_curves(sweep, appearance[sweep.points[0][1].label], width=PANEL),
        )
        for place, sweep in enumerate(sweeps_of(setting))
    ]
    if panels:
        text = "Runs that differ in one parameter of the method and nothing else. The best value is written."
        yield Section("sweep", "Parameters", text, panels)


def _class_ap(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> Iterator[Section]:
    panels = [
        Panel(
            f"{anchor}-classes-{place + 1}",
            group.label,
            f"Average precision of each class after each experience, {group.label}",
            class_ap_matrix(group, width=PANEL),
        )
        for place, group in enumerate(setting.shown)
        if group.first.last.per_class_ap
    ]
    if panels:
        text = (
            "Average precision in percent, mean over seeds. Rows are classes in order of learning. "
            "Written: after the experience that introduced the class, and at the end."
        )
        yield Section("classes", "Every class over time", text, panels)


def _cost(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> Iterator[Section]:
    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    kinds: list[
        tuple[str, str, Callable[[Any], Any], Callable[..., float], Callable[[float], str]]
    ] = [
        ("seconds", "Time of a run", lambda step: step.seconds, sum, duration),
        ("memory", "Peak memory", lambda step: step.peak_memory_bytes, max, size),
        ("speed", "Images per second", lambda step: step.images_per_second, mean, "{:.0f}".format),
    ]
    panels = []
    for name, title, what, combine, write in kinds:
        figure = cost_bars(
            setting.groups,
            lambda group, what=what, combine=combine: group.total(what, combine),  # type: ignore[misc]
            write,
            appearance,
            width=PANEL,
        )
        if figure is not None:
            text = f"{title} of {', '.join(group.label for group in setting.groups)}"
            panels.append(Panel(f"{anchor}-cost-{name}", title, text, figure))
    if panels:
        text = "Training and evaluation together, mean over seeds."
        yield Section("cost", "Cost", f"{text} {_preparation(setting)}".strip(), panels)


def _preparation(setting: Setting) -> str:
    """How long it took to read the images, and to make features of them."""
    known = [
        run.preparation
        for group in setting.groups
        for run in group.runs
        if run.preparation is not None
    ]
    if not known:
        return ""
    longest = duration(max(known))
    return (
        "Reading images, and computing features of a frozen backbone where these are used, took up to "
        f"{longest} before that; it is not in the bars, and takes next to no time when cached."
    )


def _cams(setting: Setting, anchor: str, appearance: Mapping[str, Look]) -> Iterator[Section]:
    shown = [
        {"label": group.label, "images": [_cam(run, record) for record in run.cams[:CAM_IMAGES]]}
        for group in setting.groups
        for run in group.runs
        if run.cams
    ]
    if shown:
        text = (
            "Class activation maps of the final model with its scores. "
            "Labels that are present are ticked."
        )
        yield Section("cams", "What the model looks at", text, cams=shown)


def _cam(run: Run, record: dict[str, Any]) -> dict[str, Any]:
    """A record of ``cam.json`` with its images embedded."""

    def embedded(name: str) -> str:
        path = run.folder / CAMS / name
        return embedded_picture(path.read_bytes(), "png" if path.suffix == ".png" else "jpeg")

    maps = [entry | {"source": embedded(entry["file"])} for entry in record["maps"]]
    return record | {"source": embedded(record["file"]), "maps": maps}


def embedded_picture(content: bytes, kind: str = "jpeg") -> str:
    """A picture as the source of an element."""
    return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"
