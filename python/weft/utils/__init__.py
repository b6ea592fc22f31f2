"""weft.utils.data is weft.data under PyTorch's name for it."""
