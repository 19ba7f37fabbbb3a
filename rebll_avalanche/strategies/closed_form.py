"""Closed-form learning as Avalanche strategies: one pass, no gradient, no stored images."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.optim import Optimizer

from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.strategies.template import MethodStrategy

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from rebll_avalanche.plugins.signatures import ClosedFormOptions


class ClosedForm(MethodStrategy, closed_form=ClosedFormPlugin):
    """A ridge-regression head on a frozen network, optionally fine-tuned on the first experience.

    The method is :class:`~rebll_avalanche.plugins.closed_form.ClosedFormPlugin`; this strategy makes
    one pass over each experience, with evaluation transforms and in evaluation mode. Logits are log-odds.

    Args:
        model: A model with a linear or an expanded head; its backbone should be pretrained.
        optimizer: Only needed with ``adapt``; otherwise nothing has a gradient.
        adapt: Fine-tune the network on the first experience before it is frozen. This adapts it to the
            images; the head is solved afterwards in any case.
        train_epochs: Epochs of the adaptation; the closed form needs one pass.
        **options: Parameters of the plugin, and those of
            :class:`~rebll_avalanche.strategies.template.FineTuning`.

    >>> import torch
    >>> from rebll_avalanche import build_model, multilabel_benchmark, run_stream
    >>> x, y = torch.eye(4).repeat(5, 1), torch.eye(4).repeat(5, 1)  # 20 vectors, 4 classes
    >>> strategy = ClosedForm(model=build_model("vector", in_features=4), gamma=0.1)
    >>> steps = run_stream(strategy, multilabel_benchmark((x, y), (x, y), "B2-C2"))
    >>> steps[-1].metrics["mAP"]
    1.0
    """

    closed_form: ClosedFormPlugin

    def __init__(
        self,
        *,
        model: nn.Module,
        optimizer: Optimizer | None = None,
        adapt: bool = False,
        train_epochs: int = 1,
        **options: Unpack[ClosedFormOptions],
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
        """Use evaluation transforms: the sums must hold the features used for predictions."""
        if self._adapting:
            super().train_dataset_adaptation(**kwargs)
        else:
            self.adapted_dataset = self.experience.dataset.eval()

    def make_train_dataloader(self, shuffle: bool = True, **kwargs: Any) -> None:
        """Read in a fixed order, so that the sums are the same bit for bit."""
        super().make_train_dataloader(shuffle=shuffle and self._adapting, **kwargs)

    def _before_training_exp(self, **kwargs: Any) -> None:
        self.train_epochs = self.adaptation_epochs if self._adapting else 1
        super()._before_training_exp(**kwargs)

    def training_epoch(self, **kwargs: Any) -> None:
        """Make the pass: Avalanche's hooks around each batch, without a backward pass.

        While the network adapts, this is an ordinary epoch; the plugin makes its pass after the last
        one.
        """
        if self._adapting:
            super().training_epoch(**kwargs)
            return
        self.optimizer.zero_grad()  # left over from the last step of the adaptation
        self.model.eval()
        for batch in self.dataloader:
            self.mbatch = batch
            self._unpack_minibatch()
            self._before_training_iteration(**kwargs)
            self._before_forward(**kwargs)
            self.mb_output = self.closed_form.observe(self.model, self.mb_x, self.mb_y)
            self._after_forward(**kwargs)
            self.loss = self.criterion().detach()
            # No parameter has a gradient, so nothing changes, but schedules count the steps.
            self._before_update(**kwargs)
            self.optimizer_step()
            self._after_update(**kwargs)
            self._after_training_iteration(**kwargs)
        self.model.train()


class L3A(ClosedForm):
    """Label-augmented analytic adaptation, as published.

    Hard pseudo-labels for earlier classes where ``sigmoid(score)`` is above 0.7, higher weights for
    rare classes, a fixed penalty, no intercept, no calibration: its scores regress labels, so the
    authors threshold ``sigmoid(score)`` at 0.525. Use it with ``build_model(..., head="random")`` after
    one epoch of fine-tuning on the first experience.

    Args:
        gamma: Ridge penalty; the authors use 1000 for convolutional networks, 1 for transformers.
        threshold: Threshold of the pseudo-labels.
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
