"""Loss terms kept for logging, without waiting for the device at every step."""

from __future__ import annotations

from torch import Tensor

from rebll_avalanche.distributed.ranks import total


class LossTerms:
    """The last value and the running mean of named loss terms, the means over all ranks of a job.

    Values stay on their device as tensors; only :meth:`means` waits for them.
    """

    def __init__(self) -> None:
        self.last: dict[str, Tensor] = {}
        self._sums: dict[str, Tensor] = {}
        self._counts: dict[str, int] = {}

    def record(self, name: str, value: Tensor) -> None:
        """Record the unweighted value of a term in this step."""
        value = value.detach()
        self.last[name] = value
        self._sums[name] = self._sums[name] + value if name in self._sums else value
        self._counts[name] = self._counts.get(name, 0) + 1

    def means(self) -> dict[str, float]:
        """Mean of each term since the last :meth:`reset`."""
        return {
            name: float(total(summed)) / self._counts[name] for name, summed in self._sums.items()
        }

    def reset(self) -> None:
        """Begin a new epoch."""
        self._sums.clear()
        self._counts.clear()
