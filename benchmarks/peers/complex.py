"""Complex arithmetic and Fourier transforms in PyTorch and NumPy: the cases fft.*, rfft.*, fft2.* and complex.* of
./weft bench.

    taskset -c 0 python benchmarks/peers/complex.py [--threads N]
"""

import argparse
import time

import numpy
import torch


def seconds(function, number):
    begin = time.process_time()
    for _ in range(number):
        function()
    return (time.process_time() - begin) / number


def median(function, enough=0.5):
    """Median CPU time of a call in microseconds, over batches of at least 0.1 ms."""
    number = 1
    while number * seconds(function, number) < 1e-4:
        number *= 2
    times, end = [], time.perf_counter() + enough
    while len(times) < 5 or time.perf_counter() < end:
        times.append(seconds(function, number))
    return sorted(times)[len(times) // 2] * 1e6


def show(name, torch_function, numpy_function):
    print(f"{name:40} torch {median(torch_function):12.2f} us   numpy {median(numpy_function):12.2f} us", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    torch.set_num_threads(parser.parse_args().threads)
    for kind, real in ((torch.complex128, torch.float64), (torch.complex64, torch.float32)):
        for shape in ((1 << 20,), (1000, 1024), (1000, 1000), (64, 256, 256), (1000003,), (1024,)):
            x = torch.randn(shape, dtype=kind)
            r = torch.randn(shape, dtype=real)
            a, b = x.numpy(), r.numpy()
            name = f"{str(kind)[6:]}.{'x'.join(str(n) for n in shape)}"
            show(f"fft.{name}", lambda: torch.fft.fft(x), lambda: numpy.fft.fft(a))
            show(f"rfft.{name}", lambda: torch.fft.rfft(r), lambda: numpy.fft.rfft(b))
            if len(shape) == 3:
                show(f"fft2.{name}", lambda: torch.fft.fft2(x), lambda: numpy.fft.fft2(a))
    for kind in (torch.complex64, torch.complex128):
        for n in (1000, 1000000):
            x = torch.randn(n, dtype=kind)
            a = x.numpy()
            name = f"{str(kind)[6:]}.{n}"
            show(f"complex.mul.{name}", lambda: x * x, lambda: a * a)
            show(f"complex.add.{name}", lambda: x + x, lambda: a + a)
            show(f"complex.conj.{name}", lambda: x.conj().resolve_conj(), lambda: a.conj())
            show(f"complex.abs.{name}", lambda: x.abs(), lambda: numpy.abs(a))
            show(f"complex.exp.{name}", lambda: x.exp(), lambda: numpy.exp(a))
            show(f"complex.sum.{name}", lambda: x.sum(), lambda: a.sum())
        for n in (32, 512):
            x = torch.randn(n, n, dtype=kind)
            a = x.numpy()
            show(f"complex.matmul.{str(kind)[6:]}.{n}", lambda: x @ x, lambda: a @ a)


if __name__ == "__main__":
    main()
