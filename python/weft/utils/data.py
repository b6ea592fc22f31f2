"""weft.data under PyTorch's name for it."""

from weft.data import *  # noqa: F401, F403
from weft.data import __all__  # noqa: F401
