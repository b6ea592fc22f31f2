"""Learning without labels: NT-Xent, a momentum encoder with a queue, and an online network with a predictor."""

import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import normal, start


def info_nce_loss(features, n_views=2, temperature=0.07):
    batch = features.shape[0] // n_views
    labels = torch.cat([torch.arange(batch) for i in range(n_views)], dim=0)
    labels = (labels.unsqueeze(0) == labels.unsqueeze(1)).float()
    features = F.normalize(features, dim=1)
    similarity_matrix = torch.matmul(features, features.T)
    mask = torch.eye(labels.shape[0], dtype=torch.bool)
    labels = labels[~mask].view(labels.shape[0], -1)
    similarity_matrix = similarity_matrix[~mask].view(similarity_matrix.shape[0], -1)
    positives = similarity_matrix[labels.bool()].view(labels.shape[0], -1)
    negatives = similarity_matrix[~labels.bool()].view(similarity_matrix.shape[0], -1)
    logits = torch.cat([positives, negatives], dim=1)
    return logits / temperature, torch.zeros(logits.shape[0], dtype=torch.long)


class MoCo(nn.Module):
    def __init__(self, encoder, dim=8, K=12, m=0.9, T=0.2):
        super(MoCo, self).__init__()
        self.K, self.m, self.T = K, m, T
        self.encoder_q, self.encoder_k = encoder(), encoder()
        for param_q, param_k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            param_k.data.copy_(param_q.data)
            param_k.requires_grad = False
        self.register_buffer("queue", nn.functional.normalize(normal(dim, K, seed=77), dim=0))
        self.register_buffer("queue_ptr", torch.zeros(1, dtype=torch.long))

    @torch.no_grad()
    def _momentum_update_key_encoder(self):
        for param_q, param_k in zip(self.encoder_q.parameters(), self.encoder_k.parameters()):
            param_k.data = param_k.data * self.m + param_q.data * (1. - self.m)

    @torch.no_grad()
    def _dequeue_and_enqueue(self, keys):
        batch_size, ptr = keys.shape[0], int(self.queue_ptr)
        assert self.K % batch_size == 0
        self.queue[:, ptr:ptr + batch_size] = keys.T
        self.queue_ptr[0] = (ptr + batch_size) % self.K

    def forward(self, im_q, im_k):
        q = nn.functional.normalize(self.encoder_q(im_q), dim=1)
        with torch.no_grad():
            self._momentum_update_key_encoder()
            k = nn.functional.normalize(self.encoder_k(im_k), dim=1)
        l_pos = torch.einsum("nc,nc->n", [q, k]).unsqueeze(-1)
        l_neg = torch.einsum("nc,ck->nk", [q, self.queue.clone().detach()])
        logits = torch.cat([l_pos, l_neg], dim=1)
        logits /= self.T
        labels = torch.zeros(logits.shape[0], dtype=torch.long)
        self._dequeue_and_enqueue(k)
        return logits, labels


def encoder():
    return start(nn.Sequential(nn.Linear(10, 16), nn.ReLU(inplace=True), nn.Linear(16, 8)))


losses, criterion = [], nn.CrossEntropyLoss()
net = encoder()
optimizer = torch.optim.Adam(net.parameters(), 3e-3, weight_decay=1e-4)
moco = MoCo(encoder)
moco_optimizer = torch.optim.SGD(moco.encoder_q.parameters(), 0.05, momentum=0.9)
for step in range(8):
    x = normal(4, 10, seed=step % 3)
    views = [x + 0.1 * normal(4, 10, seed=20 + step), x + 0.1 * normal(4, 10, seed=60 + step)]
    logits, labels = info_nce_loss(net(torch.cat(views, dim=0)))
    loss = criterion(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    output, target = moco(im_q=views[0], im_k=views[1])
    moco_loss = criterion(output, target)
    moco_optimizer.zero_grad()
    moco_loss.backward()
    moco_optimizer.step()
    losses += [loss.item(), moco_loss.item()]
online, predictor = encoder(), start(nn.Linear(8, 8))
target_encoder = copy.deepcopy(online)
for p in target_encoder.parameters():
    p.requires_grad_(False)
optimizer = torch.optim.Adam(list(online.parameters()) + list(predictor.parameters()), lr=1e-3)
for step in range(5):
    p, z = predictor(online(views[0])), target_encoder(views[1]).detach()
    loss = (2 - 2 * (F.normalize(p, dim=-1, p=2) * F.normalize(z, dim=-1, p=2)).sum(dim=-1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for current_params, ma_params in zip(online.parameters(), target_encoder.parameters()):
            ma_params.mul_(0.99).add_(current_params, alpha=1 - 0.99)
    losses.append(loss.item())
