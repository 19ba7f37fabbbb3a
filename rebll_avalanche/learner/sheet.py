"""Draw some thumbnails of each lesson."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from rebll_avalanche.errors import RebllError
from rebll_avalanche.pictures import decode_picture

if TYPE_CHECKING:
    from rebll_avalanche.learner.learner import Learner


def draw_lessons(learner: Learner, path: Path, images_per_lesson: int = 6) -> Path:
    """Draw thumbnails of each lesson; the original pictures are not needed.

    Args:
        learner: A learner that keeps thumbnails.
        path: The PNG file to write.
        images_per_lesson: Maximum number per lesson.

    Raises:
        RebllError: When the learner keeps none.
    """
    found = []
    for lesson in learner.lessons:
        small = [
            (name, decode_picture(content))
            for name, key in zip(lesson.pictures, lesson.keys, strict=True)
            if (content := learner.thumbnail(key)) is not None
        ]
        if small:  # evenly spaced over the lesson
            found.append((lesson, small[:: -(-len(small) // images_per_lesson)]))
    if not found:
        raise RebllError("this learner keeps no thumbnails to draw")
    width = max(len(small) for _, small in found) + 1
    figure = Figure(figsize=(1.7 * width + 0.5, 1.7 * len(found) + 0.5), layout="constrained")
    for (lesson, small), line in zip(
        found, figure.subplots(len(found), width, squeeze=False), strict=True
    ):
        for axis in line:
            axis.set_axis_off()
        new = [f"+ {name}" for name in lesson.new_classes][:6]
        text = f"lesson {lesson.number}\n{len(lesson.pictures)} pictures\n" + "\n".join(new)
        # Dollar signs in names would start a formula.
        line[0].text(0, 1, text, va="top", transform=line[0].transAxes, parse_math=False)
        for axis, (name, picture) in zip(line[1:], small, strict=False):
            axis.imshow(picture)
            axis.set_title(name[-24:], fontsize=7, parse_math=False)
    figure.savefig(path, dpi=100)
    return path
