"""Learning rates over time, under PyTorch's names.

Each is a function of the step and of the group's rate at the beginning. Where the program or another schedule has set
another rate, those that PyTorch computes from the rate of the step before go on from it."""

import bisect
import collections
import functools
import math
import types
import warnings
import weakref

from weft import _core


EPOCH_DEPRECATION_WARNING = "step(epoch) is deprecated: step() goes on by one"
_loaded: weakref.WeakSet = weakref.WeakSet()  # schedulers whose next rates follow from the state that was loaded, not from the optimizer


def _check_optimizer(optimizer):
    from weft.optim import Optimizer

    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"argument 'optimizer': expected an Optimizer, got {type(optimizer).__name__}")


def _found(state_dict, name):
    if name not in state_dict:
        raise ValueError(f"the state lacks '{name}'")
    return state_dict[name]


def _rates_in(state_dict, name, groups):
    """A rate for each group."""
    rates = [float(rate) for rate in _found(state_dict, name)]
    if len(rates) != groups:
        raise ValueError(f"state: expected {groups} groups, got {len(rates)}")
    return rates


class LRScheduler:
    """Sets the rates of the groups of an optimizer. A subclass may define get_lr(), a list of rates."""

    def __init__(self, optimizer, last_epoch=-1, schedules=None):
        _check_optimizer(optimizer)
        if last_epoch < -1:
            raise ValueError(f"last_epoch: expected at least -1, got {last_epoch}")
        self.optimizer = optimizer
        groups = optimizer.param_groups
        for group in groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise KeyError("a group has no 'initial_lr': with last_epoch there must be one")
        self.base_lrs = [group["initial_lr"] for group in groups]
        self._schedules = list(schedules) if schedules is not None else None
        if self._schedules is not None and len(self._schedules) != len(groups):
            raise ValueError(f"there are {len(self._schedules)} values for {len(groups)} groups")
        self._momentum = None
        if self._schedules and any(s.has_momentum() for s in self._schedules):
            self._momentum = optimizer._momentum_option()
            if self._momentum is None:
                raise ValueError(f"{type(optimizer).__name__} has no momentum to cycle: pass cycle_momentum=False")
        self.last_epoch, self._step_count = last_epoch, 0
        self._last_lr, self._bases = list(self.base_lrs), list(self.base_lrs)
        self.step()

    _follows = False  # goes on from a rate that was set elsewhere

    def _rate(self, group, step, base):
        return self._schedules[group].rate(step, base)

    def _restore_options(self, state_dict):
        """Options of the schedule that the state holds."""

    def _is_function(self):
        return type(self).get_lr is LRScheduler.get_lr

    def get_lr(self):
        return [self._rate(i, self.last_epoch, base) for i, base in enumerate(self._bases)]

    def _base_of(self, group, step, rate):
        """The base from which this rate comes at a step. Rates are linear functions of it."""
        constant = self._rate(group, step, 0.0)
        slope = self._rate(group, step, 1.0) - constant
        return rate if slope == 0 else (rate - constant) / slope

    def _follow(self, step):
        """Goes on from the rates that were set elsewhere since the last step."""
        for i, (group, last) in enumerate(zip(self.optimizer.param_groups, self._last_lr)):
            if group["lr"] != last:
                self._bases[i] = self._base_of(i, step, group["lr"])

    def get_last_lr(self):
        return list(self._last_lr)

    def step(self, epoch=None):
        """Goes on by one step, or to the one that is given."""
        before = self.last_epoch
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        elif self._follows and before >= 0 and self not in _loaded:
            self._follow(before)
        _loaded.discard(self)
        self.last_epoch = before + 1 if epoch is None else epoch
        try:
            self._set(self.get_lr())
        except Exception:
            self.last_epoch = before
            raise
        self._step_count += 1
        if epoch is None and self._step_count == 2 and not self.optimizer._has_stepped():
            warnings.warn("lr_scheduler.step() comes before optimizer.step(): the schedule's first rate is never used. "
                          "Call optimizer.step() before scheduler.step().", UserWarning, stacklevel=2)

    def _set(self, rates):
        """In all groups, or in none where one refuses its rate."""
        groups = self.optimizer.param_groups
        changes = [{"lr": float(rate)} for _, rate in zip(groups, rates)]
        if self._momentum is not None:
            for i, change in enumerate(changes):
                momentum = self._schedules[i].momentum(self.last_epoch, 0.0)
                change[self._momentum] = (momentum, *groups[i]["betas"][1:]) if self._momentum == "betas" else momentum
        before = [{name: group[name] for name in change} for group, change in zip(groups, changes)]
        try:
            for group, change in zip(groups, changes):
                group.update(change)
        except Exception:
            for group, values in zip(groups, before):
                group.update(values)
            raise
        self._last_lr = [group["lr"] for group in groups]

    def state_dict(self):
        return {"last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs), "_last_lr": list(self._last_lr),
                "_step_count": self._step_count}

    def load_state_dict(self, state_dict):
        """Position and rates of a state. ValueError where it is not of as many groups or lacks something; nothing is
        changed then."""
        position = int(_found(state_dict, "last_epoch"))
        base, last = (_rates_in(state_dict, name, len(self.base_lrs)) for name in ("base_lrs", "_last_lr"))
        self._restore_options(state_dict)
        self.last_epoch, self.base_lrs, self._last_lr, self._bases = position, base, last, list(base)
        self._step_count = int(state_dict.get("_step_count", position + 1))
        _loaded.add(self)
        if self._follows:
            for i, rate in enumerate(last):
                if not math.isclose(rate, self._rate(i, position, base[i]), rel_tol=1e-9, abs_tol=1e-15):
                    self._bases[i] = self._base_of(i, position, rate)


def _each(optimizer, value):
    """One value for each group."""
    _check_optimizer(optimizer)
    return list(value) if isinstance(value, (list, tuple)) else [value] * len(optimizer.param_groups)


def _whole(steps):
    """A number of steps, which may come as 10.0."""
    if steps != int(steps):
        raise ValueError(f"number of steps: expected a whole number, got {steps}")
    return int(steps)


@functools.lru_cache(maxsize=256)
def _schedule(make, options):
    return getattr(_core, make)(*(list(o) if isinstance(o, tuple) else o for o in options))


class _Pure(LRScheduler):
    """A function of the step with options, which are attributes: a change of one changes the rates from then on. States
    hold them; a state without them leaves them as they are."""

    _make: str = ""
    _options: tuple = ()

    def __init__(self, optimizer, last_epoch, **options):
        _check_optimizer(optimizer)
        for name, value in options.items():
            setattr(self, name, value)
        self._function()
        super().__init__(optimizer, last_epoch)

    def _function(self):
        return _schedule(self._make, tuple(getattr(self, name) for name in self._options))

    def _rate(self, group, step, base):
        return self._function().rate(step, base)

    def state_dict(self):
        return super().state_dict() | {name: getattr(self, name) for name in self._options}

    def _restore_options(self, state_dict):
        before = {name: getattr(self, name) for name in self._options}
        self.__dict__.update({name: state_dict[name] for name in self._options if name in state_dict})
        try:
            self._function()
        except Exception:
            self.__dict__.update(before)
            raise


class StepLR(_Pure):
    """Multiplied by gamma every step_size steps."""

    _follows, _make, _options = True, "_step_lr", ("step_size", "gamma")

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        super().__init__(optimizer, last_epoch, step_size=_whole(step_size), gamma=gamma)


class MultiStepLR(_Pure):
    """Multiplied by gamma at each milestone."""

    _follows, _make, _options = True, "_multi_step_lr", ("milestones", "gamma")

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        super().__init__(optimizer, last_epoch, milestones=collections.Counter(sorted(map(_whole, milestones))), gamma=gamma)

    def _function(self):
        return _schedule(self._make, (tuple(sorted(self.milestones.elements())), self.gamma))


class ConstantLR(_Pure):
    """Times factor for total_iters steps."""

    _follows, _make, _options = True, "_constant_lr", ("factor", "total_iters")

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        super().__init__(optimizer, last_epoch, factor=factor, total_iters=_whole(total_iters))


class LinearLR(_Pure):
    """Times a factor that goes in a line from start_factor to end_factor."""

    _follows, _make, _options = True, "_linear_lr", ("start_factor", "end_factor", "total_iters")

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        super().__init__(optimizer, last_epoch, start_factor=start_factor, end_factor=end_factor,
                         total_iters=_whole(total_iters))


class ExponentialLR(_Pure):
    """Multiplied by gamma every step."""

    _follows, _make, _options = True, "_exponential_lr", ("gamma",)

    def __init__(self, optimizer, gamma, last_epoch=-1):
        super().__init__(optimizer, last_epoch, gamma=gamma)


class PolynomialLR(_Pure):
    """Down to 0 in total_iters steps, as a power of what is left."""

    _follows, _make, _options = True, "_polynomial_lr", ("total_iters", "power")

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        super().__init__(optimizer, last_epoch, total_iters=_whole(total_iters), power=power)


class CosineAnnealingLR(_Pure):
    """Half a cosine down to eta_min in T_max steps, and back (Loshchilov and Hutter 2017)."""

    _follows, _make, _options = True, "_cosine_annealing_lr", ("T_max", "eta_min")

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        super().__init__(optimizer, last_epoch, T_max=_whole(T_max), eta_min=eta_min)


class CosineAnnealingWarmRestarts(_Pure):
    """Half a cosine, begun anew after T_0 steps, then after T_0 * T_mult, and so on."""

    _make, _options = "_warm_restarts", ("T_0", "T_mult", "eta_min")

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        super().__init__(optimizer, last_epoch, T_0=_whole(T_0), T_mult=_whole(T_mult), eta_min=eta_min)

    def _period(self, step):
        """Steps since the last restart, and from that to the next."""
        done, length = 0, self.T_0
        while step >= done + length:
            done, length = done + length, length * self.T_mult
        return step - done, length

    T_cur = property(lambda self: self._period(self.last_epoch)[0], doc="Steps since the last restart.")
    T_i = property(lambda self: self._period(self.last_epoch)[1], doc="Steps from the last restart to the next.")

    def _rate(self, group, step, base):
        if step == int(step):
            return super()._rate(group, int(step), base)
        since, length = self._period(step)  # a fraction of an epoch
        return self.eta_min + (base - self.eta_min) * (1 + math.cos(math.pi * since / length)) / 2


class OneCycleLR(LRScheduler):
    """One cycle up and down (Smith and Topin 2018); momentum goes against it."""

    def __init__(self, optimizer, max_lr, total_steps=None, epochs=None, steps_per_epoch=None, pct_start=0.3,
                 anneal_strategy="cos", cycle_momentum=True, base_momentum=0.85, max_momentum=0.95, div_factor=25.0,
                 final_div_factor=1e4, three_phase=False, last_epoch=-1):
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("give total_steps, or both epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        self.total_steps = total_steps
        values = zip(*(_each(optimizer, v) for v in (max_lr, base_momentum, max_momentum)), strict=True)
        super().__init__(optimizer, last_epoch, [
            _core._one_cycle_lr(rate, total_steps, pct_start, anneal_strategy, cycle_momentum, low, high, div_factor,
                                final_div_factor, three_phase) for rate, low, high in values])


class CyclicLR(LRScheduler):
    """Up and down between two rates (Smith 2017)."""

    def __init__(self, optimizer, base_lr, max_lr, step_size_up=2000, step_size_down=None, mode="triangular",
                 gamma=1.0, scale_fn=None, scale_mode="cycle", cycle_momentum=True, base_momentum=0.8,
                 max_momentum=0.9, last_epoch=-1):
        down = step_size_up if step_size_down is None else step_size_down
        values = zip(*(_each(optimizer, v) for v in (base_lr, max_lr, base_momentum, max_momentum)), strict=True)
        super().__init__(optimizer, last_epoch, [
            _core._cyclic_lr(low, high, step_size_up, down, mode, gamma, scale_fn, scale_mode == "iterations",
                             cycle_momentum, least, most) for low, high, least, most in values])


class _Lambdas(LRScheduler):
    """A function of the program for each group; states hold the attributes of callable objects."""

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self.lr_lambdas = _each(optimizer, lr_lambda)
        if len(self.lr_lambdas) != len(optimizer.param_groups):
            raise ValueError(f"there are {len(self.lr_lambdas)} functions for {len(optimizer.param_groups)} groups")
        super().__init__(optimizer, last_epoch)

    def state_dict(self):
        kept = [None if isinstance(f, types.FunctionType) else dict(getattr(f, "__dict__", {})) for f in self.lr_lambdas]
        return super().state_dict() | {"lr_lambdas": kept}

    def _restore_options(self, state_dict):
        for function, attributes in zip(self.lr_lambdas, state_dict.get("lr_lambdas", ())):
            if attributes is not None:
                function.__dict__.update(attributes)


class LambdaLR(_Lambdas):
    """Times lr_lambda(step)."""

    def _rate(self, group, step, base):
        return base * self.lr_lambdas[group](step)


class MultiplicativeLR(_Lambdas):
    """Multiplied by lr_lambda(step) at every step."""

    _follows = True

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        self._known = [(0, 1.0)] * len(_each(optimizer, lr_lambda))
        super().__init__(optimizer, lr_lambda, last_epoch)

    def _rate(self, group, step, base):
        known, product = self._known[group]
        if step < known:
            known, product = 0, 1.0
        for t in range(known + 1, step + 1):
            product *= self.lr_lambdas[group](t)
        self._known[group] = (step, product)
        return base * product


def _check_parts(schedulers, optimizer):
    if not schedulers:
        raise ValueError("there are no schedulers")
    for s in schedulers:
        if not isinstance(s, LRScheduler) or not s._is_function():
            raise TypeError(f"{type(s).__name__} is no function of the step, as this combination needs")
        if s.optimizer is not optimizer:
            raise ValueError("the schedulers are of several optimizers")


class ChainedScheduler(LRScheduler):
    """The rate of the first is the base of the second, and so on: a product of their factors."""

    def __init__(self, schedulers, optimizer=None):
        schedulers = list(schedulers)
        if not schedulers:
            raise ValueError("there are no schedulers")
        _check_parts(schedulers, optimizer or schedulers[0].optimizer)
        self._schedulers = schedulers
        super().__init__(schedulers[0].optimizer)

    def _rate(self, group, step, base):
        for s in self._schedulers:
            base = s._rate(group, step, base)
        return base

    def _set(self, rates):
        super()._set(rates)
        for s in self._schedulers:
            s.last_epoch, s._last_lr = self.last_epoch, list(self._last_lr)


class SequentialLR(LRScheduler):
    """Each begins at its milestone, with its own step 0."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        schedulers, milestones = list(schedulers), list(milestones)
        _check_parts(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(f"milestones: expected {len(schedulers) - 1} for {len(schedulers)} schedulers, "
                             f"got {len(milestones)}")
        if any(b <= a for a, b in zip([0, *milestones], milestones)):
            raise ValueError(f"milestones: expected numbers above 0 in ascending order, got {milestones}")
        self._schedulers, self._milestones = schedulers, milestones
        super().__init__(optimizer, last_epoch)

    def _rate(self, group, step, base):
        i = bisect.bisect_right(self._milestones, step)
        return self._schedulers[i]._rate(group, step - (self._milestones[i - 1] if i else 0), base)


class ReduceLROnPlateau:
    """Multiplies the rates by factor when a value has stopped getting better. NaN is never better."""

    def __init__(self, optimizer, mode="min", factor=0.1, patience=10, threshold=1e-4, threshold_mode="rel",
                 cooldown=0, min_lr=0.0, eps=1e-8):
        if mode not in ("min", "max"):
            raise ValueError(f"mode: expected 'min' or 'max', got {mode!r}")
        if threshold_mode not in ("rel", "abs"):
            raise ValueError(f"threshold_mode: expected 'rel' or 'abs', got {threshold_mode!r}")
        if not 0 < factor < 1:
            raise ValueError(f"factor: expected a number in (0, 1), got {factor}")
        if patience < 0 or cooldown < 0:
            raise ValueError(f"patience and cooldown: expected at least 0, got {patience} and {cooldown}")
        self.optimizer, self.mode, self.factor, self.patience = optimizer, mode, factor, patience
        self.threshold, self.threshold_mode, self.cooldown, self.eps = threshold, threshold_mode, cooldown, eps
        self.min_lrs = _each(optimizer, min_lr)
        if len(self.min_lrs) != len(optimizer.param_groups):
            raise ValueError(f"there are {len(self.min_lrs)} values for {len(optimizer.param_groups)} groups")
        self.best = float("inf") if mode == "min" else -float("inf")
        self.num_bad_epochs = self.cooldown_counter = self.last_epoch = 0
        self._last_lr = [group["lr"] for group in optimizer.param_groups]

    def is_better(self, a, best):
        by = self.threshold if self.threshold_mode == "abs" else abs(best) * self.threshold
        if best in (float("inf"), -float("inf")):
            by = 0.0
        return a < best - by if self.mode == "min" else a > best + by

    def step(self, metrics, epoch=None):
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self.is_better(value, self.best):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs):
                rate = max(group["lr"] * self.factor, least)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0
        self._last_lr = [group["lr"] for group in self.optimizer.param_groups]

    def get_last_lr(self):
        return list(self._last_lr)

    _numbers = {"best": float, "num_bad_epochs": int, "cooldown_counter": int, "last_epoch": int}

    _options = ("mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lrs", "eps")

    def state_dict(self):
        return {name: getattr(self, name) for name in (*self._numbers, "_last_lr", *self._options)}

    def load_state_dict(self, state_dict):
        """Counts and options of a state. ValueError where the state is not of as many groups or lacks something; nothing is
        changed then."""
        loaded = {name: kind(_found(state_dict, name)) for name, kind in self._numbers.items()}
        self._last_lr = _rates_in(state_dict, "_last_lr", len(self._last_lr))
        self.__dict__.update(loaded)
        self.__dict__.update({name: state_dict[name] for name in self._options if name in state_dict})
