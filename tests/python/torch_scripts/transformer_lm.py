"""The language model with nn.TransformerEncoder, and nn.Transformer with masks of paddings."""

import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from torch.nn import TransformerEncoder, TransformerEncoderLayer
from common import integers, start


class PositionalEncoding(nn.Module):
    def __init__(self, d_model: int, dropout: float = 0.1, max_len: int = 50):
        super().__init__()
        self.dropout = nn.Dropout(p=dropout)
        position = torch.arange(max_len).unsqueeze(1)
        div_term = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10000.0) / d_model))
        pe = torch.zeros(max_len, 1, d_model)
        pe[:, 0, 0::2] = torch.sin(position * div_term)
        pe[:, 0, 1::2] = torch.cos(position * div_term)
        self.register_buffer("pe", pe, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.dropout(x + self.pe[:x.size(0)])


class TransformerModel(nn.Module):
    def __init__(self, ntoken: int, d_model: int, nhead: int, d_hid: int, nlayers: int, dropout: float = 0.0):
        super().__init__()
        self.pos_encoder = PositionalEncoding(d_model, dropout)
        encoder_layers = TransformerEncoderLayer(d_model, nhead, d_hid, dropout, activation="gelu", norm_first=True)
        self.transformer_encoder = TransformerEncoder(encoder_layers, nlayers, enable_nested_tensor=False)
        self.embedding, self.d_model, self.linear = nn.Embedding(ntoken, d_model), d_model, nn.Linear(d_model, ntoken)

    def forward(self, src: Tensor, src_mask: Tensor = None) -> Tensor:
        src = self.embedding(src) * math.sqrt(self.d_model)
        src = self.pos_encoder(src)
        if src_mask is None:
            src_mask = nn.Transformer.generate_square_subsequent_mask(len(src))
        return self.linear(self.transformer_encoder(src, src_mask))


class Seq2SeqTransformer(nn.Module):
    def __init__(self, size=16, vocab=12):
        super().__init__()
        self.transformer = nn.Transformer(d_model=size, nhead=2, num_encoder_layers=1, num_decoder_layers=1, dim_feedforward=24,
                                          dropout=0.0, batch_first=True)
        self.generator, self.tok_emb = nn.Linear(size, vocab), nn.Embedding(vocab, size, padding_idx=1)

    def forward(self, src, trg, tgt_mask, src_padding_mask, tgt_padding_mask):
        outs = self.transformer(self.tok_emb(src), self.tok_emb(trg), None, tgt_mask, None, src_padding_mask, tgt_padding_mask,
                                src_padding_mask)
        return self.generator(outs)


losses = []
model = start(TransformerModel(13, 16, 2, 24, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1.0, gamma=0.95)
for i in range(10):
    data = integers(13, 7, 3, seed=i % 2)
    output = model(data[:-1])
    loss = F.cross_entropy(output.view(-1, 13), data[1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    optimizer.step()
    scheduler.step()
    losses.append(loss.item())
model = start(Seq2SeqTransformer())
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98), eps=1e-9)
loss_fn = torch.nn.CrossEntropyLoss(ignore_index=1)
for i in range(10):
    src, tgt = integers(10, 3, 6, seed=i % 2) + 2, integers(10, 3, 5, seed=i % 2 + 4) + 2
    src[0, 4:], tgt[1, 3:] = 1, 1
    tgt_input, tgt_out = tgt[:, :-1], tgt[:, 1:]
    mask = (torch.triu(torch.ones((4, 4))) == 1).transpose(0, 1)
    mask = mask.float().masked_fill(mask == 0, float("-inf")).masked_fill(mask == 1, float(0.0))
    padding = torch.zeros(3, 4).masked_fill(tgt_input == 1, float("-inf"))
    src_padding = torch.zeros(3, 6).masked_fill(src == 1, float("-inf"))
    logits = model(src, tgt_input, mask, src_padding, padding)
    optimizer.zero_grad()
    loss = loss_fn(logits.reshape(-1, logits.shape[-1]), tgt_out.reshape(-1))
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
