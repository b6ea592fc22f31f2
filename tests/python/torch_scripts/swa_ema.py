"""Averages of weights: SWA with its schedule and its batch norms, EMA by hand and by AveragedModel."""

from copy import deepcopy

import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader, TensorDataset
from common import integers, normal, start


class ModelEma(nn.Module):
    def __init__(self, model, decay=0.9999, device=None):
        super(ModelEma, self).__init__()
        self.module = deepcopy(model)
        self.module.eval()
        self.decay, self.device = decay, device

    def _update(self, model, update_fn):
        with torch.no_grad():
            for ema_v, model_v in zip(self.module.state_dict().values(), model.state_dict().values()):
                if self.device is not None:
                    model_v = model_v.to(device=self.device)
                ema_v.copy_(update_fn(ema_v, model_v))

    def update(self, model):
        self._update(model, update_fn=lambda e, m: self.decay * e + (1. - self.decay) * m)

    def set(self, model):
        self._update(model, update_fn=lambda e, m: m)


loader = DataLoader(TensorDataset(normal(32, 6), integers(3, 32)), batch_size=8)
model = start(nn.Sequential(nn.Linear(6, 12), nn.BatchNorm1d(12), nn.ReLU(), nn.Linear(12, 3)))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=6)
swa_model, swa_scheduler, swa_start = AveragedModel(model), SWALR(optimizer, swa_lr=0.05, anneal_epochs=2), 2
ema, average = ModelEma(model, 0.9), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
losses, loss_fn = [], nn.CrossEntropyLoss()
for epoch in range(5):
    for input, target in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(input), target)
        loss.backward()
        optimizer.step()
        ema.update(model)
        average.update_parameters(model)
        losses.append(loss.item())
    if epoch > swa_start:
        swa_model.update_parameters(model)
        swa_scheduler.step()
    else:
        scheduler.step()
update_bn(loader, swa_model)
with torch.no_grad():
    for net in (swa_model.eval(), ema.module.eval(), average.eval()):
        losses.append(loss_fn(net(normal(32, 6)), integers(3, 32)).item())
