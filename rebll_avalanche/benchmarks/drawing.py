"""Synthetic scenes of several objects, drawn for all scenes at once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from rebll_avalanche.benchmarks.shapes import CLASSES, CLUTTER, Shape

# How many of PASCAL VOC 2007's 5011 trainval images show each of its classes, in alphabetical order.
VOC_COUNTS = (
    238, 243, 330, 181, 244, 186, 713, 337, 445, 141, 200, 421, 287, 245, 2008, 245, 96, 229, 261, 256,
)  # fmt: skip
FREQUENCIES = np.array(VOC_COUNTS) / 5011

SHAPES: tuple[Shape, ...] = (*CLASSES.values(), *CLUTTER)
MAX_OBJECTS = 6
MAX_CLUTTER = 4
# Half widths of objects and clutter, as fractions of the picture's side.
OBJECT_RADIUS = (0.15, 0.27)
CLUTTER_RADIUS = (0.06, 0.16)
CHUNK = 256


@dataclass(frozen=True)
class Scenes:
    """Images, labels, and bounding boxes of all objects.

    Attributes:
        images: ``uint8 [scenes, side, side, 3]``.
        labels: ``float32 [scenes, 20]`` of 0 and 1.
        objects: One row ``(scene, class, left, top, right, bottom)`` per object, in pixels.
    """

    images: np.ndarray
    labels: np.ndarray
    objects: np.ndarray


@lru_cache(maxsize=8)
def draw_scenes(count: int, image_size: int, seed: int, split: int = 0) -> Scenes:
    """Draw scenes; the same arguments give the same scenes.

    Args:
        count: Number of scenes.
        image_size: Side in pixels.
        seed: Random seed.
        split: A different number gives independent scenes, such as test scenes.
    """
    rng = np.random.default_rng([seed, split])
    labels = deal_labels(count, rng)
    kind, centre, radius = _arrange(labels, rng)
    canvas = _backgrounds(count, image_size, rng)
    for slot in range(kind.shape[1]):
        _paint_slot(canvas, kind[:, slot], centre[:, slot], radius[:, slot], rng)
    canvas = canvas[:, :image_size, :image_size]
    canvas += rng.standard_normal(canvas.shape, dtype=np.float32) * np.float32(0.03)
    images = (canvas.clip(0, 1) * 255).astype(np.uint8)
    images.flags.writeable = False

    scene, at = np.nonzero((kind >= 0) & (kind < len(CLASSES)))
    middle, half = centre[scene, at] * image_size, radius[scene, at, None] * image_size
    box = np.concatenate([middle - half, middle + half], axis=1).clip(0, image_size)
    objects = np.column_stack([scene, kind[scene, at], box.round().astype(int)])
    return Scenes(images, labels.astype(np.float32), objects)


def deal_labels(count: int, rng: np.random.Generator) -> np.ndarray:
    """Boolean ``[scenes, 20]`` with VOC's class frequencies and at least one class per scene.

    The positive labels of all classes are shuffled; each scene gets one, and the rest are assigned at
    random.
    """
    tickets = np.repeat(np.arange(len(FREQUENCIES)), np.round(FREQUENCIES * count).astype(int))
    rng.shuffle(tickets)
    labels = np.zeros((count, len(FREQUENCIES)), dtype=bool)
    first, rest = tickets[:count], tickets[count:]
    labels[np.arange(count), first] = True
    for ticket in rest:
        without = np.flatnonzero(~labels[:, ticket])
        labels[rng.choice(without), ticket] = True
    return labels


def _arrange(
    labels: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Kind (-1 for none), centre and radius of each slot, clutter first."""
    count = len(labels)
    # Some classes have two objects in a scene, if there is a free slot.
    weight = labels + labels * rng.random(labels.shape)
    twice = np.concatenate([weight, (weight > 1.75) * 0.5], axis=1)
    ranked = np.argsort(-twice, axis=1, kind="stable")[:, :MAX_OBJECTS]
    objects = np.where(np.take_along_axis(twice, ranked, axis=1) > 0, ranked % labels.shape[1], -1)
    objects = rng.permuted(objects, axis=1)
    clutter = rng.integers(len(CLASSES), len(SHAPES), (count, MAX_CLUTTER))
    clutter[rng.random(clutter.shape) < 0.4] = -1
    kind = np.concatenate([clutter, objects], axis=1)

    is_object = kind < len(CLASSES)
    low, high = (np.where(is_object, OBJECT_RADIUS[i], CLUTTER_RADIUS[i]) for i in (0, 1))
    radius = low + (high - low) * rng.random(kind.shape)
    return kind, _spread(kind, radius, rng), radius


def _spread(kind: np.ndarray, radius: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Centres that keep objects apart where possible: the best of some random positions."""
    count, slots = kind.shape
    tries = 12
    centre = np.zeros((count, slots, 2))
    rows = np.arange(count)
    for slot in range(slots):
        reach = radius[:, slot, None, None]
        places = reach * 0.9 + (1 - 1.8 * reach) * rng.random((count, tries, 2))
        room = np.full((count, tries), np.inf)
        for other in range(slot):
            gap = np.linalg.norm(places - centre[:, None, other], axis=2)
            gap -= radius[:, None, other] + radius[:, None, slot]
            room = np.where(kind[:, other, None] >= 0, np.minimum(room, gap), room)
        centre[:, slot] = places[rows, room.argmax(axis=1)]
    return centre


def _backgrounds(count: int, side: int, rng: np.random.Generator) -> np.ndarray:
    """Dark clouds of colour, with a spare row and column for pixels outside the image."""
    cells = 5
    grey = rng.uniform(0.1, 0.45, (count, 1, 1, 1))
    tint = grey + rng.normal(0, 0.05, (count, 1, 1, 3))
    grid = (tint + rng.normal(0, 0.05, (count, cells, cells, 3))).astype(np.float32)
    place = np.linspace(0, cells - 1.001, side)
    low = place.astype(int)
    share = place - low
    blend = np.zeros((side, cells), dtype=np.float32)
    blend[np.arange(side), low] = 1 - share
    blend[np.arange(side), low + 1] = share
    canvas = np.zeros((count, side + 1, side + 1, 3), dtype=np.float32)
    half = np.einsum("hi,nijc->nhjc", blend, grid, optimize=True)
    canvas[:, :side, :side] = np.einsum("wj,nhjc->nhwc", blend, half, optimize=True)
    return canvas


def _paint_slot(
    canvas: np.ndarray,
    kind: np.ndarray,
    centre: np.ndarray,
    radius: np.ndarray,
    rng: np.random.Generator,
) -> None:
    """Paint at most one object into each scene."""
    count, side = len(canvas), canvas.shape[1] - 1
    angle = rng.uniform(-0.5, 0.5, count)
    stretch = np.exp(rng.uniform(-0.18, 0.18, count))
    colours = _colours(count, rng)
    for shape in range(len(SHAPES)):
        chosen = np.flatnonzero(kind == shape)
        for start in range(0, len(chosen), CHUNK):
            rows = chosen[start : start + CHUNK]
            _paint(
                canvas,
                rows,
                SHAPES[shape],
                centre[rows] * side,
                radius[rows] * side,
                angle[rows],
                stretch[rows],
                colours[rows],
            )


def _colours(count: int, rng: np.random.Generator) -> np.ndarray:
    """For each scene two light colours of similar hue, ``[scenes, 2, 3]``, from top to bottom."""
    hue = rng.random((count, 3))
    hue -= hue.min(axis=1, keepdims=True)
    hue /= hue.max(axis=1, keepdims=True)
    saturation, brightness = rng.uniform(0.3, 1, (count, 1)), rng.uniform(0.65, 1, (count, 1))
    colour = (1 - saturation * (1 - hue)) * brightness
    shade = (colour + rng.normal(0, 0.12, colour.shape)).clip(0, 1)
    return np.stack([colour, shade], axis=1).astype(np.float32)


def _paint(
    canvas: np.ndarray,
    rows: np.ndarray,
    shape: Shape,
    centre: np.ndarray,
    radius: np.ndarray,
    angle: np.ndarray,
    stretch: np.ndarray,
    colours: np.ndarray,
) -> None:
    """Paint the same shape into several scenes, each with its own position, size, rotation and colours."""
    side = canvas.shape[1] - 1
    # The window contains a square of this radius at maximum rotation and stretch.
    reach = int(np.ceil(radius.max() * 1.6))
    window = np.arange(-reach, reach + 1)
    corner = np.floor(centre).astype(int)
    columns, lines = corner[:, :1] + window, corner[:, 1:] + window
    # Four points per pixel, for anti-aliased edges.
    offsets = (0.25, 0.75)
    cos, sin, stretch = (
        value.astype(np.float32)[:, None, None] for value in (np.cos(angle), np.sin(angle), stretch)
    )
    cover = np.zeros((len(rows), len(window), len(window)), dtype=np.float32)
    for dy in offsets:
        for dx in offsets:
            x = ((columns + dx - centre[:, :1]) / radius[:, None]).astype(np.float32)[:, None, :]
            y = ((lines + dy - centre[:, 1:]) / radius[:, None]).astype(np.float32)[:, :, None]
            cover += shape((cos * x + sin * y) * stretch, (cos * y - sin * x) / stretch)
    cover /= len(offsets) ** 2
    # Pixels outside the image go to the spare row and column.
    columns[(columns < 0) | (columns > side)] = side
    lines[(lines < 0) | (lines > side)] = side
    fade = np.linspace(0, 1, len(window), dtype=np.float32)[None, :, None, None]
    paint = colours[:, None, None, 0] * (1 - fade) + colours[:, None, None, 1] * fade
    place = (rows[:, None, None], lines[:, :, None], columns[:, None, :])
    ground = canvas[place]
    canvas[place] = ground + cover[..., None] * (paint - ground)
