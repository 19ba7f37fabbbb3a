"""L2P's pool against JH-LEE-KR/l2p-pytorch, every image picking for itself."""

import pytest
import torch

from rebll_avalanche.models.prompts import PromptPool


@pytest.fixture
def numbers(peer):
    return peer("l2p")


def pool_of(numbers) -> PromptPool:
    pool = PromptPool(16, pool_size=10, length=3, top_k=int(numbers["top_k"]))
    pool.load_state_dict({"prompts": numbers["prompt"], "keys": numbers["prompt_key"]})
    return pool


def test_what_is_picked_and_its_gradients(numbers, near):
    pool = pool_of(numbers)
    prompts, cosines = pool(numbers["query"])
    picked = torch.gather(numbers["own_similarity"], 1, numbers["own_prompt_idx"])
    near(cosines, picked, 5e-7)
    embedding = torch.cat([prompts, numbers["patch_tokens"]], dim=1)
    near(embedding, numbers["own_prompted_embedding"], 0)
    closeness = cosines.sum(dim=1).mean()
    near(closeness, numbers["own_key_similarity"], 5e-7)
    (-0.5 * closeness).backward()
    near(pool.keys.grad, numbers["own_key_grad"], 5e-8)
    embedding.square().sum().backward()
    near(pool.prompts.grad, numbers["own_prompt_grad"], 1e-6)


def test_a_pick_does_not_depend_on_the_batch(numbers, near):
    """The release's default lets the batch's most frequent picks stand for all."""
    together, _ = pool_of(numbers)(numbers["query"])
    alone = torch.cat([pool_of(numbers)(query[None])[0] for query in numbers["query"]])
    near(together, alone.detach(), 0)
    length = together.shape[1]
    assert not torch.equal(together, numbers["batchwise_prompted_embedding"][:, :length])
