"""An ordinary differential equation with a network, by Runge-Kutta steps and the adjoint as an own function."""

import torch
import torch.nn as nn
from common import start


def rk4(func, t, h, y):
    k1 = func(t, y)
    k2 = func(t + h / 2, y + h / 2 * k1)
    k3 = func(t + h / 2, y + h / 2 * k2)
    k4 = func(t + h, y + h * k3)
    return y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


class ODEAdjoint(torch.autograd.Function):
    @staticmethod
    def forward(ctx, func, y0, t, flat_params, *params):
        ctx.func = func
        with torch.no_grad():
            ys = [y0]
            for t0, t1 in zip(t[:-1], t[1:]):
                ys.append(rk4(func, t0, t1 - t0, ys[-1]))
            ys = torch.stack(ys)
        ctx.save_for_backward(t, ys, flat_params)
        return ys

    @staticmethod
    def backward(ctx, grad_ys):
        t, ys, flat_params = ctx.saved_tensors
        func, params = ctx.func, tuple(ctx.func.parameters())
        adj_y, adj_params = grad_ys[-1], torch.zeros_like(flat_params)
        for i in range(len(t) - 1, 0, -1):
            with torch.enable_grad():
                y = ys[i - 1].detach().requires_grad_(True)
                y1 = rk4(func, t[i - 1], t[i] - t[i - 1], y)
                grads = torch.autograd.grad(y1, (y,) + params, adj_y, allow_unused=True, retain_graph=True)
            adj_y = grads[0] + grad_ys[i - 1]
            adj_params = adj_params + torch.cat([g.contiguous().view(-1) if g is not None else torch.zeros_like(p).view(-1)
                                                 for g, p in zip(grads[1:], params)])
        return None, adj_y, None, adj_params, *([None] * len(params))


class ODEFunc(nn.Module):
    def __init__(self):
        super(ODEFunc, self).__init__()
        self.net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
        self.nfe = 0
        for m in self.net.modules():
            if isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, mean=0, std=0.1)
                nn.init.constant_(m.bias, val=0)

    def forward(self, t, y):
        self.nfe += 1
        return self.net(y ** 3)


true_A, t = torch.tensor([[-0.1, 2.0], [-2.0, -0.1]]), torch.linspace(0.0, 1.0, 9)
with torch.no_grad():
    true_y = [torch.tensor([[2.0, 0.0]])]
    for t0, t1 in zip(t[:-1], t[1:]):
        true_y.append(rk4(lambda t, y: torch.mm(y ** 3, true_A), t0, t1 - t0, true_y[-1]))
    true_y = torch.stack(true_y)
func, losses = start(ODEFunc()), []
optimizer = torch.optim.RMSprop(func.parameters(), lr=1e-3)
for itr in range(20):
    optimizer.zero_grad()
    flat_params = torch.cat([p.contiguous().flatten() for p in func.parameters()])
    if itr % 2:
        pred_y = ODEAdjoint.apply(func, true_y[0], t, flat_params, *func.parameters())
    else:
        ys = [true_y[0]]
        for i in range(len(t) - 1):
            ys.append(rk4(func, t[i], t[i + 1] - t[i], ys[-1]))
        pred_y = torch.stack(ys)
    loss = torch.mean(torch.abs(pred_y - true_y))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
