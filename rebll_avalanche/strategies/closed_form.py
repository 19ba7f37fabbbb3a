"""Closed-form learning as Avalanche strategies: one pass, no gradient, no stored images."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.strategies.template import MethodStrategy


class ClosedForm(MethodStrategy, closed_form=ClosedFormPlugin):
    """A ridge-regression head on a network that does not change, or only once.

    The method is :class:`~rebll_avalanche.plugins.closed_form.ClosedFormPlugin`; this strategy makes
    the one pass over each experience, in the transforms and mode of evaluation. Logits are log-odds.

    Args:
        model: With a linear or an expanded head; its backbone should be pretrained.
        optimizer: Only needed to adapt: otherwise nothing has a gradient.
        adapt: Train the network on the first experience, as fine-tuning would, before it is frozen. It
            gets used to the kind of images, and the head is solved afterwards all the same.
        train_epochs: Of the adaptation; one pass over an experience is exact.
        **options: Parameters of the plugin, and those of
            :class:`~rebll_avalanche.strategies.template.FineTuning`.
    """

    closed_form: ClosedFormPlugin

    def __init__(
        self,
        *,
        model: nn.Module,
        optimizer: Optimizer | None = None,
        adapt: bool = False,
        train_epochs: int = 1,
        **options: Any,
    ) -> None:
        if adapt and optimizer is None:
            raise ValueError("adapt=True trains the network: give it an optimizer")
        self.adapt = adapt
        self.adaptation_epochs = train_epochs
        super().__init__(
            model=model,
            optimizer=optimizer or torch.optim.SGD(model.parameters(), lr=0.0),
            train_epochs=1,
            **options,
        )

    @property
    def _adapting(self) -> bool:
        return self.adapt and self.experience.current_experience == 0

    def train_dataset_adaptation(self, **kwargs: Any) -> None:
        """Images as in evaluation: the sums must be of the features that predictions will see."""
        if self._adapting:
            super().train_dataset_adaptation(**kwargs)
        else:
            self.adapted_dataset = self.experience.dataset.eval()

    def make_train_dataloader(self, shuffle: bool = True, **kwargs: Any) -> None:
        """Any order gives the same sums; a fixed one gives the same bits."""
        super().make_train_dataloader(shuffle=shuffle and self._adapting, **kwargs)

    def _before_training_exp(self, **kwargs: Any) -> None:
        self.train_epochs = self.adaptation_epochs if self._adapting else 1
        super()._before_training_exp(**kwargs)

    def training_epoch(self, **kwargs: Any) -> None:
        """The pass: Avalanche's hooks around each batch, without a backward step.

        While the network adapts it is an epoch like any other; the plugin passes over the experience
        when the last of them is over.
        """
        if self._adapting:
            super().training_epoch(**kwargs)
            return
        self.optimizer.zero_grad()  # what the last step of the adaptation has left behind
        self.model.eval()
        for batch in self.dataloader:
            self.mbatch = batch
            self._unpack_minibatch()
            self._before_training_iteration(**kwargs)
            self._before_forward(**kwargs)
            self.mb_output = self.closed_form.observe(self.model, self.mb_x, self.mb_y)
            self._after_forward(**kwargs)
            self.loss = self.criterion().detach()
            # No parameter has a gradient, so nothing moves; schedules count the steps.
            self._before_update(**kwargs)
            self.optimizer_step()
            self._after_update(**kwargs)
            self._after_training_iteration(**kwargs)
        self.model.train()


class L3A(ClosedForm):
    """Label-augmented analytic adaptation, as published.

    Hard pseudo-labels for earlier classes where ``sigmoid(score)`` is above 0.7, rare classes weighted
    up, a fixed penalty, no intercept, no calibration: its scores regress labels, so the authors
    threshold ``sigmoid(score)`` at 0.525. It wants ``build_model(..., head="random")`` and, before,
    one epoch of fine-tuning on the first experience.

    Args:
        gamma: Ridge penalty; the authors' is 1000 for convolutional networks, 1 for transformers.
        threshold: Of the pseudo-labels.
        **options: As in :class:`ClosedForm`.
    """

    def __init__(self, *, gamma: float = 1000.0, threshold: float = 0.7, **options: Any) -> None:
        published: dict[str, Any] = {
            "unknown": "hard",
            "keep": "sums",
            "calibration": "none",
            "intercept": False,
            "weighting": "inverse_sqrt",
        }
        super().__init__(gamma=gamma, threshold=threshold, **(published | options))
