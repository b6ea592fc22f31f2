"""Own functions of autograd: a linear layer, an exponential, a rectifier, second derivatives, gradcheck."""

import torch
import torch.nn as nn
from torch.autograd import Function, gradcheck
from torch.autograd.function import once_differentiable
from common import normal, start


class LinearFunction(Function):
    @staticmethod
    def forward(ctx, input, weight, bias=None):
        ctx.save_for_backward(input, weight, bias)
        output = input.mm(weight.t())
        if bias is not None:
            output += bias.unsqueeze(0).expand_as(output)
        return output

    @staticmethod
    def backward(ctx, grad_output):
        input, weight, bias = ctx.saved_tensors
        grad_input = grad_weight = grad_bias = None
        if ctx.needs_input_grad[0]:
            grad_input = grad_output.mm(weight)
        if ctx.needs_input_grad[1]:
            grad_weight = grad_output.t().mm(input)
        if bias is not None and ctx.needs_input_grad[2]:
            grad_bias = grad_output.sum(0)
        return grad_input, grad_weight, grad_bias


class MyReLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx, input):
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    @once_differentiable
    def backward(ctx, grad_output):
        input, = ctx.saved_tensors
        grad_input = grad_output.clone()
        grad_input[input < 0] = 0
        return grad_input


class ScaledExp(Function):
    @staticmethod
    def forward(ctx, i, scale):
        result = (i * scale).exp()
        ctx.save_for_backward(result)
        ctx.scale, ctx.shape = scale, i.shape
        return result

    @staticmethod
    def backward(ctx, grad_output):
        result, = ctx.saved_tensors
        return grad_output * result * ctx.scale, None


class GradReverse(Function):
    @staticmethod
    def forward(ctx, x, lambd):
        ctx.lambd = lambd
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad_output):
        return grad_output.neg() * ctx.lambd, None


class Split(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        values, indices = x.sort(dim=1)
        ctx.mark_non_differentiable(indices)
        ctx.save_for_backward(indices)
        return values, indices

    @staticmethod
    def backward(ctx, grad_values, grad_indices):
        indices, = ctx.saved_tensors
        return torch.zeros_like(grad_values).scatter(1, indices, grad_values)


class Linear(nn.Module):
    def __init__(self, input_features, output_features, bias=True):
        super().__init__()
        self.input_features, self.output_features = input_features, output_features
        self.weight = nn.Parameter(torch.empty(output_features, input_features))
        if bias:
            self.bias = nn.Parameter(torch.empty(output_features))
        else:
            self.register_parameter("bias", None)
        nn.init.uniform_(self.weight, -0.1, 0.1)
        if self.bias is not None:
            nn.init.uniform_(self.bias, -0.1, 0.1)

    def forward(self, input):
        return LinearFunction.apply(input, self.weight, self.bias)

    def extra_repr(self):
        return "input_features={}, output_features={}, bias={}".format(self.input_features, self.output_features,
                                                                       self.bias is not None)


test = torch.autograd.gradcheck(LinearFunction.apply, (torch.randn(4, 5, dtype=torch.double, requires_grad=True),
                                                       torch.randn(3, 5, dtype=torch.double, requires_grad=True)), eps=1e-6, atol=1e-4)
assert test and gradcheck(lambda x: ScaledExp.apply(x, 0.5), torch.rand(3, dtype=torch.double, requires_grad=True))
net = start(nn.Sequential(Linear(6, 12), Linear(12, 4, bias=False)))
optimizer, losses = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.5), []
assert "input_features=6" in str(net)
for i in range(20):
    x = normal(5, 6, seed=i % 2).requires_grad_()
    hidden = MyReLU.apply(net[0](x))
    values, order = Split.apply(net[1](hidden))
    loss = ScaledExp.apply(values, 0.1).mean() + (GradReverse.apply(hidden, 0.01) ** 2).mean()
    grad, = torch.autograd.grad(values.sum(), x, create_graph=False, retain_graph=True)
    net.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item() + grad.norm().item())
