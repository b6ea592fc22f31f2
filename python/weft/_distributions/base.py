"""The base of all distributions."""
# mypy: ignore-errors

import functools
import warnings

import weft
from weft import _core, _methods
from weft._distributions import constraints
from weft.errors import ValueError

_made = _core._distributions
__all__ = ["Distribution", "ExponentialFamily", "broadcast_all", "lazy_property", "shape_of"]


def shape_of(shape):
    """A shape given as a number or a sequence, as a list."""
    return [int(shape)] if not hasattr(shape, "__iter__") else [int(n) for n in shape]


def broadcast_all(*values):
    """Tensors and numbers as tensors of one shape; numbers have the dtype of the tensors, or the default one."""
    tensors = [v for v in values if isinstance(v, weft.Tensor)]
    like = {"dtype": tensors[0].dtype, "device": tensors[0].device} if tensors else {"dtype": weft.get_default_dtype()}
    return weft.broadcast_tensors(*[v if isinstance(v, weft.Tensor) else weft.full((), v, **like) for v in values])


def _of_tensors(log_prob):
    """log_prob that takes no numbers while `import torch` means Weft, as PyTorch's."""
    @functools.wraps(log_prob)
    def checked(self, value):
        if _methods.type_prefix == "torch" and not isinstance(value, weft.Tensor):
            raise ValueError(f"log_prob(): argument 'value': expected a Tensor, got {type(value).__name__}")
        return log_prob(self, value)

    return checked


class lazy_property:
    """A property that is computed once."""

    def __init__(self, wrapped):
        self.wrapped = wrapped
        functools.update_wrapper(self, wrapped)

    def __get__(self, instance, owner=None):
        if instance is None:
            return self
        with weft.enable_grad():
            value = self.wrapped(instance)
        instance.__dict__[self.wrapped.__name__] = value
        return value


class Distribution:
    """The base of all; see docs/distributions.md. A subclass calls super().__init__(batch_shape, event_shape) and writes
    sample or rsample, and log_prob."""

    has_rsample, has_enumerate_support = False, False
    _validate_args = True
    arg_constraints: dict = {}

    def __init__(self, batch_shape=(), event_shape=(), validate_args=None):
        self._batch_shape, self._event_shape = weft.Size(tuple(batch_shape)), weft.Size(tuple(event_shape))
        if validate_args is not None:
            self._validate_args = bool(validate_args)
        if self._validate_args:
            self._check_arguments()

    def _check_arguments(self):
        """Raises ValueError for a parameter outside its constraint."""
        for name, constraint in self.arg_constraints.items():
            if constraints.is_dependent(constraint) or name not in self.__dict__:
                continue
            value = self.__dict__[name]
            if isinstance(value, weft.Tensor) and not bool(constraint.check(value.detach()).all()):
                raise ValueError(f"{type(self).__name__}(): parameter '{name}': expected values in {constraint!r}, got {value}")

    def __init_subclass__(cls, **options):
        super().__init_subclass__(**options)
        if "log_prob" in cls.__dict__:
            cls.log_prob = _of_tensors(cls.log_prob)

    @staticmethod
    def set_default_validate_args(value):
        """Switches the checks of parameters and values on or off for all."""
        Distribution._validate_args = bool(value)
        _made.set_default_validate_args(bool(value))

    batch_shape = property(lambda self: self._batch_shape)
    event_shape = property(lambda self: self._event_shape)

    def _missing(self, what):
        return NotImplementedError(f"{type(self).__name__} has no {what}")

    @property
    def support(self):
        raise self._missing("support")

    @property
    def mean(self):
        raise self._missing("mean")

    @property
    def mode(self):
        raise self._missing("mode")

    @property
    def variance(self):
        raise self._missing("variance")

    stddev = property(lambda self: self.variance.sqrt())

    def sample(self, sample_shape=()):
        """Draws of shape sample_shape + batch_shape + event_shape, without a gradient."""
        with weft.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=()):
        """Reparametrised draws, with a gradient to the parameters."""
        raise self._missing("rsample")

    def sample_n(self, n):
        warnings.warn("sample_n(n) is sample((n,))", UserWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value):
        raise self._missing("log_prob")

    def cdf(self, value):
        raise self._missing("cdf")

    def icdf(self, value):
        raise self._missing("icdf")

    def entropy(self):
        raise self._missing("entropy")

    def perplexity(self):
        return self.entropy().exp()

    def enumerate_support(self, expand=True):
        raise self._missing("enumerate_support")

    def in_support(self, value):
        """Whether values are possible."""
        return self.support.check(value)

    def expand(self, batch_shape, _instance=None):
        """The distribution with its parameters expanded to another batch shape."""
        raise self._missing("expand")

    def _get_checked_instance(self, cls, _instance=None):
        if _instance is None and type(self).__init__ is not cls.__init__:
            raise NotImplementedError(f"{type(self).__name__} defines __init__ and must define expand, too")
        return type(self).__new__(type(self)) if _instance is None else _instance

    def _extended_shape(self, sample_shape=()):
        return (*shape_of(sample_shape), *self.batch_shape, *self.event_shape)

    def _validate_sample(self, value):
        """Raises ValueError for a value of another shape, or outside the support."""
        if not isinstance(value, weft.Tensor):
            raise ValueError(f"value: expected a Tensor, got {type(value).__name__}")
        event = tuple(self.event_shape)
        if event and tuple(value.shape[value.ndim - len(event):]) != event:
            raise ValueError(f"value: expected the last sizes {list(event)}, got shape {list(value.shape)}")
        try:
            support = self.support
        except NotImplementedError:
            return
        if not bool(support.check(value).all()):
            raise ValueError(f"{type(self).__name__}: expected values in {support!r}, got {value}")

    def __repr__(self):
        return f"{type(self).__name__}(batch_shape: {tuple(self.batch_shape)}, event_shape: {tuple(self.event_shape)})"


class ExponentialFamily(Distribution):
    """A distribution of an exponential family."""
