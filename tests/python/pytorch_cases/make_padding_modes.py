"""Records PyTorch's convolutions with each padding_mode, as padding_modes.json.

usage: python make_padding_modes.py     (with PyTorch; written for 2.15)

Parameters and input are small integers that `fill` of test_nn_layers.py gives, so that results are exact."""

import json
import pathlib

import torch
from torch import nn

LAYERS = {
    "Conv1d(2, 3, 3, padding=2, padding_mode='reflect')": (2, 2, 5),
    "Conv1d(2, 2, 4, padding='same', dilation=2, padding_mode='circular', bias=False)": (2, 2, 7),
    "Conv1d(1, 1, 3, padding=1, padding_mode='replicate')": (1, 6),
    "Conv2d(2, 4, 3, stride=2, padding=(2, 1), groups=2, padding_mode='circular')": (1, 2, 4, 5),
    "Conv2d(1, 2, (2, 3), padding='same', padding_mode='reflect')": (1, 4, 4),
    "Conv2d(1, 1, 3, padding='valid', padding_mode='reflect')": (1, 1, 4, 4),
    "Conv3d(1, 2, (1, 3, 2), padding='same', padding_mode='replicate')": (1, 1, 2, 3, 3),
    "Conv3d(1, 1, 2, padding=1, padding_mode='circular')": (1, 2, 2, 2),
    "Conv3d(1, 1, 2, padding=1, padding_mode='reflect')": (1, 2, 2, 2),
}


def fill(shape, step, first, numbers):
    return ((torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * step + first) % numbers - 3).reshape(shape)


def record(expression, shape):
    layer = eval("nn." + expression).double()
    with torch.no_grad():
        for i, p in enumerate(layer.parameters()):
            p.copy_(fill(p.shape, 5, i, 7))
    x = fill(shape, 3, 0, 8).requires_grad_()
    y = layer(x)
    (y * torch.arange(1, y.numel() + 1).reshape(y.shape)).sum().backward()
    return {"layer": expression, "text": repr(layer), "input": shape, "shape": list(y.shape), "values": y.flatten().tolist(),
            "input_grad": x.grad.flatten().tolist(), "weight_grad": layer.weight.grad.flatten().tolist()}


cases = [record(*case) for case in LAYERS.items()]
lines = ",\n".join(json.dumps(case) for case in cases)
(pathlib.Path(__file__).parent / "padding_modes.json").write_text(f"[\n{lines}\n]\n")
