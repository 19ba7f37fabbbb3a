"""What cannot learn the same on several ranks is refused by name; evaluation counts each image once."""

from __future__ import annotations

import warnings

import pytest
import torch
from avalanche.training.plugins import EWCPlugin, ReplayPlugin
from torch import nn

from rebll_avalanche.benchmarks import multilabel_benchmark
from rebll_avalanche.checkpointing.checkpoint import CheckpointFolder
from rebll_avalanche.distributed.ranks import start
from rebll_avalanche.metrics import last_evaluation, multilabel_evaluator
from rebll_avalanche.models import build_model
from rebll_avalanche.running.run import run_experiment
from rebll_avalanche.strategies import FineTuning, RebLL, get_method


def streams(classes=4, samples=23):
    generator = torch.Generator().manual_seed(7)
    inputs = torch.randn(samples, 6, generator=generator)
    labels = (torch.rand(samples, classes, generator=generator) < 0.5).float()
    labels[torch.arange(samples), torch.arange(samples) % classes] = 1.0
    return multilabel_benchmark((inputs, labels), (inputs, labels), "B2-C1")


def network():
    torch.manual_seed(0)
    return build_model("vector", in_features=6)


def built(make, model, **options):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    return make(model=model, optimizer=optimizer, train_mb_size=4, eval_mb_size=4, **options)


def refusal(strategy, experience):
    before = {name: value.clone() for name, value in strategy.model.state_dict().items()}
    with warnings.catch_warnings():
        # Strategies of Avalanche's own are warned of by Avalanche as well.
        warnings.filterwarnings("ignore", message="You are using plugins")
        with pytest.raises(ValueError, match="is not known to learn the same") as caught:
            strategy.train(experience)
    after = strategy.model.state_dict()
    assert all(torch.equal(before[name], after[name]) for name in before)  # nothing was trained
    return str(caught.value)


def test_what_cannot_be_shared_is_refused_by_name(on_ranks):
    with_dropout = nn.Sequential(nn.Dropout(0.1), nn.Linear(6, 4))

    def work():
        experience = streams().train_stream[0]
        cases = [
            ("GEMPlugin", built(get_method("gem").build, network(), mem_size=6)),
            ("DrawingAGEMPlugin", built(get_method("agem").build, network(), mem_size=6)),
            ("EWCPlugin", built(FineTuning, network(), plugins=[EWCPlugin(1.0)])),
            ("ReplayPlugin", built(RebLL, network(), plugins=[ReplayPlugin(4)])),
            ("DERPlusPlusPlugin", built(get_method("der++").build, network())),
            ("Dropout", built(FineTuning, with_dropout)),
        ]
        return [(name, refusal(strategy, experience)) for name, strategy in cases]

    first, second = on_ranks(work)
    assert first == second
    for name, message in first:
        assert message.startswith(name)
        assert "single process" in message


def test_gpus_talk_by_nccl(monkeypatch):
    """There is none here: only what would be asked for is looked at."""
    asked = []
    names = {"RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    for name, value in (names | {"LOCAL_RANK": "3"}).items():
        monkeypatch.setenv(name, value)
    store = torch.distributed.HashStore()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", asked.append)
    monkeypatch.setattr(torch.distributed, "rendezvous", lambda *_, **__: iter([(store, 0, 1)]))
    monkeypatch.setattr(
        torch.distributed, "init_process_group", lambda backend, **_: asked.append(backend)
    )
    assert start()
    assert asked == [3, "cpu:gloo,cuda:nccl"]


def test_a_job_for_gpus_alone_is_refused():
    """What `init_process_group("nccl")` makes, with a backend that is there without a GPU."""
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("cuda:gloo", store=store, rank=0, world_size=1)
    try:
        with pytest.raises(ValueError, match=r"tensors of cuda:gloo only.*ranks\.start\(\)"):
            built(FineTuning, network()).train(streams().train_stream[0])
    finally:
        torch.distributed.destroy_process_group()


def test_restarts_on_several_machines_need_a_store_that_is_new_each_time(monkeypatch):
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", "True")
    monkeypatch.setenv("GROUP_WORLD_SIZE", "2")
    monkeypatch.setenv("TORCHELASTIC_MAX_RESTARTS", "3")
    with pytest.raises(ValueError, match="TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1"):
        start()


def test_ranks_that_read_different_data_are_told_so(on_ranks):
    def work():
        samples = 23 + torch.distributed.get_rank()
        with pytest.raises(ValueError, match="same data") as caught:
            built(FineTuning, network()).train(streams(samples=samples).train_stream[0])
        return str(caught.value)

    first, second = on_ranks(work)
    assert first == second


def test_a_script_that_forgets_to_join_is_told_so(monkeypatch):
    for name in ("RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.warns(UserWarning, match=r"started 2 processes.*call .*ranks\.start\(\) first"):
        built(FineTuning, network()).train(streams().train_stream[0])


def test_every_rank_begins_as_the_first(on_ranks):
    """Somebody's script may have forgotten to set the seed."""

    def work():
        torch.seed()
        model = build_model("vector", in_features=6)
        strategy = built(RebLL, model, mem_size=3, evaluator=None)
        for experience in streams().train_stream:
            strategy.train(experience)
        return strategy.model.state_dict(), strategy.rebll.memory.state_dict()

    first, second = on_ranks(work)
    assert all(torch.equal(first[0][name], second[0][name]) for name in first[0])
    assert torch.equal(first[1]["index"], second[1]["index"])


def test_an_evaluation_before_training_counts_every_image_once(on_ranks):
    def work():
        model = network()
        model.head.grow(4)
        strategy = built(FineTuning, model, evaluator=multilabel_evaluator(loss=False))
        strategy.eval(streams().test_stream)
        found = last_evaluation(strategy.evaluator)
        return found.scores, found.truth, found.metrics.as_dict()

    alone, ranks = work(), on_ranks(work, count=3)
    for scores, truth, metrics in ranks:
        torch.testing.assert_close(scores, alone[0])
        torch.testing.assert_close(truth, alone[1], equal_nan=True)
        assert metrics == pytest.approx(alone[2], nan_ok=True)


def test_another_number_of_ranks_goes_on(on_ranks, tmp_path, vectors, settings):
    class Stop:
        """Ends a run in the middle of the second experience."""

        supports_distributed = True

        def before_training_iteration(self, strategy, **kwargs):
            if strategy.clock.train_iterations == 12:
                raise KeyboardInterrupt

        def close(self):
            pass

    def work():
        with pytest.raises(KeyboardInterrupt):
            run_experiment(
                settings(mem_size=5), tmp_path / "two", benchmark=vectors, watcher=Stop()
            )
        torch.distributed.barrier()
        return len(list((tmp_path / "two" / "checkpoint").iterdir()))

    assert on_ranks(work)[0] > 0
    with pytest.warns(UserWarning, match="started on 2 processes and goes on on 1"):
        run_experiment(settings(mem_size=5), tmp_path / "two", benchmark=vectors)
    run_experiment(settings(mem_size=5), tmp_path / "one", benchmark=vectors)
    ends = [CheckpointFolder(tmp_path / n / "checkpoint").newest().end for n in ("one", "two")]
    one, two = (end["strategy"]["model"] for end in ends)
    for name in one:
        torch.testing.assert_close(one[name], two[name], atol=1e-5, rtol=1e-5)
    assert ends[0]["records"][-1]["metrics"] == pytest.approx(
        ends[1]["records"][-1]["metrics"], abs=1e-5
    )
