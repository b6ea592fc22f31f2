"""weft.utils.data is weft.data under PyTorch's name for it."""

from weft.utils import data  # noqa: F401
