"""The loss of a detector: boxes by cells, intersections over unions, masks, hard negatives, suppression of doubles."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from common import normal, start, uniform


def box_iou(boxes1, boxes2):
    area1 = (boxes1[:, 2] - boxes1[:, 0]) * (boxes1[:, 3] - boxes1[:, 1])
    area2 = (boxes2[:, 2] - boxes2[:, 0]) * (boxes2[:, 3] - boxes2[:, 1])
    lt, rb = torch.max(boxes1[:, None, :2], boxes2[:, :2]), torch.min(boxes1[:, None, 2:], boxes2[:, 2:])
    wh = (rb - lt).clamp(min=0)
    inter = wh[:, :, 0] * wh[:, :, 1]
    return inter / (area1[:, None] + area2 - inter)


def nms(boxes, scores, threshold):
    order, keep = scores.sort(descending=True)[1], []
    while order.numel() > 0:
        i = order[0].item() if order.numel() > 1 else order.item()
        keep.append(i)
        if order.numel() == 1:
            break
        iou = box_iou(boxes[i].unsqueeze(0), boxes[order[1:]])[0]
        ids = (iou <= threshold).nonzero(as_tuple=False).squeeze()
        if ids.numel() == 0:
            break
        order = order[ids + 1].reshape(-1)
    return torch.LongTensor(keep)


class MultiBoxLoss(nn.Module):
    def __init__(self, num_classes, neg_pos=3):
        super().__init__()
        self.num_classes, self.negpos_ratio = num_classes, neg_pos

    def forward(self, loc_data, conf_data, loc_t, conf_t):
        pos = conf_t > 0
        num_pos = pos.sum(dim=1, keepdim=True)
        pos_idx = pos.unsqueeze(pos.dim()).expand_as(loc_data)
        loss_l = F.smooth_l1_loss(loc_data[pos_idx].view(-1, 4), loc_t[pos_idx].view(-1, 4), reduction="sum")
        batch_conf = conf_data.view(-1, self.num_classes)
        loss_c = torch.logsumexp(batch_conf, 1, keepdim=True) - batch_conf.gather(1, conf_t.view(-1, 1))
        loss_c = loss_c.view(conf_t.size(0), -1)
        loss_c[pos] = 0
        _, loss_idx = loss_c.sort(1, descending=True)
        _, idx_rank = loss_idx.sort(1)
        num_neg = torch.clamp(self.negpos_ratio * num_pos, max=pos.size(1) - 1)
        neg = idx_rank < num_neg.expand_as(idx_rank)
        pos_idx, neg_idx = pos.unsqueeze(2).expand_as(conf_data), neg.unsqueeze(2).expand_as(conf_data)
        conf_p = conf_data[(pos_idx + neg_idx).gt(0)].view(-1, self.num_classes)
        targets_weighted = conf_t[(pos + neg).gt(0)]
        loss_c = F.cross_entropy(conf_p, targets_weighted, reduction="sum")
        N = num_pos.sum().double()
        return loss_l.double() / N, loss_c.double() / N


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2, padding=1), nn.ReLU())
        self.loc, self.conf = nn.Conv2d(8, 2 * 4, 3, padding=1), nn.Conv2d(8, 2 * 3, 3, padding=1)

    def forward(self, x):
        x = self.body(x)
        loc = self.loc(x).permute(0, 2, 3, 1).contiguous()
        conf = self.conf(x).permute(0, 2, 3, 1).contiguous()
        return loc.view(loc.size(0), -1, 4), conf.view(conf.size(0), -1, 3)


cx, cy = torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")
centers = (torch.stack([cx, cy], dim=-1).reshape(-1, 2).float() + 0.5) / 4
priors = torch.cat([centers.repeat_interleave(2, dim=0), torch.tensor([[0.3, 0.3], [0.5, 0.5]]).repeat(16, 1)], dim=1)
corners = torch.cat((priors[:, :2] - priors[:, 2:] / 2, priors[:, :2] + priors[:, 2:] / 2), 1)
net, criterion, losses = start(Net()), MultiBoxLoss(3), []
optimizer = torch.optim.SGD(net.parameters(), lr=2e-3, momentum=0.9, weight_decay=5e-4)
for step in range(20):
    low = uniform(2, 2, 2, seed=step % 3) * 0.5
    truths = torch.cat([low, low + 0.35], dim=-1)
    loc_t, conf_t = torch.Tensor(2, 32, 4), torch.LongTensor(2, 32)
    for idx in range(2):
        overlaps = box_iou(truths[idx], corners)
        best_truth_overlap, best_truth_idx = overlaps.max(0)
        best_prior_overlap, best_prior_idx = overlaps.max(1, keepdim=True)
        best_truth_overlap.index_fill_(0, best_prior_idx.squeeze_(1), 2)
        matches = truths[idx][best_truth_idx]
        conf = (best_truth_idx % 2) + 1
        conf[best_truth_overlap < 0.3] = 0
        g_cxcy = ((matches[:, :2] + matches[:, 2:]) / 2 - priors[:, :2]) / (0.1 * priors[:, 2:])
        g_wh = torch.log((matches[:, 2:] - matches[:, :2]) / priors[:, 2:]) / 0.2
        loc_t[idx], conf_t[idx] = torch.cat([g_cxcy, g_wh], 1), conf
    loss_l, loss_c = criterion(*net(normal(2, 3, 16, 16, seed=step % 3)), loc_t, conf_t)
    loss = loss_l + loss_c
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
losses.append(float(len(nms(corners, uniform(32, seed=8), 0.3))))
