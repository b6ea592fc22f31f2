"""Parametrizations: symmetric and orthogonal matrices, weight norm and spectral norm, old and new."""

import torch
import torch.nn as nn
import torch.nn.utils.parametrize as parametrize
from torch.nn.utils import parameters_to_vector, vector_to_parameters, weight_norm, remove_weight_norm
from torch.nn.utils.parametrizations import orthogonal
from common import normal, start


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)


class Skew(nn.Module):
    def forward(self, X):
        A = X.triu(1)
        return A - A.transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu(1)


class MatrixExponential(nn.Module):
    def forward(self, X):
        return torch.matrix_exp(X)


losses = []
layer = nn.Linear(4, 4)
layer.weight.data.copy_(normal(4, 4, seed=1) * 0.3), layer.bias.data.zero_()
parametrize.register_parametrization(layer, "weight", Symmetric())
assert torch.allclose(layer.weight, layer.weight.T)
ortho = nn.Linear(4, 4, bias=False)
parametrize.register_parametrization(ortho, "weight", Skew())
parametrize.register_parametrization(ortho, "weight", MatrixExponential())
ortho.parametrizations.weight.original.data.copy_(normal(4, 4, seed=2) * 0.3)
normed = weight_norm(start(nn.Linear(4, 2)), name="weight")
assert sorted(dict(normed.named_parameters())) == ["bias", "weight_g", "weight_v"]
net = nn.Sequential(layer, nn.Tanh(), ortho, nn.Tanh(), normed)
optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
for i in range(16):
    with parametrize.cached():
        loss = net(normal(6, 4, seed=i % 2)).pow(2).mean() - layer.weight.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
W = ortho.weight
losses.append((W.T @ W - torch.eye(4)).abs().max().item())
remove_weight_norm(normed)
assert sorted(dict(normed.named_parameters())) == ["bias", "weight"]
parametrize.remove_parametrizations(layer, "weight", leave_parametrized=True)
assert not parametrize.is_parametrized(layer) and isinstance(layer.weight, nn.Parameter)
q = orthogonal(nn.Linear(3, 3))
assert torch.dist(q.weight.T @ q.weight, torch.eye(3)) < 1e-5
vector = parameters_to_vector(normed.parameters())
losses.append(vector.sum().item())
vector_to_parameters(vector * 0.5, normed.parameters())
losses.append(normed.weight.sum().item())
losses.append(net(normal(6, 4)).sum().item())
