"""Weights of a fixed length or largest singular value: weft.nn.utils.parametrizations, over nn/parametrize.hpp."""

import weft
from weft import _core
from weft.nn.module import NativeModule
from weft.nn.utils.parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]

_maps = ("matrix_exp", "cayley", "householder")


class _Native(NativeModule):
    """A parametrization that C++ computes, and describes in files of models."""

    def forward(self, *originals):
        return _core._run_parametrization(self, list(originals))

    def __deepcopy__(self, memo):
        copy = memo[id(self)] = type(self).__new__(type(self))
        copy._start(_core._Module("", _core._clone_parametrization(self)))
        copy.__dict__.update({k: v for k, v in self.__dict__.items() if not k.startswith("_")})
        return copy


class _WeightNorm(_Native):
    """g v / |v|, whose lengths are taken over all dimensions but `dim` (Salimans and Kingma 2016)."""

    def __init__(self, dim=0):
        super().__init__(_core._weight_norm(dim))
        self.dim = -1 if dim is None else dim


class _SpectralNorm(_Native):
    """weight / sigma, where sigma is the largest singular value of the weight as a matrix of dimension `dim` by the
    others, estimated by power iteration in training (Miyato et al. 2018)."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__(_core._spectral_norm(weight, n_power_iterations, eps, dim))
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim % weight.ndim, eps


class _Orthogonal(_Native):
    """A matrix with orthonormal columns, or rows where it is wide, from any of its shape."""

    def __init__(self, weight, orthogonal_map=None, use_trivialization=True):
        if orthogonal_map not in (None, *_maps):
            raise ValueError(f"orthogonal(): argument 'orthogonal_map': expected one of {_maps}, got {orthogonal_map!r}")
        number = None if orthogonal_map is None else _maps.index(orthogonal_map)
        super().__init__(_core._orthogonal(weight, number, use_trivialization))


def _described(kind, config, weight):
    """The parametrization of this kind and these options for a weight; None for a kind that is none of these."""
    makers = {"_WeightNorm": lambda: _WeightNorm(**config), "_SpectralNorm": lambda: _SpectralNorm(weight, **config),
              "_Orthogonal": lambda: _Orthogonal(weight, **config)}
    return makers[kind]() if kind in makers else None


def _weight(module, name):
    weight = getattr(module, name, None)
    if not isinstance(weight, weft.Tensor):
        raise ValueError(f"the module has no parameter or buffer '{name}' to parametrize")
    return weight


def weight_norm(module, name="weight", dim=0):
    """The tensor is original0 * original1 / |original1|: its lengths over all dimensions but `dim` (over all with None
    or -1) are parameters of their own."""
    rank = _weight(module, name).ndim
    if dim is not None and not -rank <= dim < rank:
        raise ValueError(f"weight_norm(): there is no dimension {dim} of {rank}")
    return register_parametrization(module, name, _WeightNorm(None if dim in (None, -1) else dim % rank), unsafe=True)


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The tensor is original divided by its largest singular value, which each use in training estimates a little
    better."""
    weight = _weight(module, name)
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def orthogonal(module, name="weight", orthogonal_map=None, *, use_trivialization=True):
    """The tensor has orthonormal columns, or rows where it is wide: 'matrix_exp' (of a square weight by default), 'cayley'
    or 'householder' makes it from any matrix."""
    step = _Orthogonal(_weight(module, name), orthogonal_map, use_trivialization)
    return register_parametrization(module, name, step, unsafe=True)
