"""Embeddings with sparse gradients, and products of sparse matrices, in PyTorch and SciPy: the cases sparse.* of
./weft bench.

    taskset -c 0 python benchmarks/peers/sparse.py [--threads N]
"""

import argparse
import time
import warnings

import torch

ROWS, WIDTH, BATCH = 1000000, 64, 4096


def median(function, seconds=1.0):
    function()
    times, end = [], time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        begin = time.perf_counter()
        function()
        times.append(time.perf_counter() - begin)
    return sorted(times)[len(times) // 2] * 1e6


def show(name, **functions):
    print(f"{name:36}" + "   ".join(f"{who} {median(f):12.2f} us" for who, f in functions.items()), flush=True)


def training(optimizer, sparse):
    table = torch.nn.Embedding(ROWS, WIDTH, sparse=sparse)
    optimizer = optimizer(table.parameters(), lr=0.01)
    ids, seed = torch.randint(0, ROWS, (BATCH,)), torch.randn(BATCH, WIDTH)

    def step():
        optimizer.zero_grad()
        table(ids).backward(seed)
        optimizer.step()

    return step


def products(size, columns):
    dense = torch.where(torch.rand(size, size) < 0.01, torch.randn(size, size), 0)
    matrix, x, seed = dense.to_sparse_csr(), torch.randn(size, columns), torch.randn(size, columns)
    functions = {"torch": lambda: matrix @ x}
    try:
        import scipy.sparse

        theirs, numbers = scipy.sparse.csr_array(dense.numpy()), x.numpy()
        functions["scipy"] = lambda: theirs @ numbers
    except ImportError:
        pass
    show(f"sparse.csr_matmul.{size}x{columns}", **functions)

    def gradients():
        a, b = matrix.detach().requires_grad_(), x.detach().requires_grad_()
        (a @ b).backward(seed)

    show(f"sparse.csr_matmul_grad.{size}x{columns}", torch=gradients)


def main():
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    show("sparse.sgd.rows.1000000x64", torch=training(torch.optim.SGD, True))
    show("sparse.sgd.dense.1000000x64", torch=training(torch.optim.SGD, False))
    show("sparse.adam.rows.1000000x64", torch=training(torch.optim.SparseAdam, True))
    show("sparse.adam.dense.1000000x64", torch=training(torch.optim.Adam, False))
    for columns in (1, 64):
        products(4096, columns)


if __name__ == "__main__":
    main()
