"""A closed-form teacher knows what the closed form knows, whatever becomes of its pupil."""

import copy

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin
from torch import nn

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.models import build_model
from rebll_avalanche.models.heads import GrowingLinear
from rebll_avalanche.models.network import MultiLabelModel
from rebll_avalanche.plugins.closed_form_teacher import ClosedFormTeacher
from rebll_avalanche.plugins.podnet import PODPlugin
from rebll_avalanche.plugins.teacher import Teacher
from rebll_avalanche.strategies import ClosedForm, RebLL


@pytest.fixture
def benchmark():
    generator = torch.Generator().manual_seed(0)
    labels = (torch.rand(24, 4, generator=generator) < 0.4).float()
    labels[torch.arange(24), torch.arange(24) % 4] = 1.0
    colours = labels @ torch.rand(4, 3, generator=generator)
    images = colours[:, :, None, None] + 0.1 * torch.rand(24, 3, 8, 8, generator=generator)
    return multilabel_benchmark((images, labels), (images, labels), "B2-C1")


def network():
    torch.manual_seed(0)
    return build_model("small_cnn", pooling="mean")


def pupil(**options):
    model = network()
    return RebLL(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        train_mb_size=8,
        mem_size=6,
        evaluator=None,
        **({"teacher": "closed_form"} | options),
    )


def test_it_is_the_closed_form_on_the_network_after_the_first_experience(benchmark):
    strategy = pupil()
    strategy.train(benchmark.train_stream[0])
    learned = copy.deepcopy(strategy.model)
    alone = ClosedForm(model=copy.deepcopy(learned), evaluator=None)
    images = torch.rand(5, 3, 8, 8)
    for experience in benchmark.train_stream:
        if experience.current_experience:
            strategy.train(experience)
        alone.train(experience)
        teacher = strategy.rebll.teacher.successor
        assert torch.allclose(teacher(images), alone.model.eval()(images), atol=1e-5)
        assert not any(parameter.requires_grad for parameter in teacher.parameters())
    first = dict(learned.backbone.named_parameters())
    for name, parameter in teacher.backbone.named_parameters():
        assert torch.equal(parameter, first[name])
    moved = dict(strategy.model.backbone.named_parameters())
    assert not all(torch.equal(moved[name], first[name]) for name in first)


def test_distillation_and_relabelling_ask_it(benchmark):
    strategy = pupil(train_epochs=2)
    teacher = strategy.rebll.teacher
    assert strategy.rebll.replay.teacher is teacher
    for experience in benchmark.train_stream[:2]:
        strategy.train(experience)
    # Two passes over the second experience, one look at each batch.
    batches = -(-len(benchmark.train_stream[1].dataset) // 8)
    assert teacher.forward_passes == 2 * batches
    memory = strategy.rebll.memory
    assert teacher.successor is teacher.model  # it had seen the experience before the student did
    labels, provenance = memory.label_matrix()
    images = memory.images(torch.arange(len(memory)), augment=False)
    said = teacher.model(images).sigmoid() > 0.5
    filled = provenance[:, :3] > 1
    assert bool(filled.any())
    assert torch.equal(labels[:, :3][filled], said.float()[filled])


def test_the_student_begins_where_its_teacher_is(benchmark):
    strategy = pupil(start_from_teacher=True)
    strategy.train(benchmark.train_stream[0])
    seen = []

    class Spy(SupervisedPlugin):
        def before_training_epoch(self, strategy, **kwargs):
            heads = strategy.model.head, strategy.rebll.teacher.model.head
            seen.append([(head.weight.clone(), head.bias.clone()) for head in heads])

    strategy.plugins.append(Spy())
    for experience in benchmark.train_stream[1:]:
        strategy.train(experience)
        (weight, bias), (taught_weight, taught_bias) = seen[-1]
        assert len(weight) == len(taught_weight) == len(experience.classes_seen_so_far)
        assert torch.equal(weight, taught_weight)
        assert torch.equal(bias, taught_bias)


def test_a_stopped_run_continues_to_the_same_bits(benchmark):
    whole, first, second = pupil(), pupil(), pupil()
    torch.manual_seed(1)
    whole.train(benchmark.train_stream[0])
    torch.manual_seed(1)
    first.train(benchmark.train_stream[0])
    state = copy.deepcopy(first.rebll.state_dict())
    second.model.load_state_dict(first.model.state_dict())
    second.rebll.load_state_dict(state)
    second.rebll.memory.bind(benchmark.train_stream[0])
    for experience in benchmark.train_stream[1:]:
        for strategy in (whole, second):
            torch.manual_seed(2)
            strategy.train(experience)
    for key, value in whole.model.state_dict().items():
        assert torch.equal(second.model.state_dict()[key], value), key
    taught, again = whole.rebll.teacher.state_dict(), second.rebll.teacher.state_dict()
    assert torch.equal(again["closed_form"]["sums"]["gram"], taught["closed_form"]["sums"]["gram"])
    assert all(
        torch.equal(again["network"][key], value) for key, value in taught["network"].items()
    )


@pytest.mark.parametrize("first", [True, False])
def test_plugins_that_want_the_previous_model_have_a_teacher_of_their_own(benchmark, first):
    other = PODPlugin()
    strategy = pupil(plugins=[other] if first else None, preset="best")
    if not first:
        strategy.plugins.append(other)
    for experience in benchmark.train_stream:
        strategy.train(experience)
    assert isinstance(strategy.rebll.teacher, ClosedFormTeacher)
    assert type(other.teacher) is Teacher
    assert torch.equal(other.teacher.successor.head.weight, strategy.model.head.weight)
    fresh = pupil(preset="best")
    fresh.rebll.load_state_dict(strategy.rebll.state_dict())


def test_the_teacher_sees_whole_pictures_as_the_student_does():
    """In evaluation mode a model also looks at windows; while it learns it does not."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(12, 5, 6, generator=generator)
    labels = (torch.rand(12, 4, generator=generator) < 0.5).float()
    labels[torch.arange(12), torch.arange(12) % 4] = 1.0
    stream = multilabel_benchmark((inputs, labels), (inputs, labels), "B2-C2").train_stream
    model = MultiLabelModel(nn.Identity(), GrowingLinear(6), windows=True)
    strategy = RebLL(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=1e-12),
        mem_size=0,
        evaluator=None,
    )
    seen = []

    class Comparison(SupervisedPlugin):
        def before_backward(self, strategy, **kwargs):
            if strategy.experience.current_experience:
                taught = strategy.rebll.teacher.logits(strategy.mb_x)
                seen.append((taught - strategy.mb_output[:, :2]).abs().max().item())

    strategy.plugins.append(Comparison())
    for experience in stream:
        strategy.train(experience)
    assert seen
    assert max(seen) < 1e-5
    whole = strategy.model.eval()(inputs[:, 0])
    assert not torch.allclose(strategy.model(inputs), whole)  # windows do make a difference
