"""PyTorch's names of sparse tensors for weft.sparse's Coo and Csr, which are structs of tensors."""

import weft
from weft import sparse

__all__ = ["FloatTensor", "addmm", "LongTensor", "DoubleTensor", "mm", "sampled_addmm", "softmax", "sparse_coo_tensor",
           "sparse_csr_tensor", "spmm", "sum"]


def sparse_coo_tensor(indices, values, size=None, *, dtype=None, device=None, requires_grad=False, check_invariants=None,
                      is_coalesced=None):
    """A weft.sparse.Coo of indices [dimensions, count] and their values."""
    indices = weft.as_tensor(indices).to(weft.int64)
    values = weft.as_tensor(values)
    values = values.to(device=device or values.device, dtype=dtype or values.dtype)
    if size is None:
        size = [n + 1 for n in indices.max(1).values.tolist()] + list(values.shape[1:])
    return sparse.Coo(indices, values.requires_grad_() if requires_grad else values, tuple(int(n) for n in size))


def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, device=None, requires_grad=False,
                      check_invariants=None):
    """A weft.sparse.Csr."""
    rows, columns = (weft.as_tensor(t).to(weft.int64) for t in (crow_indices, col_indices))
    values = weft.as_tensor(values)
    values = values.to(device=device or values.device, dtype=dtype or values.dtype)
    if size is None:
        size = (rows.shape[0] - 1, int(columns.max().item()) + 1)
    return sparse.Csr(rows, columns, values, tuple(int(n) for n in size))


def _constructor(dtype):
    def make(indices, values, size=None):
        return sparse_coo_tensor(indices, values, size, dtype=dtype)

    make.__doc__ = f"A weft.sparse.Coo of {dtype.name}."
    return make


FloatTensor, DoubleTensor, LongTensor = (_constructor(t) for t in (weft.float32, weft.float64, weft.int64))


def mm(sparse, dense):
    """The product of a sparse matrix, or a dense one, with a dense matrix."""
    return sparse @ dense


spmm = mm


def addmm(mat, mat1, mat2, beta=1.0, alpha=1.0):
    """beta * mat + alpha * (mat1 @ mat2), with a sparse mat1."""
    return beta * mat + alpha * (mat1 @ mat2)


def sum(input, dim=None, dtype=None):
    """The sum of a sparse tensor over dim, as a dense tensor."""
    dense = input.to_dense()
    return dense.sum() if dim is None else dense.sum(dim)


def softmax(input, dim, *, dtype=None):
    raise NotImplementedError("sparse.softmax() is missing on Weft: weft.scatter_reduce and weft.exp make it of the values")


def sampled_addmm(*_, **__):
    raise NotImplementedError("sparse.sampled_addmm() is missing on Weft: index the factors and multiply their rows")
