"""The API answers as the learner does, and changes it one lesson at a time."""

from __future__ import annotations

import json
import threading
from io import BytesIO

import pytest
from PIL import Image

from rebll_avalanche import Learner
from tests.serve.conftest import drawn, files, green_lesson, png


def test_predictions_are_the_learners_own(client, taught):
    shown = [["red"], ["blue"], [], ["red", "blue"]]
    contents = [png(names, 100 + number) for number, names in enumerate(shown)]
    answer = client.post("/api/predict", files=files(*contents)).json()
    learner = taught()
    wanted = learner.predict([drawn(names, 100 + i) for i, names in enumerate(shown)])
    assert answer["thresholds"] == pytest.approx(learner.thresholds)
    for found, expected in zip(answer["pictures"], wanted.values(), strict=True):
        assert found["labels"] == pytest.approx(expected, abs=1e-5)
        assert list(found["scores"]) == ["red", "blue"]
