"""Own datasets, samplers and collation: padded and packed sequences, weights of classes, splits, streams."""

import math

import torch
import torch.nn as nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence
from torch.utils import data
from torch.utils.data import BatchSampler, ConcatDataset, DataLoader, Dataset, IterableDataset, Sampler, SequentialSampler, Subset
from torch.utils.data.sampler import SubsetRandomSampler, WeightedRandomSampler
from common import integers, start


class Words(Dataset):
    def __init__(self, count):
        self.lengths = [3 + (i * 5) % 7 for i in range(count)]

    def __len__(self):
        return len(self.lengths)

    def __getitem__(self, idx):
        if torch.is_tensor(idx):
            idx = idx.tolist()
        return {"words": integers(11, self.lengths[idx], seed=idx) + 1, "label": idx % 3, "name": "w%d" % idx}


class ByLength(Sampler):
    def __init__(self, data_source):
        self.data_source = data_source

    def __iter__(self):
        return iter(sorted(range(len(self.data_source)), key=lambda i: self.data_source.lengths[i]))

    def __len__(self):
        return len(self.data_source)


class Stream(IterableDataset):
    def __init__(self, begin, end):
        super(Stream).__init__()
        self.begin, self.end = begin, end

    def __iter__(self):
        worker_info = torch.utils.data.get_worker_info()
        iter_start, iter_end = self.begin, self.end
        if worker_info is not None:
            per_worker = int(math.ceil((self.end - self.begin) / float(worker_info.num_workers)))
            iter_start = self.begin + worker_info.id * per_worker
            iter_end = min(iter_start + per_worker, self.end)
        return iter(range(iter_start, iter_end))


def collate_fn(batch):
    batch.sort(key=lambda item: len(item["words"]), reverse=True)
    words = pad_sequence([item["words"] for item in batch], batch_first=True, padding_value=0)
    return words, torch.tensor([len(item["words"]) for item in batch]), torch.LongTensor([item["label"] for item in batch])


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(12, 6, padding_idx=0)
        self.lstm, self.out = nn.LSTM(6, 8, batch_first=True, bidirectional=True), nn.Linear(16, 3)

    def forward(self, words, lengths):
        packed = pack_padded_sequence(self.embedding(words), lengths, batch_first=True)
        output, (h, c) = self.lstm(packed)
        padded, sizes = pad_packed_sequence(output, batch_first=True)
        mask = (torch.arange(padded.size(1))[None, :] < sizes[:, None]).unsqueeze(-1)
        pooled = (padded * mask).sum(1) / lengths.unsqueeze(1)
        return self.out(pooled) + self.out(torch.cat([h[0], h[1]], dim=-1))


dataset = Words(24)
train_set, test_set = data.random_split(dataset, [16, 8], generator=torch.Generator().manual_seed(42))
assert len(train_set) == 16 and sorted(train_set.indices + test_set.indices) == list(range(24))
loaders = [DataLoader(dataset, batch_size=6, sampler=ByLength(dataset), collate_fn=collate_fn),
           DataLoader(Subset(dataset, list(range(12))), batch_sampler=BatchSampler(SequentialSampler(range(12)), 4, False),
                      collate_fn=collate_fn),
           DataLoader(ConcatDataset([dataset, Words(4)]), batch_size=7, num_workers=2, collate_fn=collate_fn)]
model = start(Net())
optimizer, losses = torch.optim.Adam(model.parameters(), lr=0.01), []
for epoch in range(2):
    for loader in loaders:
        for words, lengths, labels in loader:
            loss = nn.functional.cross_entropy(model(words, lengths), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
batch = next(iter(DataLoader(dataset, batch_size=2, sampler=SubsetRandomSampler([3, 10]))))
assert sorted(batch) == ["label", "name", "words"] and batch["label"].dtype == torch.int64
weights = torch.DoubleTensor([1.0 if i % 3 else 5.0 for i in range(24)])
assert len(list(WeightedRandomSampler(weights, len(weights)))) == 24
losses.append(float(sum(int(x) for b in DataLoader(Stream(3, 9), batch_size=2) for x in b)))
