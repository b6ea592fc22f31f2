"""Linear algebra under PyTorch's path: the ops that are there."""

from weft._core import _ops

for _name, _op in _ops.items():
    if _name.startswith("linalg_"):
        globals()[_name[len("linalg_"):]] = _op
for _name in ("matmul", "cross", "diagonal", "outer", "multi_dot", "vecdot", "matrix_power", "inv", "det", "slogdet",
              "solve", "cholesky", "qr", "svd", "eigh"):
    if _name in _ops and _name not in globals():
        globals()[_name] = _ops[_name]
del _name, _op


def vector_norm(x, ord=2, dim=None, keepdim=False, *, dtype=None):
    """The norm of vectors; only the Euclidean one is there."""
    if ord != 2:
        raise NotImplementedError("vector_norm(): only ord=2 is there yet")
    return _ops["norm"](x if dtype is None else x.to(dtype), dim, keepdim)
