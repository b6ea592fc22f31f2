"""Loops with mixed precision, scaled losses, accumulated and clipped gradients, on a machine without a GPU."""

import warnings
from contextlib import nullcontext

import torch
import torch.nn as nn
from torch.cuda.amp import GradScaler, autocast
from common import integers, normal, start

warnings.simplefilter("ignore")
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
torch.set_float32_matmul_precision("high")
use_amp = torch.cuda.is_available() and torch.cuda.device_count() > 9
device = "cuda" if use_amp else "cpu"
ctx = nullcontext() if device == "cpu" else torch.amp.autocast(device_type=device, dtype=torch.bfloat16)
model = start(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))).to(device, non_blocking=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, fused=False)
scaler, losses, accumulate = GradScaler(enabled=use_amp), [], 2
torch.cuda.empty_cache()
for step in range(20):
    x, y = normal(4, 8, seed=step % 3).to(device, non_blocking=True), integers(4, 4, seed=step % 3).to(device)
    with autocast(enabled=use_amp):
        with ctx:
            loss = nn.functional.cross_entropy(model(x), y) / accumulate
    scaler.scale(loss).backward()
    if (step + 1) % accumulate == 0:
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad(set_to_none=True)
    losses.append(loss.item() * accumulate)
if torch.cuda.is_available() and device == "cuda":
    torch.cuda.synchronize()
    print(torch.cuda.max_memory_allocated() / 2 ** 20)
with torch.autocast(device_type="cpu", dtype=torch.bfloat16):
    assert model(x).dtype == torch.bfloat16
other = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=3)
for step in range(6):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    other.scale(loss).backward()
    other.step(optimizer)
    other.update()
    losses.append(loss.item())
losses.append(other.get_scale())
losses.append(float(len(scaler.state_dict())))
