"""Parameters of plugins that cannot be meant are refused by name, with the value."""

from __future__ import annotations

import pytest

from rebll_avalanche.plugins import (
    AGCNPlugin,
    CSCPlugin,
    DERPlusPlusPlugin,
    KRTPlugin,
    L2PPlugin,
    PODPlugin,
    RebLLPlugin,
    SchedulePlugin,
    SigmoidLwFPlugin,
)

REFUSED = {
    RebLLPlugin: {
        "alpha": -1.0,
        "lambda_akd": 1.5,
        "relabel_threshold": 2.0,
        "relabel_by": "dice",
        "exponent": "square",
        "replay_loss": "mse",
        "teacher_targets": "guessed",
        "reduction": "none",
        "batch_size_mem": 0,
        "mem_size": -1,
        "policy": "lottery",
        "beta": -0.1,
        "preset": "beast",
    },
    AGCNPlugin: {"relationship_weight": -1.0, "soft_labels": "hard"},
    CSCPlugin: {"entropy_classes": "new", "entropy_reduction": "sum", "entropy_weight": -1},
    DERPlusPlusPlugin: {"alpha": -1.0, "beta": -0.1, "batch_size_mem": 0, "mem_size": -1},
    KRTPlugin: {
        "lambda_token": -1,
        "labels_per_image": 0,
        "margin": 1.0,
        "exponent": -2.0,
        "batch_size_mem": 0,
    },
    L2PPlugin: {"pull_weight": -1, "grad_clip": -1},
    PODPlugin: {"spatial_weight": -1.0, "flat_weight": -1.0},
    SchedulePlugin: {"schedule": "weekly"},
    SigmoidLwFPlugin: {"alpha": -1.0, "temperature": 0.0},
}


@pytest.mark.parametrize(
    ("plugin", "name"), [(plugin, name) for plugin, values in REFUSED.items() for name in values]
)
def test_a_bad_value_is_named(plugin, name):
    value = REFUSED[plugin][name]
    called = "sampling policy" if name == "policy" else name
    with pytest.raises(ValueError, match=f"{called}.*got.*{value}|{called}.*'{value}'"):
        plugin(**{name: value})
