"""Averages of a model's parameters over the steps, under PyTorch's names."""

import contextlib
import copy

from weft import _core, bfloat16, equal, float16, nn, tensor
from weft._modes import no_grad
from weft.nn.module import Module
from weft.optim.lr_scheduler import _each, _Pure, _schedule


class _Exponential(float):
    """A decay; what get_ema_avg_fn gives."""


def get_ema_avg_fn(decay=0.999):
    """For AveragedModel: average = decay * average + (1 - decay) * parameter."""
    if not 0 <= decay <= 1:
        raise ValueError(f"decay: expected a number in [0, 1], got {decay}")
    return _Exponential(decay)


get_ema_multi_avg_fn = get_ema_avg_fn


def get_swa_avg_fn():
    """For AveragedModel: the mean of all parameters so far, which is its default."""
    return None


get_swa_multi_avg_fn = get_swa_avg_fn


class AveragedModel(Module):
    """A copy of a model whose parameters are averages: equal ones, those of get_ema_multi_avg_fn, or one's own.

    avg_fn(average, parameter, num_averaged) gives the new average of one parameter; multi_avg_fn(averages, parameters,
    num_averaged) writes those of one dtype and device in place. The averages are kept in float32 for 16-bit parameters,
    in buffers wide_0 and so on, and rounded into `module`. Its buffers are the model's, or with use_buffers averages,
    too; those of integers are rounded toward zero. What is loaded or written into `module` and n_averaged, the averages
    go on from. Where a function raises, they are as they were."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ValueError("AveragedModel(): 'avg_fn' and 'multi_avg_fn' exclude each other")
        chosen = multi_avg_fn if multi_avg_fn is not None else avg_fn
        decay = float(chosen) if isinstance(chosen, _Exponential) else None
        if chosen is not None and decay is None and not callable(chosen):
            raise TypeError(f"AveragedModel(): averaging function: expected a callable, got {type(chosen).__name__}")
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", tensor(0))
        if device is not None:
            self.to(device)
        self.use_buffers = bool(use_buffers)
        self._way = (None, avg_fn, multi_avg_fn) if decay is None else (decay, None, None)
        self._average, self._left = self._averager(model), None
        for i, t in enumerate(self._averaged()):
            if t.dtype in (float16, bfloat16):
                self.register_buffer(f"wide_{i}", t.detach().float())

    def __getstate__(self):
        attributes, *rest = super().__getstate__()
        return ({**attributes, "_average": None, "_left": None}, *rest)

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _averager(self, model):
        return _core._Averager(list(model.parameters()), list(model.buffers()) if self.use_buffers else [], *self._way)

    def _averaged(self):
        return [*self.module.parameters(), *(self.module.buffers() if self.use_buffers else ())]

    def _wide(self):
        return {int(name[5:]): t for name, t in self._buffers.items() if name.startswith("wide_")}

    def _beginnings(self):
        """The averages to go on from: wide ones where `module` holds what they are rounded."""
        wide, own = self._wide(), self._averaged()
        return [wide[i] if i in wide and equal(wide[i].to(t.dtype), t) else t for i, t in enumerate(own)]

    def _seen(self, model):
        """What is another where averages or model are others than an update left them."""
        return [*((t._impl(), t._version) for t in (*self._averaged(), *self._wide().values(), self.n_averaged)),
                *(t._impl() for t in (*model.parameters(), *model.buffers()))]

    def update_parameters(self, model):
        """Takes in the model's parameters as they are now."""
        average, own = self._average, self._averaged()
        if average is None or self._seen(model) != self._left:
            average = self._averager(model)
            starts = {f"{i}.average": t for i, t in enumerate(self._beginnings())}
            average.load_state_dict({"count": self.n_averaged, **starts})
        average.update()
        self._average = average
        with no_grad():
            for t, now in zip(own, average.averages()):
                t.copy_(now)
            for i, t in self._wide().items():
                t.copy_(average.averages()[i])
            if not self.use_buffers:
                for t, now in zip(self.module.buffers(), model.buffers()):
                    t.copy_(now)
            self.n_averaged.fill_(average.count())
        self._left = self._seen(model)


@contextlib.contextmanager
def averaged(average):
    """Within it the parameters that an AveragedModel was updated with hold the averages; then their own values again."""
    averager = getattr(average, "_average", average)
    if averager is None:
        raise ValueError("averaged(): a copy of an AveragedModel has not been updated yet")
    held = averager.swap()
    try:
        yield average
    finally:
        del held


def update_bn(loader, model, device=None):
    """The running statistics of batch norms anew, from the inputs of a loader, each batch counted alike. Momenta and the
    training flag of each module are as before then, and where a call raises the statistics too."""
    norms = [m for m in model.modules() if isinstance(m, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)) and m.running_mean is not None]
    if not norms:
        return
    before = [(m, m.training, m.momentum if m in norms else None) for m in model.modules()]
    statistics = [(buffer, buffer.clone()) for m in norms for buffer in m.buffers()]
    try:
        with no_grad():
            for m in norms:
                m.momentum = None
                m.running_mean.zero_()
                m.running_var.fill_(1)
                m.num_batches_tracked.zero_()
            model.train()
            for batch in loader:
                x = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(x if device is None else x.to(device))
    except BaseException:
        for buffer, value in statistics:
            buffer.copy_(value)
        raise
    finally:
        for m, training, momentum in before:
            m.training = training
            if m in norms:
                m.momentum = momentum


class SWALR(_Pure):
    """From the group's rate to swa_lr within anneal_epochs steps (Izmailov et al. 2018)."""

    _follows, _options = True, ("swa_lrs", "anneal_epochs", "anneal_strategy")

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        if anneal_epochs != int(anneal_epochs) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs: expected a whole number of at least 0, got {anneal_epochs}")
        rates = _each(optimizer, swa_lr)
        if len(rates) != len(optimizer.param_groups):
            raise ValueError(f"swa_lr: expected a rate for each of {len(optimizer.param_groups)} groups, got {len(rates)}")
        super().__init__(optimizer, last_epoch, swa_lrs=rates, anneal_epochs=int(anneal_epochs), anneal_strategy=anneal_strategy)

    def _function(self, group=0):
        return _schedule("_swa_lr", (self.swa_lrs[group], self.anneal_epochs, self.anneal_strategy))

    def _rate(self, group, step, base):
        return self._function(group).rate(step, base)
