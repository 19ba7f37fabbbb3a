"""MULTI-LANE: a frozen vision transformer beside which every experience has a lane of its own."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, scaled_dot_product_attention

from rebll_avalanche.models.cross_attention import small
from rebll_avalanche.models.heads import GrowingHead, GrowingLinear
from rebll_avalanche.models.transformer import OnFrozenTransformer


class LanedViT(OnFrozenTransformer, GrowingHead):
    r"""Every experience reads the frozen network's patches through a few tokens that it learns.

    With ``X_l`` the patches that enter block ``l`` of the frozen network, after the block's own norm,
    lane ``t`` with selectors ``S_t`` and class token ``c`` does in every block::

        summary = softmax(S_t X_l^T / sqrt(dim)) X_l             a few tokens in place of all patches
        c = c + Attention(query = c, keys = values = [prompts_l; c; summary])
        c = c + MLP(norm(c))

    with the weights of the block. The summary is then dropped: the next block makes its own. Prompts, as
    keys and values, are learned for the first blocks. What comes out is the normed class token, of
    length one. A new lane begins as a copy of the last, which is frozen: nothing can be forgotten.

    Args:
        network: A timm ``VisionTransformer`` with a class token; it is frozen here, for good.
        num_selectors: Selectors of a lane; the authors have 10 for VOC and 20 for COCO.
        num_prompts: Prompts of a lane in each prompted block; likewise.
        prompted_blocks: How many of the first blocks have prompts.
    """

    lane_sizes: Tensor

    def __init__(
        self,
        network: nn.Module,
        *,
        num_selectors: int = 10,
        num_prompts: int = 10,
        prompted_blocks: int = 5,
    ) -> None:
        super().__init__()
        self.freeze(network, "lanes")
        self.prompted_blocks = min(prompted_blocks, len(self.network.blocks))
        dim = self.num_features
        # One row per lane. The class token is kept as its distance from the network's own.
        self._shapes = {
            "selectors": (num_selectors, dim),
            "prompts": (self.prompted_blocks, 2, num_prompts, dim),
            "class_token": (dim,),
        }
        for name, shape in self._shapes.items():
            frozen = nn.Parameter(torch.empty(0, *shape), requires_grad=False)
            self.register_parameter(f"old_{name}", frozen)
            self.register_parameter(name, nn.Parameter(torch.empty(0, *shape)))
        self.register_buffer("lane_sizes", torch.empty(0, dtype=torch.long))

    @property
    def num_classes(self) -> int:
        """Classes of all lanes."""
        return int(self.lane_sizes.sum())

    def grow(self, total: int) -> None:
        """Freeze the lane of the experience that ended and begin another where it stands."""
        new = total - self.num_classes
        if new <= 0:
            return
        for name, shape in self._shapes.items():
            last, old = getattr(self, name), getattr(self, f"old_{name}")
            start = last.detach().clone() if len(last) else self._first(name, shape).to(last)
            frozen = torch.cat([old, last]).detach()
            setattr(self, f"old_{name}", nn.Parameter(frozen, requires_grad=False))
            setattr(self, name, nn.Parameter(start))
        self.lane_sizes = torch.cat([self.lane_sizes, self.lane_sizes.new_tensor([new])])

    def forward(self, images: Tensor) -> Tensor:
        """``[batch, dim, 1, classes + patches]``: each class's lane, then the frozen patches."""
        network: Any = self.network
        selectors, prompts, offset = (
            torch.cat([getattr(self, f"old_{name}"), getattr(self, name)]) for name in self._shapes
        )
        with torch.no_grad():
            frozen = network.norm_pre(network._pos_embed(network.patch_embed(images)))
        token = frozen[:, :1] + offset
        for number, block in enumerate(network.blocks):
            with torch.no_grad():
                patches = block.norm1(frozen)[:, network.num_prefix_tokens :]
            summary = self._summary(selectors, patches)
            prefix = prompts[:, number] if number < self.prompted_blocks else None
            token = self._step(block, token, summary, prefix)
            with torch.no_grad():
                frozen = block(frozen)
        lanes = normalize(network.norm(token), dim=2)
        places = torch.arange(self.num_classes, device=lanes.device)
        lane_of = (places[:, None] >= self.lane_sizes.cumsum(dim=0)).sum(dim=1)
        rest = network.norm(frozen)[:, network.num_prefix_tokens :]
        kept = torch.cat([lanes.index_select(1, lane_of), normalize(rest, dim=2)], dim=1)
        return kept.transpose(1, 2).unsqueeze(2)

    @staticmethod
    def _summary(selectors: Tensor, patches: Tensor) -> Tensor:
        """``[batch, lanes, selectors, dim]``."""
        scores = torch.einsum("tsd,bnd->btsn", selectors, patches) / patches.shape[2] ** 0.5
        return torch.einsum("btsn,bnd->btsd", scores.softmax(dim=3), patches)

    @staticmethod
    def _step(block: Any, token: Tensor, summary: Tensor, prefix: Tensor | None) -> Tensor:
        """The class tokens ``[batch, lanes, dim]`` through one block of the frozen network."""

        def heads(tokens: Tensor) -> Tensor:
            """``[..., length, dim]`` to ``[..., heads, length, dim / heads]``."""
            return tokens.unflatten(-1, (block.attn.num_heads, -1)).transpose(-3, -2)

        sequence = torch.cat([block.norm1(token).unsqueeze(2), summary], dim=2)
        query, key, value = block.attn.qkv(sequence).chunk(3, dim=-1)
        if prefix is not None:
            learned = prefix.expand(len(token), *prefix.shape)  # [batch, lanes, 2, prompts, dim]
            key = torch.cat([learned[:, :, 0], key], dim=2)
            value = torch.cat([learned[:, :, 1], value], dim=2)
        query, key = block.attn.q_norm(heads(query[:, :, :1])), block.attn.k_norm(heads(key))
        attended = scaled_dot_product_attention(query, key, heads(value)).squeeze(3).flatten(2)
        token = token + block.ls1(block.attn.proj(attended))
        stepped: Tensor = token + block.ls2(block.mlp(block.norm2(token)))
        return stepped

    @staticmethod
    def _first(name: str, shape: tuple[int, ...]) -> Tensor:
        return torch.zeros(1, *shape) if name == "class_token" else small(1, *shape)


class LaneHead(GrowingLinear):
    """A linear row per class on the feature of its own lane; wants :class:`LanedViT`."""

    def forward(self, features: Tensor) -> Tensor:
        """Logits from what :class:`LanedViT` returns."""
        lanes = features[:, :, 0, : self.num_classes].transpose(1, 2)
        return (lanes * self.weight).sum(dim=2) + self.bias

    def class_activation_maps(self, feature_map: Tensor) -> Tensor:
        """The rows applied to the frozen patches, put back into their square."""
        patches = feature_map[..., self.num_classes :]
        side = int(patches.shape[3] ** 0.5)
        return super().class_activation_maps(patches.flatten(2).unflatten(2, (side, side)))
