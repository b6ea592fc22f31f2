"""Invertible functions of random values, with the logarithms of their derivatives."""
# mypy: ignore-errors

import math
import weakref

import weft
from weft import _core
from weft._distributions import constraints
from weft.nn import functional as F

_made = _core._distributions
__all__ = ["AbsTransform", "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform",
           "CumulativeDistributionTransform", "ExpTransform", "IndependentTransform", "LowerCholeskyTransform",
           "PositiveDefiniteTransform", "PowerTransform", "ReshapeTransform", "SigmoidTransform", "SoftmaxTransform",
           "SoftplusTransform", "StackTransform", "StickBreakingTransform", "TanhTransform", "Transform", "identity_transform"]


def sum_rightmost(value, dims):
    """The sum over so many last dimensions."""
    return value.sum(list(range(-dims, 0))) if dims else value


class Transform:
    """An invertible function. A subclass writes _call, _inverse and log_abs_det_jacobian, and names domain and codomain.
    With cache_size=1 the inverse of the last result is the argument that it came from."""

    bijective, sign = True, None
    domain = codomain = constraints.real
    _core = None  # C++'s transform of the same name

    def __init__(self, cache_size=0):
        if cache_size not in (0, 1):
            raise ValueError(f"cache_size: expected 0 or 1, got {cache_size}")
        self._cache_size, self._cached = cache_size, None
        self._inverse_of = None

    event_dim = property(lambda self: self.domain.event_dim)

    @property
    def inv(self):
        """The inverse."""
        made = None if self._inverse_of is None else self._inverse_of()
        if made is None:
            made = _Inverse(self)
            self._inverse_of = weakref.ref(made)
        return made

    def with_cache(self, cache_size=1):
        """The same transform with another cache."""
        if self._cache_size == cache_size:
            return self
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _cache_size=cache_size, _cached=None, _inverse_of=None)
        return made

    def __call__(self, x):
        if not self._cache_size:
            return self._call(x)
        if self._cached is not None and self._cached[0] is x:
            return self._cached[1]
        y = self._call(x)
        self._cached = x, y
        return y

    def _inv_call(self, y):
        if not self._cache_size:
            return self._inverse(y)
        if self._cached is not None and self._cached[1] is y:
            return self._cached[0]
        x = self._inverse(y)
        self._cached = x, y
        return x

    def _call(self, x):
        raise NotImplementedError(f"{type(self).__name__} has no _call")

    def _inverse(self, y):
        raise NotImplementedError(f"{type(self).__name__} has no _inverse")

    def log_abs_det_jacobian(self, x, y):
        """log |dy / dx|."""
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian")

    def forward_shape(self, shape):
        """The shape of the result for an argument of this shape."""
        return shape

    def inverse_shape(self, shape):
        return shape

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)

    def __repr__(self):
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    """The inverse of a transform."""

    def __init__(self, transform):
        super().__init__(transform._cache_size)
        self._inv = transform
        if transform._core is not None:
            self._core = transform._core.inverse()

    domain = property(lambda self: self._inv.codomain)
    codomain = property(lambda self: self._inv.domain)
    bijective = property(lambda self: self._inv.bijective)
    sign = property(lambda self: self._inv.sign)
    inv = property(lambda self: self._inv)

    def with_cache(self, cache_size=1):
        return self._inv.with_cache(cache_size).inv

    def __call__(self, x):
        return self._inv._inv_call(x)

    def _inv_call(self, y):
        return self._inv(y)

    def log_abs_det_jacobian(self, x, y):
        return -self._inv.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape):
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape):
        return self._inv.forward_shape(shape)

    def __eq__(self, other):
        return isinstance(other, _Inverse) and self._inv == other._inv

    __hash__ = Transform.__hash__

    def __repr__(self):
        return self._core.text() if self._core is not None else f"{type(self._inv).__name__}().inv"


class _Native(Transform):
    """A transform that C++ computes."""

    def _call(self, x):
        return self._core(x)

    def _inverse(self, y):
        return self._core.inverse()(y)

    def log_abs_det_jacobian(self, x, y):
        return self._core.log_abs_det_jacobian(x, y)

    def __eq__(self, other):
        return isinstance(other, _Native) and self._core == other._core

    __hash__ = Transform.__hash__

    def __repr__(self):
        return self._core.text()


class ExpTransform(_Native):
    """exp(x)."""

    codomain, sign = constraints.positive, 1

    def __init__(self, cache_size=0):
        super().__init__(cache_size)
        self._core = _made.ExpTransform()


class SigmoidTransform(_Native):
    """1 / (1 + exp(-x))."""

    codomain, sign = constraints.unit_interval, 1

    def __init__(self, cache_size=0):
        super().__init__(cache_size)
        self._core = _made.SigmoidTransform()


class TanhTransform(_Native):
    """tanh(x)."""

    codomain, sign = constraints.interval(-1.0, 1.0), 1

    def __init__(self, cache_size=0):
        super().__init__(cache_size)
        self._core = _made.TanhTransform()

    @staticmethod
    def atanh(x):
        return x.atanh()


class AffineTransform(Transform):
    """loc + scale x."""

    def __init__(self, loc, scale, event_dim=0, cache_size=0):
        super().__init__(cache_size)
        self.loc, self.scale, self._event_dim = loc, scale, event_dim
        if event_dim == 0:
            self._core = _made.AffineTransform(loc, scale)

    event_dim = property(lambda self: self._event_dim)
    domain = property(lambda self: constraints.independent(constraints.real, self._event_dim) if self._event_dim
                      else constraints.real)
    codomain = domain

    @property
    def sign(self):
        return self.scale.sign() if isinstance(self.scale, weft.Tensor) else 1 if self.scale > 0 else -1 if self.scale < 0 else 0

    def _call(self, x):
        return self.loc + self.scale * x

    def _inverse(self, y):
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x, y):
        scale = self.scale if isinstance(self.scale, weft.Tensor) else weft.full_like(x, self.scale)
        logarithm = scale.abs().log().expand(x.shape) if scale.ndim <= x.ndim else scale.abs().log()
        return sum_rightmost(logarithm, self._event_dim)

    def forward_shape(self, shape):
        return weft.broadcast_shapes(shape, getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape

    def __eq__(self, other):
        if not isinstance(other, AffineTransform):
            return False
        return all(bool((weft.as_tensor(a) == weft.as_tensor(b)).all()) for a, b in
                   ((self.loc, other.loc), (self.scale, other.scale)))

    __hash__ = Transform.__hash__

    def __repr__(self):
        return self._core.text() if self._core is not None else f"AffineTransform(loc={self.loc}, scale={self.scale})"


class PowerTransform(Transform):
    """x**exponent of positive numbers."""

    domain = codomain = constraints.positive

    def __init__(self, exponent, cache_size=0):
        super().__init__(cache_size)
        self.exponent = weft.as_tensor(exponent)

    sign = property(lambda self: self.exponent.sign())

    def _call(self, x):
        return x.pow(self.exponent)

    def _inverse(self, y):
        return y.pow(1 / self.exponent)

    def log_abs_det_jacobian(self, x, y):
        return (self.exponent * y / x).abs().log()

    def __eq__(self, other):
        return isinstance(other, PowerTransform) and bool((self.exponent == other.exponent).all())

    __hash__ = Transform.__hash__


class SoftplusTransform(Transform):
    """log(1 + exp(x))."""

    codomain, sign = constraints.positive, 1

    def _call(self, x):
        return F.softplus(x)

    def _inverse(self, y):
        return (-y).expm1().neg().log() + y

    def log_abs_det_jacobian(self, x, y):
        return -F.softplus(-x)

    def __eq__(self, other):
        return isinstance(other, SoftplusTransform)

    __hash__ = Transform.__hash__


class AbsTransform(Transform):
    """|x|, which has no inverse; inv gives the positive one."""

    codomain, bijective = constraints.positive, False

    def _call(self, x):
        return x.abs()

    def _inverse(self, y):
        return y

    def __eq__(self, other):
        return isinstance(other, AbsTransform)

    __hash__ = Transform.__hash__


class SoftmaxTransform(Transform):
    """softmax over the last dimension; inv gives logarithms."""

    domain, codomain, bijective = constraints.real_vector, constraints.simplex, False

    def _call(self, x):
        return x.softmax(-1)

    def _inverse(self, y):
        return y.log()


class StickBreakingTransform(Transform):
    """[..., n] to a simplex [..., n + 1], by shares of the rest that is left."""

    domain, codomain = constraints.real_vector, constraints.simplex

    @staticmethod
    def _offset(n, like):
        return weft.arange(n, 0, -1, dtype=like.dtype, device=like.device)

    def _call(self, x):
        z = (x - self._offset(x.shape[-1], x).log()).sigmoid()
        rest = (1 - z).cumprod(-1)
        return F.pad(z, [0, 1], value=1) * F.pad(rest, [1, 0], value=1)

    def _inverse(self, y):
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=weft.finfo(y.dtype).tiny)
        return head.log() - left.log() + self._offset(head.shape[-1], y).log()

    def log_abs_det_jacobian(self, x, y):
        x = x - self._offset(x.shape[-1], x).log()
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape):
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape):
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """A matrix to a lower triangular one with a positive diagonal."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.lower_cholesky

    def _call(self, x):
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y):
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """A matrix to a positive definite one."""

    domain, codomain = constraints.independent(constraints.real, 2), constraints.positive_definite

    def _call(self, x):
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y):
        return LowerCholeskyTransform().inv(weft.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix of n rows."""

    domain, codomain = constraints.real_vector, constraints.corr_cholesky

    def _call(self, x):
        x = x.tanh()
        eps = weft.finfo(x.dtype).eps
        r = _lower(x.clamp(-1 + eps, 1 - eps))
        rest = (1 - r * r).sqrt().cumprod(-1)
        r = r + weft.eye(r.shape[-1], dtype=r.dtype, device=r.device)
        return r * F.pad(rest[..., :-1], [1, 0], value=1)

    def _inverse(self, y):
        rest = 1 - (y * y).cumsum(-1)
        y_vec, rest_vec = _vector(y), _vector(F.pad(rest[..., :-1], [1, 0], value=1))
        t = y_vec / rest_vec.sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x, y):
        squares = F.pad(1 - (y * y).cumsum(-1), [1, 0], value=1)[..., :-1]
        stick = 0.5 * _vector(squares, -1).log().sum(-1)
        return stick - 2 * (x + F.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape):
        n = round((0.25 + 2 * shape[-1]) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != shape[-1]:
            raise ValueError(f"expected n (n - 1) / 2 numbers, got {shape[-1]}")
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape):
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _lower(vector):
    """A strictly lower triangular matrix with these elements, row by row."""
    n = round((0.25 + 2 * vector.shape[-1]) ** 0.5 + 0.5)
    matrix = vector.new_zeros(*vector.shape[:-1], n, n)
    rows, columns = weft.tril_indices(n, n, -1)
    return weft.index_put(matrix.movedim((-2, -1), (0, 1)), (rows, columns), vector.movedim(-1, 0)).movedim((0, 1), (-2, -1))


def _vector(matrix, offset=-1):
    """The elements of a strictly lower triangular matrix, row by row."""
    rows, columns = weft.tril_indices(matrix.shape[-2], matrix.shape[-1], offset)
    return matrix[..., rows, columns]


class ReshapeTransform(Transform):
    """The last dimensions with other sizes."""

    def __init__(self, in_shape, out_shape, cache_size=0):
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ValueError(f"shapes {self.in_shape} and {self.out_shape} have other numbers of elements")
        super().__init__(cache_size)

    domain = property(lambda self: constraints.independent(constraints.real, len(self.in_shape)))
    codomain = property(lambda self: constraints.independent(constraints.real, len(self.out_shape)))

    def _call(self, x):
        return x.reshape(x.shape[:x.ndim - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y):
        return y.reshape(y.shape[:y.ndim - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x, y):
        return x.new_zeros(x.shape[:x.ndim - len(self.in_shape)])

    def forward_shape(self, shape):
        return (*shape[:len(shape) - len(self.in_shape)], *self.out_shape)

    def inverse_shape(self, shape):
        return (*shape[:len(shape) - len(self.out_shape)], *self.in_shape)


class IndependentTransform(Transform):
    """A transform in which the last batch dimensions belong to one value."""

    def __init__(self, base_transform, reinterpreted_batch_ndims, cache_size=0):
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    domain = property(lambda self: constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims))
    codomain = property(lambda self: constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims))
    bijective = property(lambda self: self.base_transform.bijective)
    sign = property(lambda self: self.base_transform.sign)

    def _call(self, x):
        return self.base_transform(x)

    def _inverse(self, y):
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x, y):
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape):
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape):
        return self.base_transform.inverse_shape(shape)


class ComposeTransform(Transform):
    """Transforms one after the other."""

    def __init__(self, parts, cache_size=0):
        super().__init__(cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    @property
    def domain(self):
        if not self.parts:
            return constraints.real
        dim = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dim = max(dim + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        first = self.parts[0].domain
        return constraints.independent(first, dim - first.event_dim) if dim > first.event_dim else first

    @property
    def codomain(self):
        if not self.parts:
            return constraints.real
        dim = self.parts[0].domain.event_dim
        for part in self.parts:
            dim = max(dim + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        last = self.parts[-1].codomain
        return constraints.independent(last, dim - last.event_dim) if dim > last.event_dim else last

    bijective = property(lambda self: all(part.bijective for part in self.parts))

    @property
    def inv(self):
        """The inverses of the transforms in the opposite order."""
        made = None if self._inverse_of is None else self._inverse_of()
        if made is None:
            made = ComposeTransform([part.inv for part in reversed(self.parts)], self._cache_size)
            made._inverse_of, self._inverse_of = weakref.ref(self), weakref.ref(made)
        return made

    @property
    def sign(self):
        sign = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def __call__(self, x):
        for part in self.parts:
            x = part(x)
        return x

    def _inv_call(self, y):
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x, y):
        if not self.parts:
            return weft.zeros_like(x)
        values = [x]
        for part in self.parts[:-1]:
            values.append(part(values[-1]))
        total, dim = 0, self.domain.event_dim
        for part, a, b in zip(self.parts, values, [*values[1:], y]):
            total = total + sum_rightmost(part.log_abs_det_jacobian(a, b), dim - part.domain.event_dim)
            dim += part.codomain.event_dim - part.domain.event_dim
        return total

    def forward_shape(self, shape):
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape):
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __eq__(self, other):
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    __hash__ = Transform.__hash__


class _ByParts(Transform):
    """Transforms of the parts of a value along one dimension."""

    def __init__(self, tseq, dim=0, lengths=None, cache_size=0):
        super().__init__(cache_size)
        self.transforms, self.dim = [t.with_cache(cache_size) for t in tseq], dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)

    bijective = property(lambda self: all(t.bijective for t in self.transforms))

    def _call(self, x):
        return self._joined([t(part) for t, part in zip(self.transforms, self._parts(x))])

    def _inverse(self, y):
        return self._joined([t.inv(part) for t, part in zip(self.transforms, self._parts(y))])

    def log_abs_det_jacobian(self, x, y):
        return self._joined([t.log_abs_det_jacobian(a, b) for t, a, b in
                             zip(self.transforms, self._parts(x), self._parts(y))])


class CatTransform(_ByParts):
    """Transforms of parts of `lengths` along a dimension."""

    def _parts(self, x):
        return x.split(self.lengths, self.dim)

    def _joined(self, parts):
        return weft.cat(parts, self.dim)

    domain = property(lambda self: constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths))
    codomain = property(lambda self: constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths))


class StackTransform(_ByParts):
    """Transforms of the slices along a dimension."""

    def __init__(self, tseq, dim=0, cache_size=0):
        super().__init__(tseq, dim, None, cache_size)

    def _parts(self, x):
        return x.unbind(self.dim)

    def _joined(self, parts):
        return weft.stack(parts, self.dim)

    domain = property(lambda self: constraints.stack([t.domain for t in self.transforms], self.dim))
    codomain = property(lambda self: constraints.stack([t.codomain for t in self.transforms], self.dim))


class CumulativeDistributionTransform(Transform):
    """The cdf of a distribution of numbers."""

    codomain, sign = constraints.unit_interval, 1

    def __init__(self, distribution, cache_size=0):
        super().__init__(cache_size)
        self.distribution = distribution

    domain = property(lambda self: self.distribution.support)

    def _call(self, x):
        return self.distribution.cdf(x)

    def _inverse(self, y):
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x, y):
        return self.distribution.log_prob(x)


identity_transform = ComposeTransform([])
