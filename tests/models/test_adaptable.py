"""Models that Avalanche adapts, and that answer without it."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

from avalanche.models import DynamicModule

from rebll_avalanche.models import build_model
from rebll_avalanche.models.adaptable import Adaptable


def run(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_model_is_one_of_avalanches_dynamic_modules() -> None:
    model = build_model("vector", in_features=3)
    assert isinstance(model, DynamicModule)
    assert isinstance(model.head, DynamicModule)
    assert issubclass(Adaptable, DynamicModule)


def test_a_pickled_model_is_one_in_a_process_that_has_made_none(tmp_path: Path) -> None:
    file = tmp_path / "model.pickle"
    file.write_bytes(pickle.dumps(build_model("vector", in_features=3)))
    run(
        f"import pickle; model = pickle.load(open({str(file)!r}, 'rb'))\n"
        "from avalanche.models import DynamicModule\n"
        "assert isinstance(model, DynamicModule) and isinstance(model.head, DynamicModule)"
    )


def test_a_model_that_answers_learns_once_another_is_made_to_be_trained() -> None:
    run(
        "import copy, sys\n"
        "from rebll_avalanche.models import build_model\n"
        "from rebll_avalanche.models.adaptable import inference_only\n"
        "with inference_only(): model = build_model('vector', in_features=3)\n"
        "copy.deepcopy(model)\n"
        "assert 'avalanche' not in sys.modules\n"
        "build_model('vector', in_features=3)\n"
        "from avalanche.models import DynamicModule\n"
        "assert isinstance(model, DynamicModule) and model._auto_adapt"
    )


def test_torchs_compiler_is_there_after_timm_came_without_it() -> None:
    run(
        "import sys, torch\n"
        "from rebll_avalanche.models import build_model\n"
        "from rebll_avalanche.models.adaptable import inference_only\n"
        "with inference_only(): build_model('resnet10t')\n"
        "assert 'timm' in sys.modules and 'torch._dynamo' not in sys.modules\n"
        "compiled = torch.compile(lambda x: x + 1, backend='eager')\n"
        "assert compiled(torch.ones(2)).tolist() == [2, 2]\n"
        "import torchvision.ops; from torch._dynamo.utils import is_compile_supported"
    )
