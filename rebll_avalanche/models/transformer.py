"""A frozen vision transformer with a small trained part."""

from __future__ import annotations

from typing import Any, Self

from torch import nn


class OnFrozenTransformer(nn.Module):
    """A module around a frozen timm ``VisionTransformer`` with a class token.

    Attributes:
        network: The transformer.
        num_features: Length of its tokens.
    """

    network: Any
    num_features: int

    def freeze(self, network: Any, what: str) -> None:
        """Store the transformer and freeze it permanently.

        Args:
            network: A timm network.
            what: The part that needs it, for the error message.

        Raises:
            ValueError: When it is not a vision transformer with a class token.
        """
        if getattr(network, "cls_token", None) is None or not hasattr(network, "_pos_embed"):
            raise ValueError(
                f"{what} need a vision transformer with a class token, got {type(network).__name__}; "
                "use for example vit_base_patch16_224"
            )
        self.network = network.requires_grad_(False).eval()
        self.num_features = network.embed_dim

    def train(self, mode: bool = True) -> Self:
        """As in torch, but the frozen network stays in evaluation mode."""
        super().train(mode)
        self.network.eval()
        return self
