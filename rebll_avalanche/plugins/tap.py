"""Reading a module's output from the training loop's own forward pass."""

from __future__ import annotations

from typing import Any

from torch import nn
from torch.utils.hooks import RemovableHandle


class OutputTap:
    """Keeps a module's last output between :meth:`open` and :meth:`close`.

    It is open for one forward pass at a time: a hook left on the model would be copied into teachers
    and checkpoints.
    """

    def __init__(self) -> None:
        self._handle: RemovableHandle | None = None
        self._output: Any = None

    def open(self, module: nn.Module) -> None:
        """Add the hook; call it in ``before_forward``."""
        self.close()
        self._handle = module.register_forward_hook(self._keep)

    def close(self) -> Any:
        """Remove the hook and return the last output; call it in ``after_forward``."""
        if self._handle is not None:
            self._handle.remove()
            self._handle = None
        output, self._output = self._output, None
        return output

    def _keep(self, _module: nn.Module, _inputs: Any, output: Any) -> None:
        self._output = output
