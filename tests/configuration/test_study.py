"""From a recipe to the runs of a table."""

from __future__ import annotations

from typing import Any

import pytest

from rebll_avalanche.configuration.config import Config
from rebll_avalanche.configuration.recipe import study_of
from rebll_avalanche.configuration.study import Planned, plan
from rebll_avalanche.methods import method_names


def planned(recipe: dict[str, Any], **study: Any) -> list[Planned]:
    return plan(Config.from_dict(recipe), study_of(study))


def test_parameters_belong_to_their_own_method() -> None:
    recipe = {"method": {"name": "rebll", "alpha": 2.0, "mem_size": 8}}
    runs = planned(
        recipe, methods=["rebll", "er", "lwf"], scenarios=["B5-C3", "B4-C2"], seeds=[0, 1]
    )
    assert len({run.name for run in runs}) == len(runs) == 12
    methods = {run.config.method_name: dict(run.config.method) for run in runs}
    assert methods["rebll"] == {"name": "rebll", "alpha": 2.0, "mem_size": 8}
    assert methods["er"] == {"name": "er", "mem_size": 8}
    assert methods["lwf"] == {"name": "lwf"}


def test_without_a_study_there_is_one_run() -> None:
    (run,) = planned({"method": {"name": "lwf"}, "seed": 3})
    assert run == Planned("scenes_B5-C3_lwf_seed3", run.config)
    assert run.config.seed == 3


def test_all_methods_and_one_run_of_a_ceiling() -> None:
    runs = planned({}, methods="all", scenarios=["B5-C3", "B4-C2"])
    assert [run.config.method_name for run in runs] == method_names() * 2
    twins = {run.name: run.twin for run in runs if run.twin}
    assert twins == {"scenes_B4-C2_joint_seed0": "scenes_B5-C3_joint_seed0"}


def test_a_sweep_is_for_the_methods_that_have_the_setting() -> None:
    runs = planned(
        {}, methods=["rebll", "lwf", "er"], sweep={"method.alpha": [0.5, None], "seed": [4]}
    )
    assert [run.name for run in runs] == [
        "scenes_B5-C3_rebll_alpha=0.5_seed0",
        "scenes_B5-C3_rebll_seed0",  # the method's own value: shared with tables that sweep nothing
        "scenes_B5-C3_rebll_seed=4_seed0",
        "scenes_B5-C3_lwf_alpha=0.5_seed0",
        "scenes_B5-C3_lwf_seed0",
        "scenes_B5-C3_lwf_seed=4_seed0",
        "scenes_B5-C3_er_seed=4_seed0",
    ]
    assert runs[0].config.method_options == {"alpha": 0.5}
    backbones = planned({}, sweep={"model.backbone": ["vector", "some/net"]})
    assert [run.config.model.backbone for run in backbones] == ["vector", "some/net"]
    assert backbones[1].name == "scenes_B5-C3_rebll_backbone=some-net_seed0"


def test_what_one_method_needs() -> None:
    needs = {"krt": {"training": {"lr": 1}, "method": {"lambda_token": 2}}}
    krt, lwf = planned({"training": {"epochs": 3}}, methods=["krt", "lwf"], per_method=needs)
    assert (krt.config.training.lr, krt.config.training.epochs) == (1.0, 3)
    assert krt.config.method_options == {"lambda_token": 2.0}
    assert lwf.config.training.lr == Config().training.lr


@pytest.mark.parametrize(
    ("study", "message"),
    [
        ({"methods": ["lfw"]}, "no method is called 'lfw'; there are lwf"),
        ({"methods": ["er"], "sweep": {"method.beta": [1]}}, "no method of this table has"),
        ({"sweep": {"method.betta": [1]}}, r"method\.betta is not a setting; .* method\.beta"),
        ({"sweep": {"method.beta": 1}}, "must be a list of values"),
        ({"sweep": {"method.beta": ["much"]}}, r"method\.beta cannot be 'much'"),
        ({"sweep": [1]}, "sweep must map"),
        ({"per_method": {"er": {"method": {"alpha": 1}}}}, "not a setting of er"),
        ({"per_method": {"err": {}}}, "no method is called 'err'; there are er"),
        ({"scenarios": ["5-3"]}, "must look like B5-C3"),
        ({"seeds": ["a"]}, "must be integers"),
    ],
)
def test_what_is_wrong_is_named(study: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        planned({}, **study)
