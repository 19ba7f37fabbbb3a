"""The partial-label contract: 1 present, 0 absent, NaN not annotated.

One ``float32`` vector per image passes unchanged through Avalanche's mini-batches, replay buffers and
collate functions. NaN means unknown, not negative: criteria of this package ignore it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from rebll_avalanche.arguments import check_tensor
from rebll_avalanche.losses import REDUCTIONS, asymmetric_bce
from rebll_avalanche.words import check_choice

UNKNOWN = float("nan")


def annotated(targets: Tensor) -> Tensor:
    """Boolean mask of the annotated labels.

    >>> annotated(torch.tensor([1.0, 0.0, UNKNOWN])).tolist()
    [True, True, False]
    """
    return ~torch.isnan(targets)


def where_unknown(values: Tensor, targets: Tensor) -> Tensor:
    """Values for unknown labels; NaN, which losses ignore, for annotated ones.

    A teacher's prediction is a target for unknown labels only, since annotations are more reliable.

    Args:
        values: ``[batch, columns]``.
        targets: ``[batch, at least these columns]``: 1, 0 or NaN.

    >>> where_unknown(torch.tensor([0.3, 0.8]), torch.tensor([1.0, UNKNOWN, 0.0])).tolist()
    [nan, 0.800000011920929]
    """
    return values.masked_fill(annotated(targets[..., : values.shape[-1]]), UNKNOWN)


def check_targets(targets: Tensor) -> None:
    """Refuse labels that are neither 0, 1 nor NaN, naming the first one.

    Raises:
        ValueError: With the offending value and its index.
    """
    check_tensor("targets", targets)
    if not targets.is_floating_point():
        raise ValueError(
            f"targets must be floating point (NaN marks unknown labels), got {targets.dtype}; "
            "convert with targets.float()"
        )
    wrong = annotated(targets) & (targets != 0) & (targets != 1)
    if bool(wrong.any()):
        place = tuple(int(i) for i in wrong.nonzero()[0])
        raise ValueError(
            f"labels must be 1 (present), 0 (absent) or NaN (not annotated), "
            f"got {float(targets[place])} at index {place}"
        )


def label_matrix(dataset: Any) -> Tensor:
    """The ``[samples, classes]`` labels of a data set, read without decoding images.

    Args:
        dataset: An Avalanche data set (or anything else) with a ``targets`` field.
    """
    targets = getattr(dataset, "targets", None)
    if targets is None:
        raise ValueError(
            f"{type(dataset).__name__} has no 'targets'; build streams with multilabel_benchmark(...)"
        )
    data = getattr(targets, "data", targets)
    if not isinstance(data, Tensor):
        data = torch.stack([torch.as_tensor(row, dtype=torch.float32) for row in data])
    if data.ndim != 2:
        raise ValueError(
            f"expected one label vector per sample, got targets of shape {tuple(data.shape)}"
        )
    return data


class PartialLabelBCE(nn.Module):
    """Binary cross-entropy over the annotated labels; usable as an Avalanche ``criterion``.

    Unknown (NaN) labels add nothing to the loss and get a gradient of exactly zero. If the model's head
    has not grown to all classes yet, only its columns are compared.

    Args:
        reduction: ``"mean"`` over annotated labels, ``"sum"``, or ``"none"`` (a matrix with zeros at
            unknown labels).

    >>> logits = torch.zeros(1, 2, requires_grad=True)
    >>> loss = PartialLabelBCE()(logits, torch.tensor([[1.0, UNKNOWN]]))
    >>> round(loss.item(), 4)
    0.6931
    """

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        check_choice("reduction", reduction, REDUCTIONS)
        self.reduction = reduction

    def forward(self, logits: Tensor, targets: Tensor) -> Tensor:
        """The loss of ``logits`` against ``targets`` on the columns that both have."""
        targets = seen_columns(logits, targets)
        # Not checked here, since a GPU would have to finish its step first; streams check their labels.
        if targets.device.type == "cpu":
            check_targets(targets)
        return asymmetric_bce(logits, targets, reduction=self.reduction)


def seen_columns(logits: Tensor, targets: Tensor) -> Tensor:
    """The columns of ``targets`` that a head of this width can predict.

    Raises:
        ValueError: When the two shapes do not match.
    """
    check_tensor("logits", logits)
    check_tensor("targets", targets)
    if logits.ndim != 2 or targets.ndim != 2 or len(logits) != len(targets):
        raise ValueError(
            f"logits and targets must be [batch, classes] of the same batch, "
            f"got {tuple(logits.shape)} and {tuple(targets.shape)}"
        )
    if logits.shape[1] > targets.shape[1]:
        raise ValueError(
            f"the model has {logits.shape[1]} outputs but targets have only {targets.shape[1]} columns; "
            "targets must cover all classes of the benchmark"
        )
    return targets[:, : logits.shape[1]]


def knows_unknown(criterion: Any, num_classes: int = 2) -> bool:
    """Whether a criterion and its gradient ignore NaN labels, tested by calling it on its own device."""
    device = _device_of(criterion)
    targets = torch.full((2, num_classes), UNKNOWN, device=device)
    targets[:, 0] = torch.tensor([1.0, 0.0])
    logits = torch.zeros(2, num_classes, device=device, requires_grad=True)
    try:
        with torch.enable_grad():
            found = [torch.as_tensor(criterion(logits, targets))]
            if found[0].requires_grad:
                # For a nanmean the loss is finite, but its gradient is not.
                found += torch.autograd.grad(found[0].sum(), [logits])
    except Exception:
        return False
    return all(bool(torch.isfinite(tensor).all()) for tensor in found)


def _device_of(criterion: Any) -> torch.device:
    is_module = isinstance(criterion, nn.Module)
    tensors = [*criterion.parameters(), *criterion.buffers()] if is_module else []
    return tensors[0].device if tensors else torch.device("cpu")


def check_criterion(criterion: Any, dataset: Any, outputs: int | None = None) -> None:
    """Refuse a loss that would turn unknown labels into NaN weights, or that does not fit the head.

    Args:
        criterion: The loss.
        dataset: The training data.
        outputs: Number of classes that the model predicts now, if known.

    Raises:
        ValueError: When ``dataset`` has NaN labels and ``criterion`` does not ignore them, or when it
            has more columns than the model and ``criterion`` cannot compare the two.
    """
    labels = label_matrix(dataset)
    has_unknown = not bool(annotated(labels).all())
    if has_unknown and not knows_unknown(criterion, labels.shape[1]):
        raise ValueError(
            f"{type(criterion).__name__} cannot learn from labels that are not annotated (NaN); "
            "use criterion=PartialLabelBCE(), which ignores them. To count them as absent instead, build the "
            "benchmark with missing='negative', and still use PartialLabelBCE() if the head grows"
        )
    if (
        outputs is not None
        and outputs < labels.shape[1]
        and not _compares(criterion, outputs, labels)
    ):
        raise ValueError(
            f"{type(criterion).__name__} cannot compare {outputs} outputs with labels of "
            f"{labels.shape[1]} classes, some of which the head learns later; use "
            "criterion=PartialLabelBCE(), which compares the columns that both have"
        )


def _compares(criterion: Any, outputs: int, labels: Tensor) -> bool:
    """Whether a criterion accepts fewer outputs than label columns."""
    try:
        with torch.no_grad():
            row = labels[:1].to(_device_of(criterion))
            criterion(row.new_zeros(1, outputs), row)
    except Exception:
        return False
    return True


def grown(counts: Tensor, classes: int) -> Tensor:
    """Counts per class, with zeros added for new classes.

    >>> grown(torch.tensor([3.0]), classes=2).tolist()
    [3.0, 0.0]
    """
    more = max(classes - len(counts), 0)
    return torch.cat([counts, counts.new_zeros(more, *counts.shape[1:])])
