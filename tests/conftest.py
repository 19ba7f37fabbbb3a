"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

# Real images for development lie beside the repository; where they do not, those tests have nothing to read.
SHARED_DATA = Path(os.environ.get("REBLL_TEST_DATA", Path(__file__).parents[2] / "shared" / "data"))


def _shared(name: str) -> Path:
    path = SHARED_DATA / name
    if not path.is_dir():
        pytest.skip(f"no real images at {path}; set REBLL_TEST_DATA to a folder that has {name}")
    return path


@pytest.fixture(scope="session")
def voc_root() -> Path:
    """A folder that holds ``VOCdevkit/VOC2007`` with real images."""
    return _shared("voc2007_small")


@pytest.fixture(scope="session")
def coco_root() -> Path:
    """A folder in MS-COCO 2014 layout with real images."""
    return _shared("coco2014_small")
