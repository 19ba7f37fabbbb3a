"""The sections of a report: panels drawn from the runs that have the data."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from matplotlib.figure import Figure

from rebll_avalanche.report.bars import cost_bars, pooled_scores, score_histogram
from rebll_avalanche.report.curves import metric_curves, relabelling_curves, sweep_curves
from rebll_avalanche.report.groups import Combine, Setting, Spread, sweeps_of
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
Looks = Mapping[str, Look]


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
    """A question about the runs and the panels or tables that answer it."""

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


def sections_of(setting: Setting, anchor: str, appearance: Looks) -> list[Section]:
    """Every section that the runs have data for; the names of panels begin with the anchor."""
    sections = [
        *_one_run(setting),
        _course(setting, anchor, appearance),
        *_scores(setting, anchor, appearance),
        _memory(setting, anchor),
        _sweeps(setting, anchor, appearance),
        _cams(setting),
        _class_ap(setting, anchor),
        _forgetting(setting, anchor, appearance),
        _cost(setting, anchor, appearance),
    ]
    return [some for some in sections if some.panels or some.cams or some.classes or some.worst]


def _one_run(setting: Setting) -> list[Section]:
    """For a page about one experiment: what its model knows, and where it is wrong."""
    if len(setting.groups) != 1:
        return []
    group, used = setting.groups[0], thresholds(setting) or ["0.5"]
    lowest = min(used, key=float)
    of_seed = f" Of seed {group.first.seed}." if len(group.runs) > 1 else ""
    every_class = Section(
        "one-run",
        "Every class",
        "Number of test images with and without each class, average precision, and at each threshold "
        "precision (the share of predictions that are right) and recall (the share of present labels that "
        f"are predicted). Classes in order of learning.{of_seed}",
        thresholds=used,
        classes=class_rows(group.first, [float(threshold) for threshold in used]),
    )
    worst = Section(
        "one-run",
        "Worst images",
        "The test images whose labels the model finds least probable, with the scores of its wrong "
        f"predictions at threshold {lowest}. Look at them: the labels may be wrong too. "
        "The command rebll cam RUN IMAGE shows where the model sees a class.",
        worst=worst_images(group.first, float(lowest)),
    )
    return [every_class, worst]


def _course(setting: Setting, anchor: str, appearance: Looks) -> Section:
    return Section(
        "curve",
        "mAP after each experience",
        "Mean average precision over all classes seen so far. "
        "Bands are one standard deviation over seeds.",
        _curve_panels(setting, "mAP", f"{anchor}-map", "mAP, %", appearance),
        numbers=_numbers(setting, "mAP"),
    )


def _forgetting(setting: Setting, anchor: str, appearance: Looks) -> Section:
    name, title = f"{anchor}-forgetting", "forgetting, points"
    return Section(
        "forgetting",
        "Forgetting",
        "How far the AP of a class has fallen below its best earlier value, "
        "mean over the classes of earlier experiences. Lower is better.",
        _curve_panels(setting, "Forgetting", name, title, appearance),
        numbers=_numbers(setting, "Forgetting"),
    )


def _curve_panels(
    setting: Setting, metric: str, name: str, title: str, appearance: Looks
) -> list[Panel]:
    if not any(group.curve(metric) for group in setting.shown):
        return []
    ends = [
        f"{group.label} {percent(spread.mean)}"
        for group in setting.groups
        if (spread := group.last(metric))
    ]
    wide, phone = (
        metric_curves(setting, metric, title, appearance, width=width) for width in (WIDE, PHONE)
    )
    text = f"{metric} after each experience. At the end: {', '.join(ends)}"
    return [Panel(name, "", text, wide, phone)]


def _numbers(setting: Setting, metric: str) -> Numbers:
    curves = [(group.label, dict(group.curve(metric))) for group in setting.groups]
    seen = sorted({place for _, curve in curves for place in curve})
    return Numbers(
        seen, [(label, [curve.get(n) for n in seen]) for label, curve in curves if curve]
    )


def _scores(setting: Setting, anchor: str, appearance: Looks) -> list[Section]:
    """The distribution of scores and their calibration, a panel of each per experiment."""
    headline = float((thresholds(setting) or ["0.8"])[0])
    histograms, curves = [], []
    for place, group in enumerate(setting.shown, start=1):
        label, look = group.label, appearance[group.label]
        present, absent = pooled_scores(group.runs)
        if not len(present) or not len(absent):
            continue
        figure = score_histogram(present, absent, look, threshold=headline, width=PANEL)
        text = f"Score histogram of {label} for present and absent labels"
        histograms.append(Panel(f"{anchor}-scores-{place}", label, text, figure))
        figure = reliability_curve(present, absent, look, width=PANEL)
        error = percent(calibration_error(present, absent))
        text = f"Reliability of the scores of {label}: calibration error {error} %"
        curves.append(Panel(f"{anchor}-reliability-{place}", label, text, figure))
    distribution = Section(
        "scores",
        "Scores of present and absent labels",
        "The final model's scores on the test images, for present and for absent labels, as shares of "
        "each. The scale is logarithmic; the dashed line is the threshold.",
        histograms,
    )
    calibration = Section(
        "reliability",
        "Calibration of the scores",
        "The fraction of present labels over their score. On the dashed line the scores are calibrated "
        "probabilities; below it the model is overconfident. The calibration error is the mean distance "
        "from that line, over all labels of the test images.",
        curves,
    )
    return [distribution, calibration]


def _memory(setting: Setting, anchor: str) -> Section:
    panels, legend = [], []
    for place, group in enumerate(setting.shown, start=1):
        memory, last = group.first.memory, group.first.last
        if memory is None or not len(memory["labels"]):
            continue
        shares = memory_shares(memory)
        legend = [(origin, colour) for origin, colour, _ in shares]
        listed = ", ".join(f"{percent(share, 0)} % {origin}" for origin, _, share in shares)
        said = f"Labels: {listed}. {_relabels(last.relabelling)}".strip()
        name = f"{anchor}-memory-{place}"
        text = f"Label block matrix of the memory of {group.label}. {said}"
        figure = memory_matrix(memory, last.relabelling_blocks, width=PANEL)
        panels.append(Panel(name, group.label, text, figure, note=said))
        course = relabelling_curves(group, width=PANEL)
        if course is not None:
            text = f"Quality of the relabelling of {group.label} after each experience"
            panels.append(Panel(f"{name}-relabels", f"{group.label}: relabelling", text, course))
    return Section(
        "memory",
        "Labels in memory",
        "Each row is an image in memory after the last experience (lowest seed), each column a class. "
        "Strong colour: present. Faint: absent. Empty: unknown. Numbers: percent of the block's "
        "relabels that are correct, compared with the ground truth, which training never sees.",
        panels,
        legend,
    )


def _relabels(scored: Mapping[str, float]) -> str:
    """Quality of relabelling; accuracy alone would mislead, because most labels are absent."""
    if not scored:
        return ""
    return (
        f"Relabelling: accuracy {percent(scored['accuracy'])} %, "
        f"precision {percent(scored['precision'], 0)} %, recall {percent(scored['recall'], 0)} %."
    )


def _sweeps(setting: Setting, anchor: str, appearance: Looks) -> Section:
    panels = [
        Panel(
            f"{anchor}-sweep-{place}",
            sweep.title,
            f"mAP of {sweep.title} at {len(sweep.points)} values",
            sweep_curves(sweep, appearance[sweep.points[0][1].label], width=PANEL),
        )
        for place, sweep in enumerate(sweeps_of(setting), start=1)
    ]
    text = "Runs that differ in a single parameter of the method. The best value is written."
    return Section("sweep", "Parameters", text, panels)


def _class_ap(setting: Setting, anchor: str) -> Section:
    panels = [
        Panel(
            f"{anchor}-classes-{place}",
            group.label,
            f"Average precision of each class after each experience, {group.label}",
            class_ap_matrix(group, width=PANEL),
        )
        for place, group in enumerate(setting.shown, start=1)
        if group.first.last.per_class_ap
    ]
    text = (
        "Average precision in percent, mean over seeds. Rows are classes in order of learning. "
        "Written: after the experience that introduced the class, and at the end."
    )
    return Section("classes", "Every class over time", text, panels)


def _cost(setting: Setting, anchor: str, appearance: Looks) -> Section:
    kinds: list[tuple[str, str, str, Combine, Callable[[float], str]]] = [
        ("seconds", "Time of a run", "seconds", sum, duration),
        ("memory", "Peak memory", "peak_memory_bytes", max, size),
        ("speed", "Images per second", "images_per_second", fmean, "{:.0f}".format),
    ]
    panels = []
    for name, title, field, combine, write in kinds:
        costs = [(group, group.total(field, combine)) for group in setting.groups]
        figure = cost_bars(costs, write, appearance, width=PANEL)
        if figure is not None:
            text = f"{title} of {', '.join(group.label for group in setting.groups)}"
            panels.append(Panel(f"{anchor}-cost-{name}", title, text, figure))
    text = f"Training and evaluation together, mean over seeds. {_preparation(setting)}".strip()
    return Section("cost", "Cost", text, panels)


def _preparation(setting: Setting) -> str:
    """How long it took to read the images, and to make features of them."""
    runs = [run for group in setting.groups for run in group.runs]
    known = [run.preparation for run in runs if run.preparation is not None]
    if not known:
        return ""
    return (
        "Not included: reading the images and, if used, computing the features of a frozen backbone, which "
        f"took up to {duration(max(known))}, and much less once they are cached."
    )


def _cams(setting: Setting) -> Section:
    shown = [
        {"label": group.label, "images": [_cam(run, record) for record in run.cams[:CAM_IMAGES]]}
        for group in setting.groups
        for run in group.runs
        if run.cams
    ]
    text = (
        "Class activation maps of the final model with its scores. "
        "Labels that are present are ticked."
    )
    return Section("cams", "What the model looks at", text, cams=shown)


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
