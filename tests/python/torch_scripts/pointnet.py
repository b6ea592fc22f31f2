"""PointNet: a learned transform, shared layers by Conv1d, a maximum over points, a regulariser."""

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from common import integers, normal, start


class STN3d(nn.Module):
    def __init__(self, k=3):
        super(STN3d, self).__init__()
        self.k = k
        self.conv1, self.conv2 = torch.nn.Conv1d(k, 8, 1), torch.nn.Conv1d(8, 16, 1)
        self.fc1, self.fc2 = nn.Linear(16, 8), nn.Linear(8, k * k)
        self.relu, self.bn1, self.bn2 = nn.ReLU(), nn.BatchNorm1d(8), nn.BatchNorm1d(16)

    def forward(self, x):
        batchsize = x.size()[0]
        x = F.relu(self.bn1(self.conv1(x)))
        x = F.relu(self.bn2(self.conv2(x)))
        x = torch.max(x, 2, keepdim=True)[0]
        x = x.view(-1, 16)
        x = self.fc2(F.relu(self.fc1(x)))
        iden = Variable(torch.from_numpy(np.eye(self.k).flatten().astype(np.float32))).view(1, self.k * self.k).repeat(batchsize, 1)
        if x.is_cuda:
            iden = iden.cuda()
        x = x + iden
        return x.view(-1, self.k, self.k)


class PointNetCls(nn.Module):
    def __init__(self, k=3):
        super().__init__()
        self.stn, self.fstn = STN3d(3), STN3d(8)
        self.conv1, self.conv2 = torch.nn.Conv1d(3, 8, 1), torch.nn.Conv1d(8, 16, 1)
        self.bn1, self.bn2, self.fc = nn.BatchNorm1d(8), nn.BatchNorm1d(16), nn.Linear(16, k)

    def forward(self, x):
        n_pts = x.size()[2]
        trans = self.stn(x)
        x = torch.bmm(x.transpose(2, 1), trans).transpose(2, 1)
        x = F.relu(self.bn1(self.conv1(x)))
        trans_feat = self.fstn(x)
        x = torch.bmm(x.transpose(2, 1), trans_feat).transpose(2, 1)
        x = self.bn2(self.conv2(x))
        x = torch.max(x, 2, keepdim=True)[0].view(-1, 16)
        assert n_pts == 20
        return F.log_softmax(self.fc(x), dim=1), trans, trans_feat


def feature_transform_regularizer(trans):
    d = trans.size()[1]
    identity = torch.eye(d)[None, :, :]
    if trans.is_cuda:
        identity = identity.cuda()
    return torch.mean(torch.norm(torch.bmm(trans, trans.transpose(2, 1)) - identity, dim=(1, 2)))


def farthest_point_sample(xyz, npoint):
    B, N, C = xyz.shape
    centroids = torch.zeros(B, npoint, dtype=torch.long)
    distance, farthest = torch.ones(B, N) * 1e10, torch.zeros(B, dtype=torch.long)
    batch_indices = torch.arange(B, dtype=torch.long)
    for i in range(npoint):
        centroids[:, i] = farthest
        centroid = xyz[batch_indices, farthest, :].view(B, 1, 3)
        dist = torch.sum((xyz - centroid) ** 2, -1)
        mask = dist < distance
        distance[mask] = dist[mask]
        farthest = torch.max(distance, -1)[1]
    return centroids


classifier, losses = start(PointNetCls()), []
optimizer = torch.optim.Adam(classifier.parameters(), lr=0.002, betas=(0.9, 0.999))
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=8, gamma=0.5)
for i in range(20):
    points, target = normal(4, 20, 3, seed=i % 3), integers(3, 4, seed=i % 3)
    points = points.transpose(2, 1)
    optimizer.zero_grad()
    pred, trans, trans_feat = classifier.train()(points)
    loss = F.nll_loss(pred, target) + feature_transform_regularizer(trans_feat) * 0.001
    loss.backward()
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
losses.append(float(farthest_point_sample(points.transpose(2, 1), 5).sum()))
