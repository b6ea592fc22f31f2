"""Finetuning: a saved network, frozen features, a replaced head, parameter groups, best weights, a resumed run."""

import copy
import os
import tempfile
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.optim as optim
from torch.optim import lr_scheduler
from common import integers, normal, start


class Net(nn.Module):
    def __init__(self, num_classes=10):
        super().__init__()
        self.features = nn.Sequential(OrderedDict([
            ("conv1", nn.Conv2d(3, 8, 3, padding=1)), ("norm1", nn.BatchNorm2d(8)), ("relu1", nn.ReLU()),
            ("pool1", nn.AvgPool2d(2))]))
        self.fc = nn.Linear(8 * 16, num_classes)

    def forward(self, x):
        return self.fc(torch.flatten(self.features(x), 1))


def set_parameter_requires_grad(model, feature_extracting):
    if feature_extracting:
        for param in model.parameters():
            param.requires_grad = False


folder = tempfile.mkdtemp()
path = os.path.join(folder, "pretrained.pt")
torch.save({"state_dict": start(Net()).state_dict(), "epoch": 3, "arch": "net"}, path)
checkpoint = torch.load(path, map_location=lambda storage, loc: storage)
state = OrderedDict(("module." + k, v) for k, v in checkpoint["state_dict"].items())
state = {k.replace("module.", ""): v for k, v in state.items() if not k.endswith("fc.bias")}
model_ft = Net()
missing = model_ft.load_state_dict(state, strict=False)
assert missing.missing_keys == ["fc.bias"] and missing.unexpected_keys == [] and checkpoint["epoch"] == 3
set_parameter_requires_grad(model_ft, True)
num_ftrs = model_ft.fc.in_features
model_ft.fc = start(nn.Linear(num_ftrs, 4), "fc.")
params_to_update = [param for name, param in model_ft.named_parameters() if param.requires_grad is True]
assert len(params_to_update) == 2
optimizer = optim.SGD(params_to_update, lr=0.01, momentum=0.9)
scheduler = lr_scheduler.StepLR(optimizer, step_size=5, gamma=0.5)
criterion, losses, best_acc, best_model_wts = nn.CrossEntropyLoss(), [], 0.0, copy.deepcopy(model_ft.state_dict())
for epoch in range(10):
    for phase in ["train", "val"]:
        model_ft.train() if phase == "train" else model_ft.eval()
        inputs, labels = normal(8, 3, 8, 8, seed=epoch % 3 + (phase == "val")), integers(4, 8, seed=epoch % 3)
        optimizer.zero_grad()
        with torch.set_grad_enabled(phase == "train"):
            outputs = model_ft(inputs)
            _, preds = torch.max(outputs, 1)
            loss = criterion(outputs, labels)
            if phase == "train":
                loss.backward()
                optimizer.step()
        running_corrects = torch.sum(preds == labels.data)
        epoch_acc = running_corrects.double() / len(inputs)
        losses.append(loss.item())
        if phase == "train":
            scheduler.step()
        elif epoch_acc > best_acc:
            best_acc, best_model_wts = epoch_acc, copy.deepcopy(model_ft.state_dict())
model_ft.load_state_dict(best_model_wts)
for param in model_ft.features.parameters():
    param.requires_grad = True
ignored_params = list(map(id, model_ft.fc.parameters()))
base_params = list(filter(lambda p: id(p) not in ignored_params, model_ft.parameters()))
optimizer = optim.Adam([{"params": base_params}, {"params": model_ft.fc.parameters(), "lr": 1e-2}], lr=1e-3)
for step in range(4):
    loss = criterion(model_ft(inputs), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if step == 1:
        torch.save({"model": model_ft.state_dict(), "optimizer": optimizer.state_dict()}, path)
resumed = Net(4)
again = optim.Adam([{"params": resumed.features.parameters()}, {"params": resumed.fc.parameters(), "lr": 1e-2}], lr=1e-3)
saved = torch.load(path)
resumed.load_state_dict(saved["model"])
again.load_state_dict(saved["optimizer"])
for step in range(2):
    loss = criterion(resumed.eval()(inputs), labels)
    again.zero_grad()
    loss.backward()
    again.step()
    losses.append(loss.item())
