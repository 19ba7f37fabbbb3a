"""Any state as tensors and JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from rebll_avalanche.checkpointing.state import pack, unpack


def test_round_trip_through_json_keeps_types_and_values() -> None:
    state = {
        "none": None,
        "numbers": [1, 2.5, float("inf"), True, "text"],
        "betas": (0.9, (0.99, 1)),
        "set": {3, 1},
        "by_number": {0: "zero", (1, 2): torch.ones(2)},
        "__kind__": "a key that means something to the format",
        "tensors": {"half": torch.tensor([1.5], dtype=torch.bfloat16), "flag": torch.tensor(True)},
        "array": np.arange(3),
        "empty": torch.empty(0, 4),
    }
    tensors: dict[str, torch.Tensor] = {}
    back = unpack(json.loads(json.dumps(pack(state, tensors))), tensors)
    assert back["none"] is None
    assert back["numbers"] == state["numbers"]
    assert back["betas"] == (0.9, (0.99, 1))
    assert back["set"] == {1, 3}
    assert back["by_number"][0] == "zero"
    assert torch.equal(back["by_number"][1, 2], torch.ones(2))
    assert back["__kind__"] == state["__kind__"]
    assert back["tensors"]["half"].dtype == torch.bfloat16
    assert back["tensors"]["flag"].item() is True
    assert isinstance(back["array"], np.ndarray)
    assert back["empty"].shape == (0, 4)


def test_tensors_do_not_overwrite_each_other() -> None:
    tensors: dict[str, torch.Tensor] = {}
    state = {"a.b": torch.zeros(1), "a": {"b": torch.ones(1)}, "1": {1: torch.full((1,), 2.0)}}
    back = unpack(pack(state, tensors), tensors)
    assert [back["a.b"].item(), back["a"]["b"].item(), back["1"][1].item()] == [0, 1, 2]


def test_what_is_not_plain_is_refused_by_place() -> None:
    with pytest.raises(TypeError, match=r"state\.plugins\.0 is a object"):
        pack({"plugins": [object()]}, {})
