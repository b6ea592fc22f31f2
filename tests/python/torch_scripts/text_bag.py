"""Text classes by bags of embeddings, and by convolutions of several widths."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader
from torch.utils.data.dataset import random_split
from common import integers, start


class TextClassificationModel(nn.Module):
    def __init__(self, vocab_size, embed_dim, num_class):
        super(TextClassificationModel, self).__init__()
        self.embedding = nn.EmbeddingBag(vocab_size, embed_dim, sparse=False)
        self.fc = nn.Linear(embed_dim, num_class)
        self.init_weights()

    def init_weights(self):
        initrange = 0.5
        self.embedding.weight.data.uniform_(-initrange, initrange)
        self.fc.weight.data.uniform_(-initrange, initrange)
        self.fc.bias.data.zero_()

    def forward(self, text, offsets):
        return self.fc(self.embedding(text, offsets))


class CNN_Text(nn.Module):
    def __init__(self, V, D, C, Ci, Co, Ks):
        super(CNN_Text, self).__init__()
        self.embed = nn.Embedding(V, D)
        self.convs = nn.ModuleList([nn.Conv2d(Ci, Co, (K, D)) for K in Ks])
        self.dropout, self.fc1 = nn.Dropout(0.0), nn.Linear(len(Ks) * Co, C)

    def forward(self, x):
        x = self.embed(x).unsqueeze(1)
        x = [F.relu(conv(x)).squeeze(3) for conv in self.convs]
        x = [F.max_pool1d(i, i.size(2)).squeeze(2) for i in x]
        return self.fc1(self.dropout(torch.cat(x, 1)))


def collate_batch(batch):
    label_list, text_list, offsets = [], [], [0]
    for _label, _text in batch:
        label_list.append(int(_label))
        text_list.append(_text)
        offsets.append(_text.size(0))
    offsets = torch.tensor(offsets[:-1]).cumsum(dim=0)
    return torch.tensor(label_list, dtype=torch.int64), torch.cat(text_list), offsets


examples = [(i % 4, integers(30, 3 + i % 5, seed=i)) for i in range(40)]
split_train_, split_valid_ = random_split(examples, [32, 8])
dataloader = DataLoader(examples, batch_size=8, shuffle=False, collate_fn=collate_batch)
model = start(TextClassificationModel(30, 8, 4))
criterion, optimizer = torch.nn.CrossEntropyLoss(), torch.optim.SGD(model.parameters(), lr=2.0)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.5)
losses = []
for epoch in range(2):
    for idx, (label, text, offsets) in enumerate(dataloader):
        optimizer.zero_grad()
        loss = criterion(model(text, offsets), label)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        losses.append(loss.item())
    scheduler.step()
model = start(CNN_Text(30, 6, 4, 1, 5, [2, 3, 4]))
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.05)
for step in range(10):
    target = integers(4, 6, seed=step % 2)
    loss = F.cross_entropy(model(integers(30, 6, 9, seed=step % 2)), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
