"""Filling tensors with first values, in place and outside the graph; the formulas are those of weft/nn/init.hpp."""

import operator

import warnings

from weft import _core
from weft._modes import no_grad


def _number(generator):
    return None if generator is None else operator.index(generator)


@no_grad()
def uniform_(tensor, a=0.0, b=1.0, generator=None):
    return tensor.uniform_(a, b, generator=generator)


@no_grad()
def normal_(tensor, mean=0.0, std=1.0, generator=None):
    return tensor.normal_(mean, std, generator=generator)


@no_grad()
def constant_(tensor, val):
    return tensor.fill_(val)


def zeros_(tensor):
    return constant_(tensor, 0)


def ones_(tensor):
    return constant_(tensor, 1)


def eye_(tensor):
    """Ones on the diagonal of a matrix, else zeros."""
    _core._init_eye_(tensor)
    return tensor


def dirac_(tensor, groups=1):
    """The weight of a convolution that hands its input on."""
    _core._init_dirac_(tensor, groups)
    return tensor


def calculate_gain(nonlinearity, param=None):
    return _core._init_gain(nonlinearity, 0.01 if param is None else float(param))


def xavier_uniform_(tensor, gain=1.0, generator=None):
    _core._init_xavier_uniform_(tensor, float(gain), _number(generator))
    return tensor


def xavier_normal_(tensor, gain=1.0, generator=None):
    _core._init_xavier_normal_(tensor, float(gain), _number(generator))
    return tensor


def kaiming_uniform_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if 0 in tensor.shape:
        warnings.warn("kaiming_uniform_(): the tensor has no elements", stacklevel=2)
        return tensor
    _core._init_kaiming_uniform_(tensor, float(a), mode, nonlinearity, _number(generator))
    return tensor


def kaiming_normal_(tensor, a=0, mode="fan_in", nonlinearity="leaky_relu", generator=None):
    if 0 in tensor.shape:
        warnings.warn("kaiming_normal_(): the tensor has no elements", stacklevel=2)
        return tensor
    _core._init_kaiming_normal_(tensor, float(a), mode, nonlinearity, _number(generator))
    return tensor


def trunc_normal_(tensor, mean=0.0, std=1.0, a=-2.0, b=2.0, generator=None):
    """Normal within [a, b]."""
    _core._init_trunc_normal_(tensor, float(mean), float(std), float(a), float(b), _number(generator))
    return tensor


def orthogonal_(tensor, gain=1, generator=None):
    """A random matrix with orthonormal rows or columns, whichever are fewer, times gain."""
    _core._init_orthogonal_(tensor, float(gain), _number(generator))
    return tensor


def sparse_(tensor, sparsity, std=0.01, generator=None):
    """Normal, with the share `sparsity` of each column of a matrix set to zero."""
    _core._init_sparse_(tensor, float(sparsity), float(std), _number(generator))
    return tensor
