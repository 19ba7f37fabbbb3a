"""This package's sampling policies for Avalanche's replay plugins."""

from __future__ import annotations

from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.storage_policy import ExemplarsBuffer

from rebll_avalanche.arguments import check_number
from rebll_avalanche.labels import label_matrix
from rebll_avalanche.memory.sampling import SamplingPolicy, build_policy, chosen_rows
from rebll_avalanche.protocols import Experience, Strategy


class PolicyBuffer(ExemplarsBuffer):
    """Replay buffer with a sampling policy, a ``storage_policy`` for Avalanche's ``ReplayPlugin``.

    Args:
        max_size: Maximum number of images.
        policy: ``"reservoir"``, ``"prs"``, ``"ocdm"``, ``"herding"``, or a policy of your own.
    """

    buffer: Any

    def __init__(self, max_size: int, policy: str | SamplingPolicy = "reservoir") -> None:
        check_number("max_size", max_size, 0, whole=True)
        super().__init__(max_size)
        self.policy = build_policy(policy)

    def post_adapt(self, agent_state: Strategy, exp: Experience) -> None:
        """Let the policy choose among the stored images and those of the experience."""
        arriving = label_matrix(exp.dataset)
        empty = len(self.buffer) == 0
        kept = arriving.new_empty(0, arriving.shape[1]) if empty else label_matrix(self.buffer)
        chosen = chosen_rows(self.policy, kept, arriving, self.max_size, agent_state)
        everything = exp.dataset if empty else self.buffer.concat(exp.dataset)
        self.buffer = everything.subset(chosen.tolist())

    def resize(self, strategy: Strategy, new_size: int) -> None:
        """Keep at most ``new_size`` images from the next experience on."""
        self.max_size = new_size


class SharedBudgetPlugin(SupervisedPlugin, supports_distributed=True):  # type: ignore[call-arg]
    """Gives plugins that limit memory *per experience* one total budget.

    Avalanche's GEM and AGEM keep a fixed number of images per experience, so their memory grows with
    the stream; this plugin sets that number to the budget divided by the number of experiences.

    Args:
        mem_size: Number of images over all experiences; at least one per experience.
    """

    def __init__(self, mem_size: int = 40) -> None:
        super().__init__()
        check_number("mem_size", mem_size, 1, whole=True)
        self.mem_size = mem_size

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Set the size per experience in the strategy's other plugins."""
        experiences = len(strategy.experience.origin_stream)
        share = self.mem_size // experiences
        if not share:
            raise ValueError(
                f"mem_size must be at least {experiences}, one image per experience, got {self.mem_size}; "
                "use a larger memory"
            )
        for plugin in strategy.plugins:
            if hasattr(plugin, "patterns_per_experience"):
                plugin.patterns_per_experience = share
