"""Proximal policy optimisation with advantages by GAE on a cart that NumPy computes."""

import numpy as np
import torch
import torch.nn as nn
import torch.optim as optim
from torch.distributions.categorical import Categorical
from torch.distributions import Normal
from common import numbers, start

draws = np.random.RandomState(0)


class Line:
    """Keep a point near the origin by steps to both sides."""

    def reset(self):
        self.x = np.array([0.5, -0.2], dtype=np.float32)
        return self.x.copy()

    def step(self, action):
        self.x = self.x + np.array([0.1 * self.x[1], 0.2 if action == 1 else -0.2], dtype=np.float32)
        done = bool(abs(self.x[0]) > 1)
        return self.x.copy(), float(1 - abs(self.x[0])), done, {}


def layer_init(layer, std=np.sqrt(2), bias_const=0.0):
    torch.nn.init.orthogonal_(layer.weight, std)
    torch.nn.init.constant_(layer.bias, bias_const)
    return layer


class Agent(nn.Module):
    def __init__(self, obs_dim, act_dim):
        super().__init__()
        self.critic = nn.Sequential(layer_init(nn.Linear(np.array(obs_dim).prod(), 16)), nn.Tanh(),
                                    layer_init(nn.Linear(16, 1), std=1.0))
        self.actor = nn.Sequential(layer_init(nn.Linear(np.array(obs_dim).prod(), 16)), nn.Tanh(),
                                   layer_init(nn.Linear(16, act_dim), std=0.01))

    def get_value(self, x):
        return self.critic(x)

    def get_action_and_value(self, x, action=None):
        probs = Categorical(logits=self.actor(x))
        if action is None:
            u = torch.tensor(draws.rand(x.shape[0], 1), dtype=torch.float32)
            action = (probs.probs.cumsum(-1) < u).sum(-1).clamp(max=1)
        return action, probs.log_prob(action), probs.entropy(), self.critic(x)


device = torch.device("cpu")
agent = start(Agent((2,), 2)).to(device)
optimizer = optim.Adam(agent.parameters(), lr=2.5e-3, eps=1e-5)
num_steps, gamma, gae_lambda, clip_coef = 16, 0.99, 0.95, 0.2
obs = torch.zeros((num_steps, 1) + (2,)).to(device)
actions = torch.zeros((num_steps, 1) + ()).to(device)
logprobs, rewards, dones, values = (torch.zeros((num_steps, 1)).to(device) for _ in range(4))
env, losses = Line(), []
next_obs, next_done = torch.Tensor(env.reset()).to(device).unsqueeze(0), torch.zeros(1).to(device)
for update in range(1, 6):
    optimizer.param_groups[0]["lr"] = (1.0 - (update - 1.0) / 5) * 2.5e-3
    for step in range(0, num_steps):
        obs[step], dones[step] = next_obs, next_done
        with torch.no_grad():
            action, logprob, _, value = agent.get_action_and_value(next_obs)
            values[step] = value.flatten()
        actions[step], logprobs[step] = action, logprob
        state, reward, done, info = env.step(action.cpu().numpy()[0])
        if done:
            state = env.reset()
        rewards[step] = torch.tensor(reward).to(device).view(-1)
        next_obs, next_done = torch.Tensor(state).unsqueeze(0), torch.Tensor([done]).to(device)
    with torch.no_grad():
        next_value = agent.get_value(next_obs).reshape(1, -1)
        advantages = torch.zeros_like(rewards).to(device)
        lastgaelam = 0
        for t in reversed(range(num_steps)):
            last = t == num_steps - 1
            nextnonterminal = 1.0 - (next_done if last else dones[t + 1])
            nextvalues = next_value if last else values[t + 1]
            delta = rewards[t] + gamma * nextvalues * nextnonterminal - values[t]
            advantages[t] = lastgaelam = delta + gamma * gae_lambda * nextnonterminal * lastgaelam
        returns = advantages + values
    b_obs, b_logprobs, b_actions = obs.reshape((-1,) + (2,)), logprobs.reshape(-1), actions.reshape((-1,) + ())
    b_advantages, b_returns, b_values = advantages.reshape(-1), returns.reshape(-1), values.reshape(-1)
    b_inds, clipfracs = np.arange(num_steps), []
    for epoch in range(2):
        np.random.RandomState(epoch).shuffle(b_inds)
        for begin in range(0, num_steps, 8):
            mb_inds = b_inds[begin:begin + 8]
            _, newlogprob, entropy, newvalue = agent.get_action_and_value(b_obs[mb_inds], b_actions.long()[mb_inds])
            logratio = newlogprob - b_logprobs[mb_inds]
            ratio = logratio.exp()
            with torch.no_grad():
                clipfracs += [((ratio - 1.0).abs() > clip_coef).float().mean().item()]
            mb_advantages = b_advantages[mb_inds]
            mb_advantages = (mb_advantages - mb_advantages.mean()) / (mb_advantages.std() + 1e-8)
            pg_loss = torch.max(-mb_advantages * ratio, -mb_advantages * torch.clamp(ratio, 1 - clip_coef, 1 + clip_coef)).mean()
            newvalue = newvalue.view(-1)
            v_clipped = b_values[mb_inds] + torch.clamp(newvalue - b_values[mb_inds], -clip_coef, clip_coef)
            v_loss = 0.5 * torch.max((newvalue - b_returns[mb_inds]) ** 2, (v_clipped - b_returns[mb_inds]) ** 2).mean()
            loss = pg_loss - 0.01 * entropy.mean() + v_loss * 0.5
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
            losses.append(loss.item())
    y_pred, y_true = b_values.cpu().numpy(), b_returns.cpu().numpy()
    explained_var = np.nan if np.var(y_true) == 0 else 1 - np.var(y_true - y_pred) / np.var(y_true)
gaussian = Normal(torch.tensor(numbers(3)), torch.tensor([0.5, 1.0, 2.0]))
losses.append(gaussian.log_prob(torch.zeros(3)).sum(-1).item())
