"""PyTorch functions that are composed of a few ops."""

import collections
from numbers import Integral

from weft import _core
from weft._core import Tensor, _ops
from weft._functions import _need_tensors, clamp
from weft.errors import DTypeError, ValueError

__all__ = ["adjoint", "clamp_max", "clamp_min", "constant_pad_nd", "conv_tbc", "convolution", "diagflat", "feature_dropout",
           "frobenius_norm", "get_device", "gradient", "grid_sampler", "grid_sampler_2d", "grid_sampler_3d", "index_reduce",
           "lu", "lu_solve", "lu_unpack", "max_pool1d_with_indices", "nonzero_static", "norm", "norm_except_dim",
           "nuclear_norm", "ormqr", "resolve_conj", "resolve_neg", "rsub", "svd", "triangular_solve", "unravel_index"]


def _required(name, argument, value):
    if value is None:
        raise TypeError(f"{name}(): argument '{argument}': expected a number or a tensor, got None")
    return value


def clamp_min(input, min, *, out=None):
    """max(input, min), elementwise."""
    return clamp(input, _required("clamp_min", "min", min), out=out)


def clamp_max(input, max, *, out=None):
    """min(input, max), elementwise."""
    return clamp(input, max=_required("clamp_max", "max", max), out=out)


def rsub(input, other, *, alpha=1):
    """other - alpha * input."""
    return _ops["sub"](other, input, alpha=alpha)


def _same(name):
    def apply(input):
        _need_tensors(name, input=input)
        return input

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = "input itself: conjugates and negatives are computed at once."
    return apply


resolve_conj, resolve_neg = _same("resolve_conj"), _same("resolve_neg")


def get_device(input):
    """Index of input's device; -1 for the CPU."""
    _need_tensors("get_device", input=input)
    return -1 if input.device.type == "cpu" else input.device.index or 0


# ---- shapes ----

def adjoint(input):
    """Conjugate transpose of matrices; a view if they are real."""
    _need_tensors("adjoint", input=input)
    if input.dim() == 0:
        return input.conj()
    return input.mH if input.is_complex() else input.mT


def diagflat(input, offset=0):
    """A matrix with input's elements on a diagonal."""
    _need_tensors("diagflat", input=input)
    return _ops["diag"](input.reshape(-1), offset)


def constant_pad_nd(input, pad, value=0):
    """input padded with a constant value."""
    return _ops["pad"](input, pad, "constant", value)


def nonzero_static(input, *, size, fill_value=-1, out=None):
    """The first `size` rows of nonzero, padded with rows of fill_value."""
    if size < 0:
        raise ValueError(f"nonzero_static(): argument 'size': expected at least 0, got {size}")
    found = _ops["nonzero"](input)[:size]
    rest = _ops["full"]((size - found.shape[0], found.shape[1]), fill_value, dtype=found.dtype, device=found.device)
    return _ops["cat"]([found, rest], out=out)


def index_reduce(input, dim, index, source, reduce, *, include_self=True, out=None):
    """input with slices of source reduced into it at index along dim, by 'prod', 'mean', 'amax' or 'amin'. input's own
    slice is included unless include_self is False."""
    _need_tensors("index_reduce", input=input, index=index, source=source)
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise ValueError(f"index_reduce(): argument 'reduce': expected 'prod', 'mean', 'amax' or 'amin', got {reduce!r}")
    dim = _dimension("index_reduce", dim, max(input.ndim, 1))
    wanted = [index.numel() if d == dim else n for d, n in enumerate(input.shape)]
    if index.ndim > 1 or list(source.shape) != wanted:
        raise ValueError(f"index_reduce(): index {tuple(index.shape)} and source {tuple(source.shape)} do not fit dimension "
                         f"{dim} of {tuple(input.shape)}")
    places = index.to(_core.int64).reshape([-1 if d == dim else 1 for d in range(input.ndim)]).expand(source.shape)
    return _ops["scatter_reduce"](input, dim, places, source, reduce, include_self=include_self, out=out)


def unravel_index(indices, shape):
    """The coordinates of row-major element indices in a tensor of that shape."""
    _need_tensors("unravel_index", indices=indices)
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is _core.bool:
        raise DTypeError(f"unravel_index(): argument 'indices': expected integers, got {indices.dtype.name}")
    sizes = [shape] if isinstance(shape, Integral) else list(shape)
    if not all(isinstance(n, Integral) for n in sizes):
        raise TypeError(f"unravel_index(): argument 'shape': expected an int or several, got {shape!r}")
    if any(n < 0 or n == 0 and indices.numel() for n in sizes):
        raise ValueError(f"unravel_index(): {tuple(sizes)} is not the shape of a tensor with elements")
    rest, coordinates = indices.to(_core.int64), []
    for n in reversed(sizes):
        coordinates.append(rest % n)
        rest = rest // n
    return tuple(reversed(coordinates))


def _derivative(x, dim, spacing, edge_order):
    """The derivative along dim, from parabolas through three neighbours; at the ends from lines if edge_order is 1."""
    n, uneven = x.shape[dim], isinstance(spacing, Tensor) and spacing.ndim == 1
    if n <= edge_order:
        raise ValueError(f"gradient(): dimension {dim} needs more than {edge_order} elements, it has {n}")
    if uneven and spacing.shape[0] != n:
        raise ValueError(f"gradient(): dimension {dim} has {n} elements, and {spacing.shape[0]} coordinates")

    def part(start, length=1):
        return x.narrow(dim, start, length)

    def step(start, length=1):
        return steps.narrow(dim, start, length) if uneven else 1

    def parabola(start, before, at, after, length=1):
        return before * part(start, length) + at * part(start + 1, length) + after * part(start + 2, length)

    if uneven:
        steps = spacing.diff().reshape([-1 if d == dim else 1 for d in range(x.ndim)])
        h, k = step(0, n - 2), step(1, n - 2)
        middle = parabola(0, -k / (h * (h + k)), (k - h) / (h * k), h / (k * (h + k)), n - 2)
    else:
        middle = (part(2, n - 2) - part(0, n - 2)) / 2
    if edge_order == 1:
        first, last = (part(1) - part(0)) / step(0), (part(n - 1) - part(n - 2)) / step(n - 2)
    else:
        h, k = step(0), step(1)
        first = parabola(0, -(2 * h + k) / (h * (h + k)), (h + k) / (h * k), -h / (k * (h + k)))
        h, k = step(n - 3), step(n - 2)
        last = parabola(n - 3, k / (h * (h + k)), -(h + k) / (h * k), (2 * k + h) / (k * (h + k)))
    result = _ops["cat"]([first, middle, last], dim)
    return result if uneven else result / spacing


def gradient(input, *, spacing=1, dim=None, edge_order=1):
    """Estimates the derivative along each dimension in dim. spacing is the distance of neighbours, a list with one for
    each dimension, or the coordinates along each dimension as tensors."""
    _need_tensors("gradient", input=input)
    if edge_order not in (1, 2):
        raise ValueError(f"gradient(): argument 'edge_order': expected 1 or 2, got {edge_order!r}")
    if input.dtype in (_core.uint8, _core.uint16, _core.uint32, _core.uint64):
        raise DTypeError(f"gradient(): differences of {input.dtype.name} may be negative")
    dims = range(input.ndim) if dim is None else [dim] if isinstance(dim, Integral) else list(dim)
    dims = [_dimension("gradient", d, input.ndim) for d in dims]
    if len(set(dims)) < len(dims):
        raise ValueError(f"gradient(): argument 'dim' names a dimension twice: {tuple(dims)}")
    spacing = 1 if spacing is None else spacing
    several = isinstance(spacing, (list, tuple))
    if not several and isinstance(spacing, Tensor) and spacing.ndim:
        raise TypeError("gradient(): argument 'spacing': expected a number, or a sequence of numbers or of tensors, "
                        f"got a tensor of {spacing.ndim} dimensions")
    spacings = list(spacing) if several else [spacing] * len(dims)
    if len(spacings) != len(dims):
        raise ValueError(f"gradient(): argument 'spacing' has {len(spacings)} entries for {len(dims)} dimensions")
    return tuple(_derivative(input, d, s, edge_order) for d, s in zip(dims, spacings))


def _dimension(name, dim, rank):
    if not -rank <= dim < rank:
        raise IndexError(f"{name}(): dimension {dim} is out of range for a tensor of rank {rank}")
    return dim % rank


# ---- linear algebra ----

def frobenius_norm(input, dim, keepdim=False, *, out=None):
    """Square root of the sum of squares over dim: one dimension, two, or () for all."""
    dims = [dim] if isinstance(dim, Integral) else list(dim)
    if len(dims) > 2:
        raise ValueError(f"frobenius_norm(): argument 'dim': expected at most two dimensions, got {tuple(dims)}")
    return _ops["vector_norm"](input, 2, dims or None, keepdim, out=out)


def nuclear_norm(input, dim=(-2, -1), keepdim=False, *, out=None):
    """The sum of the singular values of the matrices in two dimensions."""
    if isinstance(dim, bool):  # nuclear_norm(input, keepdim)
        dim, keepdim = (-2, -1), dim
    return _ops["linalg_matrix_norm"](input, "nuc", dim, keepdim, out=out)


def norm(input, p="fro", dim=None, keepdim=False, out=None, dtype=None):
    """The p-norm over dim, as vector_norm; 'fro' is the Euclidean norm, 'nuc' the sum of a matrix's singular values."""
    if not isinstance(p, str) or p != "nuc":
        return _ops["norm"](input, p, dim, keepdim, dtype=dtype, out=out)
    _need_tensors("norm", input=input)
    if dim is None and input.ndim != 2:
        raise ValueError(f"norm(): argument 'input': expected a matrix or two of its dimensions for 'nuc', got {input.ndim} dimensions")
    return _ops["linalg_matrix_norm"](input, "nuc", (0, 1) if dim is None else dim, keepdim, dtype=dtype, out=out)


def norm_except_dim(v, pow=2, dim=0):
    """The norm over all dimensions but dim, which are kept as size 1; over all dimensions for dim -1."""
    _need_tensors("norm_except_dim", v=v)
    if dim == -1:
        return _ops["vector_norm"](v, pow)
    dim = _dimension("norm_except_dim", dim, v.ndim)
    rest = [d for d in range(v.ndim + 1) if d != dim]
    return _ops["vector_norm"](v.unsqueeze(-1), pow, rest, True).squeeze(-1)


_svd = collections.namedtuple("svd", "U S V")  # type: ignore[name-match]
_triangular_solve = collections.namedtuple("triangular_solve", "solution cloned_coefficient")  # type: ignore[name-match]
_lu_unpack = collections.namedtuple("lu_unpack", "P L U")  # type: ignore[name-match]


def svd(input, some=True, compute_uv=True):
    """input = U diag(S) Vᴴ. Without `some`, U and V are square; without compute_uv they are zeros."""
    _need_tensors("svd", input=input)
    if compute_uv:
        u, s, vh = _ops["linalg_svd"](input, not some)
        return _svd(u, s, adjoint(vh))
    s, (m, n), batch = _ops["linalg_svdvals"](input), input.shape[-2:], input.shape[:-2]
    return _svd(input.new_zeros(*batch, m, m), s, input.new_zeros(*batch, n, n))


def triangular_solve(input, A, upper=True, transpose=False, unitriangular=False):
    """Solves A x = input, or Aᵀ x = input, reading only one triangle of A. Returns x and a copy of A."""
    _need_tensors("triangular_solve", input=input, A=A)
    for name, matrix in (("input", input), ("A", A)):
        if matrix.ndim < 2:
            raise ValueError(f"triangular_solve(): argument '{name}': expected a matrix or several, "
                             f"got {matrix.ndim} dimensions")
    x = _ops["linalg_solve_triangular"](A.mT if transpose else A, input, upper=upper != transpose,
                                      unitriangular=unitriangular)
    return _triangular_solve(x, A.expand(*x.shape[:-2], *A.shape[-2:]).clone())


def ormqr(input, tau, other, left=True, transpose=False, *, out=None):
    """Q other, or other Q, with the square Q of linalg.householder_product; Qᴴ instead of Q with transpose."""
    _need_tensors("ormqr", input=input, tau=tau, other=other)
    size = other.shape[-2 if left else -1]
    if input.ndim < 2 or input.shape[-2] != size or input.shape[-1] > size:
        raise ValueError(f"ormqr(): {tuple(input.shape)} are not reflectors for {size} numbers")
    missing = (0, size - input.shape[-1])
    q = _ops["linalg_householder_product"](_ops["pad"](input, missing), _ops["pad"](tau, missing))
    q = q.mH if transpose else q
    return _ops["matmul"](q, other, out=out) if left else _ops["matmul"](other, q, out=out)


def lu(A, pivot=True, get_infos=False):
    """linalg.lu_factor: (LU, pivots); with get_infos (LU, pivots, info), where info is nonzero for singular matrices.
    """
    if not pivot:
        raise NotImplementedError("lu(): argument 'pivot' is there with its default alone")
    factors = _ops["linalg_lu_factor_ex"](A)
    return tuple(factors) if get_infos else tuple(factors)[:2]


def lu_solve(input, LU_data, LU_pivots, *, out=None):
    """Solves A x = input from lu_factor(A)."""
    return _ops["linalg_lu_solve"](LU_data, LU_pivots, input, out=out)


def lu_unpack(LU_data, LU_pivots, unpack_data=True, unpack_pivots=True):
    """P, L and U with A = P L U from lu_factor(A); results that are not requested are empty tensors."""
    _need_tensors("lu_unpack", LU_data=LU_data, LU_pivots=LU_pivots)
    *batch, m, n = LU_data.shape
    P = L = U = LU_data.new_empty(0)
    if unpack_pivots:
        rest = _ops["arange"](min(m, n) + 1, m + 1, dtype=LU_pivots.dtype, device=LU_pivots.device)
        pivots = _ops["cat"]([LU_pivots, rest.expand(*batch, -1)], -1)
        eye = _ops["eye"](m, dtype=LU_data.dtype, device=LU_data.device).expand(*batch, m, m)
        P = _ops["linalg_lu_solve"](eye, pivots, eye, adjoint=True)
    if unpack_data:
        L = LU_data[..., :m].tril(-1) + _ops["eye"](m, min(m, n), dtype=LU_data.dtype, device=LU_data.device)
        U = LU_data[..., :n, :].triu()
    return _lu_unpack(P, L, U)


# ---- layers ----

def max_pool1d_with_indices(input, kernel_size, stride=None, padding=0, dilation=1, ceil_mode=False):
    """max_pool1d and the indices of the maxima."""
    return _ops["max_pool1d"](input, kernel_size, stride, padding, dilation, ceil_mode, return_indices=True)


def _grid_sampler(name, ranks):
    modes, edges = ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection")

    def apply(input, grid, interpolation_mode, padding_mode, align_corners):
        _need_tensors(name, input=input)
        if input.ndim not in ranks:
            raise ValueError(f"{name}(): the input has {input.ndim} dimensions")
        for argument, number in (("interpolation_mode", interpolation_mode), ("padding_mode", padding_mode)):
            if number not in (0, 1, 2):
                raise ValueError(f"{name}(): argument '{argument}': expected 0, 1 or 2, got {number!r}")
        return _ops["grid_sample"](input, grid, modes[interpolation_mode], edges[padding_mode], align_corners)

    apply.__name__ = apply.__qualname__ = name
    apply.__doc__ = "grid_sample with numbers for bilinear, nearest and bicubic, and for zeros, border and reflection."
    return apply


grid_sampler, grid_sampler_2d = _grid_sampler("grid_sampler", (4, 5)), _grid_sampler("grid_sampler_2d", (4,))
grid_sampler_3d = _grid_sampler("grid_sampler_3d", (5,))


def feature_dropout(input, p, train):
    """Dropout of whole channels, which are the second dimension."""
    _need_tensors("feature_dropout", input=input)
    if input.ndim < 2:
        raise ValueError(f"feature_dropout(): the input has {input.ndim} dimensions, fewer than 2")
    noise = _ops["dropout"](input.new_ones(*input.shape[:2], *[1] * (input.ndim - 2)), p, train)
    return input * noise if train else input


def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    """conv1d, conv2d or conv3d, by the number of the weight's dimensions; the transposed convolution with `transposed`.
    """
    _need_tensors("convolution", input=input, weight=weight)
    dims = weight.ndim - 2
    if dims not in (1, 2, 3) or input.ndim != weight.ndim:
        raise ValueError(f"convolution(): input {tuple(input.shape)} and weight {tuple(weight.shape)} must have 3 to 5 "
                         "dimensions, both the same")
    if transposed:
        return _ops[f"conv_transpose{dims}d"](input, weight, bias, stride, padding, output_padding, groups, dilation)
    return _ops[f"conv{dims}d"](input, weight, bias, stride, padding, dilation, groups)


def conv_tbc(input, weight, bias, pad=0):
    """A convolution along the first dimension of input [length, batch, channels], with weight [width, channels,
    outputs]."""
    _need_tensors("conv_tbc", input=input, weight=weight)
    return _ops["conv1d"](input.permute(1, 2, 0), weight.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1)
