"""Writes modules.pt, a file of torch.save with whole modules, their inputs and their results."""

import pathlib

import torch
from torch import nn

if __name__ == "__main__":
    torch.manual_seed(0)
    modules = {
        "image": (nn.Sequential(nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.ReLU(inplace=True), nn.MaxPool2d(2),
                                nn.Flatten(), nn.Dropout(0.3), nn.Linear(8, 3, bias=False), nn.GELU(), nn.LayerNorm(3)),
                  torch.randn(2, 1, 4, 4)),
        "sequence": (nn.LSTM(2, 3, 2, batch_first=True, bidirectional=True), torch.randn(2, 5, 2)),
        "attention": (nn.TransformerEncoderLayer(4, 2, 4, batch_first=True), torch.randn(2, 3, 4)),
        "words": (nn.Embedding(5, 2, padding_idx=1), torch.tensor([[0, 1], [4, 2]]))}
    saved = {}
    for name, (module, x) in modules.items():
        result = module.eval()(x)
        saved[name] = (module, x, (result[0] if isinstance(result, tuple) else result).detach())
    torch.save(saved, pathlib.Path(__file__).parent / "modules.pt")
