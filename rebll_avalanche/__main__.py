"""``python -m rebll_avalanche``, and ``torchrun -m rebll_avalanche``: the command ``rebll``."""

import sys

from rebll_avalanche.cli import main

if __name__ == "__main__":
    sys.exit(main())
