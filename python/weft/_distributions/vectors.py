"""Distributions of vectors and matrices that C++ lacks."""
# mypy: ignore-errors

import math

import weft
from weft._distributions import constraints
from weft._distributions.base import Distribution, shape_of
from weft._distributions.composed import TransformedDistribution
from weft._distributions.transforms import ExpTransform, StickBreakingTransform

__all__ = ["ExpRelaxedCategorical", "LKJCholesky", "LogisticNormal", "LowRankMultivariateNormal", "RelaxedOneHotCategorical",
           "Wishart"]


class LogisticNormal(TransformedDistribution):
    """A simplex of one more number than loc has, from normal numbers by StickBreakingTransform."""

    has_rsample, support = True, constraints.simplex
    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}

    def __init__(self, loc, scale, validate_args=None):
        from weft.distributions import Normal

        base = Normal(loc, scale, validate_args=validate_args)
        super().__init__(base if base.batch_shape else base.expand([1]), StickBreakingTransform(), validate_args)

    _inner = property(lambda self: self.base_dist.base_dist)
    loc, scale = property(lambda self: self._inner.loc), property(lambda self: self._inner.scale)

    def _expand(self, batch_shape):
        shape = (*batch_shape, self.loc.shape[-1])
        return LogisticNormal(self.loc.expand(shape), self.scale.expand(shape))


class ExpRelaxedCategorical(Distribution):
    """The logarithm of a RelaxedOneHotCategorical."""

    has_rsample, support = True, constraints.real_vector
    arg_constraints = {"probs": constraints.simplex, "logits": constraints.real_vector}

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        from weft.distributions import Categorical

        self._categorical, self.temperature = Categorical(probs, logits), weft.as_tensor(temperature)
        shape = self._categorical.logits.shape
        super().__init__(shape[:-1], shape[-1:], False)

    logits, probs = property(lambda self: self._categorical.logits), property(lambda self: self._categorical.probs)

    def expand(self, batch_shape, _instance=None):
        return ExpRelaxedCategorical(self.temperature, logits=self.logits.expand([*shape_of(batch_shape), *self.event_shape]))

    def rsample(self, sample_shape=()):
        eps = weft.finfo(self.logits.dtype).eps
        u = weft.rand(self._extended_shape(sample_shape), dtype=self.logits.dtype, device=self.logits.device).clamp(eps, 1 - eps)
        return ((self.logits - (-u.log()).log()) / self.temperature).log_softmax(-1)

    def log_prob(self, value):
        n = self.event_shape[-1]
        scale = math.lgamma(n) + (n - 1) * self.temperature.log()
        return (self.logits - value * self.temperature).log_softmax(-1).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Simplexes that are near one-hot vectors for a small temperature, with a gradient."""

    has_rsample, support = True, constraints.simplex
    arg_constraints = ExpRelaxedCategorical.arg_constraints

    def __init__(self, temperature, probs=None, logits=None, validate_args=None):
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform(), validate_args)

    temperature = property(lambda self: self.base_dist.temperature)
    logits = property(lambda self: self.base_dist.logits)
    probs = property(lambda self: self.base_dist.probs)

    def _expand(self, batch_shape):
        return RelaxedOneHotCategorical(self.temperature, logits=self.logits.expand([*batch_shape, *self.event_shape]))


class LowRankMultivariateNormal(Distribution):
    """Vectors with the covariance cov_factor cov_factorᵀ + diag(cov_diag)."""

    has_rsample, support = True, constraints.real_vector
    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}

    def __init__(self, loc, cov_factor, cov_diag, validate_args=None):
        if loc.ndim < 1 or cov_factor.ndim < 2 or tuple(cov_factor.shape[-2:-1]) != tuple(loc.shape[-1:]):
            raise ValueError(f"LowRankMultivariateNormal(): a factor {tuple(cov_factor.shape)} and loc {tuple(loc.shape)}")
        batch = weft.broadcast_shapes(loc.shape[:-1], cov_factor.shape[:-2], cov_diag.shape[:-1])
        self.loc, self.cov_diag = loc.expand([*batch, loc.shape[-1]]), cov_diag.expand([*batch, loc.shape[-1]])
        self.cov_factor = cov_factor.expand([*batch, *cov_factor.shape[-2:]])
        super().__init__(batch, loc.shape[-1:], validate_args)

    mean = mode = property(lambda self: self.loc)
    variance = property(lambda self: self.cov_factor.square().sum(-1) + self.cov_diag)
    covariance_matrix = property(lambda self: self.cov_factor @ self.cov_factor.mT + self.cov_diag.diag_embed())
    scale_tril = property(lambda self: weft.linalg.cholesky(self.covariance_matrix))
    precision_matrix = property(lambda self: weft.linalg.inv(self.covariance_matrix))

    def _capacitance(self):
        """The Cholesky factor of I + Wᵀ D⁻¹ W, and Wᵀ D⁻¹."""
        scaled = self.cov_factor.mT / self.cov_diag.unsqueeze(-2)
        eye = weft.eye(self.cov_factor.shape[-1], dtype=self.loc.dtype, device=self.loc.device)
        return weft.linalg.cholesky(eye + scaled @ self.cov_factor), scaled

    def _log_det(self, factor):
        return 2 * factor.diagonal(0, -2, -1).log().sum(-1) + self.cov_diag.log().sum(-1)

    def expand(self, batch_shape, _instance=None):
        batch = shape_of(batch_shape)
        return LowRankMultivariateNormal(self.loc.expand([*batch, *self.event_shape]), self.cov_factor.expand(
            *batch, *self.cov_factor.shape[-2:]), self.cov_diag.expand([*batch, *self.event_shape]))

    def rsample(self, sample_shape=()):
        shape, like = self._extended_shape(sample_shape), {"dtype": self.loc.dtype, "device": self.loc.device}
        w = weft.randn(*shape[:-1], self.cov_factor.shape[-1], **like)
        return self.loc + (self.cov_factor @ w.unsqueeze(-1)).squeeze(-1) + self.cov_diag.sqrt() * weft.randn(*shape, **like)

    def log_prob(self, value):
        diff, (factor, scaled) = value - self.loc, self._capacitance()
        inner = weft.linalg.solve_triangular(factor, (scaled @ diff.unsqueeze(-1)), upper=False).squeeze(-1)
        distance = (diff.square() / self.cov_diag).sum(-1) - inner.square().sum(-1)
        return -0.5 * (self.event_shape[0] * math.log(2 * math.pi) + self._log_det(factor) + distance)

    def entropy(self):
        return 0.5 * (self.event_shape[0] * (1 + math.log(2 * math.pi)) + self._log_det(self._capacitance()[0]))


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices, with a density proportional to det**(concentration - 1)."""

    support, arg_constraints = constraints.corr_cholesky, {"concentration": constraints.positive}

    def __init__(self, dim, concentration=1.0, validate_args=None):
        from weft.distributions import Beta

        if dim < 2:
            raise ValueError(f"LKJCholesky(): expected a dim of at least 2, got {dim}")
        self.dim, self.concentration = dim, weft.as_tensor(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)
        marginal = self.concentration + 0.5 * (dim - 2)
        offset = weft.arange(dim - 1, dtype=marginal.dtype)
        offset = weft.cat([offset.new_zeros(1), offset])
        self._beta = Beta(offset + 0.5, marginal.unsqueeze(-1) - 0.5 * offset)

    def expand(self, batch_shape, _instance=None):
        return LKJCholesky(self.dim, self.concentration.expand(shape_of(batch_shape)))

    def sample(self, sample_shape=()):
        """By the onion method (Lewandowski, Kurowicka and Joe 2009)."""
        with weft.no_grad():
            y = self._beta.sample(sample_shape).unsqueeze(-1)
            u = weft.randn(self._extended_shape(sample_shape), dtype=y.dtype).tril(-1)
            norms = weft.linalg.vector_norm(u, 2, -1, True)
            sphere = weft.where(norms == 0, 0.0, u / weft.where(norms == 0, 1.0, norms))
            w = y.sqrt() * sphere
            tiny = weft.finfo(w.dtype).tiny
            return w + (1 - w.square().sum(-1)).clamp(min=tiny).sqrt().diag_embed()

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(0, -2, -1)[..., 1:]
        order = weft.arange(2, self.dim + 1, dtype=self.concentration.dtype)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - order
        total, d = (order * diagonal.log()).sum(-1), self.dim - 1
        alpha = self.concentration + 0.5 * d
        return total - (0.5 * d * math.log(math.pi) + weft.mvlgamma(alpha - 0.5, d) - alpha.lgamma() * d)


class Wishart(Distribution):
    """Positive definite matrices: sums of outer products of df normal vectors."""

    has_rsample, support = True, constraints.positive_definite
    arg_constraints = {"df": constraints.greater_than(0), "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}

    def __init__(self, df, covariance_matrix=None, precision_matrix=None, scale_tril=None, validate_args=None):
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise ValueError("Wishart() takes one of covariance_matrix, precision_matrix and scale_tril")
        if scale_tril is None:
            matrix = weft.linalg.inv(precision_matrix) if covariance_matrix is None else covariance_matrix
            scale_tril = weft.linalg.cholesky(matrix)
        df = weft.as_tensor(df, dtype=scale_tril.dtype)
        batch, n = weft.broadcast_shapes(df.shape, scale_tril.shape[:-2]), scale_tril.shape[-1]
        if not bool((df > n - 1).all()):
            raise ValueError(f"Wishart(): expected df above {n - 1}, got {df}")
        self.df, self.scale_tril = df.expand(batch), scale_tril.expand([*batch, n, n])
        super().__init__(batch, (n, n), False)

    covariance_matrix = property(lambda self: self.scale_tril @ self.scale_tril.mT)
    precision_matrix = property(lambda self: weft.linalg.inv(self.covariance_matrix))
    mean = property(lambda self: self.df[..., None, None] * self.covariance_matrix)

    @property
    def mode(self):
        factor = (self.df - self.event_shape[0] - 1)[..., None, None]
        return weft.where(factor > 0, factor * self.covariance_matrix, math.nan)

    @property
    def variance(self):
        v = self.covariance_matrix
        d = v.diagonal(0, -2, -1)
        return self.df[..., None, None] * (v.square() + d.unsqueeze(-1) * d.unsqueeze(-2))

    def expand(self, batch_shape, _instance=None):
        batch = shape_of(batch_shape)
        return Wishart(self.df.expand([*batch]), scale_tril=self.scale_tril.expand([*batch, *self.event_shape]))

    def rsample(self, sample_shape=()):
        """By Bartlett's decomposition."""
        from weft.distributions import Gamma

        n, like = self.event_shape[0], {"dtype": self.df.dtype, "device": self.df.device}
        degrees = self.df.unsqueeze(-1) - weft.arange(n, **like)
        squares = Gamma(degrees / 2, weft.full_like(degrees, 0.5)).rsample(sample_shape)
        noise = weft.randn(self._extended_shape(sample_shape), **like).tril(-1) + squares.clamp(
            min=weft.finfo(self.df.dtype).tiny).sqrt().diag_embed()
        chol = self.scale_tril @ noise
        return chol @ chol.mT

    def _log_det(self):
        return 2 * self.scale_tril.diagonal(0, -2, -1).log().sum(-1)

    def log_prob(self, value):
        if self._validate_args:
            self._validate_sample(value)
        nu, p = self.df, self.event_shape[0]
        trace = weft.cholesky_solve(value, self.scale_tril).diagonal(0, -2, -1).sum(-1)
        return (-nu * p * math.log(2) / 2 - nu * self._log_det() / 2 - weft.mvlgamma(nu / 2, p) +
                (nu - p - 1) / 2 * weft.linalg.slogdet(value)[1] - trace / 2)

    def entropy(self):
        nu, p = self.df, self.event_shape[0]
        digammas = (nu.unsqueeze(-1) / 2 - weft.arange(p, dtype=nu.dtype) / 2).digamma().sum(-1)
        return ((p + 1) / 2 * (self._log_det() + p * math.log(2)) + weft.mvlgamma(nu / 2, p) -
                (nu - p - 1) / 2 * digammas + nu * p / 2)
