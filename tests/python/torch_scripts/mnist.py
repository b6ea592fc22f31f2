"""The MNIST program of the official examples, on drawn digits: arguments, training, test, a saved model."""

from __future__ import print_function

import argparse
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from common import integers, normal, start


class Net(nn.Module):
    def __init__(self):
        super(Net, self).__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, 1)
        self.conv2 = nn.Conv2d(4, 8, 3, 1)
        self.dropout1, self.dropout2 = nn.Dropout(0.0), nn.Dropout(0.0)
        self.fc1, self.fc2 = nn.Linear(128, 16), nn.Linear(16, 10)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        x = self.dropout1(F.max_pool2d(x, 2))
        x = F.relu(self.fc1(torch.flatten(x, 1)))
        return F.log_softmax(self.fc2(self.dropout2(x)), dim=1)


losses = []


def train(args, model, device, train_loader, optimizer, epoch):
    model.train()
    for batch_idx, (data, target) in enumerate(train_loader):
        data, target = data.to(device), target.to(device)
        optimizer.zero_grad()
        loss = F.nll_loss(model(data), target)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if batch_idx % args.log_interval == 0:
            print("Train Epoch: {} [{}/{} ({:.0f}%)]\tLoss: {:.6f}".format(
                epoch, batch_idx * len(data), len(train_loader.dataset), 100. * batch_idx / len(train_loader), loss.item()))


def test(model, device, test_loader):
    model.eval()
    test_loss = correct = 0
    with torch.no_grad():
        for data, target in test_loader:
            data, target = data.to(device), target.to(device)
            output = model(data)
            test_loss += F.nll_loss(output, target, reduction="sum").item()
            pred = output.argmax(dim=1, keepdim=True)
            correct += pred.eq(target.view_as(pred)).sum().item()
    test_loss /= len(test_loader.dataset)
    losses.append(test_loss)
    print("\nTest set: Average loss: {:.4f}, Accuracy: {}/{}\n".format(test_loss, correct, len(test_loader.dataset)))


parser = argparse.ArgumentParser(description="PyTorch MNIST Example")
parser.add_argument("--batch-size", type=int, default=8, metavar="N")
parser.add_argument("--epochs", type=int, default=4, metavar="N")
parser.add_argument("--lr", type=float, default=1.0, metavar="LR")
parser.add_argument("--gamma", type=float, default=0.7, metavar="M")
parser.add_argument("--no-accel", action="store_true")
parser.add_argument("--log-interval", type=int, default=2, metavar="N")
args = parser.parse_args([])
use_accel = not args.no_accel and torch.accelerator.is_available() and torch.cuda.device_count() > 9
torch.manual_seed(1)
device = torch.accelerator.current_accelerator() if use_accel else torch.device("cpu")
train_kwargs = {"batch_size": args.batch_size}
if use_accel:
    train_kwargs.update({"num_workers": 1, "persistent_workers": True, "pin_memory": True, "shuffle": True})
dataset = torch.utils.data.TensorDataset(normal(32, 1, 12, 12), integers(10, 32))
train_loader, test_loader = torch.utils.data.DataLoader(dataset, **train_kwargs), torch.utils.data.DataLoader(dataset, batch_size=16)
model = start(Net()).to(device)
optimizer = optim.Adadelta(model.parameters(), lr=args.lr)
scheduler = StepLR(optimizer, step_size=1, gamma=args.gamma)
for epoch in range(1, args.epochs + 1):
    train(args, model, device, train_loader, optimizer, epoch)
    test(model, device, test_loader)
    scheduler.step()
path = os.path.join(tempfile.mkdtemp(), "mnist_cnn.pt")
torch.save(model.state_dict(), path)
again = Net()
again.load_state_dict(torch.load(path, weights_only=True))
test(again, device, test_loader)
