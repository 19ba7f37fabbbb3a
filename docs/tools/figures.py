"""Every figure of the site, drawn from the code and the measured rows when the site is built.

``python docs/tools/figures.py`` draws again the one that README shows: docs/voc_b5c3.svg.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import html
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parent))
import results
import toy

from rebll_avalanche.methods import describe
from rebll_avalanche.report.matrices import ABSENT, SAID_BY, memory_matrix
from rebll_avalanche.report.style import INK, MUTED, RC, RULE, SERIES, THEME, inline_svg, svg_text

WIDTH = 540
README_FIGURE = Path(__file__).parents[1] / "voc_b5c3.svg"
SMALL = "tf_efficientnet_lite0 from blocks.5 on, 96 px, 5 epochs"


def inline(name: str, description: str) -> str:
    """A figure as an element of a page."""
    drawn = FIGURES[name]()
    if isinstance(drawn, str):
        shown = f'<img alt="{html.escape(description)}" src="{drawn}">'
    else:
        shown = inline_svg(svg_text(drawn), name, description).replace("\n", " ")
    return (
        f'<figure class="drawn">{shown}<figcaption>{html.escape(description)}</figcaption></figure>'
    )


def stylesheet() -> str:
    """The figures' colours on light and on dark pages."""
    light, dark = (
        "".join(f"--{name}:{colours[place]};" for name, colours in THEME.items())
        for place in (0, 1)
    )
    return f':root{{{light}}}\n[data-md-color-scheme="slate"]{{{dark}}}\n'


@contextmanager
def panels(columns: int, height: float, **options: Any):
    """Axes side by side, in the look of the package."""
    with mpl.rc_context(RC):
        figure = Figure(figsize=(WIDTH / 72, height / 72), layout="constrained")
        yield figure, figure.subplots(1, columns, squeeze=False, **options)[0]


def share_rows() -> list[tuple[str, float, float, float | None]]:
    """Method, share of Joint, its spread over seeds, the paper's share; on VOC B5-C3, best first."""
    lines = [
        line
        for line in results.read(results.MEASURED)
        if (line.experiment.benchmark, line.experiment.scenario, line.experiment.network)
        == ("voc", "B5-C3", SMALL)
        and "relabelled" not in line.experiment.training
    ]
    joint = {
        s: line.means["mAP"]
        for line in lines
        for s in line.seeds
        if line.experiment.method == "joint"
    }
    printed = [row for row in results.paper_rows() if row["where"] == "table1"]
    shares: dict[tuple[str, bool], list[float]] = {}
    for line in lines:
        for seed in line.seeds:
            named = (line.experiment.method, results.GONE in line.experiment.training)
            shares.setdefault(named, []).append(line.means["mAP"] / joint[seed])
    rows = []
    for (method, earlier), found in shares.items():
        label = describe(method).label + (" (earlier graph)" if earlier else "")
        theirs = [r for r in printed if (r["scenario"], r["method"]) == ("B5-C3", method)]
        said = results.paper_share(printed, theirs[0]) if theirs else None
        rows.append((label, float(np.mean(found)), float(np.std(found)), said))
    return sorted(rows, key=lambda row: row[1])


def voc_b5c3() -> Figure:
    """Shares of Joint, measured and printed."""
    rows = share_rows()
    with panels(1, 26 * len(rows) + 60) as (figure, [axes]):
        places = range(len(rows))
        axes.grid(axis="x")
        axes.grid(visible=False, axis="y")
        ours = [SERIES[0] if "RebLL" in row[0] else MUTED for row in rows]
        axes.barh(places, [r[1] for r in rows], xerr=[r[2] for r in rows], color=ours, height=0.62,
                  error_kw={"ecolor": INK, "elinewidth": 1})  # fmt: skip
        theirs = [(row[3], place) for place, row in enumerate(rows) if row[3] is not None]
        axes.scatter(*zip(*theirs, strict=True), marker="D", s=34, color=SERIES[1], zorder=3,
                     label="the paper, with a larger network")  # fmt: skip
        axes.set_yticks(places, [row[0] for row in rows])
        axes.set_xlim(0, 1.05)
        axes.set_title("Last mAP as a share of Joint, VOC 2007 B5-C3, three seeds", color=INK)
        axes.legend(loc="upper left", bbox_to_anchor=(0, -0.06), frameon=False)
    return figure


def fires_everywhere() -> Figure:
    """How often each class is predicted, and how often it is present."""
    learned = toy.learned()
    with panels(1, 260) as (figure, [axes]):
        classes = np.arange(len(learned.truth))
        for number, (method, label) in enumerate(toy.METHODS.items()):
            colour = {"joint": SERIES[2], "fine-tuning": SERIES[9], "rebll": SERIES[0]}[method]
            axes.bar(
                classes + 0.27 * (number - 1),
                100 * learned.called[method],
                0.25,
                color=colour,
                label=label,
            )
        for place, share in enumerate(100 * learned.truth):
            axes.plot([place - 0.45, place + 0.45], [share, share], color=INK, linewidth=1.5,
                      label="truth" if not place else None)  # fmt: skip
        axes.set_xticks(classes, [f"class {1 + c}\nexp. {1 + c // 2}" for c in classes])
        axes.set_title("share of test images in which a class is predicted, %")
        axes.set_ylim(0, 72)
        axes.legend(ncols=4, loc="upper left", frameon=False)
    return figure


def label_blocks() -> Figure:
    """Which labels each experience comes with."""
    learned = toy.learned()
    with panels(1, 300) as (figure, [axes]):
        rows = np.concatenate([labels[:12].numpy() for labels in learned.train])
        rows = np.pad(
            rows, ((0, 0), (0, len(learned.truth) - rows.shape[1])), constant_values=np.nan
        )
        pixels = np.zeros((*rows.shape, 4))
        pixels[..., :3] = mpl.colors.to_rgb(SAID_BY[1][1])
        pixels[..., 3] = np.where(np.isnan(rows), 0.0, np.where(rows == 1, 1.0, ABSENT))
        axes.imshow(
            pixels, aspect="auto", interpolation="none", extent=(0, rows.shape[1], len(rows), 0)
        )
        axes.grid(False)
        for number in range(1, len(learned.train)):
            axes.axhline(12 * number, color=RULE)
            axes.axvline(2 * number, color=RULE)
        axes.set_xticks([1 + 2 * i for i in range(4)], [f"experience {1 + i}" for i in range(4)])
        axes.set_yticks([6 + 12 * i for i in range(4)], [f"images of {1 + i}" for i in range(4)])
        axes.set_xlabel("classes of")
        axes.spines[:].set_visible(True)
    return figure


def memory_blocks() -> Figure:
    """RebLL's memory after the last experience: who gave which label."""
    memory = toy.learned().rebll.rebll.memory
    labels, provenance = memory.label_matrix()
    return memory_matrix(
        {
            "labels": labels.numpy(),
            "provenance": provenance.numpy(),
            "experience": np.sort(memory.experience.numpy()),
            "class_ends": np.array([2, 4, 6, 8]),
        },
        memory.block_scores([2, 4, 6, 8]),
        width=WIDTH,
    )


def gradients() -> Figure:
    """The gradient of a label, by the predicted probability."""
    import torch

    from rebll_avalanche.losses import adaptive_exponent, cls_loss, er_loss

    def pull(loss: Callable[..., Any], target: float, exponent: float) -> tuple[Any, Any]:
        logits = torch.linspace(-6, 6, 241, dtype=torch.float64)[:, None].requires_grad_()
        loss(logits, torch.full_like(logits, target), exponent=exponent, reduction="sum").backward()
        return logits.detach().sigmoid().flatten(), logits.grad.abs().flatten()

    with panels(2, 270, sharey=True) as (figure, axes):
        drawn = ((axes[0], cls_loss, 1.0, 1.2, "a positive under L_cls, alpha 1.2"),
                 (axes[1], er_loss, 0.0, 0.7, "a negative under L_er, beta 0.7"))  # fmt: skip
        for place, loss, target, factor, title in drawn:
            curves = [(0.0, "cross-entropy", MUTED)]
            curves += [
                (adaptive_exponent(factor, seen), f"{seen} classes seen", SERIES[number])
                for number, seen in enumerate((5, 20, 80))
            ]
            for exponent, label, colour in curves:
                place.plot(*pull(loss, target, exponent), color=colour, label=label)
            place.set_title(title)
            place.set_xlabel("predicted probability p")
        axes[0].set_ylabel("gradient with respect to the logit")
        axes[0].legend(frameon=False)
    return figure


def score_shift() -> Figure:
    """The probability that minimises the asymmetric loss, against the true posterior."""
    import torch

    from rebll_avalanche.losses import adaptive_exponent, posterior_from_score

    score = torch.linspace(0.001, 0.999, 400, dtype=torch.float64)
    with panels(1, 260) as (figure, [axes]):
        axes.plot([0, 1], [0, 1], color=MUTED, linestyle=(0, (2, 2)), linewidth=1)
        for number, seen in enumerate((5, 20, 80)):
            posterior = posterior_from_score(score, adaptive_exponent(1.2, seen))
            axes.plot(posterior, score, color=SERIES[number], label=f"{seen} classes seen")
        axes.set_xlabel("true probability of the label")
        axes.set_title("score that minimises L_cls")
        axes.legend(frameon=False)
    return figure


def streams() -> Figure:
    """Which images come when, in four kinds of streams."""
    import torch

    from rebll_avalanche.benchmarks import streams as kinds
    from rebll_avalanche.scenario import Scenario

    scenario = Scenario.parse("B2-C2", num_classes=6)
    generator = torch.Generator().manual_seed(3)
    positives = torch.rand(24, 6, generator=generator) < 0.25
    positives[torch.arange(24), torch.arange(24) % 6] = True
    longer = scenario.spread(6)
    made = {
        "overlap": kinds.overlap(positives, scenario),
        "disjoint": kinds.disjoint(positives, scenario),
        "once": kinds.once(positives, scenario, seed=0),
        "repetition": kinds.repetition(positives, longer, chance=0.4, images=None, seed=0),
    }
    with panels(4, 300, sharey=True) as (figure, axes):
        for place, (kind, parts) in zip(axes, made.items(), strict=True):
            for number, (rows, columns) in enumerate(parts):
                place.scatter(
                    [number] * len(rows), rows, s=16, color=SERIES[number % 9], clip_on=False
                )
                place.annotate(
                    ",".join(str(1 + c) for c in columns), (number, -1.8), fontsize=7, ha="center",
                    rotation=90, va="bottom", annotation_clip=False, color=MUTED,
                )  # fmt: skip
            place.set_title(kind, pad=34)
            place.set_ylim(24, -1)
            place.set_xticks(range(len(parts)), range(1, 1 + len(parts)))
            place.set_xlim(-0.7, len(parts) - 0.3)
            place.set_xlabel("experience")
        axes[0].set_ylabel("image")
    return figure


def reliability() -> Figure:
    """Frequency against predicted probability, with and without the fitted calibration."""
    with open(results.CLOSED_FORM, newline="") as file:
        rows = [r for r in csv.DictReader(file) if r["table"] == "voc-lite2 B5-C3"]
    with panels(1, 290) as (figure, [axes]):
        axes.plot([0, 1], [0, 1], color=MUTED, linestyle=(0, (2, 2)), linewidth=1)
        for number, row in enumerate(rows):
            said, found, _ = zip(
                *(map(float, b.split("/")) for b in row["reliability"].split()), strict=True
            )
            error = 100 * float(row["calibration_error"])
            axes.plot(said, found, color=SERIES[number], marker="o",
                      label=f"{row['name']}: calibration error {error:.1f} %")  # fmt: skip
        axes.set_xlabel("predicted probability")
        axes.set_title("share of these labels that are present")
        axes.legend(frameon=False)
    return figure


def scenes() -> str:
    """Some drawn scenes of three experiences, with what is labelled and what is hidden."""
    from rebll_avalanche import MultiLabelScenes
    from rebll_avalanche.benchmarks.show import draw_experiences

    benchmark = MultiLabelScenes("B10-C5", train_size=60, test_size=20)
    with tempfile.TemporaryDirectory() as folder:
        path = draw_experiences(benchmark, Path(folder, "scenes.png"), images_per_experience=5)
        return f"data:image/png;base64,{base64.b64encode(path.read_bytes()).decode()}"


FIGURES: dict[str, Callable[[], Figure | str]] = {
    "voc-b5c3": voc_b5c3,
    "fires-everywhere": fires_everywhere,
    "label-blocks": label_blocks,
    "memory-blocks": memory_blocks,
    "gradients": gradients,
    "score-shift": score_shift,
    "streams": streams,
    "reliability": reliability,
    "scenes": scenes,
}


def source_of_readme_figure() -> str:
    """A hash of the rows that README's figure shows; the figure carries it."""
    said = repr(
        [
            (name, f"{share:.3f}", f"{spread:.3f}", theirs)
            for name, share, spread, theirs in share_rows()
        ]
    )
    return hashlib.sha256(said.encode()).hexdigest()[:16]


def main() -> None:
    """Draw README's figure again, on white, as it is seen outside of the site."""
    text = svg_text(voc_b5c3())
    start = text.index(">", text.index("<svg")) + 1
    ground = f'\n<!-- rows {source_of_readme_figure()} -->\n<rect width="100%" height="100%" fill="white"/>'
    README_FIGURE.write_text(text[:start] + ground + text[start:])
    print(README_FIGURE)


if __name__ == "__main__":
    main()
