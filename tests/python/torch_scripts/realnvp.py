"""A flow of affine couplings with a normal prior: masks as parameters without gradient, log densities, samples."""

import numpy as np
import torch
from torch import distributions, nn
from common import normal, start


class RealNVP(nn.Module):
    def __init__(self, nets, nett, mask, prior):
        super(RealNVP, self).__init__()
        self.prior = prior
        self.mask = nn.Parameter(mask, requires_grad=False)
        self.t = torch.nn.ModuleList([nett() for _ in range(len(mask))])
        self.s = torch.nn.ModuleList([nets() for _ in range(len(mask))])

    def g(self, z):
        x = z
        for i in range(len(self.t)):
            x_ = x * self.mask[i]
            s, t = self.s[i](x_) * (1 - self.mask[i]), self.t[i](x_) * (1 - self.mask[i])
            x = x_ + (1 - self.mask[i]) * (x * torch.exp(s) + t)
        return x

    def f(self, x):
        log_det_J, z = x.new_zeros(x.shape[0]), x
        for i in reversed(range(len(self.t))):
            z_ = self.mask[i] * z
            s, t = self.s[i](z_) * (1 - self.mask[i]), self.t[i](z_) * (1 - self.mask[i])
            z = (1 - self.mask[i]) * (z - t) * torch.exp(-s) + z_
            log_det_J -= s.sum(dim=1)
        return z, log_det_J

    def log_prob(self, x):
        z, logp = self.f(x)
        return self.prior.log_prob(z) + logp

    def sample(self, batchSize):
        z = self.prior.sample((batchSize, 1))
        return self.g(z)


nets = lambda: nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2), nn.Tanh())  # noqa: E731
nett = lambda: nn.Sequential(nn.Linear(2, 16), nn.LeakyReLU(), nn.Linear(16, 2))  # noqa: E731
masks = torch.from_numpy(np.array([[0, 1], [1, 0]] * 2).astype(np.float32))
prior = distributions.MultivariateNormal(torch.zeros(2), torch.eye(2))
flow = RealNVP(nets, nett, masks, prior)
start(flow.t, "t."), start(flow.s, "s.")
optimizer = torch.optim.Adam([p for p in flow.parameters() if p.requires_grad is True], lr=5e-3)
losses = []
for t in range(18):
    points = normal(32, 2, seed=t % 4)
    noisy = torch.stack([points[:, 0], points[:, 0] ** 2 * 0.5 + 0.1 * points[:, 1]], dim=-1)
    loss = -flow.log_prob(noisy).mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)
    optimizer.step()
    losses.append(loss.item())
assert flow.sample(5).shape == (5, 1, 2)
base = distributions.TransformedDistribution(distributions.Normal(torch.zeros(2), torch.ones(2)),
                                             [distributions.AffineTransform(torch.ones(2), torch.full((2,), 2.0)),
                                              distributions.transforms.TanhTransform(cache_size=1)])
losses.append(base.log_prob(torch.tensor([0.5, -0.25])).sum().item())
independent = distributions.Independent(distributions.Normal(torch.zeros(3, 2), torch.ones(3, 2)), 1)
losses.append(distributions.kl_divergence(independent, distributions.Independent(
    distributions.Normal(torch.ones(3, 2), torch.ones(3, 2)), 1)).sum().item())
