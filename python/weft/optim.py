"""Optimizers: the C++ ones, whose step is one fused kernel, under PyTorch's names."""

from weft import _core
from weft._core import Tensor
from weft._modes import enable_grad


class _Group(dict):
    """A parameter group; setting "lr" sets the rate."""

    def __init__(self, optimizer, number, values):
        super().__init__(values)
        self._optimizer, self._number = optimizer, number

    def __setitem__(self, key, value):
        if key != "lr":
            raise NotImplementedError(f"the option '{key}' of a group cannot be changed yet, only 'lr'")
        self._optimizer._core._set_lr(float(value), self._number)
        super().__setitem__(key, value)


def _tensors(params):
    if isinstance(params, Tensor):
        raise TypeError("argument 'params' must be several tensors, not a Tensor")
    params = list(params)
    for p in params:
        if not isinstance(p, Tensor):
            raise TypeError(f"argument 'params' must hold tensors, not {type(p).__name__}")
    return params


class Optimizer:
    """What all optimizers share."""

    def __init__(self, params, make, lr, weight_decay):
        params = list(params) if not isinstance(params, Tensor) else params
        groups = params if params and isinstance(params, list) and isinstance(params[0], dict) else [{"params": params}]
        first = groups[0]
        self._core = make(_tensors(first["params"]), first.get("lr", lr), first.get("weight_decay", weight_decay))
        self._defaults = (lr, weight_decay)
        self._hooks = {}
        for group in groups[1:]:
            self.add_param_group(group)

    def add_param_group(self, param_group):
        lr, decay = self._defaults
        self._core._add_group(_tensors(param_group["params"]), param_group.get("lr", lr),
                              param_group.get("weight_decay", decay))

    @property
    def param_groups(self):
        return [_Group(self, i, values) for i, values in enumerate(self._core._groups())]

    def step(self, closure=None):
        """Updates every parameter that has a gradient; returns what closure returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for hook in list(self._hooks.values()):
            hook[0](self, (), {})
        self._core._step()
        return loss

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) before each step."""
        from weft.nn.module import _add_hook

        return _add_hook(self._hooks, hook)

    def zero_grad(self, set_to_none=True):
        if set_to_none:
            self._core._zero_grad()
            return
        for group in self._core._groups():
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.zero_()

    def state_dict(self):
        """State by number of the parameter, "3.exp_avg", and the rates, "group.0.lr"."""
        return self._core._state_dict()

    def load_state_dict(self, state_dict):
        self._core._load_state_dict(state_dict)

    def __repr__(self):
        rates = ", ".join(f"{g['lr']:g}" for g in self._core._groups())
        return f"{type(self).__name__}(lr={rates})"


class SGD(Optimizer):
    """Stochastic gradient descent with momentum."""

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False):
        super().__init__(params, lambda p, rate, decay: _core._SGD(p, rate, momentum, dampening, decay, nesterov), lr,
                         weight_decay)


class Adam(Optimizer):
    """Adam (Kingma and Ba 2015); weight decay is added to the gradient."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0):
        super().__init__(params, lambda p, rate, decay: _core._Adam(p, rate, betas[0], betas[1], eps, decay), lr,
                         weight_decay)


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01):
        super().__init__(params, lambda p, rate, decay: _core._AdamW(p, rate, betas[0], betas[1], eps, decay), lr,
                         weight_decay)


def warmup_cosine(step, *, lr=1e-3, warmup=0, steps=1000, minimum=0.0):
    """The rate of a step (from 0): linear in `warmup` steps to lr, then half a cosine down to the minimum."""
    return _core._warmup_cosine(step, lr, warmup, steps, minimum)
