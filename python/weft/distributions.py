"""Probability distributions under PyTorch's names (torch.distributions)."""
# mypy: ignore-errors

import weft
from weft import _core
from weft._distributions import constraints, transforms
from weft._distributions import kl, more as _more, vectors as _vectors
from weft._distributions.base import Distribution, ExponentialFamily, shape_of
from weft._distributions.composed import Independent, MixtureSameFamily, TransformedDistribution
from weft._distributions.composed import native_classes as _classes, wrapped as _wrap
from weft._distributions.kl import kl_divergence, register_kl  # noqa: F401
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

    batch_shape = _batch_shape = property(lambda self: weft.Size(self._core.batch_shape()))
    event_shape = _event_shape = property(lambda self: weft.Size(self._core.event_shape()))
    has_rsample = property(lambda self: self._core.has_rsample())
    mean = property(lambda self: self._core.mean())
    mode = property(lambda self: self._core.mode())
    variance = property(lambda self: self._core.variance())
    stddev = property(lambda self: self._core.stddev())

    @property
    def support(self):
        """The set of possible values."""
        found = type(self)._supports
        return found if isinstance(found, constraints.Constraint) else found(self)

    def __getattr__(self, name):
        if name in type(self)._parameters and "_core" in self.__dict__:
            return self._core.parameter(name)
        if name == "_param" and "_core" in self.__dict__:  # of Categorical and its like
            return self.logits
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")


def _public(cls):
    _classes[cls.__name__] = cls
    __all__.append(cls.__name__)
    return cls


def _of_parameters(name, parameters, document, support=constraints.real, **arguments):
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

    body = {"__init__": __init__, "__doc__": document, "_parameters": parameters, "__module__": __name__, "_supports": support,
            "arg_constraints": {**{p: constraints.real if p == "loc" else constraints.positive for p in parameters}, **arguments}}
    return _public(type(name, (_Native,), body))


Normal = _of_parameters("Normal", ("loc", "scale"), "Around loc with the standard deviation scale.")
LogNormal = _of_parameters("LogNormal", ("loc", "scale"), "exp of a normal number.",
                           constraints.positive)
HalfNormal = _of_parameters("HalfNormal", ("scale",), "|x| of a normal number around 0.",
                            constraints.nonnegative)
Uniform = _of_parameters("Uniform", ("low", "high"), "On [low, high).",
                         lambda self: constraints.interval(self.low, self.high),
                         low=constraints.dependent, high=constraints.dependent)
Laplace = _of_parameters("Laplace", ("loc", "scale"), "Density exp(-|x - loc| / scale) / (2 scale).")
Cauchy = _of_parameters("Cauchy", ("loc", "scale"), "Density 1 / (pi scale (1 + ((x - loc) / scale)**2)).")
Gumbel = _of_parameters("Gumbel", ("loc", "scale"), "Of the largest of many.")
Exponential = _of_parameters("Exponential", ("rate",), "Density rate exp(-rate x).",
                             constraints.nonnegative)
Gamma = _of_parameters("Gamma", ("concentration", "rate"), "With shape concentration.",
                       constraints.nonnegative)
Beta = _of_parameters("Beta", ("concentration1", "concentration0"), "On [0, 1].",
                      constraints.unit_interval)
Poisson = _of_parameters("Poisson", ("rate",), "Counts with a mean of rate.",
                         constraints.nonnegative_integer)
Dirichlet = _of_parameters("Dirichlet", ("concentration",), "Of vectors that add up to 1.",
                           constraints.simplex)


@_public
class Chi2(_Native):
    """Gamma(df / 2, 1 / 2)."""

    _supports, arg_constraints = constraints.positive, {"df": constraints.positive}

    _parameters = ("df", "concentration", "rate")

    def __init__(self, df, validate_args=None):
        self._core = _made.Chi2(df, validate_args)


@_public
class StudentT(_Native):
    """Student's t with df degrees of freedom."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}

    _parameters = ("df", "loc", "scale")

    def __init__(self, df, loc=0.0, scale=1.0, validate_args=None):
        self._core = _made.StudentT(df, loc, scale, validate_args)


def _chances(name, probs, logits):
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}() takes either 'probs' or 'logits'")
    return (probs, False) if logits is None else (logits, True)


def _of_chances(name, document, support, enumerates=True):
    def __init__(self, probs=None, logits=None, validate_args=None):
        self._core = getattr(_made, name)(*_chances(name, probs, logits), validate_args)

    vectors = "Categorical" in name
    body = {"__init__": __init__, "__doc__": document, "_parameters": ("probs", "logits"), "__module__": __name__,
            "_supports": support, "has_enumerate_support": enumerates,
            "arg_constraints": {"probs": constraints.simplex if vectors else constraints.unit_interval,
                                "logits": constraints.real_vector if vectors else constraints.real}}
    return _public(type(name, (_Native,), body))


Bernoulli = _of_chances("Bernoulli", "1 with a probability, else 0.", constraints.boolean)
Geometric = _of_chances("Geometric", "Failures before the first success.", constraints.nonnegative_integer, False)
Categorical = _of_chances("Categorical", "Class numbers.",
                          lambda self: constraints.integer_interval(0, self.probs.shape[-1] - 1))
OneHotCategorical = _of_chances("OneHotCategorical", "Vectors of a 1 among zeros.", constraints.one_hot)
OneHotCategorical._categorical = property(lambda self: Categorical(logits=self.logits), doc="The numbers of the ones.")


@_public
class Binomial(_Native):
    """How many of total_count trials succeed."""

    _supports, has_enumerate_support = (lambda self: constraints.integer_interval(0, self.total_count)), True
    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}

    _parameters = ("total_count", "probs", "logits")

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self._core = _made.Binomial(total_count, *_chances("Binomial", probs, logits), validate_args)


@_public
class Multinomial(_Native):
    """How often each class came in total_count draws."""

    _supports = lambda self: constraints.multinomial(self.total_count)  # noqa: E731
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    _parameters = ("probs", "logits")

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.total_count = total_count
        self._core = _made.Multinomial(total_count, *_chances("Multinomial", probs, logits), validate_args)


@_public
class MultivariateNormal(_Native):
    """Of vectors, from one of the covariance, its inverse and its lower triangular factor."""

    _supports = constraints.real_vector
    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}

    _parameters = ("loc", "covariance_matrix", "precision_matrix", "scale_tril")

    def __init__(self, loc, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        self._core = _made.MultivariateNormal(loc, covariance_matrix, precision_matrix, scale_tril, validate_args)


for _class in (Independent, MixtureSameFamily, TransformedDistribution):
    _public(_class)

for _module in (_more, _vectors):
    for _name in _module.__all__:
        globals()[_name] = getattr(_module, _name)
        __all__.append(_name)


@_public
class OneHotCategoricalStraightThrough(OneHotCategorical):
    """OneHotCategorical whose rsample has the gradient of the probabilities."""

    has_rsample = True

    def rsample(self, sample_shape=()):
        draws, probs = self.sample(sample_shape), self.probs
        return draws + (probs - probs.detach())

    def expand(self, batch_shape, _instance=None):
        return type(self)(logits=self.logits.expand([*shape_of(batch_shape), *self.event_shape]))


_registry = {}


def _registered(direct):
    """biject_to or transform_to: the transform from all numbers to a constraint."""
    def choose(constraint):
        kind = type(constraint)
        if kind in _registry:
            return _registry[kind](constraint)
        return _usual(constraint, direct)

    def register(constraint, factory=None):
        if factory is None:
            return lambda given: register(constraint, given)
        _registry[constraint if isinstance(constraint, type) else type(constraint)] = factory
        return factory

    choose.register = register
    return choose


def _usual(constraint, direct):
    if isinstance(constraint, constraints.independent):
        return IndependentTransform(_usual(constraint.base_constraint, direct), constraint.reinterpreted_batch_ndims)
    if isinstance(constraint, constraints._Bounds) and not constraint.is_discrete:
        low, high = constraint.lower_bound, constraint.upper_bound
        if low is None and high is None:
            return identity_transform
        if low is None or high is None:
            return ComposeTransform([ExpTransform(), AffineTransform(high if low is None else low, -1 if low is None else 1)])
        return ComposeTransform([SigmoidTransform(), AffineTransform(low, high - low)])
    kinds = {constraints._Simplex: StickBreakingTransform if direct else SoftmaxTransform,
             constraints._LowerCholesky: LowerCholeskyTransform, constraints._CorrCholesky: CorrCholeskyTransform,
             constraints._PositiveDefinite: PositiveDefiniteTransform}
    if type(constraint) not in kinds:
        raise NotImplementedError(f"there is no transform from all numbers to {constraint!r}")
    return kinds[type(constraint)]()


def _as_full(given):
    """A normal distribution of low rank with its whole covariance matrix."""
    return MultivariateNormal(given.loc, given.covariance_matrix) if isinstance(given, LowRankMultivariateNormal) else given


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
@register_kl(LowRankMultivariateNormal, MultivariateNormal)
@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p, q):
    return kl_divergence(_as_full(p), _as_full(q))


biject_to, transform_to = _registered(True), _registered(False)
__all__ += ["biject_to", "register_kl", "transform_to"]
del _module, _name, _class
