"""Probability distributions under PyTorch's names (torch.distributions)."""

from weft import _core
from weft._distributions import constraints, transforms
from weft._distributions.base import Distribution, ExponentialFamily, shape_of
from weft._distributions.transforms import *  # noqa: F401, F403
from weft._distributions.transforms import Transform

_made = _core._distributions

__all__ = ["Distribution", "ExponentialFamily", "Transform", "constraints", "kl_divergence", "transforms"]


class _Native(ExponentialFamily):
    """A distribution that C++ computes."""

    _parameters: tuple = ()
    _supports = constraints.real

    def __init__(self, core):
        self._core = core

    def sample(self, sample_shape=()):
        """Draws of shape sample_shape + batch_shape + event_shape, without a gradient."""
        return self._core.sample(shape_of(sample_shape))

    def rsample(self, sample_shape=()):
        """Reparametrised draws, with a gradient to the parameters."""
        return self._core.rsample(shape_of(sample_shape))

    def log_prob(self, value):
        return self._core.log_prob(value)

    def cdf(self, value):
        return self._core.cdf(value)

    def icdf(self, value):
        return self._core.icdf(value)

    def entropy(self):
        return self._core.entropy()

    def enumerate_support(self, expand=True):
        return self._core.enumerate_support(expand)

    def in_support(self, value):
        """Whether values are possible."""
        return self._core.in_support(value)

    def expand(self, batch_shape, _instance=None):
        made = _wrap(self._core.expand(shape_of(batch_shape)))
        if type(made) is not type(self) and isinstance(self, type(made)):  # a subclass of the user's
            made.__class__ = type(self)
            made.__dict__.update({k: v for k, v in self.__dict__.items() if k != "_core"})
        return made

    batch_shape = property(lambda self: self._core.batch_shape())
    event_shape = property(lambda self: self._core.event_shape())
    has_rsample = property(lambda self: self._core.has_rsample())
    mean = property(lambda self: self._core.mean())
    mode = property(lambda self: self._core.mode())
    variance = property(lambda self: self._core.variance())
    stddev = property(lambda self: self._core.stddev())

    @property
    def support(self):
        """The set of possible values."""
        return self._supports(self) if callable(self._supports) else self._supports

    def __getattr__(self, name):
        if name in type(self)._parameters and "_core" in self.__dict__:
            return self._core.parameter(name)
        if name == "_param" and "_core" in self.__dict__:  # of Categorical and its like
            return self.logits
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


_classes: dict = {}


def _public(cls):
    _classes[cls.__name__] = cls
    __all__.append(cls.__name__)
    return cls


def _wrap(core):
    self = object.__new__(_classes[core.name()])
    self._core = core
    return self


def _of_parameters(name, parameters, document):
    """A class with its parameters as arguments, in order."""

    def __init__(self, *args, validate_args=None, **kwargs):
        if len(args) == len(parameters) + 1:
            *args, validate_args = args
        given = dict(zip(parameters, args))
        for key, value in kwargs.items():
            if key not in parameters or key in given:
                raise TypeError(f"{name}() got an unexpected argument '{key}'")
            given[key] = value
        missing = [p for p in parameters if p not in given]
        if missing or len(args) > len(parameters):
            raise TypeError(f"{name}() takes {', '.join(parameters)}")
        self._core = getattr(_made, name)(*(given[p] for p in parameters), validate_args)

    body = {"__init__": __init__, "__doc__": document, "_parameters": parameters, "__module__": __name__}
    return _public(type(name, (_Native,), body))


Normal = _of_parameters("Normal", ("loc", "scale"), "Around loc with the standard deviation scale.")
LogNormal = _of_parameters("LogNormal", ("loc", "scale"), "exp of a normal number.")
HalfNormal = _of_parameters("HalfNormal", ("scale",), "|x| of a normal number around 0.")
Uniform = _of_parameters("Uniform", ("low", "high"), "On [low, high).")
Laplace = _of_parameters("Laplace", ("loc", "scale"), "Density exp(-|x - loc| / scale) / (2 scale).")
Cauchy = _of_parameters("Cauchy", ("loc", "scale"), "Density 1 / (pi scale (1 + ((x - loc) / scale)**2)).")
Gumbel = _of_parameters("Gumbel", ("loc", "scale"), "Of the largest of many.")
Exponential = _of_parameters("Exponential", ("rate",), "Density rate exp(-rate x).")
Gamma = _of_parameters("Gamma", ("concentration", "rate"), "With shape concentration.")
Beta = _of_parameters("Beta", ("concentration1", "concentration0"), "On [0, 1].")
Poisson = _of_parameters("Poisson", ("rate",), "Counts with a mean of rate.")
Dirichlet = _of_parameters("Dirichlet", ("concentration",), "Of vectors that add up to 1.")


@_public
class Chi2(_Native):
    """Gamma(df / 2, 1 / 2)."""

    _parameters = ("df", "concentration", "rate")

    def __init__(self, df, validate_args=None):
        self._core = _made.Chi2(df, validate_args)


@_public
class StudentT(_Native):
    """Student's t with df degrees of freedom."""

    _parameters = ("df", "loc", "scale")

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self._core = _made.StudentT(df, loc, scale, validate_args)


def _chances(name, probs, logits):
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}() takes either 'probs' or 'logits'")
    return (probs, False) if logits is None else (logits, True)


def _of_chances(name, document):
    def __init__(self, probs=None, logits=None, validate_args=None):
        self._core = getattr(_made, name)(*_chances(name, probs, logits), validate_args)

    body = {"__init__": __init__, "__doc__": document, "_parameters": ("probs", "logits"), "__module__": __name__}
    return _public(type(name, (_Native,), body))


Bernoulli = _of_chances("Bernoulli", "1 with a probability, else 0.")
Geometric = _of_chances("Geometric", "Failures before the first success.")
Categorical = _of_chances("Categorical", "Class numbers.")
OneHotCategorical = _of_chances("OneHotCategorical", "Vectors of a 1 among zeros.")


@_public
class Binomial(_Native):
    """How many of total_count trials succeed."""

    _parameters = ("total_count", "probs", "logits")

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self._core = _made.Binomial(total_count, *_chances("Binomial", probs, logits), validate_args)


@_public
class Multinomial(_Native):
    """How often each class came in total_count draws."""

    _parameters = ("probs", "logits")

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.total_count = total_count
        self._core = _made.Multinomial(total_count, *_chances("Multinomial", probs, logits), validate_args)


@_public
class MultivariateNormal(_Native):
    """Of vectors, from one of the covariance, its inverse and its lower triangular factor."""

    _parameters = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        self._core = _made.MultivariateNormal(loc, covariance_matrix, precision_matrix, scale_tril, validate_args)


class _Composed(Distribution):
    base_dist = property(lambda self: _wrap(self._core.parts()[0]))


@_public
class Independent(_Composed):
    """The last dimensions of the batch as the first of the event."""

    def __init__(self, base_distribution, reinterpreted_batch_ndims, validate_args=None):
        self._core = _made.Independent(base_distribution._core, reinterpreted_batch_ndims, validate_args)


@_public
class MixtureSameFamily(Distribution):
    """One of the components, chosen by a Categorical."""

    mixture_distribution = property(lambda self: _wrap(self._core.parts()[0]))
    component_distribution = property(lambda self: _wrap(self._core.parts()[1]))

    def __init__(self, mixture_distribution, component_distribution, validate_args=None):
        self._core = _made.MixtureSameFamily(mixture_distribution._core, component_distribution._core, validate_args)


@_public
class TransformedDistribution(_Composed):
    """The base distribution transformed by the transforms, in order."""

    transforms = property(lambda self: [Transform(core) for core in self._core.transforms()])

    def __init__(self, base_distribution, transforms, validate_args=None):
        transforms = [transforms] if isinstance(transforms, Transform) else transforms
        self._core = _made.TransformedDistribution(base_distribution._core, [t._core for t in transforms], validate_args)


def kl_divergence(p, q):
    """E_p[log p(x) - log q(x)] in closed form."""
    return _made.kl(p._core, q._core)
