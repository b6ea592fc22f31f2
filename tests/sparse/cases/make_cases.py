"""Records PyTorch's sparse gradients of embeddings, so that the tests do not need PyTorch.

usage: python make_cases.py     (with PyTorch; written for 2.15)

steps.jsonl: an optimizer, its keywords, and the table after some of 20 steps with the indices of `at` and the gradients
of `gradient`. rows.jsonl: a call of embedding or embedding_bag, and the rows of the gradient that it leaves."""

import json
import math
import pathlib

import torch
import torch.nn.functional as F

FOLDER = pathlib.Path(__file__).parent
ROWS, WIDTH, STEPS = 7, 3, 20
KEPT = (1, 2, 3, 7, 20)
OPTIMIZERS = [("SparseAdam", {}), ("SparseAdam", {"lr": 0.05, "betas": [0.8, 0.95], "eps": 1e-3}),
              ("SparseAdam", {"lr": 0.05, "maximize": True}), ("SGD", {}), ("SGD", {"lr": 0.1, "maximize": True}),
              ("SGD", {"lr": 0.1, "momentum": 0.9}),
              ("Adagrad", {"lr": 0.1}), ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5})]


def at(step):
    return [(3 * step + k * k) % ROWS for k in range(4)]


def gradient(step):
    return [[math.sin(3.0 * k + j + step) for j in range(WIDTH)] for k in range(4)]


def table(dtype=torch.float64):
    return torch.tensor([1.5 * math.cos(1.0 + i) for i in range(ROWS * WIDTH)], dtype=torch.float64).to(dtype).reshape(
        ROWS, WIDTH)


def digits(t):
    return [float(f"{v:.{17 if t.dtype == torch.float64 else 9}g}") for v in t.detach().flatten().tolist()]


def steps(name, keywords, dtype):
    weight = table(dtype).requires_grad_()
    optimizer = getattr(torch.optim, name)([weight], **keywords)
    kept = {}
    for step in range(1, STEPS + 1):
        optimizer.zero_grad()
        rows = F.embedding(torch.tensor(at(step)), weight, sparse=True)
        (rows * torch.tensor(gradient(step), dtype=dtype)).sum().backward()
        optimizer.step()
        if step in KEPT:
            kept[step] = digits(weight)
    return {"optimizer": name, "keywords": keywords, "dtype": str(dtype)[6:], "weight": kept}


CALLS = [
    {"indices": [[3, 1, 3], [0, 6, 3]]},
    {"indices": [2, 2, 2], "padding_idx": 4},
    {"indices": [4, 2, 4, 0], "padding_idx": 4},
    {"indices": [4, 4], "padding_idx": 4},
    {"indices": [3, 1, 3, 0], "offsets": [0, 2], "mode": "sum"},
    {"indices": [3, 1, 3, 0, 5], "offsets": [0, 2, 2], "mode": "mean"},
    {"indices": [[3, 1], [3, 3]], "mode": "mean"},
    {"indices": [3, 1, 3, 0], "offsets": [0, 3], "mode": "sum", "factors": [0.5, -1.0, 2.0, 3.0]},
]


def rows(call):
    weight = table().requires_grad_()
    indices = torch.tensor(call["indices"])
    if "mode" in call:
        factors = torch.tensor(call["factors"], dtype=torch.float64) if "factors" in call else None
        offsets = torch.tensor(call["offsets"]) if "offsets" in call else None
        out = F.embedding_bag(indices, weight, offsets, mode=call["mode"], per_sample_weights=factors, sparse=True)
    else:
        out = F.embedding(indices, weight, padding_idx=call.get("padding_idx"), sparse=True)
    seed = torch.tensor([math.sin(1.0 + i) for i in range(out.numel())], dtype=torch.float64).reshape(out.shape)
    out.backward(seed)
    grad = weight.grad.coalesce()
    return {**call, "ids": grad.indices()[0].tolist(), "values": digits(grad.values())}


if __name__ == "__main__":
    with open(FOLDER / "steps.jsonl", "w") as out:
        for name, keywords in OPTIMIZERS:
            for dtype in (torch.float64, torch.float32):
                out.write(json.dumps(steps(name, keywords, dtype)) + "\n")
    with open(FOLDER / "rows.jsonl", "w") as out:
        for call in CALLS:
            out.write(json.dumps(rows(call)) + "\n")
