"""The linear algebra extension of the array API standard, 2024.12."""

import collections as _collections

import weft as _weft
import weft.array_api as _xp
import weft.linalg as _linalg
from weft.array_api import matmul, matrix_transpose, tensordot, vecdot  # noqa: F401

__all__ = ["cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power",
           "matrix_rank", "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot",
           "trace", "vecdot", "vector_norm"]

EighResult = _collections.namedtuple("EighResult", ("eigenvalues", "eigenvectors"))
QRResult = _collections.namedtuple("QRResult", ("Q", "R"))
SlogdetResult = _collections.namedtuple("SlogdetResult", ("sign", "logabsdet"))
SVDResult = _collections.namedtuple("SVDResult", ("U", "S", "Vh"))


def cholesky(x, /, *, upper=False):
    return _linalg.cholesky(x, upper=upper)


def cross(x1, x2, /, *, axis=-1):
    x1, x2 = _xp._together(x1, x2)
    return _linalg.cross(x1, x2, dim=axis)


def det(x, /):
    return _linalg.det(x)


def diagonal(x, /, *, offset=0):
    return x.diagonal(offset, -2, -1)


def eigh(x, /):
    return EighResult(*_linalg.eigh(x))


def eigvalsh(x, /):
    return _linalg.eigvalsh(x)


def inv(x, /):
    return _linalg.inv(x)


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    return _linalg.matrix_norm(x, ord, (-2, -1), keepdims)


def matrix_power(x, n, /):
    return _linalg.matrix_power(x, n)


def _bound(x, rtol):
    """rtol as a number, or one value per matrix."""
    return None if rtol is None else rtol.item() if isinstance(rtol, _weft.Tensor) and rtol.ndim == 0 else rtol


def matrix_rank(x, /, *, rtol=None):
    return _linalg.matrix_rank(x, rtol=_bound(x, rtol))


def outer(x1, x2, /):
    x1, x2 = _xp._together(x1, x2)
    return _weft.outer(x1, x2)


def pinv(x, /, *, rtol=None):
    return _linalg.pinv(x, rtol=_bound(x, rtol))


def qr(x, /, *, mode="reduced"):
    return QRResult(*_linalg.qr(x, mode))


def slogdet(x, /):
    return SlogdetResult(*_linalg.slogdet(x))


def solve(x1, x2, /):
    x1, x2 = _xp._together(x1, x2)
    # By the standard, only a 1-d x2 is a vector.
    return _linalg.solve(x1, x2.unsqueeze(-1)).squeeze(-1) if x2.ndim == 1 else _linalg.solve(*_alike(x1, x2))


def _alike(a, b):
    """Broadcasts the batch dimensions, so that b is read as matrices whatever its shape."""
    batch = _weft.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.expand(*batch, *a.shape[-2:]), b.expand(*batch, *b.shape[-2:])


def svd(x, /, *, full_matrices=True):
    return SVDResult(*_linalg.svd(x, full_matrices))


def svdvals(x, /):
    return _linalg.svdvals(x)


def trace(x, /, *, offset=0, dtype=None):
    return _xp.sum(diagonal(x, offset=offset), axis=-1, dtype=dtype)


def vector_norm(x, /, *, axis=None, keepdims=False, ord=2):
    return _linalg.vector_norm(x, ord, axis, keepdims)
