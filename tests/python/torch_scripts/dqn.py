"""Deep Q-learning: a memory of transitions, a target network with soft updates, a dueling and a double form."""

import random
from collections import deque, namedtuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from common import start

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))
random.seed(0)
rng = np.random.RandomState(0)


class ReplayMemory(object):
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DuelingDQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DuelingDQN, self).__init__()
        self.layer1 = nn.Linear(n_observations, 16)
        self.value, self.advantage = nn.Linear(16, 1), nn.Linear(16, n_actions)

    def forward(self, x):
        x = F.relu(self.layer1(x))
        adv = self.advantage(x)
        return self.value(x) + adv - adv.mean(dim=-1, keepdim=True)


device = torch.device("cuda" if torch.cuda.is_available() and torch.cuda.device_count() > 9 else
                      "mps" if torch.backends.mps.is_available() else "cpu")
policy_net, target_net = start(DuelingDQN(4, 2)).to(device), DuelingDQN(4, 2).to(device)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-3, amsgrad=True)
memory, BATCH_SIZE, GAMMA, TAU, losses, steps_done = ReplayMemory(1000), 8, 0.99, 0.05, [], 0


def select_action(state):
    global steps_done
    sample, eps_threshold = random.random(), 0.05 + 0.85 * np.exp(-1. * steps_done / 20)
    steps_done += 1
    if sample > eps_threshold:
        with torch.no_grad():
            return policy_net(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(2)]], device=device, dtype=torch.long)


def optimize_model():
    if len(memory) < BATCH_SIZE:
        return
    batch = Transition(*zip(*memory.sample(BATCH_SIZE)))
    non_final_mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), device=device, dtype=torch.bool)
    non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
    state_batch, action_batch, reward_batch = torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward)
    state_action_values = policy_net(state_batch).gather(1, action_batch)
    next_state_values = torch.zeros(BATCH_SIZE, device=device)
    with torch.no_grad():
        best = policy_net(non_final_next_states).argmax(1, keepdim=True)
        next_state_values[non_final_mask] = target_net(non_final_next_states).gather(1, best).squeeze(1)
    expected = (next_state_values * GAMMA) + reward_batch
    loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    losses.append(loss.item())


state = torch.tensor(rng.randn(4), dtype=torch.float32, device=device).unsqueeze(0)
for t in range(30):
    action = select_action(state)
    observation, reward = rng.randn(4) * 0.5 + 0.1 * action.item(), float(action.item() == (state[0, 0] > 0))
    reward = torch.tensor([reward], device=device)
    next_state = None if t % 7 == 6 else torch.tensor(observation, dtype=torch.float32, device=device).unsqueeze(0)
    memory.push(state, action, next_state, reward)
    state = next_state if next_state is not None else torch.from_numpy(rng.randn(1, 4)).float()
    optimize_model()
    target_net_state_dict, policy_net_state_dict = target_net.state_dict(), policy_net.state_dict()
    for key in policy_net_state_dict:
        target_net_state_dict[key] = policy_net_state_dict[key] * TAU + target_net_state_dict[key] * (1 - TAU)
    target_net.load_state_dict(target_net_state_dict)
