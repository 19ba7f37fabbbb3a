"""The classes of the synthetic scenes, as membership functions of points.

A shape is a function of coordinates ``x`` (right) and ``y`` (down) with the object inside the unit
square around the origin; it returns which points belong to the object. Shapes share low-level features
(round outline, straight edges, repeated texture), so that they can be confused.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Points = np.ndarray
Shape = Callable[[Points, Points], Points]

# Corners in units of the object's half width.
_ARROW = [(-0.9, -0.2), (0.1, -0.2), (0.1, -0.7), (0.95, 0), (0.1, 0.7), (0.1, 0.2), (-0.9, 0.2)]
_BOLT = [(0.1, -0.95), (-0.55, 0.1), (-0.05, 0.1), (-0.2, 0.95), (0.55, -0.25), (0.05, -0.25)]
_TRIANGLE = [(0, -0.9), (0.95, 0.75), (-0.95, 0.75)]


def _polygon(x: Points, y: Points, corners: list[tuple[float, float]]) -> Points:
    """Even-odd rule: a point is inside when a ray to the right crosses an odd number of edges."""
    inside = np.zeros(x.shape, dtype=bool)
    for (x0, y0), (x1, y1) in zip(corners, corners[1:] + corners[:1], strict=True):
        if y0 != y1:
            crossing = x0 + (y - y0) * ((x1 - x0) / (y1 - y0))
            inside ^= ((y0 > y) != (y1 > y)) & (x < crossing)
    return inside


def _star_corners(points: int, inner: float) -> list[tuple[float, float]]:
    angles = np.arange(2 * points) * np.pi / points - np.pi / 2
    radii = np.where(np.arange(2 * points) % 2, inner, 0.98)
    return [
        (float(r * np.cos(a)), float(r * np.sin(a))) for r, a in zip(radii, angles, strict=True)
    ]


def _radius(x: Points, y: Points) -> Points:
    return np.hypot(x, y)


def _square(x: Points, y: Points, half: float) -> Points:
    return np.maximum(np.abs(x), np.abs(y)) < half


def _wave(phase: Points) -> Points:
    """Square wave of a phase counted in turns."""
    return phase - np.floor(phase) < 0.5


def _turn(x: Points, y: Points) -> Points:
    """The direction of a point, counted in turns."""
    return np.arctan2(y, x) / (2 * np.pi)


def arrow(x: Points, y: Points) -> Points:
    return _polygon(x, y, _ARROW)


def bolt(x: Points, y: Points) -> Points:
    return _polygon(x, y, _BOLT)


def bullseye(x: Points, y: Points) -> Points:
    return _wave(_radius(x, y) * 2.5 + 0.25) & (_radius(x, y) < 1)


def checker(x: Points, y: Points) -> Points:
    return (_wave(x / 0.9) ^ _wave(y / 0.9)) & _square(x, y, 0.9)


def crescent(x: Points, y: Points) -> Points:
    return (_radius(x, y) < 0.95) & (_radius(x - 0.45, y) > 0.78)


def cross(x: Points, y: Points) -> Points:
    return (np.minimum(np.abs(x), np.abs(y)) < 0.27) & _square(x, y, 0.92)


def diamond(x: Points, y: Points) -> Points:
    return np.abs(x) / 0.62 + np.abs(y) < 0.98


def dots(x: Points, y: Points) -> Points:
    gap = 0.64
    near = _radius((x + gap / 2) % gap - gap / 2, (y + gap / 2) % gap - gap / 2)
    return (near < 0.22) & _square(x, y, 0.96)


def flower(x: Points, y: Points) -> Points:
    radius = _radius(x, y)
    return (radius < 0.62 + 0.36 * np.cos(10 * np.pi * _turn(x, y))) & (radius > 0.16)


def gear(x: Points, y: Points) -> Points:
    radius = _radius(x, y)
    return (radius < np.where(_wave(8 * _turn(x, y)), 0.97, 0.7)) & (radius > 0.32)


def heart(x: Points, y: Points) -> Points:
    x, y = 1.2 * x, 0.2 - 1.2 * y
    return (x**2 + y**2 - 1) ** 3 < x**2 * y**3


def hourglass(x: Points, y: Points) -> Points:
    return (np.abs(x) < 0.85 * np.abs(y) + 0.06) & (np.abs(y) < 0.92)


def ladder(x: Points, y: Points) -> Points:
    rails = np.abs(np.abs(x) - 0.5) < 0.13
    rungs = _wave(y / 0.5 + 0.25) & (np.abs(x) < 0.5)
    return (rails | rungs) & (np.abs(y) < 0.95)


def lattice(x: Points, y: Points) -> Points:
    bars = np.minimum(np.abs(np.abs(x) - 0.38), np.abs(np.abs(y) - 0.38)) < 0.14
    return bars & _square(x, y, 0.95)


def pinwheel(x: Points, y: Points) -> Points:
    radius = _radius(x, y)
    return _wave(4 * _turn(x, y) + 0.45 * radius) & (radius < 0.97)


def ring(x: Points, y: Points) -> Points:
    return np.abs(_radius(x, y) - 0.76) < 0.2


def spiral(x: Points, y: Points) -> Points:
    radius = _radius(x, y)
    return _wave(_turn(x, y) - 2 * radius) & (radius < 0.97)


def star(x: Points, y: Points) -> Points:
    return _polygon(x, y, _star_corners(5, 0.4))


def stripes(x: Points, y: Points) -> Points:
    return _wave(2 * y) & (_radius(x, y) < 0.97)


def triangle(x: Points, y: Points) -> Points:
    return _polygon(x, y, _TRIANGLE)


def bar(x: Points, y: Points) -> Points:
    """Clutter: a stroke."""
    return (np.abs(x) < 0.95) & (np.abs(y) < 0.16)


def blob(x: Points, y: Points) -> Points:
    """Clutter: an oval."""
    return _radius(x, y / 0.7) < 0.7


def arc(x: Points, y: Points) -> Points:
    """Clutter: part of a circle."""
    return (np.abs(_radius(x, y) - 0.8) < 0.13) & (y > 0.1)


def corner(x: Points, y: Points) -> Points:
    """Clutter: two strokes that meet."""
    return _square(x, y, 0.8) & ~_square(x - 0.3, y - 0.3, 0.8)


_CLASSES: tuple[Shape, ...] = (
    arrow, bolt, bullseye, checker, crescent, cross, diamond, dots, flower, gear,
    heart, hourglass, ladder, lattice, pinwheel, ring, spiral, star, stripes, triangle,
)  # fmt: skip
CLASSES: dict[str, Shape] = {shape.__name__: shape for shape in _CLASSES}
CLUTTER: tuple[Shape, ...] = (bar, blob, arc, corner)
