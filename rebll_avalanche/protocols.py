"""What plugins and metrics use of a running Avalanche strategy and of its experiences.

Avalanche is imported untyped (see ``[tool.mypy]`` in ``pyproject.toml``), so these protocols are what a
type checker holds the hooks to. Any ``SupervisedTemplate``, and any experience of a benchmark of this
package, has all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor, nn
    from torch.optim import Optimizer


class Stream(Protocol):
    """The experiences of one split, in order.

    Attributes:
        name: ``"train"``, ``"valid"`` or ``"test"``.
    """

    name: str

    def __getitem__(self, index: int, /) -> Experience: ...

    def __iter__(self) -> Iterator[Experience]: ...

    def __len__(self) -> int: ...


class Experience(Protocol):
    """One step of a stream: images with label vectors.

    Attributes:
        dataset: An ``AvalancheDataset`` of ``(image, label vector, task label)``.
        current_experience: Its number in the stream, from 0 on.
        origin_stream: The stream it belongs to.
        classes_in_this_experience: Columns that arrive with it.
        previous_classes: Columns of earlier experiences.
        classes_seen_so_far: Both.
    """

    dataset: Any
    current_experience: int
    origin_stream: Stream
    classes_in_this_experience: set[int]
    previous_classes: set[int]
    classes_seen_so_far: set[int]


class Clock(Protocol):
    """Avalanche's counters of training.

    Attributes:
        train_iterations: Since the strategy was built.
        train_exp_epochs: Epochs of this experience that have ended.
        train_epoch_iterations: Iterations of this epoch that have ended.
    """

    train_iterations: int
    train_exp_epochs: int
    train_epoch_iterations: int


class Strategy(Protocol):
    """A supervised strategy as its hooks see it, between ``before_training`` and ``after_eval``.

    Attributes:
        model: The network that learns. What it has beyond ``nn.Module``, such as ``head``, differs
            between networks, so it is checked when training begins rather than by type.
        optimizer: Replaced by Avalanche when the network grows.
        experience: Trained or evaluated now.
        is_training: Whether it is trained.
        device: Of the network and of a batch.
        plugins: In the order in which their hooks are called.
        evaluator: Avalanche's ``EvaluationPlugin``.
        clock: How far training has come.
        train_epochs: Passes over each experience.
        train_mb_size: Images per training batch.
        eval_mb_size: Images per evaluation batch.
        dataloader: Yields the batches of this epoch.
        mbatch: The whole batch: images, label vectors, task labels.
        mb_x: Its images.
        mb_y: Its label vectors.
        mb_output: The network's logits for it.
        optimized_param_id: The parameters that the optimizer holds, by name.
        loss: What will be differentiated; hooks before the backward pass add to it.
        _criterion: The base term; private to Avalanche, but there is no other way to replace it.
    """

    model: nn.Module
    optimizer: Optimizer
    optimized_param_id: dict[str, Tensor]
    experience: Experience
    is_training: bool
    device: torch.device
    plugins: list[Any]
    evaluator: Any
    clock: Clock
    train_epochs: int
    train_mb_size: int
    eval_mb_size: int
    dataloader: Any
    mbatch: list[Tensor]
    mb_output: Tensor
    loss: Tensor
    _criterion: nn.Module

    @property
    def mb_x(self) -> Tensor: ...

    @property
    def mb_y(self) -> Tensor: ...

    def train(self, experiences: Any, /, **kwargs: Any) -> Any: ...

    def eval(self, experiences: Any, /, **kwargs: Any) -> dict[str, Any]: ...
