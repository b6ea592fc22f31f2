"""A siamese network with a contrastive loss and a triplet loss."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import optim
from torch.utils.data import DataLoader, Dataset
from common import numbers, start


class SiameseDataset(Dataset):
    def __init__(self, count):
        self.images = numbers(count, 1, 12, 12)

    def __getitem__(self, index):
        other = (index * 7 + 3) % len(self.images)
        label = torch.from_numpy(numbers(1, seed=index) > 0).float()
        return torch.tensor(self.images[index]), torch.as_tensor(self.images[other]), label

    def __len__(self):
        return len(self.images)


class SiameseNetwork(nn.Module):
    def __init__(self):
        super(SiameseNetwork, self).__init__()
        self.cnn1 = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(1, 4, kernel_size=3), nn.ReLU(inplace=True),
                                  nn.BatchNorm2d(4), nn.Dropout2d(p=0.0), nn.MaxPool2d(3, stride=2))
        self.fc1 = nn.Sequential(nn.Linear(4 * 5 * 5, 16), nn.ReLU(inplace=True), nn.Linear(16, 5))

    def forward_once(self, x):
        output = self.cnn1(x)
        output = output.view(output.size()[0], -1)
        return self.fc1(output)

    def forward(self, input1, input2):
        return self.forward_once(input1), self.forward_once(input2)


class ContrastiveLoss(torch.nn.Module):
    def __init__(self, margin=2.0):
        super(ContrastiveLoss, self).__init__()
        self.margin = margin

    def forward(self, output1, output2, label):
        euclidean_distance = F.pairwise_distance(output1, output2, keepdim=True)
        return torch.mean((1 - label) * torch.pow(euclidean_distance, 2) +
                          (label) * torch.pow(torch.clamp(self.margin - euclidean_distance, min=0.0), 2))


net, losses = start(SiameseNetwork()), []
criterion, triplet = ContrastiveLoss(), nn.TripletMarginLoss(margin=1.0, p=2)
optimizer = optim.Adam(net.parameters(), lr=0.0005)
loader = DataLoader(SiameseDataset(32), shuffle=False, num_workers=0, batch_size=8)
for epoch in range(3):
    for i, data in enumerate(loader, 0):
        img0, img1, label = data
        optimizer.zero_grad()
        output1, output2 = net(img0, img1)
        loss_contrastive = criterion(output1, output2, label)
        loss_contrastive.backward()
        optimizer.step()
        losses.append(loss_contrastive.item())
for i in range(8):
    anchor, positive = net(img0, img0 + 0.1)
    negative = net.forward_once(img1)
    loss = triplet(anchor, positive, negative) + F.cosine_embedding_loss(anchor, negative, -torch.ones(len(anchor)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
