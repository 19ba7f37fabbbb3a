"""The closed-form strategies on streams: exact, one pass, resumable, at home in Avalanche."""

import copy
from functools import partial

import pytest
import torch
from avalanche.training.plugins import SupervisedPlugin

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.closed_form.learner import RidgeLearner
from rebll_avalanche.closed_form.ridge import RidgeSolver
from rebll_avalanche.closed_form.sums import RidgeSums
from rebll_avalanche.metrics import read_metrics
from rebll_avalanche.models import build_model
from rebll_avalanche.models.expanded import ExpandedLinear
from rebll_avalanche.plugins import SchedulePlugin
from rebll_avalanche.plugins.closed_form import ClosedFormPlugin
from rebll_avalanche.strategies import L3A, ClosedForm, RebLL

FEATURES, CLASSES = 8, 6


def split(samples, seed):
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.rand(samples, CLASSES, generator=generator) < 0.3).float()
    labels[torch.arange(samples), torch.arange(samples) % CLASSES] = 1.0
    directions = torch.randn(CLASSES, FEATURES, generator=torch.Generator().manual_seed(1))
    inputs = labels @ directions + 0.7 * torch.randn(samples, FEATURES, generator=generator)
    return inputs, labels


@pytest.fixture
def benchmark():
    return multilabel_benchmark(split(240, 2), split(120, 3), "B2-C2")


def vector_model():
    torch.manual_seed(0)
    return build_model("vector", in_features=FEATURES)


def learn(strategy, benchmark):
    results = []
    for train, test in zip(benchmark.train_stream, benchmark.test_stream, strict=True):
        strategy.train(train)
        results.append(read_metrics(strategy.eval([test])))
    return results


def joint_log_odds(inputs, labels, gamma=5.0):
    sums = RidgeSums(FEATURES, CLASSES)
    sums.add(inputs, labels)
    solver = RidgeSolver(sums)
    scores = solver.solve(gamma)
    return scores.rescaled(*solver.moments(scores, gamma).gaussian_line())


def test_the_stream_ends_at_the_regression_on_all_labels(benchmark):
    strategy = ClosedForm(
        model=vector_model(), gamma=5.0, calibration="gaussian", train_mb_size=32, evaluator=None
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    joint = joint_log_odds(*split(240, 2))
    scores = strategy.closed_form.scores()
    assert torch.allclose(scores.weight, joint.weight, atol=1e-8, rtol=0)
    assert torch.allclose(scores.bias, joint.bias, atol=1e-8, rtol=0)
    inputs, _ = split(120, 3)
    assert torch.allclose(strategy.model.eval()(inputs), joint(inputs).float(), atol=1e-4)


def test_order_of_experiences_does_not_matter(benchmark):
    heads = []
    for order in ([0, 1, 2], [1, 2, 0]):
        learner = RidgeLearner(FEATURES, unknown="negative", gamma=2.0, calibration="none")
        for step in order:
            data = benchmark.train_stream[step].dataset
            inputs = torch.stack([data[i][0] for i in range(len(data))])
            learner.learn(inputs, data.targets.data, number=step)
        heads.append(learner.solve().weight)
    assert torch.allclose(*heads, atol=1e-8, rtol=0)


def test_images_that_come_again_count_once(benchmark):
    strategies = [
        ClosedForm(model=vector_model(), keep=keep, evaluator=None) for keep in ("labels", "sums")
    ]
    for strategy in strategies:
        for experience in benchmark.train_stream:
            strategy.train(experience)
    assert strategies[0].closed_form.sums.images == 240
    total = sum(len(experience.dataset) for experience in benchmark.train_stream)
    assert strategies[1].closed_form.sums.images == total > 240


@pytest.mark.parametrize("unknown", ["auto", "negative", "shrunk", "hard", "soft"])
@pytest.mark.parametrize("keep", ["sums", "labels", "vectors"])
def test_every_label_policy_learns(benchmark, unknown, keep):
    strategy = ClosedForm(
        model=vector_model(),
        unknown=unknown,
        threshold=0.5,
        keep=keep,
        train_mb_size=64,
    )
    results = learn(strategy, benchmark)
    assert strategy.model.num_classes == CLASSES
    assert results[-1]["mAP"] > 0.8, results


@pytest.mark.parametrize("unknown", ["shrunk", "hard", "soft"])
def test_a_policy_fills_unknown_labels_of_earlier_classes(benchmark, unknown):
    strategy = ClosedForm(
        model=vector_model(),
        unknown=unknown,
        threshold=0.5,
        keep="sums",
        train_mb_size=500,
        gamma=1.0,
        evaluator=None,
    )
    first, second = benchmark.train_stream[0], benchmark.train_stream[1]
    strategy.train(first)
    head = copy.deepcopy(strategy.model).eval()
    scores = strategy.closed_form.learner.head_so_far()[0]
    strategy.train(second)
    inputs = torch.stack([second.dataset[i][0] for i in range(len(second.dataset))])
    probability = head(inputs).sigmoid()
    guess = {
        "shrunk": 0.5 * scores(inputs).float(),
        "hard": (probability > 0.5).float(),
        "soft": probability,
    }[unknown]
    learner = strategy.closed_form.learner
    counted = learner.sums.with_guesses(learner.guesses, learner.guess_share)
    expected = label_counts(first) + guess.sum(0)
    assert torch.allclose(counted.positives[:2].float(), expected, atol=1e-2)


def label_counts(experience):
    return experience.dataset.targets.data[:, :2].sum(0)


@pytest.mark.parametrize("kind", [ClosedForm, L3A])
def test_a_stopped_run_continues_to_the_same_bits(benchmark, kind):
    whole, first = (kind(model=vector_model(), evaluator=None) for _ in range(2))
    for experience in benchmark.train_stream:
        whole.train(experience)
    first.train(benchmark.train_stream[0])
    weights, state = first.model.state_dict(), copy.deepcopy(first.closed_form.state_dict())
    second = kind(model=vector_model(), evaluator=None)
    second.model.load_state_dict(weights)
    second.closed_form.load_state_dict(state)
    for experience in benchmark.train_stream[1:]:
        second.train(experience)
    for key, value in whole.model.state_dict().items():
        assert torch.equal(second.model.state_dict()[key], value), key
    assert second.closed_form.num_bytes == whole.closed_form.num_bytes


@pytest.mark.parametrize("calibration", ["logistic", "gaussian"])
def test_probabilities_mean_what_they_say(benchmark, calibration):
    strategy = ClosedForm(model=vector_model(), calibration=calibration, evaluator=None)
    for experience in benchmark.train_stream:
        strategy.train(experience)
    inputs, labels = split(4000, 9)
    with torch.no_grad():
        probability = strategy.model.eval()(inputs).sigmoid()
    for low in (0.0, 0.25, 0.5, 0.75):
        inside = (probability >= low) & (probability < low + 0.25)
        assert abs(float(probability[inside].mean() - labels[inside].mean())) < 0.1


class HookRecorder(SupervisedPlugin):
    def __init__(self):
        super().__init__()
        self.hooks = []
        for name in dir(SupervisedPlugin):
            if name.startswith(("before_", "after_")) and "adaptation" not in name:
                setattr(self, name, partial(self.note, name))

    def note(self, name, strategy, **kwargs):
        self.hooks.append(name)


def test_one_pass_in_evaluation_mode_with_avalanches_hooks(benchmark):
    recorder = HookRecorder()
    model = vector_model()
    strategy = ClosedForm(
        model=model, train_mb_size=500, train_epochs=7, plugins=[recorder], evaluator=None
    )
    strategy.train(benchmark.train_stream[0])
    assert recorder.hooks == [
        "before_training",
        "before_training_exp",
        "before_training_epoch",
        "before_training_iteration",
        "before_forward",
        "after_forward",
        "before_update",
        "after_update",
        "after_training_iteration",
        "after_training_epoch",
        "after_training_exp",
        "after_training",
    ]


def test_a_learning_rate_schedule_beside_it_changes_nothing(benchmark):
    plain = ClosedForm(model=vector_model(), evaluator=None)
    model = vector_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.0, weight_decay=1.0)
    scheduled = ClosedForm(
        model=model, optimizer=optimizer, plugins=[SchedulePlugin()], evaluator=None
    )
    for strategy in (plain, scheduled):
        for experience in benchmark.train_stream:
            strategy.train(experience)
    for key, value in plain.model.state_dict().items():
        assert torch.equal(scheduled.model.state_dict()[key], value), key


def test_batch_norm_and_backbone_do_not_change():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(40, 3, 48, 48, generator=generator)
    labels = (torch.rand(40, 4, generator=generator) < 0.5).float()
    labels[torch.arange(40), torch.arange(40) % 4] = 1.0
    model = build_model("small_cnn")
    before = copy.deepcopy(model.backbone.state_dict())
    strategy = ClosedForm(model=model, train_mb_size=16, evaluator=None)
    for experience in multilabel_benchmark(
        (images, labels), (images, labels), "B2-C2"
    ).train_stream:
        strategy.train(experience)
    for key, value in model.backbone.state_dict().items():
        assert torch.equal(value, before[key]), key


def test_inside_another_strategy_it_solves_the_head_after_training(benchmark):
    model = vector_model()
    plugin = ClosedFormPlugin(gamma=5.0, calibration="gaussian")
    strategy = RebLL(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        mem_size=0,
        plugins=[plugin],
        evaluator=None,
    )
    for experience in benchmark.train_stream:
        strategy.train(experience)
    assert torch.allclose(model.head.weight.T.double(), plugin.scores().weight, atol=1e-4)
    joint = joint_log_odds(*split(240, 2))
    # The backbone of vectors cannot change, so even here nothing is lost.
    assert torch.allclose(plugin.scores().weight, joint.weight, atol=1e-8)


def test_l3a_weights_rare_classes_up(benchmark):
    strategy = L3A(model=vector_model(), gamma=1.0, train_mb_size=500, evaluator=None)
    experience = benchmark.train_stream[0]
    strategy.train(experience)
    inputs = torch.stack([experience.dataset[i][0] for i in range(len(experience.dataset))])
    labels = experience.dataset.targets.data[:, :2]
    rarity = labels.sum(0) ** -0.5
    rarity = 2 * rarity / rarity.sum()
    weights = torch.stack([rarity[row == 1].mean() for row in labels])
    gram = (inputs * weights[:, None]).T @ inputs + torch.eye(FEATURES)
    expected = torch.linalg.solve(gram, (inputs * weights[:, None]).T @ labels)
    assert torch.allclose(strategy.model.head.weight, expected.T, atol=1e-4)
    assert not bool(strategy.model.head.bias.any())


def test_expanded_head_sees_what_it_says():
    feature_map = torch.randn(3, FEATURES, 2, 2, generator=torch.Generator().manual_seed(0))
    head = ExpandedLinear(FEATURES, power=0.5, max_pool=True)
    head.grow(4)
    pooled = torch.cat([feature_map.mean((2, 3)), feature_map.amax((2, 3))], dim=1)
    vectors = pooled.sign() * pooled.abs().sqrt()
    assert torch.allclose(head.expand(feature_map), vectors)
    assert torch.allclose(head(feature_map), vectors @ head.weight.T + head.bias, atol=1e-6)
    assert head.class_activation_maps(feature_map).shape == (3, 4, 2, 2)


def test_random_features_follow_from_the_seed():
    vectors = torch.randn(3, FEATURES, generator=torch.Generator().manual_seed(0))
    first, same, other = (
        ExpandedLinear(FEATURES, random_features=32, seed=seed).expand(vectors)
        for seed in (0, 0, 1)
    )
    assert torch.equal(first, same)
    assert first.shape == (3, 32)
    assert float(first.min()) >= 0
    assert not torch.equal(first, other)


def test_the_head_of_l3a_has_four_random_features_per_channel_and_is_saved_without_them():
    model = build_model("vector", in_features=FEATURES, head="random")
    model.head.grow(2)
    vectors = torch.randn(3, FEATURES)
    same = ExpandedLinear(FEATURES, power=1.0, random_features=4 * FEATURES)
    assert torch.equal(model.head.expand(vectors), same.expand(vectors))
    again = build_model("vector", in_features=FEATURES, head="random")
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(vectors), model(vectors))
    assert "head.projection" not in model.state_dict()


def test_errors_say_what_is_wrong(benchmark):
    with pytest.raises(ValueError, match="unknown"):
        ClosedForm(model=vector_model(), unknown="ignore")
    with pytest.raises(ValueError, match="intercept=True"):
        ClosedForm(model=vector_model(), intercept=False)
    model = build_model("vector", in_features=FEATURES, head="gcn", hidden=4)
    strategy = ClosedForm(model=model, evaluator=None)
    with pytest.raises(ValueError, match="head='linear'"):
        strategy.train(benchmark.train_stream[0])


def test_a_network_adapts_to_the_first_experience_and_then_stays(benchmark):
    torch.manual_seed(0)
    model = build_model("vector", in_features=FEATURES, hidden_layer=6, head="expanded")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    strategy = ClosedForm(
        model=model, optimizer=optimizer, adapt=True, train_epochs=3, train_mb_size=32, gamma=5.0
    )
    weights = [copy.deepcopy(model.backbone.state_dict())]
    for experience in benchmark.train_stream:
        strategy.train(experience)
        weights.append(copy.deepcopy(model.backbone.state_dict()))
    before, first, *later = weights
    assert any(not torch.equal(before[name], first[name]) for name in before)
    for state in later:
        assert all(torch.equal(first[name], state[name]) for name in first)
    # Sums and head are of the adapted network: those of one that had it from the start.
    fresh = copy.deepcopy(model)
    fresh.head = ExpandedLinear(6)
    again = ClosedForm(model=fresh, train_mb_size=32, gamma=5.0)
    learn(again, benchmark)
    assert torch.allclose(fresh.head.weight, model.head.weight, atol=1e-6)
    with pytest.raises(ValueError, match="give it an optimizer"):
        ClosedForm(model=model, adapt=True)


def test_an_experience_is_learned_once_and_any_may_be_the_first(vector_benchmark):
    stream = vector_benchmark("B2-C1").train_stream
    late = ClosedForm(model=build_model("vector", in_features=6), evaluator=None)
    late.train(stream[1])
    with pytest.raises(ValueError, match="experience 1 was already learned"):
        late.train(stream[1])
    late.train(stream[2])
    assert late.model.num_classes == 4
