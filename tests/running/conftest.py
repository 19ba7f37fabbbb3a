"""A real Ray cluster of two nodes on this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """One head without a CPU, so that work goes to two other nodes with a CPU each."""
    pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("RAY_memory_monitor_refresh_ms", "0")  # other tests may need the memory
        patch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
        found = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        for _ in range(2):
            found.add_node(num_cpus=1)
        try:
            yield found
        finally:
            found.shutdown()
