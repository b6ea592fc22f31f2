"""Linear algebra under PyTorch's path: the ops that are there."""

from numbers import Integral

from weft._core import LinAlgError, _ops
from weft.errors import ValueError as _ValueError

for _name, _op in _ops.items():
    if _name.startswith("linalg_"):
        globals()[_name[len("linalg_"):]] = _op
for _name in ("matmul", "outer", "vector_norm"):
    if _name in _ops and _name not in globals():
        globals()[_name] = _ops[_name]
del _name, _op


def diagonal(A, *, offset=0, dim1=-2, dim2=-1):
    """The diagonals of the matrices in two dimensions, the last two unless they are given: a view."""
    return _ops["diagonal"](A, offset, dim1, dim2)


def norm(x, ord=None, dim=None, keepdim=False, *, dtype=None, out=None):
    """matrix_norm for two dimensions or an order that has a name, else vector_norm; without an order all elements are
    one vector."""
    dims = None if dim is None else [dim] if isinstance(dim, Integral) else list(dim)
    if ord is not None and (isinstance(ord, str) or (len(dims) if dims is not None else x.dim()) == 2):
        if dims is None and x.dim() != 2:
            raise _ValueError(f"linalg.norm(): argument 'input': expected a matrix or two of its dimensions for order {ord!r}, got {x.dim()} dimensions")
        return _ops["linalg_matrix_norm"](x, ord, dims or [-2, -1], keepdim, dtype=dtype, out=out)
    if ord is not None and dims is None and x.dim() > 2:
        raise _ValueError(f"linalg.norm(): order {ord!r} needs dim for a tensor of {x.dim()} dimensions")
    return _ops["vector_norm"](x, 2 if ord is None else ord, dims, keepdim, dtype=dtype, out=out)
