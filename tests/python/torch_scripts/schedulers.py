"""Every schedule of rates on one model; the rates are the figures."""

import warnings

import torch
from torch.optim import lr_scheduler as S
from torch.optim.swa_utils import SWALR
from common import normal, start

warnings.simplefilter("ignore")
losses = []
makers = [
    lambda o: S.StepLR(o, step_size=2, gamma=0.5), lambda o: S.MultiStepLR(o, milestones=[1, 3], gamma=0.1),
    lambda o: S.ExponentialLR(o, 0.9), lambda o: S.CosineAnnealingLR(o, T_max=4), lambda o: S.LambdaLR(o, lambda e: 0.95 ** e),
    lambda o: S.MultiplicativeLR(o, lr_lambda=lambda e: 0.95), lambda o: S.LinearLR(o, 0.5, total_iters=3),
    lambda o: S.ConstantLR(o, factor=0.5, total_iters=2), lambda o: S.PolynomialLR(o, total_iters=4, power=2.0),
    lambda o: S.CosineAnnealingWarmRestarts(o, T_0=2, T_mult=2), lambda o: S.OneCycleLR(o, max_lr=0.1, total_steps=6),
    lambda o: S.CyclicLR(o, base_lr=0.01, max_lr=0.1, step_size_up=2, mode="triangular2"),
    lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], [2]),
    lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)]),
    lambda o: SWALR(o, swa_lr=0.05, anneal_epochs=3, anneal_strategy="linear")]
for make in makers:
    model = start(torch.nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scheduler = make(optimizer)
    for epoch in range(5):
        optimizer.zero_grad()
        model(normal(3, 4, seed=epoch)).pow(2).mean().backward()
        optimizer.step()
        scheduler.step()
        losses.append(optimizer.param_groups[0]["lr"])
    losses += [scheduler.get_last_lr()[0], model.weight.sum().item()]
    state = scheduler.state_dict()
    scheduler.load_state_dict(state)
optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
plateau = S.ReduceLROnPlateau(optimizer, mode="min", factor=0.5, patience=1, threshold=1e-3, min_lr=1e-3)
for value in (1.0, 0.9, 0.9, 0.9, 0.95, 0.8):
    plateau.step(torch.tensor(value))
    losses.append(optimizer.param_groups[0]["lr"])


class Noam(S._LRScheduler):
    def __init__(self, optimizer, warmup, last_epoch=-1):
        self.warmup = warmup
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        step = max(1, self.last_epoch)
        return [base * min(step ** -0.5, step * self.warmup ** -1.5) for base in self.base_lrs]


noam = Noam(optimizer, 3)
for _ in range(4):
    optimizer.step()
    noam.step()
    losses.append(noam.get_last_lr()[0])
