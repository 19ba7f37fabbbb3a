"""Which methods can continue without earlier data, and which support exact changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rebll_avalanche.errors import RebllError

if TYPE_CHECKING:
    from rebll_avalanche.configuration.config import Config

_ALL_DATA = "it learns from all data at once, and the old ones may be gone"
_DIVIDED = "its memory is divided among experiences, whose number has to be known from the start"
_NETWORK = (
    "it changes the backbone or needs its maps, and this learner's backbone is frozen: frozen=False"
)
_UNMEASURED = "how it goes on lesson by lesson was never measured"
REFUSED = {
    "joint": _ALL_DATA,
    "cumulative": _ALL_DATA,
    "agem": _DIVIDED,
    "gem": _DIVIDED,
    "lwf-softmax": "it distils a softmax over all earlier classes, about which a table may speak again",
    "l3a": "its scores are not probabilities, so no threshold can be chosen for a class",
    "l2p": _UNMEASURED,
    "l2p-r": _UNMEASURED,
    "multi-lane": _UNMEASURED,
}
# Methods refused on a frozen backbone.
REFUSED_ON_VECTORS = REFUSED | {"closed-form-adapted": _NETWORK, "podnet": _NETWORK}


def network_settings(
    backbone: str, pretrained: str | None, *, frozen: bool, image_size: int | None
) -> dict[str, Any]:
    """The sections ``benchmark`` and ``model`` of a learner's configuration; see :class:`Learner`."""
    if not frozen:
        return {
            "benchmark": {"image_size": image_size or 224},
            "model": {"backbone": backbone, "pretrained": pretrained},
        }
    benchmark = {
        "features": backbone,
        "features_pretrained": pretrained,
        "features_aspect": "kept",
        "image_size": image_size or 288,
    }
    return {"benchmark": benchmark, "model": {"backbone": "vector"}}


def check_can_go_on(config: Config) -> None:
    """Refuse a method that cannot learn a second lesson.

    Raises:
        RebllError: With the reason and the way out.
    """
    method = config.method_name
    refused = REFUSED_ON_VECTORS if config.model.backbone == "vector" else REFUSED
    if method in refused:
        raise RebllError(
            f"{method} cannot be a learner: {refused[method]}; choose closed-form, rebll or der++, or use "
            "`rebll run`"
        )


def is_exact(config: Config) -> bool:
    """Whether lessons can be corrected and forgotten exactly: the closed form that keeps vectors."""
    return bool(
        config.method_name == "closed-form"
        and config.method_options.get("keep") == "vectors"
        and config.method_options.get("weighting", "equal") == "equal"
    )


def require_exact(config: Config, purpose: str) -> None:
    """Refuse an operation that only an exact method supports.

    Raises:
        RebllError: With the reason and the way out.
    """
    if not is_exact(config):
        keep = config.method_options.get("keep")
        description = config.method_name + (f" with keep={keep!r}" if keep else "")
        raise RebllError(
            f"{purpose} is exact for the closed form that keeps vectors, and {description} "
            "cannot do it: what it learned from a picture is spread over all of its weights. Teach a "
            "new Learner(), or go on with the next lesson"
        )
