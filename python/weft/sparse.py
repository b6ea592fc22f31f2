"""Sparse tensors as plain values, and gradients that leaves keep as rows (docs/sparse.md)."""

import weft
from weft import _core
from weft.errors import ValueError

_made = _core._sparse
Coo, Csr = _made.Coo, _made.Csr

__all__ = ["Coo", "Csr", "from_scipy", "matmul", "sparse_grad", "to_coo", "to_csr", "to_dense", "to_scipy"]


def to_coo(a, sparse_dims=None):
    """A dense tensor, or a Csr, as a Coo: what is not zero of the first sparse_dims dimensions, all unless it is given."""
    if isinstance(a, Coo):
        return a
    if isinstance(a, Csr):
        return a.to_coo()
    return _made.to_coo(a, -1 if sparse_dims is None else _checked(sparse_dims))


def _checked(sparse_dims):
    if sparse_dims < 0:
        raise ValueError(f"to_coo(): argument 'sparse_dims': expected at least 0, got {sparse_dims}")
    return sparse_dims


def to_csr(a):
    """A dense matrix, or a Coo, as a Csr whose columns ascend in each row."""
    return a if isinstance(a, Csr) else a.to_csr() if isinstance(a, Coo) else _made.to_csr(a)


def to_dense(a):
    """A Coo or Csr as a tensor."""
    return a.to_dense()


def matmul(a, dense):
    """The product of a Coo or Csr with a dense matrix or vector; `a @ dense` is the same."""
    return a @ dense


def sparse_grad(x):
    """The gradient of a leaf as a coalesced Coo where it has come in rows alone, else None; x.grad makes it dense."""
    return _made.sparse_grad(x)


def from_scipy(a):
    """A matrix of scipy.sparse, or an array: Csr from CSR, Coo from any other format. The numbers are copied."""
    import scipy.sparse  # type: ignore

    if not scipy.sparse.issparse(a):
        raise TypeError(f"from_scipy(): expected a matrix of scipy.sparse, got {type(a).__name__}")
    if a.format == "csr":
        return Csr(weft.tensor(a.indptr.astype("int64")), weft.tensor(a.indices.astype("int64")), weft.tensor(a.data),
                   a.shape)
    a = a.tocoo()
    indices = [weft.tensor(i.astype("int64")) for i in getattr(a, "coords", (a.row, a.col))]
    return Coo(_core._ops["stack"](indices), weft.tensor(a.data), a.shape)


def to_scipy(a):
    """scipy.sparse.csr_array of a Csr, coo_array of a Coo without dense dimensions; on the CPU, without the graph."""
    import scipy.sparse  # type: ignore

    def numbers(x):
        return x.detach().cpu().numpy()

    if isinstance(a, Csr):
        return scipy.sparse.csr_array((numbers(a.values), numbers(a.columns), numbers(a.row_starts)), shape=a.shape)
    if a.dense_dims:
        raise ValueError(f"to_scipy(): SciPy has no dense dimensions, and this has {a.dense_dims}")
    return scipy.sparse.coo_array((numbers(a.values), tuple(numbers(a.indices))), shape=a.shape)
