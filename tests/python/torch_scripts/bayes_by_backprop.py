"""Weights with distributions: own layers, scale mixtures, KL terms by batch, an ensemble of draws."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn import init
from common import normal, start

PI, SIGMA_1, SIGMA_2 = 0.5, torch.FloatTensor([math.exp(-0)]), torch.FloatTensor([math.exp(-6)])


class Gaussian(object):
    def __init__(self, mu, rho):
        super().__init__()
        self.mu, self.rho = mu, rho

    @property
    def sigma(self):
        return torch.log1p(torch.exp(self.rho))

    def sample(self, epsilon):
        return self.mu + self.sigma * epsilon

    def log_prob(self, input):
        return (-math.log(math.sqrt(2 * math.pi)) - torch.log(self.sigma) - ((input - self.mu) ** 2) / (2 * self.sigma ** 2)).sum()


class ScaleMixtureGaussian(object):
    def __init__(self, pi, sigma1, sigma2):
        super().__init__()
        self.pi = pi
        self.gaussian1, self.gaussian2 = torch.distributions.Normal(0, sigma1), torch.distributions.Normal(0, sigma2)

    def log_prob(self, input):
        prob1, prob2 = torch.exp(self.gaussian1.log_prob(input)), torch.exp(self.gaussian2.log_prob(input))
        return (torch.log(self.pi * prob1 + (1 - self.pi) * prob2)).sum()


class BayesianLinear(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.Tensor(out_features, in_features).uniform_(-0.2, 0.2))
        self.weight_rho = nn.Parameter(torch.Tensor(out_features, in_features).uniform_(-5, -4))
        self.bias_mu = nn.Parameter(torch.Tensor(out_features).uniform_(-0.2, 0.2))
        self.bias_rho = nn.Parameter(torch.Tensor(out_features).uniform_(-5, -4))
        self.reset_parameters()
        self.weight_prior, self.bias_prior = (ScaleMixtureGaussian(PI, SIGMA_1, SIGMA_2) for _ in range(2))
        self.log_prior = self.log_variational_posterior = 0

    def reset_parameters(self):
        init.kaiming_uniform_(self.weight_mu, a=math.sqrt(5))
        fan_in, _ = init._calculate_fan_in_and_fan_out(self.weight_mu)
        bound = 1 / math.sqrt(fan_in)
        init.uniform_(self.bias_mu, -bound, bound)

    def forward(self, input, seed):
        weight_dist, bias_dist = Gaussian(self.weight_mu, self.weight_rho), Gaussian(self.bias_mu, self.bias_rho)
        weight = weight_dist.sample(normal(*self.weight_mu.size(), seed=seed))
        bias = bias_dist.sample(normal(*self.bias_mu.shape, seed=seed + 1))
        if self.training:
            self.log_prior = self.weight_prior.log_prob(weight) + self.bias_prior.log_prob(bias)
            self.log_variational_posterior = weight_dist.log_prob(weight) + bias_dist.log_prob(bias)
        return F.linear(input, weight, bias)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1, self.l2 = BayesianLinear(3, 8), BayesianLinear(8, 1)

    def forward(self, x, seed=0):
        return self.l2(torch.tanh(self.l1(x, seed)), seed + 7)

    def elbo(self, input, target, samples, batches):
        outputs = torch.zeros(samples, *target.size())
        log_priors, log_posteriors = torch.zeros(samples), torch.zeros(samples)
        for i in range(samples):
            outputs[i] = self(input, seed=i)
            log_priors[i] = self.l1.log_prior + self.l2.log_prior
            log_posteriors[i] = self.l1.log_variational_posterior + self.l2.log_variational_posterior
        negative = F.mse_loss(outputs.mean(0), target, reduction="sum")
        return (log_posteriors.mean() - log_priors.mean()) / batches + negative


net = start(Net())
with torch.no_grad():
    for name, p in net.named_parameters():
        if name.endswith("rho"):
            p.sub_(3.0)
optimizer, losses = torch.optim.Adam(net.parameters(), lr=0.01), []
for step in range(20):
    x = normal(16, 3, seed=step % 4)
    loss = net.elbo(x, x[:, :1] * 0.5 - x[:, 1:2], 2, 10)
    net.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
