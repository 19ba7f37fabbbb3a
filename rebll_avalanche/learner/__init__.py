"""A model that goes on learning from new pictures when the old ones are gone."""

from rebll_avalanche.learner.learner import Learner
from rebll_avalanche.learner.lesson import Evaluation, Lesson
from rebll_avalanche.learner.revising import Correction

__all__ = ["Correction", "Evaluation", "Learner", "Lesson"]
