"""L2P: a frozen vision transformer with prompts that each image selects from a pool."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from rebll_avalanche.models.heads import GrowingLinear
from rebll_avalanche.models.transformer import OnFrozenTransformer


class PromptPool(nn.Module):
    """Prompts with keys; a query selects the prompts with the highest cosine similarity.

    Args:
        dim: Length of tokens, keys and queries.
        pool_size: Prompts in the pool.
        length: Tokens per prompt.
        top_k: Prompts per image.
    """

    def __init__(self, dim: int, *, pool_size: int = 10, length: int = 5, top_k: int = 5) -> None:
        super().__init__()
        if not 1 <= top_k <= pool_size:
            raise ValueError(f"top_k must lie between 1 and pool_size={pool_size}, got {top_k}")
        self.top_k = top_k
        self.prompts = nn.Parameter(torch.empty(pool_size, length, dim).uniform_(-1, 1))
        self.keys = nn.Parameter(torch.empty(pool_size, dim).uniform_(-1, 1))

    @property
    def tokens(self) -> int:
        """Prompt tokens per image."""
        return self.top_k * self.prompts.shape[1]

    def forward(self, query: Tensor) -> tuple[Tensor, Tensor]:
        """The prompts selected for each image, and the cosines of their keys.

        Each image selects its own, so that a prediction does not depend on the rest of its batch.

        Args:
            query: ``[batch, dim]``.

        Returns:
            Tokens ``[batch, top_k * length, dim]`` and cosines ``[batch, top_k]``.
        """
        cosine = normalize(query, dim=1) @ normalize(self.keys, dim=1).T
        closest = cosine.topk(self.top_k, dim=1)
        return self.prompts[closest.indices].flatten(1, 2), closest.values


class PromptedViT(OnFrozenTransformer):
    """A frozen timm vision transformer applied to an image with and without prompts.

    The first pass, without prompts, computes the class token that queries the pool; the second, with the
    selected prompts, computes the tokens. Gradients pass through the network to the prompts only.

    Args:
        network: A timm ``VisionTransformer`` with a class token; it is frozen permanently.
        **pool_options: See :class:`PromptPool`.
    """

    def __init__(self, network: nn.Module, **pool_options: Any) -> None:
        super().__init__()
        self.freeze(network, "prompts")
        self.pool = PromptPool(self.num_features, **pool_options)

    def forward(self, images: Tensor) -> Tensor:
        """``[batch, dim, 1, tokens]``: the prompts' tokens first, then those of the patches."""
        network: Any = self.network
        with torch.no_grad():
            embedded = network.norm_pre(network._pos_embed(network.patch_embed(images)))
            query = network.norm(network.blocks(embedded))[:, 0]
        prompts, _ = self.pool(query)
        tokens = network.norm(network.blocks(torch.cat([prompts, embedded], dim=1)))
        patches = tokens[:, self.pool.tokens + network.num_prefix_tokens :]
        kept = torch.cat([tokens[:, : self.pool.tokens], patches], dim=1)
        return kept.transpose(1, 2).unsqueeze(2)


class PromptHead(GrowingLinear):
    """A linear row per class on the mean of the prompts' tokens.

    Args:
        in_features: Length of a token.
        prompt_tokens: Number of prompt tokens, which come first.
    """

    def __init__(self, in_features: int, *, prompt_tokens: int) -> None:
        super().__init__(in_features)
        self.prompt_tokens = prompt_tokens

    def forward(self, features: Tensor) -> Tensor:
        """Logits from the output of :class:`PromptedViT`."""
        return super().forward(features[..., : self.prompt_tokens])

    def class_activation_maps(self, feature_map: Tensor) -> Tensor:
        """The rows applied to the patch tokens, arranged in their grid."""
        patches = feature_map[..., self.prompt_tokens :]
        side = int(patches.shape[3] ** 0.5)
        return super().class_activation_maps(patches.flatten(2).unflatten(2, (side, side)))
