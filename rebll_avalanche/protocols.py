"""Protocols of the Avalanche strategies and experiences that plugins and metrics use.

Avalanche is imported untyped (see ``[tool.mypy]`` in ``pyproject.toml``), so type checkers check the hooks
against these protocols. Any ``SupervisedTemplate``, and any experience of this package's benchmarks,
satisfies them.
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
        current_experience: Its number in the stream, from 0.
        origin_stream: Its stream.
        classes_in_this_experience: Columns of its new classes.
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
    """Avalanche's training counters.

    Attributes:
        train_iterations: Iterations since the strategy was built.
        train_exp_epochs: Completed epochs of this experience.
        train_epoch_iterations: Completed iterations of this epoch.
    """

    train_iterations: int
    train_exp_epochs: int
    train_epoch_iterations: int


class Strategy(Protocol):
    """A supervised strategy as its hooks see it, between ``before_training`` and ``after_eval``.

    Attributes:
        model: The trained network. Attributes beyond ``nn.Module``, such as ``head``, differ between
            networks, so they are checked when training begins rather than by type.
        optimizer: The optimizer, which Avalanche replaces when the network grows.
        experience: The experience being trained or evaluated.
        is_training: Whether it is being trained.
        device: Device of the network and the batches.
        plugins: In the order in which their hooks are called.
        evaluator: Avalanche's ``EvaluationPlugin``.
        clock: Training counters.
        train_epochs: Passes over each experience.
        train_mb_size: Images per training batch.
        eval_mb_size: Images per evaluation batch.
        dataloader: Yields the batches of this epoch.
        mbatch: The whole batch: images, label vectors, task labels.
        mb_x: Its images.
        mb_y: Its label vectors.
        mb_output: The network's logits for it.
        optimized_param_id: The optimizer's parameters, by name.
        loss: The loss to differentiate; hooks before the backward pass add to it.
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
