"""torch.nn.grad: gradients of convolutions by their operands."""

import weft
from weft import autograd
from weft.nn import functional as F

__all__ = [f"conv{dims}d_{operand}" for dims in (1, 2, 3) for operand in ("input", "weight")]


def _gradient(convolution, input, weight, wanted, grad_output, stride, padding, dilation, groups):
    with weft.enable_grad():
        output = convolution(input, weight, None, stride, padding, dilation, groups)
    return autograd.grad(output, wanted, grad_output, create_graph=weft.is_grad_enabled() and grad_output.requires_grad)[0]


def _pair(dims):
    convolution = getattr(F, f"conv{dims}d")

    def by_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        input = weft.zeros(tuple(input_size), dtype=grad_output.dtype, device=grad_output.device, requires_grad=True)
        return _gradient(convolution, input, weight, input, grad_output, stride, padding, dilation, groups)

    def by_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        weight = weft.zeros(tuple(weight_size), dtype=grad_output.dtype, device=grad_output.device, requires_grad=True)
        return _gradient(convolution, input, weight, weight, grad_output, stride, padding, dilation, groups)

    for function, operand in ((by_input, "input"), (by_weight, "weight")):
        function.__name__ = f"conv{dims}d_{operand}"
        function.__doc__ = f"The gradient of conv{dims}d with respect to its {operand}."
        globals()[function.__name__] = function


for _dims in (1, 2, 3):
    _pair(_dims)
