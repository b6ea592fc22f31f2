"""Tools around training, under PyTorch's names; weft.utils.data is weft.data."""

from weft.utils import checkpoint, data  # noqa: F401
