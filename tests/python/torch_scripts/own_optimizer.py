"""Optimizers written in Python: LAMB, lookahead around another one, and groups that share a schedule."""

import math
from collections import defaultdict

import torch
from torch.optim.optimizer import Optimizer, required
from common import integers, normal, start


class Lamb(Optimizer):
    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-6, weight_decay=0):
        if not 0.0 <= lr:
            raise ValueError("Invalid learning rate: {}".format(lr))
        defaults = dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
        super(Lamb, self).__init__(params, defaults)

    def step(self, closure=None):
        loss = None
        if closure is not None:
            loss = closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad = p.grad.data
                if grad.is_sparse:
                    raise RuntimeError("Lamb does not support sparse gradients.")
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"] = torch.zeros_like(p.data)
                    state["exp_avg_sq"] = torch.zeros_like(p.data)
                exp_avg, exp_avg_sq = state["exp_avg"], state["exp_avg_sq"]
                beta1, beta2 = group["betas"]
                state["step"] += 1
                exp_avg.mul_(beta1).add_(grad, alpha=1 - beta1)
                exp_avg_sq.mul_(beta2).addcmul_(grad, grad, value=1 - beta2)
                weight_norm = p.data.pow(2).sum().sqrt().clamp(0, 10)
                adam_step = exp_avg / exp_avg_sq.sqrt().add(group["eps"])
                if group["weight_decay"] != 0:
                    adam_step.add_(p.data, alpha=group["weight_decay"])
                adam_norm = adam_step.pow(2).sum().sqrt()
                trust_ratio = 1 if weight_norm == 0 or adam_norm == 0 else weight_norm / adam_norm
                state["trust_ratio"] = trust_ratio
                p.data.add_(adam_step, alpha=-group["lr"] * float(trust_ratio))
        return loss


class Lookahead(Optimizer):
    def __init__(self, base_optimizer, alpha=0.5, k=3):
        self.base_optimizer, self.alpha, self.k = base_optimizer, alpha, k
        self.param_groups, self.defaults = base_optimizer.param_groups, base_optimizer.defaults
        self.state = defaultdict(dict)
        self.slow = [[p.clone().detach() for p in group["params"]] for group in self.param_groups]
        self.counter = 0

    def zero_grad(self, set_to_none=True):
        self.base_optimizer.zero_grad()

    def step(self, closure=None):
        loss = self.base_optimizer.step(closure)
        self.counter += 1
        if self.counter % self.k == 0:
            for group, slow in zip(self.param_groups, self.slow):
                for p, q in zip(group["params"], slow):
                    q.data.add_(p.data - q.data, alpha=self.alpha)
                    p.data.copy_(q.data)
        return loss


class SGDOld(Optimizer):
    def __init__(self, params, lr=required, momentum=0):
        super().__init__(params, dict(lr=lr, momentum=momentum))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    buf = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                    buf.mul_(group["momentum"]).add_(p.grad)
                    p.add_(buf, alpha=-group["lr"])


def net(prefix):
    return start(torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.ReLU(), torch.nn.Linear(12, 3)), prefix)


losses = []
for make in (lambda m: Lamb(m.parameters(), lr=0.02, weight_decay=0.01),
             lambda m: Lookahead(SGDOld(m.parameters(), lr=0.05, momentum=0.9)),
             lambda m: SGDOld([{"params": m[0].parameters()}, {"params": m[2].parameters(), "lr": 0.01}], lr=0.1)):
    model = net("own.")
    optimizer = make(model)
    scheduler = None if isinstance(optimizer, Lookahead) else torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for step in range(8):
        loss = torch.nn.functional.cross_entropy(model(normal(8, 6, seed=step % 2)), integers(3, 8, seed=step % 2))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        losses.append(loss.item())
    if not isinstance(optimizer, Lookahead):
        state = optimizer.state_dict()
        optimizer.load_state_dict(state)
        losses.append(float(len(state["state"])) + math.fsum(g["lr"] for g in state["param_groups"]))
