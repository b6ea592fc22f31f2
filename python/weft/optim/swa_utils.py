"""Averages of a model's parameters over the steps, under PyTorch's names."""

import contextlib
import copy

from weft import _core
from weft._modes import no_grad
from weft.nn.module import Module
from weft.optim.lr_scheduler import LRScheduler, _each


class _Exponential(float):
    """A decay; what get_ema_avg_fn gives."""


def get_ema_avg_fn(decay=0.999):
    """For AveragedModel: average = decay * average + (1 - decay) * parameter."""
    if not 0 <= decay <= 1:
        raise ValueError(f"decay is {decay}: it must lie in [0, 1]")
    return _Exponential(decay)


get_ema_multi_avg_fn = get_ema_avg_fn


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: equal ones, or those of get_ema_multi_avg_fn.

    The averages are kept in float32 for 16-bit parameters, and rounded into `module`; its buffers are the model's."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        chosen = multi_avg_fn if multi_avg_fn is not None else avg_fn
        if chosen is not None and not isinstance(chosen, _Exponential):
            raise NotImplementedError("averages are equal or those of get_ema_multi_avg_fn")
        if use_buffers:
            raise NotImplementedError("buffers are copied, not averaged")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module.to(device)
        self._average = _core._Averager(list(model.parameters()), None if chosen is None else float(chosen))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    @property
    def n_averaged(self):
        return self._average.count()

    def update_parameters(self, model):
        """Takes in the parameters of the model that this was made of."""
        self._average.update()
        with no_grad():
            for own, average in zip(self.module.parameters(), self._average.averages()):
                own.copy_(average)
            for own, now in zip(self.module.buffers(), model.buffers()):
                own.copy_(now)


@contextlib.contextmanager
def averaged(average):
    """Within it the averaged parameters hold the averages; then their own values again."""
    held = average.swap()
    try:
        yield average
    finally:
        del held


def update_bn(loader, model, device=None):
    """The running statistics of batch norms anew, from the inputs of a loader."""
    norms = [m for m in model.modules() if hasattr(m, "running_mean") and m.running_mean is not None]
    if not norms:
        return
    was_training = model.training
    momenta = [m.momentum for m in norms]
    for m in norms:
        m.momentum = None
        with no_grad():
            m.running_mean.zero_()
            m.running_var.fill_(1)
            m.num_batches_tracked.zero_()
    model.train()
    try:
        with no_grad():
            for batch in loader:
                x = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(x if device is None else x.to(device))
    finally:
        for m, momentum in zip(norms, momenta):
            m.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """From the group's rate to swa_lr within anneal_epochs steps (Izmailov et al. 2018)."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        schedules = [_core._swa_lr(rate, anneal_epochs, anneal_strategy) for rate in _each(optimizer, swa_lr)]
        super().__init__(optimizer, last_epoch, schedules)
