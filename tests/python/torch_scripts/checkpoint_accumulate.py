"""Gradient checkpointing of segments, gradients accumulated over small batches, gradient penalties of input."""

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential
from common import integers, normal, start


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.fc1, self.fc2 = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, scale=1.0):
        return x + scale * self.fc2(nn.functional.gelu(self.fc1(self.norm(x)), approximate="tanh"))


class Net(nn.Module):
    def __init__(self, reentrant):
        super().__init__()
        self.inp, self.blocks, self.out = nn.Linear(6, 8), nn.ModuleList(Block(8) for _ in range(3)), nn.Linear(8, 3)
        self.tail, self.reentrant = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8), nn.ReLU()), reentrant

    def forward(self, x):
        x = self.inp(x)
        for block in self.blocks:
            x = checkpoint(block, x, 0.5, use_reentrant=self.reentrant, preserve_rng_state=False)
        x = checkpoint_sequential(self.tail, 2, x, use_reentrant=self.reentrant)
        return self.out(x)


losses = []
for reentrant in (True, False):
    net = start(Net(reentrant))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    optimizer.zero_grad()
    for i in range(10):
        x, y = normal(8, 6, seed=i % 2), integers(3, 8, seed=i % 2)
        total = 0.0
        for part, target in zip(x.chunk(2), y.split(4)):
            loss = nn.CrossEntropyLoss(reduction="sum")(net(part), target) / len(x)
            loss.backward()
            total += loss.detach()
        norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5, norm_type=2.0)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(total.item())
    losses.append(norm.item())
