"""The base of optimizers: parameter groups, states, hooks, and everything that an optimizer written in Python needs."""

import collections
import copy
import functools
import itertools

from weft import _core
from weft._core import Tensor
from weft._modes import enable_grad, no_grad
from weft.errors import ValueError


class _Required:
    def __repr__(self):
        return "<required parameter>"


required = _Required()


def tensors_of(params):
    """The tensors of `params`, which may be pairs with names."""
    if isinstance(params, Tensor):
        raise TypeError("argument 'params': expected several tensors, got a Tensor")
    params = [p[1] if isinstance(p, tuple) and len(p) == 2 and isinstance(p[0], str) else p for p in params]
    for p in params:
        if not isinstance(p, Tensor):
            raise TypeError(f"argument 'params': expected tensors, got {type(p).__name__}")
    return params


class Optimizer:
    """The base of all optimizers. A subclass calls super().__init__(params, defaults), and its step() reads
    self.param_groups, a list of dicts, and self.state, a dict for each parameter."""

    _stepped = False

    def __init__(self, params, defaults):
        self.defaults = dict(defaults)
        self._pre_hooks, self._post_hooks = {}, {}
        self.state, self.param_groups = collections.defaultdict(dict), []
        params = list(params) if not isinstance(params, Tensor) else params
        if isinstance(params, list) and not params:
            raise ValueError("an optimizer needs parameters, got none")
        for group in params if isinstance(params, list) and isinstance(params[0], dict) else [{"params": params}]:
            self.add_param_group(group)

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "step" in cls.__dict__ and not getattr(cls, "_native", False):
            cls.step = _with_hooks(cls.step)

    def add_param_group(self, param_group):
        """Adds a dict with "params" and options; options that it lacks are the defaults."""
        if not isinstance(param_group, dict):
            raise TypeError(f"parameter group: expected a dict, got {type(param_group).__name__}")
        params = param_group["params"]
        group = {**param_group, "params": tensors_of([params] if isinstance(params, Tensor) else list(params))}
        for name, value in self.defaults.items():
            if name not in group and value is required:
                raise ValueError(f"a parameter group lacks the option '{name}'")
            group.setdefault(name, value)
        known = {p._impl() for other in self.param_groups for p in other["params"]}
        new = [p._impl() for p in group["params"]]
        if known & set(new) or len(set(new)) < len(new):
            raise ValueError("a parameter is in the optimizer twice")
        for p in group["params"]:
            if not p.is_leaf:
                raise ValueError("an optimizer takes leaves of the graph, got the result of an op")
        self.param_groups.append(group)

    def zero_grad(self, set_to_none=True):
        for p in itertools.chain.from_iterable(group["params"] for group in self.param_groups):
            if p.grad is not None:
                if set_to_none:
                    p.grad = None
                else:
                    p.grad.zero_()

    def step(self, closure=None):
        """Updates the parameters; returns the result of closure, which computes the loss again."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def _run_hooks(self, hooks):
        for hook in list(hooks.values()):
            hook[0](self, (), {})

    def register_step_pre_hook(self, hook):
        """hook(optimizer, args, kwargs) before each step."""
        from weft.nn.module import _add_hook

        return _add_hook(self._pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """hook(optimizer, args, kwargs) after each step."""
        from weft.nn.module import _add_hook

        return _add_hook(self._post_hooks, hook)

    def _has_stepped(self):
        return self._stepped

    def _momentum_option(self):
        """"betas" or "momentum", the option that schedules of momentum change; None without one."""
        return next((name for name in ("betas", "momentum") if name in self.defaults), None)

    # ---- states ----

    def state_dict(self):
        """{"state": {number of a parameter: its state}, "param_groups": the groups with numbers of parameters}."""
        numbers: dict = {}
        for p in itertools.chain.from_iterable(group["params"] for group in self.param_groups):
            numbers.setdefault(p._impl(), len(numbers))
        groups = [{**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[p._impl()] for p in group["params"]]}
                  for group in self.param_groups]
        return {"state": {numbers[p._impl()]: value for p, value in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state_dict):
        """Copies states and options of a state_dict(). ValueError where its groups are others."""
        groups = copy.deepcopy(state_dict["param_groups"])
        if [len(g["params"]) for g in groups] != [len(g["params"]) for g in self.param_groups]:
            raise ValueError(f"load_state_dict(): the state has groups of {[len(g['params']) for g in groups]} parameters, the "
                             f"optimizer of {[len(g['params']) for g in self.param_groups]}")
        known = {number: p for theirs, own in zip(groups, self.param_groups) for number, p in zip(theirs["params"], own["params"])}
        self.state = collections.defaultdict(dict, {
            known[number]: {key: _cast(known[number], key, value) for key, value in values.items()}
            for number, values in state_dict["state"].items()})
        for theirs, own in zip(groups, self.param_groups):
            own.update({key: value for key, value in theirs.items() if key != "params"})

    def __getstate__(self):
        return {"defaults": self.defaults, "state": dict(self.state), "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self.state = collections.defaultdict(dict, self.state)
        self._pre_hooks, self._post_hooks = {}, {}

    def __repr__(self):
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines.append(f"Parameter Group {i}")
            lines += [f"    {key}: {group[key]}" for key in sorted(group) if key != "params"]
        return "\n".join(lines + [")"])


def _cast(parameter, key, value):
    """A tensor of a state as the parameter's dtype and device; step counts keep theirs."""
    if not isinstance(value, Tensor):
        return copy.deepcopy(value)
    if key == "step" or not parameter.dtype.is_floating_point or not value.dtype.is_floating_point:
        return value.clone()
    return value.to(device=parameter.device, dtype=parameter.dtype).clone()


def _with_hooks(step):
    @functools.wraps(step)
    def run(self, *args, **kwargs):
        self._run_hooks(self.__dict__.get("_pre_hooks", {}))  # a subclass may not call __init__
        result = step(self, *args, **kwargs)
        self._run_hooks(self.__dict__.get("_post_hooks", {}))
        self._stepped = True
        return result

    return run


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992); the average is state[p]["ax"]."""

    def __init__(self, params, lr=1e-2, lambd=1e-4, alpha=0.75, t0=1e6, weight_decay=0.0, foreach=None, maximize=False,
                 differentiable=False, capturable=False):
        for name, value in (("lr", lr), ("weight_decay", weight_decay)):
            if not value >= 0:
                raise ValueError(f"option '{name}' must not be negative, got {value}")
        super().__init__(params, dict(lr=lr, lambd=lambd, alpha=alpha, t0=t0, weight_decay=weight_decay, maximize=maximize))

    def step(self, closure=None):
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._update(p, group)
        return loss

    def _update(self, p, group):
        state = self.state[p]
        if not state:
            state.update(step=0, eta=group["lr"], mu=1.0, ax=_core._ops["zeros_like"](p))
        state["step"] += 1
        gradient = -p.grad if group["maximize"] else p.grad
        if group["weight_decay"]:
            gradient = gradient.add(p, alpha=group["weight_decay"])
        p.mul_(1 - group["lambd"] * state["eta"])
        p.add_(gradient, alpha=-state["eta"])
        if state["mu"] == 1:
            state["ax"].copy_(p)
        else:
            state["ax"].add_((p - state["ax"]).mul(state["mu"]))
        state["eta"] = group["lr"] / (1 + group["lambd"] * group["lr"] * state["step"]) ** group["alpha"]
        state["mu"] = 1 / max(1, state["step"] - group["t0"])
