"""Human-readable names and numbers."""

from __future__ import annotations

BENCHMARKS = {
    "voc": "PASCAL VOC 2007",
    "coco": "MS-COCO 2014",
    "scenes": "Drawn scenes",
    "csv": "Own images",
}


def percent(fraction: float | None, digits: int = 1) -> str:
    """A fraction in percent.

    >>> percent(0.8125)
    '81.2'
    """
    if fraction is None or fraction != fraction:
        return "-"
    return f"{100 * fraction:.{digits}f}"


def duration(seconds: float) -> str:
    """Seconds in a readable unit.

    >>> duration(42.31), duration(150), duration(7500)
    ('42 s', '2.5 min', '2.1 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 3600:
        return f"{seconds / 60:.1f} min"
    return f"{seconds / 3600:.1f} h"


def size(count: float) -> str:
    """Bytes in a readable unit.

    >>> size(512e6), size(3.21e9)
    ('512 MB', '3.2 GB')
    """
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"


def value(parameter: object) -> str:
    """A parameter's value, without floating-point noise.

    >>> value(0.30000000000000004), value(True), value("onecycle")
    ('0.3', 'yes', 'onecycle')
    """
    if isinstance(parameter, bool):
        return "yes" if parameter else "no"
    return f"{parameter:g}" if isinstance(parameter, float) else str(parameter)
