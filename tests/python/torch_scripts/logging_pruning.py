"""A run that is logged, profiled and pruned: SummaryWriter, global pruning, fusion of norms, a saved state."""

import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.nn.utils.prune as prune
from torch.nn.utils.fusion import fuse_conv_bn_eval
from common import integers, normal, start

try:
    from torch.utils.tensorboard import SummaryWriter
except ImportError:  # PyTorch needs the package tensorboard
    SummaryWriter = None

folder = tempfile.mkdtemp()
writer, losses = None if SummaryWriter is None else SummaryWriter(log_dir=os.path.join(folder, "run"), comment="first"), []


class LeNet(nn.Module):
    def __init__(self):
        super(LeNet, self).__init__()
        self.conv1, self.bn1 = nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4)
        self.conv2 = nn.Conv2d(4, 8, 3)
        self.fc1, self.fc2 = nn.Linear(8 * 2 * 2, 16), nn.Linear(16, 4)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), (2, 2))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = x.view(-1, int(x.nelement() / x.shape[0]))
        return self.fc2(F.relu(self.fc1(x)))


model = start(LeNet())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
if writer:
    writer.add_graph(model, normal(1, 1, 14, 14))
for epoch in range(10):
    images, labels = normal(8, 1, 14, 14, seed=epoch % 3), integers(4, 8, seed=epoch % 3)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
    if writer:
        writer.add_scalar("Loss/train", loss, epoch)
        writer.add_scalars("rates", {"lr": optimizer.param_groups[0]["lr"], "half": 0.05}, epoch)
        writer.add_histogram("fc1", model.fc1.weight, epoch)
        writer.add_image("image", images[0], epoch)
if writer:
    writer.add_text("note", "the end", 0)
    writer.close()
    assert any(name.startswith("events.out.tfevents") for name in os.listdir(os.path.join(folder, "run")))
module = model.conv1
prune.l1_unstructured(module, name="bias", amount=2)
prune.ln_structured(module, name="weight", amount=0.5, n=2, dim=0)
assert sorted(n for n, _ in module.named_parameters()) == ["bias_orig", "weight_orig"]
assert sorted(n for n, _ in module.named_buffers()) == ["bias_mask", "weight_mask"]
prune.global_unstructured(((model.conv2, "weight"), (model.fc1, "weight"), (model.fc2, "weight")),
                          pruning_method=prune.L1Unstructured, amount=0.2)
sparsity = sum(float(torch.sum(m.weight == 0)) for m in (model.conv2, model.fc1, model.fc2))
losses.append(sparsity)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(8):
    optimizer.zero_grad()
    loss = F.cross_entropy(model(images), labels)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
assert float(torch.sum(model.fc1.weight == 0)) > 0 and prune.is_pruned(model)
prune.remove(module, "weight")
assert isinstance(module.weight, nn.Parameter) and float((module.weight.view(4, -1).norm(dim=1) == 0).sum()) == 2
prune.remove(module, "bias")
model.eval()
fused = fuse_conv_bn_eval(model.conv1, model.bn1)
losses.append((fused(images) - model.bn1(model.conv1(images))).abs().max().item())
losses.append(model(images).sum().item())
