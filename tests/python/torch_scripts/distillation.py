"""A small network learns from a large one: softened targets, weights of classes, mixed inputs, smoothed labels."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import integers, normal, start


def loss_fn_kd(outputs, labels, teacher_outputs, alpha=0.9, T=4.0):
    KD_loss = nn.KLDivLoss(reduction="batchmean")(F.log_softmax(outputs / T, dim=1), F.softmax(teacher_outputs / T, dim=1))
    return KD_loss * (alpha * T * T) + F.cross_entropy(outputs, labels) * (1. - alpha)


class LabelSmoothingCrossEntropy(nn.Module):
    def __init__(self, smoothing=0.1):
        super().__init__()
        assert smoothing < 1.0
        self.smoothing, self.confidence = smoothing, 1. - smoothing

    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        logprobs = F.log_softmax(x, dim=-1)
        nll_loss = -logprobs.gather(dim=-1, index=target.unsqueeze(1))
        nll_loss = nll_loss.squeeze(1)
        return (self.confidence * nll_loss + self.smoothing * -logprobs.mean(dim=-1)).mean()


class FocalLoss(nn.Module):
    def __init__(self, gamma=2, alpha=None, size_average=True):
        super(FocalLoss, self).__init__()
        self.gamma, self.alpha, self.size_average = gamma, alpha, size_average

    def forward(self, input, target):
        target = target.view(-1, 1)
        logpt = F.log_softmax(input, dim=-1)
        logpt = logpt.gather(1, target).view(-1)
        pt = logpt.data.exp()
        if self.alpha is not None:
            self.alpha = self.alpha.type_as(input.data)
            logpt = logpt * self.alpha.gather(0, target.data.view(-1))
        loss = -1 * (1 - pt) ** self.gamma * logpt
        return loss.mean() if self.size_average else loss.sum()


def mixup_criterion(criterion, pred, y_a, y_b, lam):
    return lam * criterion(pred, y_a) + (1 - lam) * criterion(pred, y_b)


teacher = start(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 4)), "t.").eval()
student = start(nn.Sequential(nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 4)), "s.")
weighted = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 0.5, 1.0]), size_average=None, reduce=None, reduction="mean")
criteria = [LabelSmoothingCrossEntropy(), FocalLoss(alpha=torch.Tensor([0.25, 0.25, 0.25, 0.25])), weighted]
optimizer, losses = torch.optim.NAdam(student.parameters(), lr=0.02), []
for step in range(20):
    x, y = normal(8, 8, seed=step % 4), integers(4, 8, seed=step % 4)
    with torch.no_grad():
        output_teacher = teacher(x)
    index = torch.arange(8).flip(0)
    mixed_x = 0.7 * x + (1 - 0.7) * x[index, :]
    loss = loss_fn_kd(student(x), y, output_teacher)
    loss = loss + mixup_criterion(criteria[step % 3], student(mixed_x), y, y[index], 0.7)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
