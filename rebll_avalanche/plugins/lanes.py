"""MULTI-LANE: computes only lanes with annotated classes in training."""

from __future__ import annotations

from typing import Any

from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.labels import annotated, label_matrix
from rebll_avalanche.models.lanes import LanedViT
from rebll_avalanche.plugins.networks import part_of
from rebll_avalanche.protocols import Strategy
from rebll_avalanche.scenario import class_range


class LanesPlugin(SupervisedPlugin):
    """Skips old lanes in training if an experience annotates none of their classes.

    Only the newest lane then has a loss. If an experience annotates old classes, old lanes are
    computed: they stay frozen, but their rows of the head are trained.
    """

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Check which classes are annotated."""
        old_classes, _ = class_range(strategy.experience)
        old_labels = label_matrix(strategy.experience.dataset)[:, :old_classes]
        laned_backbone(strategy.model).newest_only = not bool(annotated(old_labels).any())

    def after_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Enable all lanes, since other methods may have a loss on every class."""
        laned_backbone(strategy.model).newest_only = False


def laned_backbone(model: Any) -> LanedViT:
    """The backbone with lanes."""
    way_out = "build_model('vit_base_patch16_224', head='lanes')"
    return part_of(model, "backbone", LanedViT, "this method learns lanes", way_out)
