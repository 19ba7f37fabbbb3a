"""Memory policies of this package inside Avalanche's own replay."""

from __future__ import annotations

from typing import Any

from avalanche.training.plugins import SupervisedPlugin
from avalanche.training.storage_policy import ExemplarsBuffer

from rebll_avalanche.labels import label_matrix
from rebll_avalanche.memory.sampling import SamplingPolicy, build_policy, chosen_rows
from rebll_avalanche.protocols import Experience, Strategy


class PolicyBuffer(ExemplarsBuffer):
    """A ``storage_policy`` for Avalanche's ``ReplayPlugin`` that a sampling policy decides.

    Args:
        max_size: How many images at most.
        policy: ``"reservoir"``, ``"prs"``, ``"ocdm"``, ``"herding"``, or a policy of your own.
    """

    buffer: Any

    def __init__(self, max_size: int, policy: str | SamplingPolicy = "reservoir") -> None:
        super().__init__(max_size)
        self.policy = build_policy(policy)

    def post_adapt(self, agent_state: Strategy, exp: Experience) -> None:
        """Let the policy choose among what is kept and what the experience brought."""
        arriving = label_matrix(exp.dataset)
        empty = len(self.buffer) == 0
        kept = arriving.new_empty(0, arriving.shape[1]) if empty else label_matrix(self.buffer)
        chosen = chosen_rows(self.policy, kept, arriving, self.max_size, agent_state)
        everything = exp.dataset if empty else self.buffer.concat(exp.dataset)
        self.buffer = everything.subset(chosen.tolist())

    def resize(self, strategy: Strategy, new_size: int) -> None:
        """Hold at most ``new_size`` images from the next experience on."""
        self.max_size = new_size


class SharedBudgetPlugin(SupervisedPlugin):
    """Makes plugins that count images *per experience* share one budget.

    Avalanche's GEM and AGEM keep a number of images of every experience, so their memory grows with
    the stream; here that number becomes the budget divided by the stream's length.

    Args:
        mem_size: Number of images in all experiences together: at least one of each.
    """

    def __init__(self, mem_size: int = 40) -> None:
        super().__init__()
        self.mem_size = mem_size

    def before_training_exp(self, strategy: Strategy, **kwargs: Any) -> None:
        """Tell the other plugins of this strategy."""
        experiences = len(strategy.experience.origin_stream)
        share = self.mem_size // experiences
        if not share:
            raise ValueError(
                f"mem_size={self.mem_size} is less than one image for each of {experiences} experiences, "
                "which this method needs; give it a larger memory"
            )
        for plugin in strategy.plugins:
            if hasattr(plugin, "patterns_per_experience"):
                plugin.patterns_per_experience = share
