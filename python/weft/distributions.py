"""Probability distributions under PyTorch's names (torch.distributions)."""

from weft import _core

_made = _core._distributions

__all__ = ["Distribution", "Transform", "kl_divergence"]


def _shape(shape):
    return [shape] if isinstance(shape, int) else list(shape)


class Distribution:
    """Base of all; see docs/distributions.md."""

    _parameters: tuple = ()

    def __init__(self, core):
        self._core = core

    @staticmethod
    def set_default_validate_args(value):
        _made.set_default_validate_args(bool(value))

    def sample(self, sample_shape=()):
        """Draws of shape sample_shape + batch_shape + event_shape, without a gradient."""
        return self._core.sample(_shape(sample_shape))

    def rsample(self, sample_shape=()):
        """Reparametrised draws, with a gradient to the parameters."""
        return self._core.rsample(_shape(sample_shape))

    def log_prob(self, value):
        return self._core.log_prob(value)

    def cdf(self, value):
        return self._core.cdf(value)

    def icdf(self, value):
        return self._core.icdf(value)

    def entropy(self):
        return self._core.entropy()

    def perplexity(self):
        return self.entropy().exp()

    def enumerate_support(self, expand=True):
        return self._core.enumerate_support(expand)

    def in_support(self, value):
        """Whether values are possible."""
        return self._core.in_support(value)

    def expand(self, batch_shape):
        return _wrap(self._core.expand(_shape(batch_shape)))

    batch_shape = property(lambda self: self._core.batch_shape())
    event_shape = property(lambda self: self._core.event_shape())
    has_rsample = property(lambda self: self._core.has_rsample())
    mean = property(lambda self: self._core.mean())
    mode = property(lambda self: self._core.mode())
    variance = property(lambda self: self._core.variance())
    stddev = property(lambda self: self._core.stddev())

    def __getattr__(self, name):
        if name in type(self)._parameters:
            return self._core.parameter(name)
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __repr__(self):
        return f"{type(self).__name__}(batch_shape: {self.batch_shape}, event_shape: {self.event_shape})"


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
    return _public(type(name, (Distribution,), body))


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
class Chi2(Distribution):
    """Gamma(df / 2, 1 / 2)."""

    _parameters = ("df", "concentration", "rate")

    def __init__(self, df, validate_args=None):
        self._core = _made.Chi2(df, validate_args)


@_public
class StudentT(Distribution):
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
    return _public(type(name, (Distribution,), body))


Bernoulli = _of_chances("Bernoulli", "1 with a probability, else 0.")
Geometric = _of_chances("Geometric", "Failures before the first success.")
Categorical = _of_chances("Categorical", "Class numbers.")
OneHotCategorical = _of_chances("OneHotCategorical", "Vectors of a 1 among zeros.")


@_public
class Binomial(Distribution):
    """How many of total_count trials succeed."""

    _parameters = ("total_count", "probs", "logits")

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self._core = _made.Binomial(total_count, *_chances("Binomial", probs, logits), validate_args)


@_public
class Multinomial(Distribution):
    """How often each class came in total_count draws."""

    _parameters = ("probs", "logits")

    def __init__(self, total_count=1, probs=None, logits=None, validate_args=None):
        self.total_count = total_count
        self._core = _made.Multinomial(total_count, *_chances("Multinomial", probs, logits), validate_args)


@_public
class MultivariateNormal(Distribution):
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


class Transform:
    """An invertible function of single numbers."""

    def __init__(self, core):
        self._core = core

    def __call__(self, x):
        return self._core(x)

    @property
    def inv(self):
        return Transform(self._core.inverse())

    def log_abs_det_jacobian(self, x, y):
        return self._core.log_abs_det_jacobian(x, y)

    def __eq__(self, other):
        return isinstance(other, Transform) and self._core == other._core

    __hash__ = object.__hash__

    def __repr__(self):
        return self._core.text()


def ExpTransform():
    return Transform(_made.ExpTransform())


def SigmoidTransform():
    return Transform(_made.SigmoidTransform())


def TanhTransform():
    return Transform(_made.TanhTransform())


def AffineTransform(loc, scale):
    """loc + scale x."""
    return Transform(_made.AffineTransform(loc, scale))


__all__ += ["ExpTransform", "SigmoidTransform", "TanhTransform", "AffineTransform"]


def kl_divergence(p, q):
    """E_p[log p(x) - log q(x)] in closed form."""
    return _made.kl(p._core, q._core)
