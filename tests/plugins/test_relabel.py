"""The label block matrix, cell by cell, with models that say what they are told to."""

from __future__ import annotations

from unittest.mock import Mock

import pytest
import torch
from avalanche.training import Naive
from avalanche.training.plugins import SupervisedPlugin
from torch import nn

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.memory import Provenance
from rebll_avalanche.plugins import OnlineRelabelPlugin, relabel

GT, OLD, NEW = Provenance.GROUND_TRUTH, Provenance.PREVIOUS_MODEL, Provenance.CURRENT_MODEL


class Scripted(nn.Module):
    """Says of image i and class c what the script of the experience just trained says."""

    def __init__(self, script):
        super().__init__()
        self.script = script  # [experience, image, class] probabilities
        self.trained = nn.Parameter(torch.zeros(1))  # so that an optimizer has something to hold
        self.experience = 0
        self.images_seen = []

    def forward(self, x):
        if not self.training:
            self.images_seen += x[:, 0].tolist()
        probability = self.script[self.experience][x[:, 0].long()]
        return torch.logit(probability) + 0 * self.trained


def test_block_matrix_after_three_experiences():
    # Six images, three classes, one class per experience; each image belongs to exactly one.
    truth = torch.eye(3).repeat_interleave(2, dim=0)
    images = torch.arange(6.0).view(6, 1)
    benchmark = multilabel_benchmark((images, truth), (images, truth), [[0], [1], [2]])
    script = torch.zeros(3, 6, 3) + 0.1
    script[1, 0, 1] = 0.9  # f2 finds class 1 in image 0
    script[0, 2, 0] = 0.9  # f1 finds class 0 in image 2
    script[2, 3, 2] = 0.9  # f3 finds class 2 in image 3
    script[1, 4, 1] = 0.8  # exactly at the threshold: not positive
    script[1, 5, 0] = 0.9  # f2 finds class 0 in image 5
    # Traps: a later model would say otherwise, but what is filled once stays.
    script[2, 0, 1] = 0.1
    script[2, 2, 0] = 0.1
    script[2, 4, 0] = 0.9

    model = Scripted(script)
    plugin = OnlineRelabelPlugin(mem_size=6)
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        criterion=PartialLabelBCE(),
        train_mb_size=2,
        plugins=[plugin],
        evaluator=None,
    )
    for experience in benchmark.train_stream:
        model.experience = experience.current_experience
        strategy.train(experience)

    labels, provenance = plugin.memory.label_matrix()
    expected_labels = torch.tensor(
        [
            [1.0, 1, 0],
            [1, 0, 0],
            [1, 1, 0],
            [0, 1, 1],
            [0, 0, 1],
            [1, 0, 1],
        ]
    )
    expected_provenance = torch.tensor(
        [
            [GT, NEW, NEW],
            [GT, NEW, NEW],
            [OLD, GT, NEW],
            [OLD, GT, NEW],
            [OLD, OLD, GT],
            [OLD, OLD, GT],
        ]
    )
    assert torch.equal(labels, expected_labels)
    assert torch.equal(provenance.long(), expected_provenance)
    # Every filled label is now compared with what was hidden.
    assert plugin.memory.relabelling_score()["count"] == 12


class FromTheFirstEpoch(SupervisedPlugin):
    """Does not count the image that was used to check the network."""

    def before_training_epoch(self, strategy, **kwargs):
        strategy.model.images_seen.clear()


def test_each_model_looks_once_at_what_it_must_label():
    truth = torch.eye(3).repeat_interleave(2, dim=0)
    images = torch.arange(6.0).view(6, 1)
    benchmark = multilabel_benchmark((images, truth), (images, truth), [[0], [1], [2]])
    model = Scripted(torch.full((3, 6, 3), 0.1))
    plugin = OnlineRelabelPlugin(mem_size=6)
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        criterion=PartialLabelBCE(),
        plugins=[plugin, FromTheFirstEpoch()],
        evaluator=None,
    )
    seen = []
    for experience in benchmark.train_stream:
        model.experience = experience.current_experience
        strategy.train(experience)
        seen.append(sorted(plugin.teacher.successor.images_seen))
    # A copy of the model just trained labels the older images; its predecessor labels the new ones.
    assert seen == [[], [0, 1], [0, 1, 2, 3]]
    assert strategy.model.training


def test_without_relabelling_the_gaps_stay():
    truth = torch.eye(3).repeat_interleave(2, dim=0)
    images = torch.arange(6.0).view(6, 1)
    benchmark = multilabel_benchmark((images, truth), (images, truth), [[0], [1], [2]])
    model = Scripted(torch.full((3, 6, 3), 0.1))
    plugin = OnlineRelabelPlugin(mem_size=6, relabel=False, replay_loss="bce")
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.0),
        criterion=PartialLabelBCE(),
        plugins=[plugin],
        evaluator=None,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    provenance = plugin.memory.label_matrix()[1]
    assert torch.equal(provenance.bool(), torch.eye(3).repeat_interleave(2, dim=0).bool())
    assert torch.isfinite(plugin.terms.last["er"])


@pytest.mark.parametrize(("kind", "pinned"), [("cuda", True), ("cpu", False)])
def test_memory_is_sent_to_a_gpu_from_pinned_memory(kind, pinned):
    """Otherwise the host waits for every copy, whatever non_blocking says."""
    tensor = Mock()
    device = torch.device(kind)
    relabel._sent(tensor, device)
    source = tensor.pin_memory.return_value if pinned else tensor
    source.to.assert_called_once_with(device, non_blocking=True)
    assert tensor.pin_memory.called == pinned
