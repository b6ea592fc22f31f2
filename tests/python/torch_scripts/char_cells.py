"""Recurrent cells step by step, a layer-normalised LSTM of one's own, and a mixture density output."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import Parameter
from common import integers, normal, start


class LayerNormLSTMCell(nn.Module):
    def __init__(self, input_size, hidden_size):
        super().__init__()
        self.weight_ih = Parameter(torch.randn(4 * hidden_size, input_size))
        self.weight_hh = Parameter(torch.randn(4 * hidden_size, hidden_size))
        self.layernorm_i, self.layernorm_h = nn.LayerNorm(4 * hidden_size), nn.LayerNorm(4 * hidden_size)
        self.layernorm_c = nn.LayerNorm(hidden_size)

    def forward(self, input, state):
        hx, cx = state
        gates = self.layernorm_i(torch.mm(input, self.weight_ih.t())) + self.layernorm_h(torch.mm(hx, self.weight_hh.t()))
        ingate, forgetgate, cellgate, outgate = gates.chunk(4, 1)
        cy = self.layernorm_c((forgetgate.sigmoid() * cx) + (ingate.sigmoid() * cellgate.tanh()))
        hy = outgate.sigmoid() * cy.tanh()
        return hy, (hy, cy)


class Sequence(nn.Module):
    def __init__(self):
        super(Sequence, self).__init__()
        self.lstm1, self.lstm2 = nn.LSTMCell(1, 8), nn.LSTMCell(8, 8)
        self.gru, self.own = nn.GRUCell(8, 8), LayerNormLSTMCell(8, 8)
        self.linear = nn.Linear(8, 1)

    def forward(self, input, future=0):
        outputs = []
        h_t, c_t = torch.zeros(input.size(0), 8, dtype=torch.float), torch.zeros(input.size(0), 8)
        h_t2, c_t2, g, s = h_t.clone(), c_t.clone(), h_t.clone(), (h_t.clone(), c_t.clone())
        for input_t in input.split(1, dim=1):
            h_t, c_t = self.lstm1(input_t, (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            g = self.gru(h_t2, g)
            out, s = self.own(g, s)
            outputs += [self.linear(out)]
        for i in range(future):
            h_t, c_t = self.lstm1(outputs[-1], (h_t, c_t))
            h_t2, c_t2 = self.lstm2(h_t, (h_t2, c_t2))
            outputs += [self.linear(self.own(self.gru(h_t2, g), s)[0])]
        return torch.cat(outputs, dim=1)


class MDN(nn.Module):
    def __init__(self, in_features, num_gaussians):
        super().__init__()
        self.pi = nn.Sequential(nn.Linear(in_features, num_gaussians), nn.Softmax(dim=1))
        self.sigma, self.mu = nn.Linear(in_features, num_gaussians), nn.Linear(in_features, num_gaussians)

    def forward(self, minibatch):
        return self.pi(minibatch), torch.exp(self.sigma(minibatch)), self.mu(minibatch)


def mdn_loss(pi, sigma, mu, target):
    target = target.unsqueeze(1).expand_as(sigma)
    ret = 1.0 / math.sqrt(2 * math.pi) * torch.exp(-0.5 * ((target - mu) / sigma) ** 2) / sigma
    return -torch.log(torch.sum(pi * ret, dim=1) + 1e-10).mean()


data = torch.sin(torch.arange(12).float().unsqueeze(0) / 2.0 + torch.arange(3).float().unsqueeze(1))
seq, criterion, losses = start(Sequence()), nn.MSELoss(), []
optimizer = torch.optim.LBFGS(seq.parameters(), lr=0.3, max_iter=2)
for i in range(5):
    def closure():
        optimizer.zero_grad()
        loss = criterion(seq(data[:, :-1]), data[:, 1:])
        losses.append(loss.item())
        loss.backward()
        return loss

    optimizer.step(closure)
losses = losses[:10]
with torch.no_grad():
    losses.append(seq(data[:, :-1], future=3)[:, -1].mean().item())
model = start(MDN(4, 3))
optimizer = torch.optim.Adamax(model.parameters(), lr=0.02)
for i in range(10):
    x = normal(16, 4, seed=i % 2)
    loss = mdn_loss(*model(x), x[:, 0] * x[:, 1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
one_hot = torch.zeros(5, 7).scatter_(1, integers(7, 5).unsqueeze(1), 1.0)
assert one_hot.sum(1).eq(1).all() and F.one_hot(integers(7, 5), 7).float().equal(one_hot)
