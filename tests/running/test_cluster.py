"""A table on a Ray cluster of two nodes, one of which is lost on the way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.study import Planned
from rebll_avalanche.running.cluster import run_all_on_ray
from rebll_avalanche.running.run import run_experiment


def scenes(name: str, method: dict[str, Any], epochs: int) -> Planned:
    benchmark = {"scenario": "B10-C10", "train_size": 40, "test_size": 40, "image_size": 16}
    training = {"epochs": epochs, "batch_size": 16, "device": "cpu"}
    parts = {"benchmark": benchmark, "training": training, "method": method}
    return Planned(name, Config.from_dict(parts))


@pytest.mark.filterwarnings("ignore")  # Ray's own, about its versions to come
def test_a_lost_node_costs_no_more_than_the_epoch_under_way(
    tmp_path: Path, cluster: Any, final_bits: Any
) -> None:
    planned = [
        scenes("moved", {"name": "rebll", "mem_size": 4}, epochs=12),
        scenes("refused", {"name": "l2p"}, epochs=1),
    ]
    seen: list[str] = []

    def watch(entry: Planned, text: str) -> None:
        where = text.split()[0].split("/")[1]
        if entry.name == "moved" and where not in seen:
            seen.append(where)
            if len(seen) == 1:
                nodes = cluster.worker_nodes
                lost = next(node for node in nodes if node.node_id.startswith(where))
                cluster.remove_node(lost, allow_graceful=False)

    endings = run_all_on_ray(planned, tmp_path, address=cluster.address, on_progress=watch)
    ended = {end.planned.name: end for end in endings}
    cluster.add_node(num_cpus=1)
    assert (ended["moved"].kind, ended["moved"].error) == ("", "")
    assert len(seen) == 2  # it went on at the other node
    assert ended["refused"].kind == "ValueError"
    assert "vision transformer" in ended["refused"].error
    run_experiment(planned[0].config, tmp_path / "alone")
    assert final_bits(tmp_path / "moved") == final_bits(tmp_path / "alone")
