"""MULTI-LANE: a frozen vision transformer with a separate lane per experience."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, scaled_dot_product_attention

from rebll_avalanche.models.cross_attention import small
from rebll_avalanche.models.heads import GrowingHead, GrowingLinear, per_class
from rebll_avalanche.models.transformer import OnFrozenTransformer


class LanedViT(OnFrozenTransformer, GrowingHead):
    r"""A frozen transformer whose tokens each experience summarises with a few learned tokens.

    With ``X_l`` the tokens that enter block ``l`` of the frozen network (class token and patches), after
    the block's first norm ``n1``, a lane with class token ``c`` and selectors ``S`` does in every block::

        summary = softmax(n1(S) X_l^T / sqrt(dim)) X_l          a few tokens in place of all patches
        c = c + Attention(query = n1(c), keys = values = [prompts_l; n1(c); summary])
        c = c + MLP(n2(c))
        S = S + n1(S)
        S = S + MLP(n2(S))                                      the same for every image

    with the weights of the block. The summary is then dropped: the next block computes its own, with the
    selectors returned by this one. ``c`` is initialised with the network's class token without a
    position. Prompts, as keys and values, are learned for the first blocks. The output is the normed
    class token, scaled to length one. A new lane is initialised as a copy of the last, which is frozen.

    Args:
        network: A timm ``VisionTransformer`` with a class token; it is frozen permanently.
        num_selectors: Selectors per lane; the authors use 10 for VOC and 20 for COCO.
        num_prompts: Prompts of a lane in each prompted block; likewise.
        prompted_blocks: How many of the first blocks have prompts.

    Attributes:
        newest_only: Compute only the newest lane in training: the logits of the other lanes' classes
            are then NaN. For methods that have no loss on these classes.
    """

    lane_sizes: Tensor
    selectors: nn.Parameter
    prompts: nn.Parameter
    old_selectors: nn.Parameter
    old_prompts: nn.Parameter

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
        self.newest_only = False
        self.prompted_blocks = min(prompted_blocks, len(self.network.blocks))
        dim = self.num_features
        # One row per lane: frozen rows of earlier experiences, and the trained row of the current one.
        self._shapes = {
            "selectors": (num_selectors, dim),
            "prompts": (self.prompted_blocks, 2, num_prompts, dim),
        }
        for name, shape in self._shapes.items():
            frozen = nn.Parameter(torch.empty(0, *shape), requires_grad=False)
            self.register_parameter(f"old_{name}", frozen)
            self.register_parameter(name, nn.Parameter(torch.empty(0, *shape)))
        self.register_buffer("lane_sizes", torch.empty(0, dtype=torch.long))

    @property
    def num_classes(self) -> int:
        """Number of classes of all lanes."""
        return int(self.lane_sizes.sum())

    def grow(self, total: int) -> None:
        """Freeze the last lane and add a copy of it for the next experience."""
        new = total - self.num_classes
        if new <= 0:
            return
        for name, shape in self._shapes.items():
            last, old = getattr(self, name), getattr(self, f"old_{name}")
            start = last.detach().clone() if len(last) else small(1, *shape).to(last)
            frozen = torch.cat([old, last]).detach()
            setattr(self, f"old_{name}", nn.Parameter(frozen, requires_grad=False))
            setattr(self, name, nn.Parameter(start))
        self.lane_sizes = torch.cat([self.lane_sizes, self.lane_sizes.new_tensor([new])])

    def forward(self, images: Tensor) -> Tensor:
        """``[batch, dim, 1, classes + patches]``: each class's lane, then the frozen patches."""
        network: Any = self.network
        with torch.no_grad():
            frozen = network.norm_pre(network._pos_embed(network.patch_embed(images)))
        old = None if self._skips_old else self._start(self.old_selectors, images)
        new = self._start(self.selectors, images)
        for number, block in enumerate(network.blocks):
            # Old lanes are frozen, so autograd need not record them.
            with torch.no_grad():
                seen = block.norm1(frozen)
                if old is not None:
                    old = self._step(block, *old, seen, self._prompts(self.old_prompts, number))
                frozen = block(frozen)
            new = self._step(block, *new, seen, self._prompts(self.prompts, number))
        token = new[0] if old is None else torch.cat([old[0], new[0]], dim=1)
        return self._per_class(token, network.norm(frozen)[:, network.num_prefix_tokens :])

    @property
    def _skips_old(self) -> bool:
        return len(self.old_selectors) == 0 or (self.training and self.newest_only)

    def _start(self, selectors: Tensor, images: Tensor) -> tuple[Tensor, Tensor]:
        """Class tokens ``[batch, lanes, dim]`` and selectors ``[lanes, selectors, dim]``."""
        token = self.network.norm_pre(self.network.cls_token)
        return token.expand(images.shape[0], len(selectors), -1), selectors

    def _prompts(self, prompts: Tensor, number: int) -> Tensor | None:
        return prompts[:, number] if number < self.prompted_blocks else None

    @staticmethod
    def _step(
        block: Any, token: Tensor, selectors: Tensor, seen: Tensor, prompts: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Pass class tokens and selectors through one block, whose normed input tokens are ``seen``."""

        def heads(tokens: Tensor) -> Tensor:
            """``[..., length, dim]`` to ``[..., heads, length, dim / heads]``."""
            split: Tensor = tokens.unflatten(-1, (block.attn.num_heads, -1))
            return split.transpose(-3, -2)

        normed = block.norm1(selectors)
        scores = torch.einsum("tsd,bnd->btsn", normed, seen) / seen.shape[2] ** 0.5
        summary = torch.einsum("btsn,bnd->btsd", scores.softmax(dim=3), seen)
        sequence = torch.cat([block.norm1(token).unsqueeze(2), summary], dim=2)
        query, key, value = block.attn.qkv(sequence).chunk(3, dim=-1)
        if prompts is not None:
            learned = prompts.expand(len(token), *prompts.shape)  # [batch, lanes, 2, prompts, dim]
            key = torch.cat([learned[:, :, 0], key], dim=2)
            value = torch.cat([learned[:, :, 1], value], dim=2)
        query, key = block.attn.q_norm(heads(query[:, :, :1])), block.attn.k_norm(heads(key))
        attended = scaled_dot_product_attention(query, key, heads(value)).squeeze(3).flatten(2)
        token = token + block.ls1(block.attn.proj(attended))
        selectors = selectors + block.ls1(normed)
        return _through_mlp(block, token), _through_mlp(block, selectors)

    def _per_class(self, token: Tensor, patches: Tensor) -> Tensor:
        """Repeat each lane's feature for its classes; zeros for skipped lanes."""
        features = normalize(self.network.norm(token), dim=2)
        left_out = len(self.lane_sizes) - features.shape[1]
        features = nn.functional.pad(features, (0, 0, left_out, 0))
        lanes = per_class(features, self.lane_sizes, self.num_classes)
        kept = torch.cat([lanes, normalize(patches, dim=2)], dim=1)
        return kept.transpose(1, 2).unsqueeze(2)


def _through_mlp(block: Any, tokens: Tensor) -> Tensor:
    stepped: Tensor = tokens + block.ls2(block.mlp(block.norm2(tokens)))
    return stepped


class LaneHead(GrowingLinear):
    """A linear row per class on the feature of its own lane; needs :class:`LanedViT`."""

    def forward(self, features: Tensor) -> Tensor:
        """Logits from the output of :class:`LanedViT`; NaN for skipped lanes."""
        lanes = features[:, :, 0, : self.num_classes].transpose(1, 2)
        logits = (lanes * self.weight).sum(dim=2) + self.bias
        if not self.training:
            return logits
        # A computed feature has length one. Masking here keeps a gradient of 0, which NaN features would not.
        left_out = (lanes == 0).all(dim=2)
        return logits.masked_fill(left_out, torch.nan)

    def class_activation_maps(self, feature_map: Tensor) -> Tensor:
        """The rows applied to the frozen patches, arranged in their grid."""
        patches = feature_map[..., self.num_classes :]
        side = int(patches.shape[3] ** 0.5)
        return super().class_activation_maps(patches.flatten(2).unflatten(2, (side, side)))
