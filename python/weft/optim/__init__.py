"""Optimizers: the C++ ones, whose step is one fused kernel, under PyTorch's names."""

import collections

from weft import _core
from weft._core import Tensor
from weft._modes import enable_grad
from weft.optim._base import ASGD, Optimizer, required  # noqa: F401
from weft.optim._base import tensors_of as _tensors
from weft.optim._states import FlatState, by_parameter, flattened, numbered_groups

_REAL, _WHOLE, _FLAG, _CHOICE = range(4)


class _Options:
    """The options of one optimizer: PyTorch's keywords, and the numbers by which C++ knows them."""

    def __init__(self, described):
        self.parts = {}
        self.order = []
        for name, kind, keyword, part, choices in described:
            self.parts.setdefault(keyword, []).append((name, kind, part, choices))
            self.order.append(name)

    @staticmethod
    def _number(keyword, value, kind, choices):
        if kind == _CHOICE:
            if value is None:
                return 0.0
            if value not in choices:
                known = ", ".join(repr(c) for c in choices)
                raise ValueError(f"option '{keyword}': expected one of {known}, got {value!r}")
            return float(choices.index(value))
        if value is None:
            return float("nan")
        if kind == _FLAG:
            return float(bool(value))
        return float(value)

    def named(self, options):
        """{"betas": (0.9, 0.99)} as {"beta1": 0.9, "beta2": 0.99}."""
        out = {}
        for keyword, value in options.items():
            parts = self.parts[keyword]
            if parts[0][2] < 0:
                name, kind, _, choices = parts[0]
                out[name] = self._number(keyword, value, kind, choices)
                continue
            values = tuple(value)
            if len(values) != len(parts):
                raise ValueError(f"option '{keyword}': expected {len(parts)} values, got {len(values)}")
            for name, kind, part, choices in parts:
                out[name] = self._number(keyword, values[part], kind, choices)
        return out

    def keywords_of(self, group):
        """The options of a group, without its parameters."""
        return {keyword: group[keyword] for keyword in self.parts}

    def keywords(self, values):
        """The other way, from the values in C++'s order."""
        by_name = dict(zip(self.order, values))

        def read(name, kind, choices):
            value = by_name[name]
            if kind == _CHOICE:
                return choices[int(value)]
            if value != value:
                return None
            return bool(value) if kind == _FLAG else int(value) if kind == _WHOLE else value

        return {keyword: read(parts[0][0], parts[0][1], parts[0][3]) if parts[0][2] < 0 else
                tuple(read(name, kind, choices) for name, kind, _, choices in parts)
                for keyword, parts in self.parts.items()}


class _Group(dict):
    """A parameter group; setting an option sets it in the optimizer."""

    def __init__(self, optimizer, number, values):
        super().__init__(values)
        self._optimizer, self._number = optimizer, number

    def __setitem__(self, key, value):
        self.update({key: value})

    def setdefault(self, key, value=None):
        if key not in self:
            self[key] = value
        return self[key]

    def update(self, *args, **kwargs):
        """Sets all given options, or none if one is refused."""
        new, optimizer = dict(*args, **kwargs), self._optimizer
        if "params" in new:
            raise NotImplementedError("the parameters of a group cannot be changed; add_param_group adds a group")
        options = {key: value for key, value in new.items() if key in optimizer._options.parts}
        if options:
            optimizer._core._set_options(optimizer._options.named(options), self._number)
        optimizer._extras[self._number].update((key, new[key]) for key in new.keys() - options.keys())
        super().update(new)


class NativeOptimizer(Optimizer):
    """An optimizer with the step of C++."""

    _native = True

    def __init__(self, params, defaults):
        params = params if isinstance(params, Tensor) else list(() if params is None else params)
        groups = params if isinstance(params, list) and params and isinstance(params[0], dict) else [{"params": params}]
        make = getattr(_core, "_" + self._name)
        self._options = _Options(make._options)
        self.defaults = dict(defaults)
        self._pre_hooks, self._post_hooks, self._extras, self._objects = {}, {}, [], []
        tensors, own, extra = self._taken(groups[0])
        self._core = make(tensors, self._options.named(self.defaults), own)
        self._references = _core._References(self._core)
        self._hold(tensors, extra)
        for group in groups[1:]:
            self.add_param_group(group)

    def _taken(self, group):
        if not isinstance(group, dict):
            raise TypeError(f"parameter group: expected a dict, got {type(group).__name__}")
        own = {k: v for k, v in group.items() if k in self._options.parts}
        extra = {k: v for k, v in group.items() if k not in own and k != "params"}
        return _tensors(group["params"]), self._options.named(own), extra

    def add_param_group(self, param_group):
        tensors, own, extra = self._taken(param_group)
        self._core._add_group(tensors, own)
        self._hold(tensors, extra)

    def _hold(self, tensors, extra):
        self._extras.append(extra)
        self._objects.append(tensors)
        self._references.add(tensors)

    @property
    def param_groups(self):
        return [_Group(self, i, {"params": list(self._objects[i]), **self._options.keywords(values), **self._extras[i]})
                for i, (_, values) in enumerate(self._core._groups())]

    def step(self, closure=None):
        """Updates every parameter that has a gradient; returns what closure returned."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        self._run_hooks(self._pre_hooks)
        self._core._step()
        self._run_hooks(self._post_hooks)
        return loss

    def zero_grad(self, set_to_none=True):
        self._core._zero_grad(bool(set_to_none))

    @property
    def state(self):
        """The state of each parameter that has one, by name; tensors share memory with the optimizer."""
        params = [p for group in self._objects for p in group]
        found = by_parameter(self._core._state_dict())
        return collections.defaultdict(dict, {params[number]: state for number, state in found.items()})

    def state_dict(self):
        """State by number of the parameter, "3.exp_avg", and the options, "group.0.lr"; "state" and "param_groups" give
        PyTorch's form of it."""
        return FlatState(self._core._state_dict(), numbered_groups(self.param_groups))

    def load_state_dict(self, state_dict):
        """Copies the values in, of either form; options of the state replace those of the optimizer."""
        if not isinstance(state_dict, FlatState) and "param_groups" in state_dict:
            flat = flattened(state_dict, self)
            extras = [{key: value for key, value in group.items() if key not in self._options.parts and key not in
                       ("params", "foreach", "capturable", "differentiable", "fused")} for group in state_dict["param_groups"]]
            self._core._load_state_dict(flat)
            for group, extra in zip(self.param_groups, extras):
                group.update(extra)
            return
        self._core._load_state_dict(dict(state_dict))

    def __getstate__(self):
        return {"defaults": self.defaults, "groups": [dict(group) for group in self.param_groups], "state": self.state_dict()}

    def __setstate__(self, state):
        NativeOptimizer.__init__(self, state["groups"], state["defaults"])
        self.load_state_dict(state["state"])

    def _has_stepped(self):
        return self._core._has_stepped()

    def _momentum_option(self):
        return next((name for name in ("betas", "momentum") if name in self._options.parts), None)


class SGD(NativeOptimizer):
    """Stochastic gradient descent with momentum."""

    _name = "SGD"

    def __init__(self, params, lr=1e-3, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False, *,
                 maximize=False, foreach=None, differentiable=False, fused=None):
        super().__init__(params, dict(lr=lr, momentum=momentum, dampening=dampening, weight_decay=weight_decay,
                                      nesterov=nesterov, maximize=maximize))


class Adam(NativeOptimizer):
    """Adam (Kingma and Ba 2015); weight decay is added to the gradient."""

    _name = "Adam"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, amsgrad=False, *,
                 maximize=False, decoupled_weight_decay=False, foreach=None, capturable=False, differentiable=False,
                 fused=None):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize, decoupled_weight_decay=decoupled_weight_decay))


class AdamW(NativeOptimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019)."""

    _name = "AdamW"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.01, amsgrad=False, *,
                 maximize=False, foreach=None, capturable=False, differentiable=False, fused=None):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, amsgrad=amsgrad,
                                      maximize=maximize))


class SparseAdam(NativeOptimizer):
    """Adam for gradients of which most rows are missing, as embeddings have them with sparse=True: rows without a gradient
    and their moments stay. Of a dense gradient those are the rows of zeros."""

    _name = "SparseAdam"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, maximize=maximize))


class Adamax(NativeOptimizer):
    """Adam by the infinity norm (Kingma and Ba 2015)."""

    _name = "Adamax"

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, *, maximize=False,
                 foreach=None, differentiable=False, capturable=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, maximize=maximize))


class NAdam(NativeOptimizer):
    """Adam with Nesterov's momentum (Dozat 2016)."""

    _name = "NAdam"

    def __init__(self, params, lr=2e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, momentum_decay=4e-3,
                 decoupled_weight_decay=False, *, maximize=False, foreach=None, capturable=False, differentiable=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      momentum_decay=momentum_decay, decoupled_weight_decay=decoupled_weight_decay,
                                      maximize=maximize))


class RAdam(NativeOptimizer):
    """Adam with rectified variance (Liu et al. 2020)."""

    _name = "RAdam"

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, decoupled_weight_decay=False,
                 *, maximize=False, foreach=None, capturable=False, differentiable=False):
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay,
                                      decoupled_weight_decay=decoupled_weight_decay, maximize=maximize))


class Adagrad(NativeOptimizer):
    """Rates that fall with the root of the sum of squares (Duchi et al. 2011)."""

    _name = "Adagrad"

    def __init__(self, params, lr=1e-2, lr_decay=0.0, weight_decay=0.0, initial_accumulator_value=0.0, eps=1e-10, *,
                 maximize=False, foreach=None, differentiable=False, fused=None):
        super().__init__(params, dict(lr=lr, lr_decay=lr_decay, weight_decay=weight_decay,
                                      initial_accumulator_value=initial_accumulator_value, eps=eps,
                                      maximize=maximize))


class Adadelta(NativeOptimizer):
    """Rates from the ratio of steps to gradients (Zeiler 2012)."""

    _name = "Adadelta"

    def __init__(self, params, lr=1.0, rho=0.9, eps=1e-6, weight_decay=0.0, *, maximize=False, capturable=False,
                 foreach=None, differentiable=False):
        super().__init__(params, dict(lr=lr, rho=rho, eps=eps, weight_decay=weight_decay, maximize=maximize))


class RMSprop(NativeOptimizer):
    """Rates by a moving average of squares (Tieleman and Hinton 2012)."""

    _name = "RMSprop"

    def __init__(self, params, lr=1e-2, alpha=0.99, eps=1e-8, weight_decay=0.0, momentum=0.0, centered=False, *,
                 maximize=False, capturable=False, foreach=None, differentiable=False):
        super().__init__(params, dict(lr=lr, alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum,
                                      centered=centered, maximize=maximize))


class Rprop(NativeOptimizer):
    """Steps by signs alone, for full batches (Riedmiller and Braun 1993)."""

    _name = "Rprop"

    def __init__(self, params, lr=1e-2, etas=(0.5, 1.2), step_sizes=(1e-6, 50.0), *, maximize=False, capturable=False,
                 foreach=None, differentiable=False):
        super().__init__(params, dict(lr=lr, etas=etas, step_sizes=step_sizes, maximize=maximize))


class Lion(NativeOptimizer):
    """The sign of a moving average (Chen et al. 2023); weight decay is decoupled."""

    _name = "Lion"

    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0, *, maximize=False):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay, maximize=maximize))


class Adafactor(NativeOptimizer):
    """Adafactor (Shazeer and Stern 2018), whose state of a matrix is a row and a column."""

    _name = "Adafactor"

    def __init__(self, params, lr=1e-2, beta2_decay=-0.8, eps=(None, 1e-3), d=1.0, weight_decay=0.0, *,
                 maximize=False, foreach=None):
        super().__init__(params, dict(lr=lr, beta2_decay=beta2_decay, eps=eps, d=d, weight_decay=weight_decay,
                                      maximize=maximize))


class Muon(NativeOptimizer):
    """Momentum made orthogonal by Newton-Schulz iterations (Jordan 2024); for matrices alone."""

    _name = "Muon"

    def __init__(self, params, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True,
                 ns_coefficients=(3.4445, -4.775, 2.0315), eps=1e-7, ns_steps=5, adjust_lr_fn=None):
        super().__init__(params, dict(lr=lr, weight_decay=weight_decay, momentum=momentum, nesterov=nesterov,
                                      ns_coefficients=ns_coefficients, eps=eps, ns_steps=ns_steps,
                                      adjust_lr_fn=adjust_lr_fn))


class LBFGS(NativeOptimizer):
    """L-BFGS (Liu and Nocedal 1989); step needs a closure, which computes the loss and its gradients anew."""

    _name = "LBFGS"

    def __init__(self, params, lr=1.0, max_iter=20, max_eval=None, tolerance_grad=1e-7, tolerance_change=1e-9,
                 history_size=100, line_search_fn=None, *, maximize=False):
        super().__init__(params, dict(lr=lr, max_iter=max_iter, max_eval=max_eval, tolerance_grad=tolerance_grad,
                                      tolerance_change=tolerance_change, history_size=history_size,
                                      line_search_fn=line_search_fn, maximize=maximize))

    def step(self, closure):
        """One step of at most max_iter iterations; returns the first loss."""
        self._run_hooks(self._pre_hooks)
        loss = self._core._step_with(closure)
        self._run_hooks(self._post_hooks)
        return loss


class MasterWeights:
    """Weights in float32 beside a model's 16-bit ones, which are too coarse to add small steps to (Micikevicius et al.
    2018).

    model.to(weft.bfloat16)
    masters = weft.optim.MasterWeights(model.parameters())
    optimizer = weft.optim.AdamW(masters.parameters(), lr=1e-3)
    ...
    masters.zero_grad()
    loss.backward()
    masters.step(optimizer)

    Other parameters stand for themselves. ValueError where one is no leaf that requires a gradient, or is given twice."""

    def __init__(self, parameters):
        self._parameters = _tensors(parameters)
        self._core = _core._MasterWeights(self._parameters)
        self._masters = [own if own._impl() == master._impl() else master
                         for own, master in zip(self._parameters, self._core.parameters())]

    def parameters(self):
        """What the optimizer gets, in the order given."""
        return list(self._masters)

    def model_parameters(self):
        """The model's, in the same order."""
        return list(self._parameters)

    def take_gradients(self):
        """The parameters' gradients become those of the masters, in float32, and are dropped."""
        self._core.take_gradients()

    def write_back(self):
        """Rounds the masters into the parameters."""
        self._core.write_back()

    def step(self, optimizer):
        """take_gradients, optimizer.step(), write_back. With a GradScaler, whose unscale_ and step want the optimizer's
        own gradients, call the three apart."""
        self.take_gradients()
        optimizer.step()
        self.write_back()

    def zero_grad(self):
        """Drops the gradients of both."""
        self._core.zero_grad()

    def state_dict(self):
        """The masters by number of the parameter, "3"; those that stand for themselves are not among them. They share
        memory."""
        return self._core.state_dict()

    def load_state_dict(self, state_dict):
        """Copies the values in and rounds them into the parameters. ValueError for a missing or unknown name and for
        another shape; nothing is changed then."""
        self._core.load_state_dict(state_dict)


class GradientMerge:
    """Gradients of k backward passes as one, summed in float32.

    merge = weft.optim.GradientMerge(model.parameters(), k=4)
    ...
    loss.backward()
    if merge.take(tokens):               # once in four times; batches count by their tokens
        optimizer.step()
        optimizer.zero_grad()

    Their mean by weight, or with average=False their sum. ValueError for k below 1, and for a parameter that is no leaf or is
    given twice."""

    def __init__(self, parameters, k, average=True):
        self._core = _core._GradientMerge(_tensors(parameters), k, average)

    def take(self, weight=1.0):
        """Behind each backward: adds up gradients and drops them. `weight` is the number of samples or tokens of which
        the loss is the mean; 0 leaves the gradients out. At the k-th it returns True: then the parameters have the merged
        gradients, and the sums begin anew. ValueError for a weight that is negative or not finite, and for another than 1
        with average=False."""
        return self._core.take(float(weight))

    def flush(self):
        """The same with the backward passes that there are; False where there is none."""
        return self._core.flush()

    def drop(self):
        """Forgets them."""
        self._core.drop()

    @property
    def pending(self):
        """How many backward passes the sums hold."""
        return self._core.pending()

    def state_dict(self):
        """The sums by number of the parameter, "3", "pending", and where weights are not all 1 "weight"; sums share
        memory."""
        return self._core.state_dict()

    def load_state_dict(self, state_dict):
        """Copies the values in. ValueError for an unknown name and for another shape; nothing is changed then."""
        self._core.load_state_dict(state_dict)


def warmup_cosine(step, *, lr=1e-3, warmup=0, steps=1000, minimum=0.0):
    """The rate of a step (from 0): linear in `warmup` steps to lr, then half a cosine down to the minimum."""
    return _core._warmup_cosine(step, lr, warmup, steps, minimum)


from weft.optim import lr_scheduler, swa_utils  # noqa: E402
