"""A training step of RebLL is equation (9), whichever strategy it is dropped into."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from avalanche.models import SCRModel
from avalanche.training import (
    AGEM,
    DER,
    ER_ACE,
    EWC,
    GEM,
    MAS,
    SCR,
    Cumulative,
    Naive,
    Replay,
    SynapticIntelligence,
)
from avalanche.training.plugins import (
    AGEMPlugin,
    EvaluationPlugin,
    EWCPlugin,
    GEMPlugin,
    MASPlugin,
    ReplayPlugin,
    SupervisedPlugin,
    SynapticIntelligencePlugin,
)
from avalanche.training.storage_policy import ReservoirSamplingBuffer
from torch import nn

from rebll_avalanche.labels import PartialLabelBCE
from rebll_avalanche.losses import akd_loss, cls_loss
from rebll_avalanche.models import build_model
from rebll_avalanche.plugins import AKDPlugin, OnlineRelabelPlugin, RebLLPlugin
from rebll_avalanche.plugins.closed_form_teacher import ClosedFormTeacher
from rebll_avalanche.plugins.teacher import Teacher
from rebll_avalanche.strategies import RebLL


class Recorder(SupervisedPlugin):
    """Notes the loss at backward, its gradients, and what it was computed from."""

    def __init__(self):
        super().__init__()
        self.steps = []
        self.teacher = None

    def after_forward(self, strategy, **kwargs):
        self.before = copy.deepcopy(strategy.model)

    def after_backward(self, strategy, **kwargs):
        gradients = {n: p.grad.clone() for n, p in strategy.model.named_parameters()}
        self.steps.append(
            {
                "loss": strategy.loss.detach().clone(),
                "gradients": gradients,
                "model": self.before,
                "previous": self.teacher,
                "x": strategy.mb_x.clone(),
                "y": strategy.mb_y.clone(),
                "experience": strategy.experience.current_experience,
            }
        )

    def after_training_exp(self, strategy, **kwargs):
        self.teacher = copy.deepcopy(strategy.model)


class MemorySnapshot(SupervisedPlugin):
    """What is in memory when an experience begins: all of it is replayed in every step."""

    def __init__(self, plugin):
        super().__init__()
        self.plugin = plugin
        self.contents = []

    def before_training_exp(self, strategy, **kwargs):
        memory = self.plugin.memory
        rows = torch.arange(len(memory))
        images = memory.images(rows, augment=False) if len(memory) else None
        self.contents.append((images, memory.labels.clone()))


def by_hand(logits, targets, positive_exponent=0.0, negative_exponent=0.0):
    """The mean over classes, then over images, of the asymmetric loss, from its definition."""
    total = 0.0
    for z_row, y_row in zip(logits, targets, strict=True):
        terms = []
        for z, y in zip(z_row, y_row, strict=True):
            p = 1 / (1 + torch.exp(-z))
            weight_positive, weight_negative = (1 - p) ** positive_exponent, p**negative_exponent
            terms.append(
                -y * weight_positive * torch.log(p) - (1 - y) * weight_negative * torch.log(1 - p)
            )
        total = total + sum(terms) / len(terms)
    return total / len(logits)


def small_model(dtype=torch.float32):
    torch.manual_seed(3)
    return build_model("vector", in_features=6).to(dtype)


@pytest.mark.parametrize("lambda_new", [0.0, 0.4])
def test_three_experiences_of_equation_nine(vector_benchmark, lambda_new):
    benchmark = vector_benchmark("B2-C1", dtype=torch.float64)
    model = small_model(torch.float64)
    strategy = RebLL(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.5),
        mem_size=9,
        lambda_new=lambda_new,
        train_mb_size=8,
    )
    recorder, snapshot = Recorder(), MemorySnapshot(strategy.rebll)
    strategy.plugins += [recorder, snapshot]
    for experience in benchmark.train_stream:
        strategy.train(experience)
    assert {step["experience"] for step in recorder.steps} == {0, 1, 2}

    for step in recorder.steps:
        t = step["experience"]
        lo, hi = benchmark.scenario.ranges[t]
        g, b = 1.2 * math.log(hi), 0.7 * math.log(hi)
        network, x, y = step["model"], step["x"], step["y"].double()
        network.zero_grad()
        logits = network(x)
        loss = by_hand(logits[:, lo:hi], y[:, lo:hi], positive_exponent=g)
        if t > 0:
            with torch.no_grad():
                q = torch.sigmoid(step["previous"](x))
            assert q.shape[1] == lo
            distilled = by_hand(logits[:, :lo], q, positive_exponent=g)
            images, labels = snapshot.contents[t]
            replayed = by_hand(
                network(images)[:, :lo], labels[:, :lo].double(), negative_exponent=b
            )
            absent = by_hand(network(images)[:, lo:hi], torch.zeros(len(images), hi - lo))
            loss = 0.15 * loss + 0.85 * distilled + 0.30 * replayed + lambda_new * absent
        loss.backward()
        # Avalanche sums the loss in float32; the gradients are what float64 shows.
        assert step["loss"].item() == pytest.approx(loss.item(), abs=1e-6)
        for name, parameter in network.named_parameters():
            torch.testing.assert_close(
                step["gradients"][name], parameter.grad, atol=1e-12, rtol=1e-9
            )


def test_presets_give_way_to_what_is_asked_for():
    paper, best = RebLLPlugin(), RebLLPlugin(preset="best", alpha=1.2, start_from_teacher=False)
    assert (paper.akd.alpha, paper.akd.teacher_targets) == (1.2, "printed")
    assert (paper.replay.lambda_new, paper.replay.memory.mem_size) == (0.0, 40)
    assert type(paper.teacher) is Teacher
    assert best.akd.alpha == 1.2
    assert best.replay.lambda_new > 0
    assert isinstance(best.teacher, ClosedFormTeacher)
    assert not best.start_from_teacher
    assert RebLLPlugin(preset="best").start_from_teacher
    assert RebLLPlugin(preset="best").akd.alpha == 0
    assert type(RebLLPlugin(preset="best", teacher="previous").teacher) is Teacher
    with pytest.raises(ValueError, match="preset must be one of paper, best, got 'beast'"):
        RebLLPlugin(preset="beast")


def quiet(strategy_class, model, plugins, **options):
    return strategy_class(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=PartialLabelBCE(),
        train_mb_size=8,
        train_epochs=2,
        plugins=plugins,
        evaluator=None,
        **options,
    )


def only_rebll(step, plugin, experience_range):
    """What RebLL should add up to in a step, from the plugin's own arithmetic being replayed."""
    lo, hi = experience_range
    g = plugin.akd.alpha * math.log(hi)
    logits = step["model"](step["x"])
    base = cls_loss(logits, step["y"][:, : logits.shape[1]], exponent=g)
    if step["previous"] is None or lo == 0:
        return base
    q = step["previous"](step["x"])[:, :lo].sigmoid()
    q = torch.where(
        step["y"][:, :lo].isnan(), q, torch.nan
    )  # replayed images have labels of old classes
    return 0.15 * base + 0.85 * akd_loss(logits[:, :lo], q, exponent=g)


COMPANIONS = {
    "ewc": lambda: EWCPlugin(ewc_lambda=0.7),
    "si": lambda: SynapticIntelligencePlugin(si_lambda=0.5),
    "mas": lambda: MASPlugin(lambda_reg=0.5),
    "agem": lambda: AGEMPlugin(patterns_per_experience=4, sample_size=4),
    "gem": lambda: GEMPlugin(patterns_per_experience=4, memory_strength=0.5),
    "replay": lambda: ReplayPlugin(mem_size=6, storage_policy=ReservoirSamplingBuffer(6)),
}


@pytest.mark.filterwarnings("ignore:this strategy replays through")
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize(
    ("name", "head"),
    [(name, "fixed") for name in COMPANIONS]
    # Avalanche's GEM keeps gradients of constant size only.
    + [(name, "growing") for name in COMPANIONS if name != "gem"],
)
def test_companion_plugins_in_both_orders(vector_benchmark, name, first, head):
    """The loss at backward is RebLL's terms once plus whatever the companion adds."""
    benchmark = vector_benchmark()
    torch.manual_seed(3)
    model = nn.Linear(6, 4) if head == "fixed" else build_model("vector", in_features=6)
    rebll, companion, recorder = RebLLPlugin(mem_size=0), COMPANIONS[name](), Recorder()
    added = []
    original = companion.before_backward

    def measured(strategy, **kwargs):
        before = strategy.loss.detach().clone()
        original(strategy, **kwargs)
        added.append((strategy.loss.detach() - before).item())

    companion.before_backward = measured
    plugins = [rebll, companion] if first else [companion, rebll]
    strategy = quiet(Naive, model, [*plugins, recorder])
    for experience in benchmark.train_stream:
        strategy.train(experience)
    assert len(added) == len(recorder.steps) > 0
    for step, extra in zip(recorder.steps, added, strict=True):
        expected = only_rebll(step, rebll, benchmark.scenario.ranges[step["experience"]])
        assert step["loss"].item() == pytest.approx(expected.item() + extra, abs=1e-5)
    assert isinstance(strategy._criterion, PartialLabelBCE)


STRATEGIES = {
    "cumulative": (Cumulative, {}),
    "ewc": (EWC, {"ewc_lambda": 0.5}),
    "si": (SynapticIntelligence, {"si_lambda": 0.5}),
    "mas": (MAS, {"lambda_reg": 0.5}),
    "agem": (AGEM, {"patterns_per_exp": 4, "sample_size": 4}),
    "gem": (GEM, {"patterns_per_exp": 4, "memory_strength": 0.5}),
    "replay": (Replay, {"mem_size": 6}),
}


@pytest.mark.filterwarnings("ignore:this strategy replays through")
@pytest.mark.parametrize("name", STRATEGIES)
def test_inside_avalanche_strategies(vector_benchmark, name):
    """Each of them trains with RebLL's base term and its replay, and gets its criterion back."""
    strategy_class, options = STRATEGIES[name]
    benchmark = vector_benchmark()
    rebll, recorder = RebLLPlugin(mem_size=8), Recorder()
    model = nn.Linear(6, 4)
    strategy = quiet(strategy_class, model, [rebll, recorder], **options)
    for experience in benchmark.train_stream:
        strategy.train(experience)
    assert len(rebll.memory) == 8
    assert set(rebll.terms.last) == {"cls", "akd", "er"}
    assert all(torch.isfinite(step["loss"]).all() for step in recorder.steps)
    assert isinstance(strategy._criterion, PartialLabelBCE)


def test_two_plugins_are_rebll(vector_benchmark):
    """AKD and OnlineRelabel side by side, in either order, train as RebLLPlugin does."""
    weights, passes = [], []
    for make in (
        lambda: [RebLLPlugin(mem_size=8)],
        lambda: [AKDPlugin(), OnlineRelabelPlugin(mem_size=8)],
        lambda: [OnlineRelabelPlugin(mem_size=8), AKDPlugin()],
    ):
        benchmark, model, plugins = vector_benchmark(), small_model(), make()
        strategy = quiet(Naive, model, plugins)
        torch.manual_seed(0)
        for experience in benchmark.train_stream:
            strategy.train(experience)
        weights.append(model.head.weight.detach().clone())
        passes.append(plugins[0].teacher.forward_passes)
        assert all(plugin.teacher is plugins[0].teacher for plugin in plugins)
    # The order of plugins orders the sum of the terms, so bits may differ by rounding.
    torch.testing.assert_close(weights[0], weights[1])
    torch.testing.assert_close(weights[0], weights[2])
    steps = sum(
        2 * math.ceil(len(experience.dataset) / 8)
        for experience in vector_benchmark().train_stream[1:]
    )
    assert passes == [steps] * 3


class SameRandomness(SupervisedPlugin):
    """Loaders draw a seed from the global generator; evaluation gives its draws back."""

    def before_eval(self, strategy, **kwargs):
        self.state = torch.get_rng_state()

    def after_eval(self, strategy, **kwargs):
        torch.set_rng_state(self.state)


def test_evaluation_in_the_middle_changes_nothing(vector_benchmark):
    weights = []
    for eval_every in (-1, 1):
        benchmark, model = vector_benchmark(), small_model()
        strategy = RebLL(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            mem_size=8,
            train_mb_size=8,
            train_epochs=2,
            plugins=[SameRandomness()],
            eval_every=eval_every,
        )
        torch.manual_seed(0)
        for train in benchmark.train_stream:
            strategy.train(train, eval_streams=[benchmark.test_stream])
        weights.append(model.head.weight.detach().clone())
    assert torch.equal(weights[0], weights[1])


def test_one_experience(vector_benchmark):
    benchmark = vector_benchmark("B4-C0")
    model = small_model()
    strategy = RebLL(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1), mem_size=5)
    strategy.train(benchmark.train_stream[0])
    assert set(strategy.rebll.terms.last) == {"cls"}
    assert len(strategy.rebll.memory) == 5
    assert not torch.isnan(strategy.rebll.memory.labels).any()


@pytest.mark.parametrize(
    ("strategy_class", "options", "what"),
    [
        (DER, {"mem_size": 10}, "training loop"),
        (ER_ACE, {"mem_size": 10}, "training loop"),
        (SCR, {"mem_size": 10, "augmentations": nn.Identity()}, "own loss"),
    ],
)
def test_strategies_that_cannot_be_steered_are_refused(
    vector_benchmark, strategy_class, options, what
):
    model = small_model()
    strategy = strategy_class(
        model=SCRModel(nn.Identity(), nn.Linear(6, 4)) if strategy_class is SCR else model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        plugins=[RebLLPlugin()],
        evaluator=EvaluationPlugin(),
        **options,
    )
    with pytest.raises(ValueError, match=f"{strategy_class.__name__}.*{what}.*RebLL"):
        strategy.train(vector_benchmark().train_stream[0])


def test_a_plain_loss_on_unknown_labels_is_refused(vector_benchmark):
    model = small_model()
    strategy = Naive(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=nn.BCEWithLogitsLoss(),
        plugins=[RebLLPlugin()],
        evaluator=None,
    )
    with pytest.raises(ValueError, match="PartialLabelBCE"):
        strategy.train(vector_benchmark().train_stream[0])


def test_two_plugins_that_replace_the_loss_are_refused(vector_benchmark):
    strategy = quiet(Naive, small_model(), [RebLLPlugin(mem_size=0), AKDPlugin()])
    with pytest.raises(ValueError, match="AKDPlugin and AKDPlugin both replace the loss"):
        strategy.train(vector_benchmark().train_stream[0])


def test_replaying_twice_is_warned_of(vector_benchmark):
    model = small_model()
    strategy = quiet(Replay, model, [RebLLPlugin()], mem_size=4)
    with pytest.warns(UserWarning, match="two memories"):
        strategy.train(vector_benchmark().train_stream[0])


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_the_users_reduction_is_for_evaluation_only(vector_benchmark, reduction):
    model = small_model()
    strategy = RebLL(
        model=model,
        optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
        criterion=PartialLabelBCE(reduction),
        train_mb_size=100,
    )
    strategy.train(vector_benchmark().train_stream[0])
    assert 0 < strategy.rebll.terms.last["cls"].item() < 2
    assert copy.deepcopy(strategy.rebll).terms.last.keys() == {"cls"}


def test_same_seed_same_bits(vector_benchmark):
    def run():
        torch.manual_seed(5)
        model = build_model("vector", in_features=6)
        strategy = RebLL(
            model=model, optimizer=torch.optim.Adam(model.parameters()), mem_size=6, train_mb_size=8
        )
        for experience in vector_benchmark().train_stream:
            strategy.train(experience)
        return model.state_dict(), strategy.rebll.memory.state_dict()

    (first, first_memory), (second, second_memory) = run(), run()
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert torch.equal(first_memory["labels"], second_memory["labels"])


def test_a_restart_between_experiences_gives_the_same_bits(vector_benchmark):
    def build():
        torch.manual_seed(5)
        model = build_model("vector", in_features=6)
        return RebLL(
            model=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            mem_size=6,
            train_mb_size=8,
        )

    stream = vector_benchmark().train_stream
    straight, stopped = build(), build()
    for strategy in (straight, stopped):
        torch.manual_seed(1)
        strategy.train(stream[0])
        strategy.train(stream[1])
    saved = copy.deepcopy(
        (stopped.model.state_dict(), stopped.rebll.state_dict(), torch.get_rng_state())
    )
    straight.train(stream[2])

    resumed = build()
    resumed.model.load_state_dict(saved[0])
    resumed.rebll.load_state_dict(saved[1])
    torch.set_rng_state(saved[2])
    resumed.train(vector_benchmark().train_stream[2])
    for name, value in straight.model.state_dict().items():
        assert torch.equal(value, resumed.model.state_dict()[name]), name
    assert torch.equal(straight.rebll.memory.labels, resumed.rebll.memory.labels)
