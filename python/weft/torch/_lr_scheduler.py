"""Names of torch.optim.lr_scheduler from before PyTorch 2."""

from weft.optim.lr_scheduler import LRScheduler

__all__ = ["_LRScheduler"]

_LRScheduler = LRScheduler
