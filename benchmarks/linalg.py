"""Linear algebra compared with PyTorch: single factorizations, batches of small matrices and einsum, in one run.

usage: taskset -c 0 python benchmarks/linalg.py [--json FILE] [TEXT...]     (with the built module on PYTHONPATH)

Both libraries run alternately on one thread. A round is a few milliseconds of calls; the result is the median of the
rounds' CPU times. TEXT selects cases with names that contain it."""

import argparse
import json
import os
import statistics
import time

os.environ["WEFT_NUM_THREADS"] = "1"

import numpy as np  # noqa: E402
import weft  # noqa: E402

try:
    import torch

    torch.set_num_threads(1)
except ImportError:
    torch = None

ROUNDS = 11
RANDOM = np.random.default_rng(0)


def normal(*shape):
    return RANDOM.standard_normal(shape)


def complex_normal(*shape):
    return normal(*shape) + 1j * normal(*shape)


def regular(*shape):
    return normal(*shape) + 2 * shape[-1] ** 0.5 * np.eye(shape[-1])


def positive(*shape):
    x = normal(*shape)
    return x @ np.swapaxes(x, -1, -2) + shape[-1] * np.eye(shape[-1])


def symmetric(*shape):
    x = normal(*shape)
    return x + np.swapaxes(x, -1, -2)


LINALG = {
    "cholesky": (lambda m: m.linalg.cholesky, lambda *s: [positive(*s)]),
    "lu_factor": (lambda m: m.linalg.lu_factor, lambda *s: [regular(*s)]),
    "solve": (lambda m: m.linalg.solve, lambda *s: [regular(*s), normal(*s[:-1], s[-1] if s[-1] > 32 else 1)]),
    "solve_triangular": (lambda m: lambda a, b: m.linalg.solve_triangular(a, b, upper=True),
                         lambda *s: [regular(*s), normal(*s[:-1], s[-1] if s[-1] > 32 else 1)]),
    "inv": (lambda m: m.linalg.inv, lambda *s: [regular(*s)]),
    "det": (lambda m: m.linalg.det, lambda *s: [regular(*s) / s[-1] ** 0.5]),
    "qr": (lambda m: m.linalg.qr, lambda *s: [normal(*s)]),
    "eigh": (lambda m: m.linalg.eigh, lambda *s: [symmetric(*s)]),
    "eigvalsh": (lambda m: m.linalg.eigvalsh, lambda *s: [symmetric(*s)]),
    "svd": (lambda m: m.linalg.svd, lambda *s: [normal(*s)]),
    "svdvals": (lambda m: m.linalg.svdvals, lambda *s: [normal(*s)]),
}
# Complex matrices, and eigenvalues of a nonsymmetric matrix.
COMPLEX = {
    "solve": (LINALG["solve"][0], lambda *s: [complex_normal(*s), complex_normal(*s)]),
    "qr": (LINALG["qr"][0], lambda *s: [complex_normal(*s)]),
    "eigh": (LINALG["eigh"][0], lambda *s: [(lambda x: x + x.conj().T)(complex_normal(*s))]),
    "svd": (LINALG["svd"][0], lambda *s: [complex_normal(*s)]),
    "eig": (lambda m: m.linalg.eig, lambda *s: [complex_normal(*s)]),
}
GENERAL = {"eig": (lambda m: m.linalg.eig, lambda *s: [normal(*s)]),
           "eigvals": (lambda m: m.linalg.eigvals, lambda *s: [normal(*s)])}
EINSUMS = [("ij,jk->ik", [(256, 256), (256, 256)]), ("bij,bjk->bik", [(64, 64, 64), (64, 64, 64)]),
           ("bhqd,bhkd->bhqk", [(8, 8, 64, 32), (8, 8, 64, 32)]), ("bij,bij->b", [(256, 64, 64), (256, 64, 64)]),
           ("bi,bj->bij", [(256, 64), (256, 64)]), ("ijk,kl->ijl", [(32, 64, 64), (64, 64)]), ("ii->i", [(512, 512)]),
           ("ij,jk,kl->il", [(64, 256), (256, 256), (256, 8)]), ("ab,bc,cd,de->ae", [(8, 128), (128, 128), (128, 128), (128, 8)]),
           ("nchw,oc->nohw", [(8, 32, 16, 16), (16, 32)]), ("i,j,k->ijk", [(64,), (64,), (64,)]),
           ("ij,ij->ij", [(512, 512), (512, 512)]), ("bi,ij,bj->b", [(256, 64), (64, 64), (256, 64)])]


def cases():
    shapes = ((512, 512), (4096, 4, 4), (4096, 8, 8), (2048, 16, 16), (1024, 32, 32))
    families = [("float32", LINALG, shapes), ("float64", LINALG, shapes), ("float64", GENERAL, shapes[:1] + shapes[3:4]),
                ("complex128", COMPLEX, shapes[:1])]
    for dtype, functions, sizes in families:
        for name, (function, make) in functions.items():
            for shape in sizes:
                data = [x.astype(dtype) for x in make(*shape)]
                size = "x".join(map(str, shape))
                yield f"linalg.{name}.{size}.{dtype}", lambda m, data=data, f=function: [f(m), *map(m.tensor, data)]
    for equation, shapes in EINSUMS:
        data = [normal(*s).astype("float32") for s in shapes]
        yield (f"einsum.{equation}.{'_'.join('x'.join(map(str, s)) for s in shapes)}",
               lambda m, data=data, e=equation: [lambda *t: m.einsum(e, *t), *map(m.tensor, data)])


def timed(call, count):
    begin = time.process_time()
    for _ in range(count):
        call()
    return (time.process_time() - begin) / count


def measure(calls):
    counts = [max(1, int(0.01 / max(timed(c, 1), 1e-7))) for c in calls]
    rounds = [[timed(c, n) for c, n in zip(calls, counts)] for _ in range(ROUNDS)]
    return [statistics.median(r[i] for r in rounds) for i in range(len(calls))]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--json")
    parser.add_argument("text", nargs="*")
    given = parser.parse_args()
    lines = []
    for name, make in cases():
        if given.text and not any(t in name for t in given.text):
            continue
        calls = []
        for m in [weft] + [torch] * (torch is not None):
            function, *operands = make(m)
            calls.append(lambda f=function, o=operands: f(*o))
        times = measure(calls)
        ratio = f"{times[1] / times[0]:7.2f}x" if len(times) > 1 else ""
        print(f"{name:60} {times[0] * 1e6:10.1f} us {ratio}", flush=True)
        lines.append({"case": name, "weft": times[0], "torch": times[1] if len(times) > 1 else None})
    if given.json:
        with open(given.json, "w") as file:
            json.dump(lines, file, indent=1)
