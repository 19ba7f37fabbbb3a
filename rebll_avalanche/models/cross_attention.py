"""KRT's head: a shared query token, one token per experience, attention over patches."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, interpolate, layer_norm, linear

from rebll_avalanche.models.heads import GrowingHead, as_map, per_class


class TokenAttention(nn.Module):
    r"""Embeds an image once per experience, with parameters shared between experiences.

    Patches are the projected positions of the feature map plus a position embedding. With the shared
    token ``q``, layer norms ``n1, n2`` and the sequence ``u = [q; k_s; patches]`` of experience ``s``::

        a   = q + O Attention(query = n1(q), keys = values = n1(u))       several heads
        e_s = a + MLP(n2(a))

    Args:
        in_features: Channels of the feature map.
        dim: Length of a token.
        num_heads: Attention heads; must divide ``dim``.
        grid: Side of the learned position grid; other map sizes are interpolated from it.
        mlp_ratio: Width of the hidden layer relative to ``dim``.
    """

    def __init__(
        self, in_features: int, dim: int, *, num_heads: int = 8, grid: int = 7, mlp_ratio: int = 4
    ) -> None:
        super().__init__()
        if dim % num_heads:
            raise ValueError(f"num_heads must divide dim, got dim={dim} and num_heads={num_heads}")
        self.num_heads = num_heads
        self.project = nn.Conv2d(in_features, dim, 1)
        self.positions = nn.Parameter(small(1, dim, grid, grid))
        self.shared_token = nn.Parameter(small(1, dim))
        self.norm1 = nn.LayerNorm(dim)
        self.query = nn.Linear(dim, dim, bias=False)
        self.key = nn.Linear(dim, dim, bias=False)
        self.value = nn.Linear(dim, dim, bias=False)
        self.output = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.expand = nn.Linear(dim, mlp_ratio * dim)
        self.contract = nn.Linear(mlp_ratio * dim, dim)

    def forward(self, features: Tensor, tokens: Tensor) -> Tensor:
        """``e``: a feature map and ``[experiences, dim]`` to ``[batch, experiences, dim]``."""
        scores, values, own = self.attend(self.patches(features), tokens)
        heads = scores[..., :-1] @ values + scores[..., -1:] * own
        attended = self.shared_token + self.output(heads.transpose(1, 2).flatten(2))
        hidden = gelu(self.expand(self.norm2(attended)))
        embeddings: Tensor = attended + self.contract(hidden)
        return embeddings

    def patch_contributions(self, features: Tensor, tokens: Tensor) -> Tensor:
        """Contribution of every patch to ``a``: ``[batch, experiences, h, w, dim]``."""
        patches = self.patches(features)
        scores, values, _ = self.attend(patches, tokens)
        # The first of the shared keys belongs to the query.
        share = scores[..., 1:-1, None] * values[:, :, None, 1:]
        added = linear(share.permute(0, 2, 3, 1, 4).flatten(3), self.output.weight)
        maps: Tensor = added.unflatten(2, patches.shape[2:])
        return maps

    def patches(self, features: Tensor) -> Tensor:
        """``[batch, dim, h, w]``, with position embeddings."""
        projected: Tensor = self.project(as_map(features))
        positions: Tensor = self.positions
        if positions.shape[2:] != projected.shape[2:]:
            size = tuple(projected.shape[2:])
            positions = interpolate(positions, size, mode="bilinear", align_corners=False)
        return projected + positions

    def attend(self, patches: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Attention weights ``[batch, heads, experiences, 1 + patches + 1]`` and their values.

        The query and the patches are the same for every experience: their scores are computed once,
        and each experience appends the score of its own token.

        Returns:
            The weights, the values of query and patches, and those of the experiences' tokens.
        """
        batch, sessions = patches.shape[0], tokens.shape[0]  # len() would fix them in an export
        sequence = patches.flatten(2).transpose(1, 2)
        shared = self.norm1(torch.cat([self.shared_token.expand(batch, 1, -1), sequence], dim=1))
        own = self.norm1(tokens).unsqueeze(0)
        query = self._heads(self.query(self.norm1(self.shared_token)).unsqueeze(0))
        query = query / math.sqrt(query.shape[-1])
        to_shared = (query @ self._heads(self.key(shared)).transpose(2, 3)).expand(
            -1, -1, sessions, -1
        )
        to_own = (self._heads(self.key(own)) @ query.transpose(2, 3)).expand(batch, -1, -1, -1)
        scores = torch.cat([to_shared, to_own], dim=3).softmax(dim=3)
        return scores, self._heads(self.value(shared)), self._heads(self.value(own))

    def _heads(self, tokens: Tensor) -> Tensor:
        """``[batch, length, dim]`` to ``[batch, heads, length, dim / heads]``."""
        heads: Tensor = tokens.unflatten(2, (self.num_heads, -1)).transpose(1, 2)
        return heads


class GrowingCrossAttention(GrowingHead):
    r"""Head with a token ``k_s`` and a classifier of its own embedding ``e_s`` per experience ``s``.

    ``logits_s = W_s normalised(e_s) + b_s`` with ``e_s`` from :class:`TokenAttention`, whose shared token
    transfers knowledge between experiences while ``k_s`` retains the knowledge of its own. When the head
    grows, the token, weights and bias of the previous experience are frozen. Growth does not change the
    old logits; training the shared parts does, and token distillation counteracts that.

    The norm before the classifier has no parameters of its own: ``W_s`` and ``b_s`` absorb them, and
    they are frozen together.

    Args:
        in_features: Channels of the feature map.
        dim: Length of a token.
        **attention: Further parameters of :class:`TokenAttention`.
    """

    session_sizes: Tensor

    def __init__(self, in_features: int, *, dim: int = 384, **attention: int) -> None:
        super().__init__()
        self.attention = TokenAttention(in_features, dim, **attention)
        # Frozen parameters of earlier experiences, and trained ones of the current experience.
        self.old_tokens = _frozen(torch.empty(0, dim))
        self.old_weight = _frozen(torch.empty(0, dim))
        self.old_bias = _frozen(torch.empty(0))
        self.token = nn.Parameter(torch.empty(0, dim))
        self.weight = nn.Parameter(torch.empty(0, dim))
        self.bias = nn.Parameter(torch.empty(0))
        self.register_buffer("session_sizes", torch.empty(0, dtype=torch.long))

    @property
    def num_classes(self) -> int:
        """Number of classes of all experiences."""
        return len(self.old_weight) + len(self.weight)

    def grow(self, total: int) -> None:
        """Freeze the previous experience's parameters and add a token for the next one."""
        new, dim = total - self.num_classes, self.weight.shape[1]
        if new <= 0:
            return
        self.old_tokens = _frozen(torch.cat([self.old_tokens, self.token]))
        self.old_weight = _frozen(torch.cat([self.old_weight, self.weight]))
        self.old_bias = _frozen(torch.cat([self.old_bias, self.bias]))
        bound = 1 / math.sqrt(dim)
        self.token = nn.Parameter(small(1, dim).to(self.token))
        self.weight = nn.Parameter(torch.empty(new, dim).uniform_(-bound, bound).to(self.weight))
        self.bias = nn.Parameter(torch.empty(new).uniform_(-bound, bound).to(self.bias))
        self.session_sizes = torch.cat([self.session_sizes, self.session_sizes.new_tensor([new])])

    def forward(self, features: Tensor) -> Tensor:
        """Logits of all experiences, each from its own embedding."""
        return self.classify(self.embed(features))

    def embed(self, features: Tensor) -> Tensor:
        """``e``: ``[batch, experiences, dim]``."""
        embeddings: Tensor = self.attention(features, self._all_tokens())
        return embeddings

    def classify(self, embeddings: Tensor) -> Tensor:
        """Logits from the embeddings: every class uses that of its experience."""
        normalised = self._per_class(layer_norm(embeddings, embeddings.shape[-1:]))
        bias = torch.cat([self.old_bias, self.bias])
        return (normalised * self._all_weights()).sum(dim=2) + bias

    def class_activation_maps(self, feature_map: Tensor) -> Tensor:
        """Contribution of each patch's attended value to a class's score, ignoring norm and MLP."""
        added = self.attention.patch_contributions(feature_map, self._all_tokens())
        return torch.einsum("bchwd,cd->bchw", self._per_class(added), self._all_weights())

    def _all_tokens(self) -> Tensor:
        return torch.cat([self.old_tokens, self.token])

    def _all_weights(self) -> Tensor:
        return torch.cat([self.old_weight, self.weight])

    def _per_class(self, per_session: Tensor) -> Tensor:
        return per_class(per_session, self.session_sizes, self.num_classes)


def small(*shape: int) -> Tensor:
    """Initial values of tokens and positions."""
    return nn.init.trunc_normal_(torch.empty(shape), std=0.02)


def _frozen(tensor: Tensor) -> nn.Parameter:
    return nn.Parameter(tensor.detach().clone(), requires_grad=False)
