"""Data and first weights of the scripts: drawn by NumPy, so that they are equal in every library."""

import zlib

import numpy as np
import torch


def numbers(*shape, seed=0):
    """A float32 array of standard normal numbers."""
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def normal(*shape, seed=0):
    return torch.from_numpy(numbers(*shape, seed=seed))


def uniform(*shape, seed=0):
    return torch.from_numpy(np.random.RandomState(seed).rand(*shape).astype(np.float32))


def integers(high, *shape, seed=0):
    return torch.from_numpy(np.random.RandomState(seed).randint(0, high, shape).astype(np.int64))


def start(module, prefix=""):
    """Overwrites the parameters by numbers that depend on their names and shapes alone; returns the module. Vectors named
    `weight`, such as those of norms, keep their values."""
    with torch.no_grad():
        for name, parameter in module.named_parameters():
            shape = tuple(parameter.shape)
            if len(shape) < 2 and name.split(".")[-1] == "weight":
                continue
            draws = np.random.RandomState(zlib.crc32((prefix + name).encode()) % 2**31)
            scale = 0.05 if len(shape) < 2 else 1 / np.sqrt(max(1, np.prod(shape[1:])))
            parameter.copy_(torch.from_numpy(np.asarray(draws.randn(*shape) * scale, dtype=np.float32)))
    return module
