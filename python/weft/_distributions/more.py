"""Distributions of numbers that are functions of others, or that C++ lacks."""
# mypy: ignore-errors

import math

import weft
from weft import special
from weft._distributions import constraints
from weft._distributions.base import Distribution, broadcast_all, shape_of
from weft._distributions.composed import TransformedDistribution
from weft._distributions.transforms import AffineTransform, ExpTransform, PowerTransform, SigmoidTransform
from weft.nn import functional as F

__all__ = ["ContinuousBernoulli", "FisherSnedecor", "GeneralizedPareto", "HalfCauchy", "InverseGamma", "Kumaraswamy",
           "LogitRelaxedBernoulli", "NegativeBinomial", "Pareto", "RelaxedBernoulli", "VonMises", "Weibull"]
_EULER = 0.57721566490153286


def _one_of(name, probs, logits):
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}() takes either 'probs' or 'logits'")


def clamp_probs(probs):
    """Probabilities that are neither 0 nor 1."""
    eps = weft.finfo(probs.dtype).eps
    return probs.clamp(eps, 1 - eps)


def probs_to_logits(probs, is_binary=False):
    """log(p), or log(p / (1 - p)) of one of two outcomes."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def logits_to_probs(logits, is_binary=False):
    """softmax along the last dimension, or sigmoid of one of two outcomes."""
    return logits.sigmoid() if is_binary else F.softmax(logits, dim=-1)


def tril_matrix_to_vec(mat, diag=0):
    """The elements on and below a diagonal of [..., n, n], row by row."""
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"diag: expected a number in [{-n}, {n - 1}], got {diag}")
    return mat[..., weft.ones(n, n, dtype=weft.bool, device=mat.device).tril(diag)]


def vec_to_tril_matrix(vec, diag=0):
    """The inverse of tril_matrix_to_vec; elements above the diagonal are 0."""
    count = vec.shape[-1]
    n = (-(1 + 2 * diag) + ((1 + 2 * diag) ** 2 + 8 * count + 4 * abs(diag) * (diag + 1)) ** 0.5) / 2
    if round(n) - n > weft.finfo(vec.dtype).eps or round(n) != n:
        raise ValueError(f"the size of the last dimension is {count}, which is no number of elements below a diagonal {diag}")
    n = round(n)
    mask = weft.ones(n, n, dtype=weft.bool, device=vec.device).tril(diag)
    matrix = vec.new_zeros(*vec.shape[:-1], n, n)
    matrix[..., mask] = vec
    return matrix


class _OfParameters(Distribution):
    """A distribution of numbers with attributes `parameters` of one shape."""

    parameters: tuple = ()

    def _take(self, validate_args, **values):
        for name, tensor in zip(values, broadcast_all(*values.values())):
            setattr(self, name, tensor)
        super().__init__(getattr(self, next(iter(values))).shape, (), validate_args)

    def expand(self, batch_shape, _instance=None):
        shape = tuple(shape_of(batch_shape))
        return type(self)(**{name: getattr(self, name).expand(shape) for name in self.parameters}, validate_args=False)


class _Transformed(TransformedDistribution):
    """A transformed distribution with attributes `parameters` of one shape."""

    parameters: tuple = ()

    def _expand(self, batch_shape):
        shape = tuple(batch_shape)
        return type(self)(**{name: getattr(self, name).expand(shape) for name in self.parameters}, validate_args=False)


class Pareto(_Transformed):
    """Density alpha scale**alpha / x**(alpha + 1) above scale."""

    parameters = ("scale", "alpha")
    arg_constraints = {"alpha": constraints.positive, "scale": constraints.positive}

    def __init__(self, scale, alpha, validate_args=None):
        from weft.distributions import Exponential

        self.scale, self.alpha = broadcast_all(scale, alpha)
        super().__init__(Exponential(self.alpha), [ExpTransform(), AffineTransform(0, self.scale)], validate_args)

    support = property(lambda self: constraints.greater_than_eq(self.scale))

    def _mean(self):
        a = self.alpha.clamp(min=1)
        return a * self.scale / (a - 1)

    def _mode(self):
        return self.scale

    def _variance(self):
        a = self.alpha.clamp(min=2)
        return self.scale.square() * a / ((a - 1).square() * (a - 2))

    def _entropy(self):
        return (self.scale / self.alpha).log() + (1 + self.alpha.reciprocal())


class Weibull(_Transformed):
    """(an exponential number)**(1 / concentration) scale."""

    parameters, support = ("scale", "concentration"), constraints.positive
    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}

    def __init__(self, scale, concentration, validate_args=None):
        from weft.distributions import Exponential

        self.scale, self.concentration = broadcast_all(scale, concentration)
        super().__init__(Exponential(weft.ones_like(self.scale)),
                         [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)], validate_args)

    def _mean(self):
        return self.scale * (1 + self.concentration.reciprocal()).lgamma().exp()

    def _mode(self):
        c = self.concentration
        return self.scale * ((c - 1) / c).clamp(min=0) ** c.reciprocal()

    def _variance(self):
        inverse = self.concentration.reciprocal()
        return self.scale.square() * ((1 + 2 * inverse).lgamma().exp() - (2 * (1 + inverse).lgamma()).exp())

    def _entropy(self):
        return _EULER * (1 - self.concentration.reciprocal()) + (self.scale / self.concentration).log() + 1


class Kumaraswamy(_Transformed):
    """On [0, 1], with the cdf 1 - (1 - x**concentration1)**concentration0."""

    parameters, support = ("concentration1", "concentration0"), constraints.unit_interval
    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}

    def __init__(self, concentration1, concentration0, validate_args=None):
        from weft.distributions import Uniform

        self.concentration1, self.concentration0 = a, b = broadcast_all(concentration1, concentration0)
        super().__init__(Uniform(weft.zeros_like(b), weft.ones_like(b)),
                         [PowerTransform(b.reciprocal()), AffineTransform(1.0, -1.0), PowerTransform(a.reciprocal())], validate_args)

    def _moment_of(self, n):
        a, b = self.concentration1, self.concentration0
        return b * ((1 + n / a).lgamma() + b.lgamma() - (1 + n / a + b).lgamma()).exp()

    def _mean(self):
        return self._moment_of(1)

    def _variance(self):
        return self._moment_of(2) - self._moment_of(1).square()

    def _mode(self):
        a, b = self.concentration1, self.concentration0
        return weft.where((a < 1) | (b < 1), math.nan, ((a - 1) / (a * b - 1)) ** a.reciprocal())

    def _entropy(self):
        a, b = self.concentration1, self.concentration0
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * (special.digamma(b + 1) + _EULER) - a.log() - b.log()


class InverseGamma(_Transformed):
    """1 / (a number of Gamma(concentration, rate))."""

    parameters, support = ("concentration", "rate"), constraints.positive
    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}

    def __init__(self, concentration, rate, validate_args=None):
        from weft.distributions import Gamma

        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(Gamma(self.concentration, self.rate), [PowerTransform(-weft.ones_like(self.rate))], validate_args)

    def _mean(self):
        return weft.where(self.concentration > 1, self.rate / (self.concentration - 1), math.inf)

    def _mode(self):
        return self.rate / (self.concentration + 1)

    def _variance(self):
        c = self.concentration
        return weft.where(c > 2, self.rate.square() / ((c - 1).square() * (c - 2)), math.inf)

    def _entropy(self):
        c = self.concentration
        return c + self.rate.log() + c.lgamma() - (1 + c) * c.digamma()


class HalfCauchy(_OfParameters):
    """|x| of a Cauchy number around 0."""

    parameters, support, has_rsample = ("scale",), constraints.nonnegative, True
    arg_constraints = {"scale": constraints.positive}

    def __init__(self, scale, validate_args=None):
        from weft.distributions import Cauchy

        self._take(validate_args, scale=scale)
        self.base_dist = Cauchy(weft.zeros_like(self.scale), self.scale)

    mean = property(lambda self: weft.full_like(self.scale, math.inf))
    mode = property(lambda self: weft.zeros_like(self.scale))
    variance = mean

    def rsample(self, sample_shape=()):
        return self.base_dist.rsample(sample_shape).abs()

    def log_prob(self, value):
        value = weft.as_tensor(value, dtype=self.scale.dtype)
        return weft.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value):
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, prob):
        return self.base_dist.icdf((prob + 1) / 2)

    def entropy(self):
        return self.base_dist.entropy() - math.log(2)


class FisherSnedecor(_OfParameters):
    """The quotient of two means of squares with df1 and df2 degrees of freedom."""

    parameters, support, has_rsample = ("df1", "df2"), constraints.positive, True
    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}

    def __init__(self, df1, df2, validate_args=None):
        from weft.distributions import Gamma

        self._take(validate_args, df1=df1, df2=df2)
        self._gammas = Gamma(self.df1 * 0.5, self.df1), Gamma(self.df2 * 0.5, self.df2)

    mean = property(lambda self: weft.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan))
    mode = property(lambda self: weft.where(self.df1 > 2, (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2), math.nan))

    @property
    def variance(self):
        a, b = self.df1, self.df2
        return weft.where(b > 4, 2 * b.square() * (a + b - 2) / (a * (b - 2).square() * (b - 4)), math.nan)

    def rsample(self, sample_shape=()):
        above, below = (gamma.rsample(sample_shape) for gamma in self._gammas)
        return (above / below.clamp(min=weft.finfo(below.dtype).tiny)).clamp(min=weft.finfo(below.dtype).tiny)

    def log_prob(self, value):
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        factor = (a + b).lgamma() - a.lgamma() - b.lgamma()
        return factor + a * ratio.log() + (a - 1) * weft.log(value) - (a + b) * weft.log1p(ratio * value)


class NegativeBinomial(_OfParameters):
    """Successes before total_count failures."""

    support = constraints.nonnegative_integer
    arg_constraints = {"total_count": constraints.nonnegative, "probs": constraints.half_open_interval(0.0, 1.0),
                       "logits": constraints.real}

    def __init__(self, total_count, probs=None, logits=None, validate_args=None):
        _one_of("NegativeBinomial", probs, logits)
        self.parameters = ("total_count", "logits" if probs is None else "probs")
        self._take(validate_args, **{"total_count": total_count, self.parameters[1]: logits if probs is None else probs})

    def __getattr__(self, name):
        if name == "logits" and "probs" in self.__dict__:
            return probs_to_logits(self.probs, is_binary=True)
        if name == "probs" and "logits" in self.__dict__:
            return logits_to_probs(self.logits, is_binary=True)
        raise AttributeError(f"'NegativeBinomial' object has no attribute '{name}'")

    mean = property(lambda self: self.total_count * self.logits.exp())
    mode = property(lambda self: ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0))
    variance = property(lambda self: self.mean / (-self.logits).sigmoid())

    def sample(self, sample_shape=()):
        from weft.distributions import Gamma

        with weft.no_grad():
            return weft.poisson(Gamma(self.total_count, (-self.logits).exp(), validate_args=False).sample(sample_shape))

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        chances = n * F.logsigmoid(-logits) + value * F.logsigmoid(logits)
        ways = (n + value).lgamma() - (1.0 + value).lgamma() - n.lgamma()
        return chances + weft.where(n + value == 0, 0.0, ways)


class ContinuousBernoulli(_OfParameters):
    """On [0, 1], with a density proportional to probs**x (1 - probs)**(1 - x)."""

    support, has_rsample = constraints.unit_interval, True
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, probs=None, logits=None, lims=(0.499, 0.501), validate_args=None):
        _one_of("ContinuousBernoulli", probs, logits)
        self.parameters, self._lims = ("logits" if probs is None else "probs",), lims
        self._take(validate_args, **{self.parameters[0]: logits if probs is None else clamp_probs(weft.as_tensor(probs))})

    __getattr__ = NegativeBinomial.__getattr__

    def _is_steep(self):
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _cut(self):
        """probs, and a limit in place of those near a half, where formulas divide by 0."""
        return weft.where(self._is_steep(), self.probs, self._lims[0])

    def _log_norm(self):
        cut = self._cut()
        below, above = weft.where(cut <= 0.5, cut, 0.0), weft.where(cut >= 0.5, cut, 1.0)
        norm = (((-cut).log1p() - cut.log()).abs().log() -
                weft.where(cut <= 0.5, (-2 * below).log1p(), (2 * above - 1).log()))
        x = (self.probs - 0.5).square()
        return weft.where(self._is_steep(), norm, math.log(2.0) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x)

    @property
    def mean(self):
        cut, x = self._cut(), self.probs - 0.5
        return weft.where(self._is_steep(), cut / (2 * cut - 1) + 1 / ((-cut).log1p() - cut.log()),
                          0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x.square()) * x)

    @property
    def variance(self):
        cut, x = self._cut(), (self.probs - 0.5).square()
        steep = cut * (cut - 1) / (1 - 2 * cut).square() + 1 / ((-cut).log1p() - cut.log()).square()
        return weft.where(self._is_steep(), steep, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)

    def rsample(self, sample_shape=()):
        u = weft.rand(self._extended_shape(sample_shape), dtype=self.probs.dtype, device=self.probs.device)
        return self.icdf(u)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        return -F.binary_cross_entropy_with_logits(*weft.broadcast_tensors(self.logits, value), reduction="none") + self._log_norm()

    def cdf(self, value):
        cut = self._cut()
        steep = (cut ** value * (1 - cut) ** (1 - value) + cut - 1) / (2 * cut - 1)
        inside = weft.where(self._is_steep(), steep, value)
        return weft.where(value <= 0, 0.0, weft.where(value >= 1, 1.0, inside))

    def icdf(self, value):
        cut = self._cut()
        steep = ((-cut + value * (2 * cut - 1)).log1p() - (-cut).log1p()) / (cut.log() - (-cut).log1p())
        return weft.where(self._is_steep(), steep, value)

    def entropy(self):
        none = (-self.probs).log1p()
        return self.mean * (none - self.probs.log()) - self._log_norm() - none


class VonMises(_OfParameters):
    """Angles around loc: density proportional to exp(concentration cos(x - loc))."""

    parameters, support = ("loc", "concentration"), constraints.real
    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}

    def __init__(self, loc, concentration, validate_args=None):
        self._take(validate_args, loc=loc, concentration=concentration)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: 1 - special.i1e(self.concentration) / special.i0e(self.concentration))

    def log_prob(self, value):
        c = self.concentration
        return c * (weft.cos(value - self.loc) - 1) - math.log(2 * math.pi) - special.i0e(c).log()

    def sample(self, sample_shape=()):
        """By the rejections of Best and Fisher (1979)."""
        with weft.no_grad():
            shape = self._extended_shape(sample_shape)
            kappa, loc = self.concentration.double().expand(shape), self.loc.double()
            tau = 1 + (1 + 4 * kappa.square()).sqrt()
            rho = (tau - (2 * tau).sqrt()) / (2 * kappa)
            r = weft.where(kappa < 1e-5, 1 / kappa + kappa, (1 + rho.square()) / (2 * rho))
            angle, done = weft.zeros(shape, dtype=weft.float64), weft.zeros(shape, dtype=weft.bool)
            while not bool(done.all()):
                u = weft.rand(3, *shape, dtype=weft.float64)
                z = (math.pi * u[0]).cos()
                f = (1 + r * z) / (r + z)
                c = kappa * (r - f)
                accept = (c * (2 - c) - u[1] > 0) | ((c / u[1]).log() + 1 - c >= 0)
                angle = weft.where(accept & ~done, (u[2] - 0.5).sign() * f.clamp(-1, 1).acos(), angle)
                done = done | accept
            return ((angle + math.pi + loc) % (2 * math.pi) - math.pi).to(self.loc.dtype)


class GeneralizedPareto(_OfParameters):
    """Excesses over loc: 1 - cdf is (1 + concentration (x - loc) / scale)**(-1 / concentration)."""

    parameters, has_rsample = ("loc", "scale", "concentration"), True
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}

    def __init__(self, loc, scale, concentration, validate_args=None):
        self._take(validate_args, loc=loc, scale=scale, concentration=concentration)

    support = property(lambda self: constraints.greater_than_eq(self.loc))

    def _split(self):
        """Whether the concentration is near 0, and one that is not."""
        near = weft.isclose(self.concentration, weft.zeros_like(self.concentration))
        return near, weft.where(near, 1.0, self.concentration)

    def rsample(self, sample_shape=()):
        return self.icdf(weft.rand(self._extended_shape(sample_shape), dtype=self.loc.dtype, device=self.loc.device))

    def log_prob(self, value):
        z, (near, c) = (value - self.loc) / self.scale, self._split()
        return -self.scale.log() - weft.where(near, z, (1 + 1 / c) * weft.log1p(c * z))

    def _log_survival(self, value):
        z, (near, c) = (value - self.loc) / self.scale, self._split()
        return weft.where(near, -z, -weft.log1p(c * z) / c)

    def cdf(self, value):
        return 1 - self._log_survival(value).exp()

    def icdf(self, value):
        near, c = self._split()
        rest = weft.log1p(-value)
        return self.loc + self.scale * weft.where(near, -rest, weft.expm1(-c * rest) / c)

    mean = property(lambda self: weft.where(self.concentration < 1, self.loc + self.scale / (1 - self.concentration), math.inf))
    mode = property(lambda self: self.loc)

    @property
    def variance(self):
        c = self.concentration
        return weft.where(c < 0.5, self.scale.square() / ((1 - c).square() * (1 - 2 * c)), math.inf)

    def entropy(self):
        return self.scale.log() + self.concentration + 1


class LogitRelaxedBernoulli(_OfParameters):
    """The logit of a RelaxedBernoulli."""

    support, has_rsample = constraints.real, True
    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        _one_of("LogitRelaxedBernoulli", probs, logits)
        self.temperature = weft.as_tensor(temperature)
        self.parameters = ("logits" if probs is None else "probs",)
        self._take(validate_args, **{self.parameters[0]: logits if probs is None else probs})

    __getattr__ = NegativeBinomial.__getattr__

    def expand(self, batch_shape, _instance=None):
        name = self.parameters[0]
        return LogitRelaxedBernoulli(self.temperature, **{name: getattr(self, name).expand(tuple(shape_of(batch_shape)))})

    def rsample(self, sample_shape=()):
        u = clamp_probs(weft.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device))
        return (u.log() - (-u).log1p() + self.logits) / self.temperature

    def log_prob(self, value):
        diff = self.logits - value * self.temperature
        return self.temperature.log() + diff - 2 * F.softplus(diff)


class RelaxedBernoulli(TransformedDistribution):
    """Numbers in (0, 1) that are near 0 or 1 for a small temperature, with a gradient."""

    support, has_rsample = constraints.unit_interval, True
    arg_constraints = LogitRelaxedBernoulli.arg_constraints

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

    def _expand(self, batch_shape):
        return RelaxedBernoulli(self.temperature, logits=self.logits.expand(tuple(batch_shape)))
