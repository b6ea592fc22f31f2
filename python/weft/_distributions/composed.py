"""Distributions made of others. Where all parts are C++'s, C++ computes the whole."""
# mypy: ignore-errors

import functools
import operator

import weft
from weft import _core
from weft._distributions import constraints
from weft._distributions.base import Distribution, shape_of
from weft._distributions.transforms import (
    AffineTransform, ComposeTransform, Transform, _Inverse, _Native as _NativeTransform, sum_rightmost)

_made = _core._distributions
__all__ = ["Independent", "MixtureSameFamily", "TransformedDistribution"]
native_classes: dict = {}  # by the name that C++ gives them; weft.distributions fills it


def wrapped(core):
    """The Python object of a distribution of C++'s."""
    made = object.__new__(native_classes[core.name()])
    made._core = core
    return made


def core_of(distribution):
    """C++'s distribution where it computes all of this one, else None."""
    known = type(distribution) in native_classes.values()
    return getattr(distribution, "_core", None) if known else None


def _through_core(name):
    """A method that C++ answers where it can, else the class's own `_name`."""
    def method(self, *args, **kwargs):
        if self._core is not None:
            return getattr(self._core, name)(*args, **kwargs)
        return getattr(self, "_" + name)(*args, **kwargs)

    method.__name__ = name
    return method


class _Composed(Distribution):
    """A distribution with a `_core` of C++'s, or None."""

    _core = None

    def sample(self, sample_shape=()):
        """Draws without a gradient."""
        return self._core.sample(shape_of(sample_shape)) if self._core is not None else self._sample(sample_shape)

    def rsample(self, sample_shape=()):
        """Reparametrised draws, with a gradient to the parameters."""
        return self._core.rsample(shape_of(sample_shape)) if self._core is not None else self._rsample(sample_shape)

    def _sample(self, sample_shape):
        with weft.no_grad():
            return self._rsample(sample_shape)

    def _rsample(self, sample_shape):
        raise self._missing("rsample")

    log_prob, cdf, icdf, entropy = (_through_core(name) for name in ("log_prob", "cdf", "icdf", "entropy"))

    def _cdf(self, value):
        raise self._missing("cdf")

    def _icdf(self, value):
        raise self._missing("icdf")

    def _entropy(self):
        raise self._missing("entropy")

    def in_support(self, value):
        """Whether values are possible."""
        return self._core.in_support(value) if self._core is not None else self.support.check(value)

    def _shape(self, name):
        return weft.Size(getattr(self._core, name)()) if self._core is not None else self.__dict__["_" + name]

    batch_shape = property(lambda self: self._shape("batch_shape"))
    event_shape = property(lambda self: self._shape("event_shape"))
    _batch_shape = property(lambda self: self.batch_shape, lambda self, shape: self.__dict__.update(_batch_shape=shape))
    _event_shape = property(lambda self: self.event_shape, lambda self, shape: self.__dict__.update(_event_shape=shape))

    def expand(self, batch_shape, _instance=None):
        """The distribution with its parameters expanded to another batch shape."""
        return wrapped(self._core.expand(shape_of(batch_shape))) if self._core is not None else self._expand(shape_of(batch_shape))

    def _moment(self, name):
        return getattr(self._core, name)() if self._core is not None else getattr(self, "_" + name)()

    mean = property(lambda self: self._moment("mean"))
    mode = property(lambda self: self._moment("mode"))
    variance = property(lambda self: self._moment("variance"))
    stddev = property(lambda self: self.variance.sqrt())

    def _mode(self):
        raise self._missing("mode")


class Independent(_Composed):
    """The last dimensions of the batch as the first of the event."""

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        self.base_dist, self.reinterpreted_batch_ndims = base_distribution, reinterpreted_batch_ndims
        base = core_of(base_distribution) if type(self) is Independent else None
        self._core = None if base is None else _made.Independent(base, reinterpreted_batch_ndims, validate_args)
        if self._core is None:
            batch, n = tuple(base_distribution.batch_shape), reinterpreted_batch_ndims
            if n > len(batch):
                raise ValueError(f"Independent(): expected at most {len(batch)} dimensions of the batch, got {n}")
            cut = len(batch) - n
            super().__init__(batch[:cut], batch[cut:] + tuple(base_distribution.event_shape), validate_args)

    def __getattr__(self, name):
        if name == "base_dist" and self._core is not None:
            return wrapped(self._core.parts()[0])
        if name == "reinterpreted_batch_ndims" and self._core is not None:
            return len(self.event_shape) - len(self.base_dist.event_shape)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    has_rsample = property(lambda self: self.base_dist.has_rsample)
    has_enumerate_support = property(lambda self: self.base_dist.has_enumerate_support and not self.reinterpreted_batch_ndims)

    @property
    def support(self):
        n, support = self.reinterpreted_batch_ndims, self.base_dist.support
        return constraints.independent(support, n) if n else support

    def _sample(self, sample_shape):
        return self.base_dist.sample(sample_shape)

    def _rsample(self, sample_shape):
        return self.base_dist.rsample(sample_shape)

    def _log_prob(self, value):
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def _entropy(self):
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def _mean(self):
        return self.base_dist.mean

    def _mode(self):
        return self.base_dist.mode

    def _variance(self):
        return self.base_dist.variance

    def _expand(self, batch_shape):
        inner = list(self.event_shape)[:self.reinterpreted_batch_ndims]
        return Independent(self.base_dist.expand([*batch_shape, *inner]), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand=True):
        if self.reinterpreted_batch_ndims:
            raise NotImplementedError("Independent(): values of several dimensions are not enumerated")
        return self.base_dist.enumerate_support(expand)

    def __repr__(self):
        if self._core is not None:
            return Distribution.__repr__(self)
        return f"Independent({self.base_dist}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(_Composed):
    """One of the components, chosen by a Categorical."""

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self.mixture_distribution, self.component_distribution = mixture_distribution, component_distribution
        cores = core_of(mixture_distribution), core_of(component_distribution)
        if type(self) is MixtureSameFamily and None not in cores:
            self._core = _made.MixtureSameFamily(*cores, validate_args)
            return
        components = component_distribution
        if tuple(mixture_distribution.batch_shape) not in ((), tuple(components.batch_shape[:-1])):
            raise ValueError(f"MixtureSameFamily(): batches {tuple(mixture_distribution.batch_shape)} and "
                             f"{tuple(components.batch_shape[:-1])} differ")
        super().__init__(components.batch_shape[:-1], components.event_shape, validate_args)

    def __getattr__(self, name):
        places = {"mixture_distribution": 0, "component_distribution": 1}
        if name in places and self._core is not None:
            return wrapped(self._core.parts()[places[name]])
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    support = property(lambda self: constraints._Mixture(self.component_distribution.support))

    def _weights(self):
        probs = self.mixture_distribution.probs
        return probs.reshape(*probs.shape, *[1] * len(self.event_shape))

    def _mean(self):
        return (self._weights() * self.component_distribution.mean).sum(-1 - len(self.event_shape))

    def _variance(self):
        dim, weights, components = -1 - len(self.event_shape), self._weights(), self.component_distribution
        within = (weights * components.variance).sum(dim)
        return within + (weights * (components.mean - self.mean.unsqueeze(dim)).square()).sum(dim)

    def _log_prob(self, value):
        values = value.unsqueeze(-1 - len(self.event_shape))
        return (self.component_distribution.log_prob(values) + self.mixture_distribution.logits.log_softmax(-1)).logsumexp(-1)

    def _cdf(self, value):
        return (self.component_distribution.cdf(value.unsqueeze(-1)) * self.mixture_distribution.probs).sum(-1)

    def _sample(self, sample_shape):
        with weft.no_grad():
            chosen = self.mixture_distribution.sample(sample_shape)
            draws, event = self.component_distribution.sample(sample_shape), len(self.event_shape)
            places = chosen.reshape(*chosen.shape, *[1] * (event + 1))
            places = places.expand([*chosen.shape, 1, *self.event_shape])
            return draws.gather(-1 - event, places).squeeze(-1 - event)

    def _expand(self, batch_shape):
        components = self.component_distribution
        return MixtureSameFamily(self.mixture_distribution.expand(batch_shape),
                                 components.expand([*batch_shape, components.batch_shape[-1]]))


class TransformedDistribution(_Composed):
    """The base distribution transformed by the transforms, in order."""

    def __init__(self, base_distribution, transforms, validate_args=None):
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        if not all(isinstance(t, Transform) for t in self.transforms):
            raise ValueError(f"TransformedDistribution(): expected transforms, got {transforms!r}")
        self.base_dist = base_distribution
        base = core_of(base_distribution) if type(self) is TransformedDistribution else None
        if base is not None and all(map(_is_native, self.transforms)):
            self._core = _made.TransformedDistribution(base, [t._core for t in self.transforms], validate_args)
            return
        self._shape_base(base_distribution)

    def _shape_base(self, base):
        """Expands the base to the sizes that the transforms need."""
        whole, shape = ComposeTransform(self.transforms), (*base.batch_shape, *base.event_shape)
        if len(shape) < whole.domain.event_dim:
            raise ValueError(f"TransformedDistribution(): the transforms need {whole.domain.event_dim} dimensions, the base has "
                             f"shape {list(shape)}")
        result = tuple(whole.forward_shape(shape))
        needed = tuple(whole.inverse_shape(result))
        event = len(base.event_shape)
        if needed != tuple(shape):
            base = base.expand(needed[:len(needed) - event])
        added = whole.domain.event_dim - event
        self.base_dist = Independent(base, added) if added > 0 else base
        event = max(whole.codomain.event_dim, event + whole.codomain.event_dim - whole.domain.event_dim)
        cut = len(result) - event
        Distribution.__init__(self, result[:cut], result[cut:])

    def __getattr__(self, name):
        if name == "base_dist" and self._core is not None:
            return wrapped(self._core.parts()[0])
        if name == "transforms" and self._core is not None:
            return [_transform_of(core) for core in self._core.transforms()]
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    has_rsample = property(lambda self: self.base_dist.has_rsample)

    @property
    def support(self):
        if not self.transforms:
            return self.base_dist.support
        last = self.transforms[-1].codomain
        added = len(self.event_shape) - last.event_dim
        return constraints.independent(last, added) if added > 0 else last

    def _sample(self, sample_shape):
        with weft.no_grad():
            return self._forward(self.base_dist.sample(sample_shape))

    def _rsample(self, sample_shape):
        return self._forward(self.base_dist.rsample(sample_shape))

    def _forward(self, x):
        for transform in self.transforms:
            x = transform(x)
        return x

    def _log_prob(self, value):
        event, total, y = len(self.event_shape), 0.0, value
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            event += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), event - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), event - len(self.base_dist.event_shape))

    def _is_rising(self):
        signs = [transform.sign for transform in self.transforms]
        if any(sign is None for sign in signs):
            raise self._missing("cdf: a transform has no sign")
        return functools.reduce(operator.mul, signs, 1)

    def _cdf(self, value):
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        below, sign = self.base_dist.cdf(value), self._is_rising()
        return sign * (below - 0.5) + 0.5

    def _icdf(self, value):
        return self._forward(self.base_dist.icdf(self._is_rising() * (value - 0.5) + 0.5))

    def _mean(self):
        raise self._missing("mean")

    def _variance(self):
        raise self._missing("variance")

    def _expand(self, batch_shape):
        shape = ComposeTransform(self.transforms).inverse_shape((*batch_shape, *self.event_shape))
        base = self.base_dist.expand(shape[:len(shape) - len(self.base_dist.event_shape)])
        return TransformedDistribution(base, self.transforms)


def _is_native(transform):
    plain = isinstance(transform, (_NativeTransform, AffineTransform, _Inverse)) and transform._core is not None
    return plain and not transform._cache_size


class _OfCore(_NativeTransform):
    """A transform that C++ gave back."""

    def __init__(self, core):
        super().__init__()
        self._core = core

    def __eq__(self, other):
        return isinstance(other, Transform) and other._core is not None and self._core == other._core

    __hash__ = Transform.__hash__


_transform_of = _OfCore
