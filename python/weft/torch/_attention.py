"""torch.nn.attention: Weft chooses the kernel of attention itself."""

import contextlib
import enum

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend(enum.IntEnum):
    """PyTorch's kernels of attention."""

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION = -1, 0, 1, 2, 3


@contextlib.contextmanager
def sdpa_kernel(backends=None, set_priority=False):
    """Nothing: every kernel of Weft's gives the same result."""
    yield
