"""State dictionaries made from a list of attribute names."""

from __future__ import annotations

import copy
from typing import Any, ClassVar


class Stateful:
    """Saves and restores the attributes in ``stored``.

    A part that has a ``state_dict`` itself is saved and restored through it.

    >>> class Counter(Stateful):
    ...     stored = ("images",)
    ...     images = 0
    >>> counter = Counter()
    >>> counter.load_state_dict({"images": 3})
    >>> counter.state_dict()
    {'images': 3}
    """

    stored: ClassVar[tuple[str, ...]] = ()

    def state_dict(self) -> dict[str, Any]:
        """The attributes themselves, not copies."""
        parts = {name: getattr(self, name) for name in self.stored}
        return {
            name: part.state_dict() if hasattr(part, "state_dict") else part
            for name, part in parts.items()
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore copies of what :meth:`state_dict` returned."""
        for name in self.stored:
            part, saved = getattr(self, name), state[name]
            if hasattr(part, "load_state_dict"):
                part.load_state_dict(saved)
            else:
                # Of the type that it has, so that a state of another form is refused here.
                tensor = hasattr(part, "clone")
                own = saved.clone() if tensor else type(part)(copy.deepcopy(saved))
                setattr(self, name, own)
