"""PyTorch's names on Weft: `import weft.torch as torch`, or `python -m weft.torch script.py` for an unchanged script.

The package is a table of names (`_names.py`): each module path of PyTorch and the modules of Weft that its names come
from. A name that Weft lacks raises AttributeError with the nearest one that exists.
"""

import sys as _sys

from weft.torch._door import become_facade as _become_facade
from weft.torch._door import install, uninstall

__version__ = "2.15.0+weft"
__all__ = ["__version__", "install", "uninstall"]
_become_facade(_sys.modules[__name__])
