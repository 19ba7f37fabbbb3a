"""Avalanche plugins: hooks that wire losses and memory into a strategy's training loop."""

from rebll_avalanche.plugins.akd import AKDPlugin
from rebll_avalanche.plugins.lwf import SigmoidDistillation, SigmoidLwFPlugin
from rebll_avalanche.plugins.rebll import RebLLPlugin
from rebll_avalanche.plugins.relabel import OnlineRelabelPlugin
from rebll_avalanche.plugins.schedule import SchedulePlugin, build_optimizer
from rebll_avalanche.plugins.teacher import Teacher, share_teacher

__all__ = [
    "AKDPlugin",
    "OnlineRelabelPlugin",
    "RebLLPlugin",
    "SchedulePlugin",
    "SigmoidDistillation",
    "SigmoidLwFPlugin",
    "Teacher",
    "build_optimizer",
    "share_teacher",
]
