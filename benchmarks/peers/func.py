"""torch.func.vmap: the cases vmap.* of ./weft bench.

    taskset -c 0 python benchmarks/peers/func.py [--threads N]
"""

import argparse

import torch

from complex import median


def loss(w1, b1, w2, b2, x, y):
    return ((torch.tanh(x @ w1 + b1) @ w2 + b2 - y) ** 2).sum()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    for count in (16, 256):
        net = [torch.randn(shape) for shape in ((64, 64), (64,), (64, 8), (8,), (count, 64), (count, 8))]
        gradients = torch.func.vmap(torch.func.grad(loss, argnums=(0, 1, 2, 3)), in_dims=(None,) * 4 + (0, 0))
        rows = torch.randn(count, 100)
        row = torch.func.vmap(lambda x: torch.softmax(x * 2 + 1, 0))
        matrices, right = torch.randn(count, 8, 8) + 8 * torch.eye(8), torch.randn(count, 8)
        solve = torch.func.vmap(torch.linalg.solve)
        for name, run in (("example_gradients", lambda: gradients(*net)), ("softmax", lambda: row(rows)),
                          ("solve", lambda: solve(matrices, right))):
            print(f"vmap.{name}.{count:<20} torch {median(run):12.2f} us", flush=True)


if __name__ == "__main__":
    main()
