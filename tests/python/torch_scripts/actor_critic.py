"""Actor and critic, and REINFORCE: saved log probabilities, discounted returns, a beta policy."""

from collections import namedtuple
from itertools import count

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.distributions import Beta, Categorical
from common import start

SavedAction = namedtuple("SavedAction", ["log_prob", "value"])
rng, eps = np.random.RandomState(1), np.finfo(np.float32).eps.item()


class Policy(nn.Module):
    def __init__(self):
        super(Policy, self).__init__()
        self.affine1 = nn.Linear(4, 16)
        self.action_head, self.value_head = nn.Linear(16, 2), nn.Linear(16, 1)
        self.saved_actions, self.rewards = [], []

    def forward(self, x):
        x = F.relu(self.affine1(x))
        return F.softmax(self.action_head(x), dim=-1), self.value_head(x)


class BetaPolicy(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc, self.alpha_head, self.beta_head = nn.Linear(4, 8), nn.Linear(8, 1), nn.Linear(8, 1)

    def forward(self, x):
        x = torch.tanh(self.fc(x))
        return F.softplus(self.alpha_head(x)) + 1, F.softplus(self.beta_head(x)) + 1


model = start(Policy())
optimizer, losses = optim.Adam(model.parameters(), lr=3e-2), []
for i_episode in count(1):
    state = rng.randn(4)
    for t in range(1, 8):
        probs, state_value = model(torch.from_numpy(state).float())
        m = Categorical(probs)
        action = torch.tensor(int(rng.rand() > probs[0].item()))
        model.saved_actions.append(SavedAction(m.log_prob(action), state_value))
        model.rewards.append(1.0 if action.item() == int(state[0] > 0) else -0.5)
        state = rng.randn(4)
    R, policy_losses, value_losses, returns = 0, [], [], []
    for r in model.rewards[::-1]:
        R = r + 0.99 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + eps)
    for (log_prob, value), R in zip(model.saved_actions, returns):
        advantage = R - value.item()
        policy_losses.append(-log_prob * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([R])))
    optimizer.zero_grad()
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum()
    loss.backward()
    optimizer.step()
    del model.rewards[:]
    del model.saved_actions[:]
    losses.append(loss.item())
    if i_episode >= 12:
        break
policy = start(BetaPolicy(), "beta.")
optimizer = optim.Adam(policy.parameters(), lr=1e-2)
for step in range(8):
    alpha, beta = policy(torch.tensor(rng.randn(6, 4), dtype=torch.float32))
    dist = Beta(alpha, beta)
    actions = torch.tensor(rng.uniform(0.1, 0.9, (6, 1)), dtype=torch.float32)
    loss = -(dist.log_prob(actions).sum(dim=1) * torch.tensor(rng.randn(6)).float()).mean() - 0.01 * dist.entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
