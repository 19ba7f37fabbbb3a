import importlib.util
import json
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from rebll_avalanche import cli
from rebll_avalanche.inference import onnx_export
from rebll_avalanche.inference.onnx_export import export_onnx
from rebll_avalanche.inference.predictor import load_run
from rebll_avalanche.models import build_model

missing = [n for n in ("onnx", "onnxruntime", "onnxscript") if importlib.util.find_spec(n) is None]
needs_onnx = pytest.mark.skipif(bool(missing), reason=f"not installed: {', '.join(missing)}")


@needs_onnx
@pytest.mark.filterwarnings("ignore")
def test_the_file_gives_the_scores_of_torch(trained_run, tmp_path, capsys):
    import onnxruntime

    path = tmp_path / "deeper" / "model.onnx"
    assert cli.main(["export", str(trained_run), "--onnx", str(path)]) == 0
    assert "largest difference to torch" in capsys.readouterr().out
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    images = torch.rand(5, 3, 48, 48)
    (scores,) = session.run(["scores"], {"images": images.numpy()})
    trained = load_run(trained_run)
    np.testing.assert_allclose(scores, trained.scores(images).numpy(), atol=1e-5)
    names = json.loads(session.get_modelmeta().custom_metadata_map["class_names"])
    assert tuple(names) == trained.class_names


@needs_onnx
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("head", ["gcn", "agcn", "cross_attention"])
def test_other_heads_can_be_exported(trained_run, tmp_path, head):
    trained = load_run(trained_run)
    model = build_model("small_cnn", head=head)
    model.head.grow(12)
    model.head.grow(20)
    other = replace(trained, model=model.eval())
    assert export_onnx(other, tmp_path / "model.onnx") < 1e-5


@needs_onnx
@pytest.mark.filterwarnings("ignore")
def test_a_file_that_differs_is_not_kept(trained_run, tmp_path, monkeypatch):
    monkeypatch.setattr(onnx_export, "TOLERANCE", -1.0)
    with pytest.raises(ValueError, match="nothing was written"):
        export_onnx(load_run(trained_run), tmp_path / "model.onnx")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("argv", [[], ["--onnx"]])
def test_the_file_lies_in_the_run_if_none_is_named(trained_run, argv, monkeypatch, capsys):
    written = []
    monkeypatch.setattr(onnx_export, "export_onnx", lambda run, path: written.append(path) or 0.0)
    assert cli.main(["export", str(trained_run), *argv]) == 0
    assert written == [trained_run / "model.onnx"]
    assert str(written[0]) in capsys.readouterr().out


def test_missing_packages_are_named(trained_run, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert cli.main(["export", str(trained_run), "--onnx", str(tmp_path / "model.onnx")]) == 2
    assert "pip install 'rebll-avalanche[onnx]'" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(tmp_path, capsys):
    assert cli.main(["export", str(tmp_path), "--onnx", str(tmp_path / "model.onnx")]) == 2
    assert "is not a run" in capsys.readouterr().err
