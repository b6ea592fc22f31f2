"""Sets of possible values: the supports of distributions and of their parameters."""
# mypy: ignore-errors

import weft

__all__ = ["Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than", "greater_than_eq",
           "half_open_interval", "independent", "integer_interval", "interval", "is_dependent", "less_than",
           "lower_cholesky", "lower_triangular", "multinomial", "nonnegative", "nonnegative_integer", "one_hot", "positive",
           "positive_definite", "positive_integer", "positive_semidefinite", "real", "real_vector", "simplex", "square", "stack",
           "symmetric", "unit_interval", "_IntegerGreaterThan", "_PositiveDefinite", "_PositiveSemidefinite"]


class Constraint:
    """A set of values; `event_dim` of their last dimensions belong to one value."""

    is_discrete, event_dim = False, 0

    def check(self, value):
        """True for each value in the set."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def __repr__(self):
        return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """A set that depends on other values."""

    def __init__(self, *, is_discrete=False, event_dim=0):
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete=None, event_dim=None):
        return _Dependent(is_discrete=self.is_discrete if is_discrete is None else is_discrete,
                          event_dim=self.event_dim if event_dim is None else event_dim)

    def check(self, value):
        raise ValueError("a set that depends on other values cannot be checked alone")


def is_dependent(constraint):
    return isinstance(constraint, _Dependent)


class dependent_property(property, _Dependent):
    """A property with a constraint as its value."""

    def __init__(self, fn=None, *, is_discrete=False, event_dim=0):
        super().__init__(fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn=None, *, is_discrete=False, event_dim=0):
        return dependent_property(fn, is_discrete=is_discrete, event_dim=event_dim)


class _Bounds(Constraint):
    """Numbers between bounds; None is no bound."""

    def __init__(self, lower=None, upper=None, open_lower=False, open_upper=False, integer=False):
        self.lower_bound, self.upper_bound = lower, upper
        self._open, self._integer = (open_lower, open_upper), integer
        self.is_discrete = integer

    def check(self, value):
        lower, upper, inside = self.lower_bound, self.upper_bound, value == value
        if lower is not None:
            inside = inside & (value > lower if self._open[0] else value >= lower)
        if upper is not None:
            inside = inside & (value < upper if self._open[1] else value <= upper)
        return inside & (value % 1 == 0) if self._integer else inside

    def __repr__(self):
        if self.lower_bound is None and self.upper_bound is None:
            return "Integer()" if self._integer else "Real()"
        kind = "IntegerInterval" if self._integer else "Interval"
        return f"{kind}(lower_bound={self.lower_bound}, upper_bound={self.upper_bound})"


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value):
        return (value == 0) | (value == 1)


class _OneHot(Constraint):
    is_discrete, event_dim = True, 1

    def check(self, value):
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    event_dim = 1

    def check(self, value):
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    is_discrete, event_dim = True, 1

    def __init__(self, upper_bound):
        self.upper_bound = upper_bound

    def check(self, x):
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class _LowerTriangular(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1)


class _LowerCholesky(Constraint):
    event_dim = 2

    def check(self, value):
        return (value.tril() == value).flatten(-2).all(-1) & (value.diagonal(0, -2, -1) > 0).all(-1)


class _CorrCholesky(_LowerCholesky):
    def check(self, value):
        tolerance = weft.finfo(value.dtype).eps * value.size(-1) * 10
        unit = ((weft.linalg.vector_norm(value, 2, -1) - 1).abs() <= tolerance).all(-1)
        return super().check(value) & unit


class _Square(Constraint):
    event_dim = 2

    def check(self, value):
        return weft.full(value.shape[:-2], value.shape[-2] == value.shape[-1], dtype=weft.bool)


class _Symmetric(_Square):
    def check(self, value):
        return weft.isclose(value, value.mT, atol=1e-6).flatten(-2).all(-1) & super().check(value)


class _PositiveSemidefinite(_Symmetric):
    def check(self, value):
        return super().check(value) & (weft.linalg.eigvalsh(value) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value):
        return super().check(value) & (weft.linalg.cholesky_ex(value)[1] == 0)


class _Independent(Constraint):
    """A constraint in which the last batch dimensions belong to one value."""

    def __init__(self, base_constraint, reinterpreted_batch_ndims):
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    is_discrete = property(lambda self: self.base_constraint.is_discrete)
    event_dim = property(lambda self: self.base_constraint.event_dim + self.reinterpreted_batch_ndims)

    def check(self, value):
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            raise ValueError(f"expected a value of at least {self.event_dim} dimensions, got {value.ndim}")
        return result.flatten(result.ndim - self.reinterpreted_batch_ndims).all(-1) if self.reinterpreted_batch_ndims else result

    def __repr__(self):
        return f"Independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class _Parts(Constraint):
    """Constraints of the parts of a value along one dimension."""

    def __init__(self, cseq, dim=0, lengths=None):
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)

    is_discrete = property(lambda self: any(c.is_discrete for c in self.cseq))
    event_dim = property(lambda self: max(c.event_dim for c in self.cseq))


class _Cat(_Parts):
    def check(self, value):
        return weft.cat([c.check(part) for c, part in zip(self.cseq, value.split(self.lengths, self.dim))], self.dim)


class _Stack(_Parts):
    def check(self, value):
        return weft.stack([c.check(part) for c, part in zip(self.cseq, value.unbind(self.dim))], self.dim)


class _Mixture(Constraint):
    """The support of a mixture's components."""

    def __init__(self, base):
        self.base = base

    is_discrete = property(lambda self: self.base.is_discrete)
    event_dim = property(lambda self: self.base.event_dim)

    def check(self, value):
        return self.base.check(value.unsqueeze(-1 - self.event_dim)).all(-1)


class _IntegerGreaterThan(_Bounds):
    """Integers from a bound on; PyTorch's tests name it."""

    def __init__(self, lower_bound):
        super().__init__(lower_bound, integer=True)


def greater_than(lower_bound):
    return _Bounds(lower_bound, open_lower=True)


def greater_than_eq(lower_bound):
    return _Bounds(lower_bound)


def less_than(upper_bound):
    return _Bounds(None, upper_bound, open_upper=True)


def interval(lower_bound, upper_bound):
    return _Bounds(lower_bound, upper_bound)


def half_open_interval(lower_bound, upper_bound):
    return _Bounds(lower_bound, upper_bound, open_upper=True)


def integer_interval(lower_bound, upper_bound):
    return _Bounds(lower_bound, upper_bound, integer=True)


dependent = _Dependent()
independent, multinomial, cat, stack = _Independent, _Multinomial, _Cat, _Stack
boolean, one_hot = _Boolean(), _OneHot()
real, positive, nonnegative, unit_interval = _Bounds(), greater_than(0.0), greater_than_eq(0.0), interval(0.0, 1.0)
nonnegative_integer, positive_integer = _IntegerGreaterThan(0), _IntegerGreaterThan(1)
real_vector, simplex = independent(real, 1), _Simplex()
lower_triangular, lower_cholesky, corr_cholesky = _LowerTriangular(), _LowerCholesky(), _CorrCholesky()
square, symmetric = _Square(), _Symmetric()
positive_semidefinite, positive_definite = _PositiveSemidefinite(), _PositiveDefinite()
