"""A model that continues to learn from new pictures after the earlier ones were deleted."""

from rebll_avalanche.learner.learner import Learner
from rebll_avalanche.learner.lesson import Evaluation, Lesson
from rebll_avalanche.learner.revising import Correction

__all__ = ["Correction", "Evaluation", "Learner", "Lesson"]
