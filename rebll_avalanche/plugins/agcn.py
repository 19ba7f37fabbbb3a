"""AGCN: a label graph counted online, and a loss that preserves its old nodes."""

from __future__ import annotations

from typing import Any, Literal, get_args

import torch
from torch.nn.functional import mse_loss

from rebll_avalanche.arguments import check_number
from rebll_avalanche.labels import annotated
from rebll_avalanche.models.agcn import GrowingAGCN
from rebll_avalanche.plugins.akd import AKDPlugin
from rebll_avalanche.plugins.networks import part_of
from rebll_avalanche.plugins.options import check_not_negative
from rebll_avalanche.plugins.teacher import TaughtPlugin
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.words import check_choice

SoftLabels = Literal["softmax", "sigmoid"]


def label_graph_head(model: Any) -> GrowingAGCN:
    """The label-graph head of a model."""
    way_out = "build_model(..., head='agcn')"
    return part_of(model, "head", GrowingAGCN, "this method learns a label graph", way_out)


class LabelGraphPlugin(TaughtPlugin):
    """Updates the label graph of ``build_model(..., head="agcn")`` with every batch.

    AGCN includes it; add it to any other method to run that method on this network, as in
    ``RebLL(model=build_model(..., head="agcn"), plugins=[LabelGraphPlugin()], ...)``.

    Args:
        soft_labels: How the previous model's logits become labels of old classes: ``"softmax"``, as in
            AGCN, distributes one label among them; ``"sigmoid"`` allows none or several per image.
            Old classes that are annotated in an image count with their label.
    """

    def __init__(self, *, soft_labels: SoftLabels = "softmax") -> None:
        super().__init__()
        check_choice("soft_labels", soft_labels, get_args(SoftLabels))
        self.soft_labels = soft_labels

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the network, and share one teacher with the other plugins."""
        label_graph_head(strategy.model)
        super().before_training(strategy, **kwargs)

    def before_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Count this batch's labels, so that its own forward pass uses the updated graph."""
        head, soft = label_graph_head(strategy.model), None
        if self.teacher.model is not None:
            logits = self.teacher.logits(strategy.mb_x)[:, : head.old_classes].float()
            soft = logits.softmax(dim=1) if self.soft_labels == "softmax" else logits.sigmoid()
            labels = strategy.mb_y[:, : head.old_classes]
            soft = torch.where(annotated(labels), labels, soft)
        head.observe(strategy.mb_y, soft)


class AGCNPlugin(AKDPlugin):
    r"""Trains with :math:`w L_{bce} + (1 - w) L_{kd} + c\,\mathrm{MSE}(H^{old}, H)`.

    The last term, the relationship-preserving loss, keeps the classifiers ``H`` that the graph produces
    for old classes close to those of the previous model. Its weight is large because entries of ``H``
    are small.

    Args:
        classification_weight: ``w``, the weight of L_bce once there is a teacher; L_kd gets the rest.
        relationship_weight: ``c``, the weight of the relationship-preserving loss.
        soft_labels: How the previous model's logits become labels of old classes; see
            :class:`LabelGraphPlugin`.
    """

    def __init__(
        self,
        *,
        classification_weight: float = 0.15,
        relationship_weight: float = 1000.0,
        soft_labels: SoftLabels = "softmax",
    ) -> None:
        check_number("classification_weight", classification_weight, 0, 1)
        super().__init__(alpha=0.0, lambda_akd=classification_weight)
        check_not_negative(relationship_weight=relationship_weight)
        self.relationship_weight = relationship_weight
        self.graph = LabelGraphPlugin(soft_labels=soft_labels)
        self.graph.teacher = self.teacher

    def before_training(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check the network and share one teacher with the other plugins."""
        super().before_training(strategy, **kwargs)
        self.graph.before_training(strategy, **kwargs)

    def before_forward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Count the labels of the batch."""
        self.graph.before_forward(strategy, **kwargs)

    def before_backward(self, strategy: Strategy, **kwargs: Any) -> None:
        """Add distillation and the relationship-preserving loss."""
        super().before_backward(strategy, **kwargs)
        if not self.distils:
            return
        old_nodes = label_graph_head(self.teacher.model).nodes()
        loss = mse_loss(label_graph_head(strategy.model).nodes()[: len(old_nodes)], old_nodes)
        self.terms.record("relationship", loss)
        strategy.loss += self.relationship_weight * loss
