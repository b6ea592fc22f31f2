"""The encoder and decoder of the annotated transformer."""

import copy
import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.autograd import Variable
from common import integers, start


def clones(module, N):
    return nn.ModuleList([copy.deepcopy(module) for _ in range(N)])


def subsequent_mask(size):
    return torch.triu(torch.ones((1, size, size)), diagonal=1).type(torch.uint8) == 0


def attention(query, key, value, mask=None, dropout=None):
    d_k = query.size(-1)
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p_attn = F.softmax(scores, dim=-1)
    if dropout is not None:
        p_attn = dropout(p_attn)
    return torch.matmul(p_attn, value), p_attn


class LayerNorm(nn.Module):
    def __init__(self, features, eps=1e-6):
        super(LayerNorm, self).__init__()
        self.a_2 = nn.Parameter(torch.ones(features))
        self.b_2 = nn.Parameter(torch.zeros(features))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        std = x.std(-1, keepdim=True)
        return self.a_2 * (x - mean) / (std + self.eps) + self.b_2


class SublayerConnection(nn.Module):
    def __init__(self, size, dropout):
        super().__init__()
        self.norm, self.dropout = LayerNorm(size), nn.Dropout(dropout)

    def forward(self, x, sublayer):
        return x + self.dropout(sublayer(self.norm(x)))


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.0):
        super().__init__()
        assert d_model % h == 0
        self.d_k, self.h = d_model // h, h
        self.linears = clones(nn.Linear(d_model, d_model), 4)
        self.attn, self.dropout = None, nn.Dropout(p=dropout)

    def forward(self, query, key, value, mask=None):
        if mask is not None:
            mask = mask.unsqueeze(1)
        nbatches = query.size(0)
        query, key, value = [lin(x).view(nbatches, -1, self.h, self.d_k).transpose(1, 2)
                             for lin, x in zip(self.linears, (query, key, value))]
        x, self.attn = attention(query, key, value, mask=mask, dropout=self.dropout)
        x = x.transpose(1, 2).contiguous().view(nbatches, -1, self.h * self.d_k)
        del query, key, value
        return self.linears[-1](x)


class PositionalEncoding(nn.Module):
    def __init__(self, d_model, max_len=50):
        super().__init__()
        pe = torch.zeros(max_len, d_model)
        position = torch.arange(0, max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * -(math.log(10000.0) / d_model))
        pe[:, 0::2] = torch.sin(position * div_term)
        pe[:, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe.unsqueeze(0))

    def forward(self, x):
        return x + Variable(self.pe[:, :x.size(1)], requires_grad=False)


class DecoderLayer(nn.Module):
    def __init__(self, size, dropout=0.0):
        super().__init__()
        self.self_attn, self.src_attn = MultiHeadedAttention(2, size), MultiHeadedAttention(2, size)
        self.feed_forward = nn.Sequential(nn.Linear(size, 32), nn.ReLU(), nn.Linear(32, size))
        self.sublayer = clones(SublayerConnection(size, dropout), 3)

    def forward(self, x, memory, src_mask, tgt_mask):
        x = self.sublayer[0](x, lambda x: self.self_attn(x, x, x, tgt_mask))
        x = self.sublayer[1](x, lambda x: self.src_attn(x, memory, memory, src_mask))
        return self.sublayer[2](x, self.feed_forward)


class Model(nn.Module):
    def __init__(self, vocab=11, size=16):
        super().__init__()
        self.lut, self.pe = nn.Embedding(vocab, size), PositionalEncoding(size)
        self.layers, self.norm, self.proj = clones(DecoderLayer(size), 2), LayerNorm(size), nn.Linear(size, vocab)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)

    def forward(self, src, tgt, src_mask, tgt_mask):
        memory, x = self.pe(self.lut(src)), self.pe(self.lut(tgt) * math.sqrt(16))
        for layer in self.layers:
            x = layer(x, memory, src_mask, tgt_mask)
        return F.log_softmax(self.proj(self.norm(x)), dim=-1)


class LabelSmoothing(nn.Module):
    def __init__(self, size, padding_idx, smoothing=0.0):
        super().__init__()
        self.criterion = nn.KLDivLoss(reduction="sum")
        self.padding_idx, self.confidence, self.smoothing, self.size = padding_idx, 1.0 - smoothing, smoothing, size

    def forward(self, x, target):
        assert x.size(1) == self.size
        true_dist = x.data.clone()
        true_dist.fill_(self.smoothing / (self.size - 2))
        true_dist.scatter_(1, target.data.unsqueeze(1), self.confidence)
        true_dist[:, self.padding_idx] = 0
        mask = torch.nonzero(target.data == self.padding_idx)
        if mask.dim() > 0:
            true_dist.index_fill_(0, mask.squeeze(), 0.0)
        return self.criterion(x, true_dist.clone().detach())


model, criterion, losses = start(Model()), LabelSmoothing(11, 0, 0.1), []
optimizer = torch.optim.Adam(model.parameters(), lr=1, betas=(0.9, 0.98), eps=1e-9)
schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_lambda=lambda step: 0.05 * min(max(step, 1) ** -0.5, step * 8 ** -1.5))
for i in range(20):
    data = integers(10, 4, 7, seed=i % 5) + 1
    data[:, 0] = 1
    src, tgt, tgt_y = data, data[:, :-1], data[:, 1:]
    tgt_mask = (tgt != 0).unsqueeze(-2) & subsequent_mask(tgt.size(-1)).type_as((tgt != 0).data)
    out = model(src, tgt, (src != 0).unsqueeze(-2), tgt_mask)
    ntokens = (tgt_y != 0).data.sum()
    loss = criterion(out.contiguous().view(-1, out.size(-1)), tgt_y.contiguous().view(-1)) / ntokens
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    schedule.step()
    losses.append(loss.item())
