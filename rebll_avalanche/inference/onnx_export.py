"""A trained model as an ONNX file that gives the same scores."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from rebll_avalanche.files import replacing

if TYPE_CHECKING:
    from rebll_avalanche.inference.predictor import TrainedModel

TOLERANCE = 1e-4


class _Scores(nn.Module):
    """Images to probabilities."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.model(images).sigmoid()
        return scores


def export_onnx(trained: TrainedModel, path: str | Path) -> float:
    """Write the model and compare onnxruntime's scores with torch's, for batches of two sizes.

    It takes squares, also where the model looks at pictures of their own shape: scale them to squares, or
    cut squares out.

    Args:
        trained: From :func:`rebll_avalanche.inference.predictor.load_run`.
        path: The file.

    Returns:
        The largest difference of a score.

    Raises:
        ValueError: When the packages are missing, or the scores differ; the file is not kept then.
    """
    try:
        import onnx
        import onnxruntime
        import onnxscript  # noqa: F401 - torch's exporter needs it
    except ImportError as error:
        raise ValueError("export needs onnx; run: pip install 'rebll-avalanche[onnx]'") from error
    if trained.features is not None:
        raise ValueError(
            f"{trained.folder} looks at pictures several times, an ONNX file once; export a run with one "
            "backbone in benchmark.features and without benchmark.features_windows"
        )
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    module = _Scores(trained.model).eval()
    shape = (3, trained.image_size, trained.image_size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the exporter's own, about itself
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        program = torch.onnx.export(
            module,
            (torch.rand(2, *shape),),
            input_names=["images"],
            output_names=["scores"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            dynamo=True,
            verbose=False,
        )
    assert program is not None  # so it is with dynamo
    model = program.model_proto
    onnx.helper.set_model_props(
        model,
        {
            "class_names": json.dumps(trained.class_names),
            "threshold": str(trained.threshold)
            if trained.thresholds is None
            else json.dumps(trained.thresholds),
        },
    )
    content = model.SerializeToString()
    difference = 0.0
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    generator = torch.Generator().manual_seed(0)
    for batch in (1, 3):
        images = torch.rand(batch, *shape, generator=generator)
        (answer,) = session.run(None, {"images": images.numpy()})
        with torch.no_grad():
            expected = module(images)
        difference = max(difference, float((torch.from_numpy(answer) - expected).abs().max()))
    if not difference <= TOLERANCE:
        raise ValueError(
            f"onnxruntime's scores differ from torch's by {difference:.1e}, more than {TOLERANCE:g}; "
            "nothing was written"
        )
    with replacing(path) as stream:
        stream.write(content)
    return difference
