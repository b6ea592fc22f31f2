"""Names of torch.nn.init from before the underscore."""

from weft.nn import init

__all__ = []
for _name in ("uniform", "normal", "constant", "eye", "dirac", "xavier_uniform", "xavier_normal", "kaiming_uniform",
              "kaiming_normal", "orthogonal", "sparse"):
    globals()[_name] = getattr(init, _name + "_")
    __all__.append(_name)


def _calculate_fan_in_and_fan_out(tensor):
    """Inputs and outputs of one element of a weight."""
    if tensor.dim() < 2:
        raise ValueError(f"fan in and fan out need two dimensions, got {tensor.dim()}")
    field = tensor[0][0].numel() if tensor.dim() > 2 else 1
    return tensor.size(1) * field, tensor.size(0) * field


def _calculate_correct_fan(tensor, mode):
    """fan_in or fan_out."""
    fans = dict(zip(("fan_in", "fan_out"), _calculate_fan_in_and_fan_out(tensor)))
    if mode.lower() not in fans:
        raise ValueError(f"mode: expected 'fan_in' or 'fan_out', got {mode!r}")
    return fans[mode.lower()]


def _no_grad_trunc_normal_(tensor, mean, std, a, b, generator=None):
    return init.trunc_normal_(tensor, mean, std, a, b, generator)


def _no_grad_uniform_(tensor, a, b, generator=None):
    return init.uniform_(tensor, a, b, generator)


def _no_grad_normal_(tensor, mean, std, generator=None):
    return init.normal_(tensor, mean, std, generator)


__all__ += ["_calculate_correct_fan", "_calculate_fan_in_and_fan_out", "_no_grad_normal_", "_no_grad_trunc_normal_",
            "_no_grad_uniform_"]
