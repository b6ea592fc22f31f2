"""Linear algebra under PyTorch's path: the ops that are there."""

from weft._core import _ops

for _name, _op in _ops.items():
    if _name.startswith("linalg_"):
        globals()[_name[len("linalg_"):]] = _op
for _name in ("matmul", "cross", "diagonal", "outer", "multi_dot", "vecdot", "matrix_power", "inv", "det", "slogdet",
              "solve", "cholesky", "qr", "svd", "eigh", "vector_norm"):
    if _name in _ops and _name not in globals():
        globals()[_name] = _ops[_name]
del _name, _op
