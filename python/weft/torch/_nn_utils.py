"""Names of torch.nn.utils beside weft.nn.utils: norms of weights by hooks, as before parametrizations."""

import weft
from weft.nn import functional as F
from weft.nn.module import Parameter

__all__ = ["clip_grad_norm", "remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


def clip_grad_norm(parameters, max_norm, norm_type=2.0, error_if_nonfinite=False, foreach=None):
    """clip_grad_norm_."""
    return weft.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)


class _Hook:
    """Sets an attribute of a module from other parameters, before each call."""

    def __init__(self, name):
        self.name = name

    def __call__(self, module, inputs):
        object.__setattr__(module, self.name, self.compute(module))

    def attach(self, module):
        if any(isinstance(hook, type(self)) and hook.name == self.name for hook, _ in module._hooks["forward_pre"].values()):
            raise RuntimeError(f"'{self.name}' of {type(module).__name__} has such a norm already")
        self.handle = module.register_forward_pre_hook(self)
        object.__setattr__(module, self.name, self.compute(module))

    @classmethod
    def detach(cls, module, name):
        for key, (hook, _) in module._hooks["forward_pre"].items():
            if isinstance(hook, cls) and hook.name == name:
                del module._hooks["forward_pre"][key]
                return hook
        raise ValueError(f"'{name}' of {type(module).__name__} has no {cls.__name__.strip('_')}")


class _WeightNorm(_Hook):
    def __init__(self, name, dim):
        super().__init__(name)
        self.dim = -1 if dim is None else dim

    def compute(self, module):
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / weft.norm_except_dim(v, 2, self.dim))


def weight_norm(module, name="weight", dim=0):
    """The parameter `name` as name_g * name_v / |name_v|; weft.nn.utils.parametrizations.weight_norm is the newer form."""
    hook, weight = _WeightNorm(name, dim), getattr(module, name)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(weft.norm_except_dim(weight, 2, hook.dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    hook.attach(module)
    return module


def remove_weight_norm(module, name="weight"):
    """Makes the weight a plain parameter again."""
    hook = _WeightNorm.detach(module, name)
    weight = hook.compute(module).detach()
    module.__dict__.pop(name, None)
    delattr(module, name + "_g")
    delattr(module, name + "_v")
    module.register_parameter(name, Parameter(weight))
    return module


class _SpectralNorm(_Hook):
    def __init__(self, name, n_power_iterations, dim, eps):
        super().__init__(name)
        self.iterations, self.dim, self.eps = n_power_iterations, dim, eps

    def matrix(self, weight):
        if self.dim:
            weight = weight.permute(self.dim, *[d for d in range(weight.dim()) if d != self.dim])
        return weight.reshape(weight.size(0), -1)

    def compute(self, module):
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.matrix(weight)
        if module.training:
            with weft.no_grad():
                for _ in range(self.iterations):
                    v.copy_(F.normalize(weft.mv(matrix.t(), u), dim=0, eps=self.eps))
                    u.copy_(F.normalize(weft.mv(matrix, v), dim=0, eps=self.eps))
            u, v = u.clone(), v.clone()
        return weight / weft.dot(u, weft.mv(matrix, v))


def spectral_norm(module, name="weight", n_power_iterations=1, eps=1e-12, dim=None):
    """The parameter `name` as name_orig divided by its largest singular value;
    weft.nn.utils.parametrizations.spectral_norm is the newer form."""
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    hook, weight = _SpectralNorm(name, n_power_iterations, dim, eps), getattr(module, name)
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    height, width = hook.matrix(weight).shape
    for end, size in (("_u", height), ("_v", width)):
        module.register_buffer(name + end, F.normalize(weft.randn(size, dtype=weight.dtype), dim=0, eps=eps))
    hook.attach(module)
    return module


def remove_spectral_norm(module, name="weight"):
    """Makes the weight a plain parameter again."""
    hook = _SpectralNorm.detach(module, name)
    with weft.no_grad():
        weight = hook.compute(module).detach()
    module.__dict__.pop(name, None)
    for end in ("_orig", "_u", "_v"):
        delattr(module, name + end)
    module.register_parameter(name, Parameter(weight))
    return module
