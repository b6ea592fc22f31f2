"""Weights of a fixed length or largest singular value: weft.nn.utils.parametrizations."""

import weft
from weft.nn import functional as F
from weft.nn.module import Module
from weft.nn.utils.parametrize import register_parametrization

__all__ = ["weight_norm", "spectral_norm"]


class _WeightNorm(Module):
    """g v / |v|, whose lengths are taken over all dimensions but `dim` (Salimans and Kingma 2016)."""

    def __init__(self, dim=0):
        super().__init__()
        self.dim = dim

    def _length(self, v):
        if self.dim is None or self.dim == -1:
            return weft.linalg.vector_norm(v)
        dim = self.dim % v.ndim
        others = [d for d in range(v.ndim) if d != dim]
        return weft.linalg.vector_norm(v, dim=others, keepdim=True) if others else v.abs()

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / self._length(weight_v))

    def right_inverse(self, weight):
        return self._length(weight), weight


class _SpectralNorm(Module):
    """weight / sigma, where sigma is the largest singular value of the weight as a matrix of dimension `dim` by the
    others, estimated by power iteration in training (Miyato et al. 2018)."""

    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12):
        super().__init__()
        if n_power_iterations < 1:
            raise ValueError(f"spectral_norm(): argument 'n_power_iterations' must be at least 1, not {n_power_iterations}")
        self.n_power_iterations, self.dim, self.eps = n_power_iterations, dim % weight.ndim, eps
        if weight.ndim == 1:
            return
        matrix = self._matrix(weight.detach())
        rows, columns = matrix.shape
        for name, size in (("_u", rows), ("_v", columns)):
            start = weft.randn(size, dtype=weight.dtype, device=weight.device)
            self.register_buffer(name, F.normalize(start, dim=0, eps=eps))
        self._iterate(matrix, 15)

    def _matrix(self, weight):
        if self.dim != 0:
            weight = weight.permute(self.dim, *(d for d in range(weight.ndim) if d != self.dim))
        return weight.flatten(1)

    def _iterate(self, matrix, times):
        with weft.no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(matrix @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.t() @ self._u, dim=0, eps=self.eps))

    def forward(self, weight):
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        return weight / (u * (matrix @ v)).sum()

    def right_inverse(self, value):
        return value


def weight_norm(module, name="weight", dim=0):
    """The tensor is original0 * original1 / |original1|: its lengths over all dimensions but `dim` (over all with None)
    are parameters of their own."""
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The tensor is original divided by its largest singular value, which each use in training estimates a little
    better."""
    weight = getattr(module, name, None)
    if not isinstance(weight, weft.Tensor):
        raise ValueError(f"the module has no parameter or buffer '{name}' to parametrize")
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))
