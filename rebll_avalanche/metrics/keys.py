"""Names of metrics in Avalanche's results, and how to read them back."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from rebll_avalanche.arguments import check_kind, check_number
from rebll_avalanche.words import brief

_STREAM_KEY = re.compile(r"(?P<name>.+)_Stream/eval_phase/(?P<stream>.+?)_stream(/Task\d+)?")


def metric_key(name: str, stream: str, experience: int | None = None) -> str:
    """Avalanche's key of a metric of a whole evaluation, or of one experience in it.

    >>> metric_key("CF1@0.8", "test")
    'CF1@0.8_Stream/eval_phase/test_stream'
    >>> metric_key("mAP", "test", experience=2)
    'mAP_Exp/eval_phase/test_stream/Exp002'
    """
    if experience is None:
        return f"{name}_Stream/eval_phase/{stream}_stream"
    check_number("experience", experience, 0, whole=True)
    return f"{name}_Exp/eval_phase/{stream}_stream/Exp{experience:03}"


def read_metrics(results: Mapping[str, Any], stream: str | None = None) -> dict[str, float]:
    """The metrics in the result of ``strategy.eval``, by plain name.

    Avalanche returns the last value of every metric it has ever seen, so results may hold several
    streams, such as ``train`` from an evaluation during training.

    Args:
        results: Result of ``strategy.eval`` or ``evaluator.get_last_metrics()``.
        stream: The stream; by default ``test``, or the only one.

    Raises:
        ValueError: If there are several streams, none of them ``test``, and ``stream`` is not given.

    >>> read_metrics({"mAP_Stream/eval_phase/test_stream": 0.5, "Loss_MB/train_phase/x": 1.0})
    {'mAP': 0.5}
    """
    if not isinstance(results, Mapping):
        raise TypeError(f"results must be what strategy.eval returned, got {brief(results)}")
    if stream is not None:
        check_kind("stream", stream, str, "a text")
    by_stream: dict[str, dict[str, float]] = {}
    for key, value in results.items():
        match = _STREAM_KEY.fullmatch(str(key))
        if match and isinstance(value, (int, float)):
            by_stream.setdefault(match["stream"], {})[match["name"]] = float(value)
    if stream is None and len(by_stream) == 1:
        return next(iter(by_stream.values()))
    if stream is None and by_stream and "test" not in by_stream:
        raise ValueError(
            f"results hold the streams {', '.join(sorted(by_stream))}; choose one with stream=..."
        )
    return by_stream.get(stream or "test", {})
