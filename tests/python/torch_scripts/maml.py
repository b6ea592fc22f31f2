"""Meta learning: inner steps by create_graph, and by functional calls with a dictionary of weights."""

from collections import OrderedDict

import torch
import torch.nn.functional as F
from torch import nn
from torch.func import functional_call, grad, vmap
from common import normal, start, uniform


class Learner(nn.Module):
    def __init__(self):
        super().__init__()
        self.vars = nn.ParameterList()
        for shape in ((1, 16), (16, 16), (16, 1)):
            self.vars.append(nn.Parameter(torch.ones(shape[1], shape[0])))
            self.vars.append(nn.Parameter(torch.zeros(shape[1])))

    def forward(self, x, vars=None):
        if vars is None:
            vars = self.vars
        idx = 0
        for i in range(3):
            w, b = vars[idx], vars[idx + 1]
            x = F.linear(x, w, b)
            idx += 2
            if i < 2:
                x = torch.tanh(x)
        return x

    def parameters(self):
        return self.vars


def task(seed):
    x = uniform(10, 1, seed=seed) * 4 - 2
    return x, torch.sin(x + seed % 3)


net = start(Learner())
meta_optim, losses = torch.optim.Adam(net.parameters(), lr=1e-2), []
for step in range(8):
    losses_q = []
    for i in range(2):
        x, y = task(step * 2 + i)
        loss = F.mse_loss(net(x[:5], vars=None), y[:5])
        gradients = torch.autograd.grad(loss, net.parameters(), create_graph=True)
        fast_weights = list(map(lambda p: p[1] - 0.1 * p[0], zip(gradients, net.parameters())))
        for k in range(1, 3):
            loss = F.mse_loss(net(x[:5], fast_weights), y[:5])
            gradients = torch.autograd.grad(loss, fast_weights, create_graph=True)
            fast_weights = list(map(lambda p: p[1] - 0.1 * p[0], zip(gradients, fast_weights)))
        losses_q.append(F.mse_loss(net(x[5:], fast_weights), y[5:]))
    loss_q = sum(losses_q) / 2
    meta_optim.zero_grad()
    loss_q.backward()
    meta_optim.step()
    losses.append(loss_q.item())
other = start(nn.Sequential(nn.Linear(1, 8), nn.Tanh(), nn.Linear(8, 1)))
params = OrderedDict(other.named_parameters())
optimizer = torch.optim.SGD(other.parameters(), lr=0.05)
for step in range(8):
    x, y = task(step)
    support = F.mse_loss(functional_call(other, params, (x[:5],)), y[:5])
    grads = torch.autograd.grad(support, params.values(), create_graph=True)
    fast = {name: p - 0.1 * g for (name, p), g in zip(params.items(), grads)}
    query = F.mse_loss(torch.func.functional_call(other, fast, (x[5:],)), y[5:])
    optimizer.zero_grad()
    query.backward()
    optimizer.step()
    losses.append(query.item())
detached = {k: v.detach() for k, v in params.items()}


def compute_loss(params, sample, target):
    return F.mse_loss(functional_call(other, params, (sample.unsqueeze(0),)), target.unsqueeze(0))


x, y = task(3)
per_sample = vmap(grad(compute_loss), in_dims=(None, 0, 0))(detached, x, y)
losses += [per_sample["0.weight"].norm().item(), per_sample["2.bias"].sum().item()]
copies = [start(nn.Linear(3, 2), f"{i}.") for i in range(3)]
stacked, buffers = torch.func.stack_module_state(copies)
base = copies[0]
out = vmap(lambda p, b, x: functional_call(base, (p, b), (x,)), in_dims=(0, 0, None))(stacked, buffers, normal(4, 3))
losses += [out.sum().item(), out[2].std().item()]
