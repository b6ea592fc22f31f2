"""NumPy's integers and floats are sizes, dimensions and options as Python's are."""

import numpy as np
import pytest

import weft
from weft import nn
from weft.nn import functional as F

n, f = np.int64, np.float32


def sgd():
    return weft.optim.SGD([weft.ones(1, requires_grad=True)], np.float64(0.1))


CASES = {
    "random_split": lambda: weft.data.random_split(range(4), [n(1), n(3)]),
    "loader": lambda: list(weft.data.DataLoader(range(4), batch_size=n(2), num_workers=n(0))),
    "PReLU": lambda: nn.PReLU(n(3)),
    "Flatten": lambda: nn.Flatten(n(1)),
    "Unflatten": lambda: nn.Unflatten(n(1), (n(2), n(2))),
    "ZeroPad2d": lambda: nn.ZeroPad2d(n(1))(weft.ones(1, 1, 2, 2)),
    "Dropout": lambda: nn.Dropout(f(0.5))(weft.ones(2)),
    "encoder": lambda: nn.TransformerEncoderLayer(n(4), n(2)),
    "LSTM": lambda: nn.LSTM(n(2), n(3), n(1)),
    "Embedding": lambda: nn.Embedding(n(3), n(2), n(0)),
    "EmbeddingBag": lambda: nn.EmbeddingBag(n(3), n(2)),
    "GroupNorm": lambda: nn.GroupNorm(n(1), n(2)),
    "PixelShuffle": lambda: nn.PixelShuffle(n(2))(weft.ones(1, 4, 2, 2)),
    "Upsample": lambda: nn.Upsample(scale_factor=n(2))(weft.ones(1, 1, 2)),
    "prune": lambda: nn.utils.prune.l1_unstructured(nn.Linear(2, 2), "weight", n(1)),
    "prune by fraction": lambda: nn.utils.prune.l1_unstructured(nn.Linear(2, 2), "weight", f(0.5)),
    "adaptive softmax": lambda: nn.AdaptiveLogSoftmaxWithLoss(n(4), n(8), [n(2), n(4)]),
    "Conv2d": lambda: nn.Conv2d(n(1), n(2), (n(3), n(3)), padding=n(1))(weft.ones(1, 1, 4, 4)),
    "MaxPool2d": lambda: nn.MaxPool2d(n(2), n(1), n(0))(weft.ones(1, 1, 4, 4)),
    "item of a list": lambda: nn.Sequential(nn.ReLU())[n(0)],
    "sizes": lambda: weft.zeros(n(2), n(3)).view(n(6)).expand(n(2), n(6)).repeat(n(2), n(3)),
    "dimensions": lambda: weft.ones(2, 2).sum(n(1)).unsqueeze(n(0)).squeeze(n(0)),
    "order": lambda: weft.ones(2, 2).permute(n(1), n(0)).transpose(n(0), n(1)).flip(n(0), n(1)),
    "norm": lambda: weft.linalg.norm(weft.ones(2, 2), dim=n(1)),
    "tensordot": lambda: weft.tensordot(weft.ones(2, 2), weft.ones(2, 2), n(1)),
    "broadcast_shapes": lambda: weft.broadcast_shapes(n(2), (2, n(2))),
    "sum_to_size": lambda: weft.ones(4).sum_to_size(n(1)),
    "unravel_index": lambda: weft.unravel_index(weft.tensor(1), n(3)),
    "argnums": lambda: weft.func.grad(lambda x: x.sum(), argnums=n(0))(weft.ones(2)),
    "gradient": lambda: weft.gradient(weft.ones(3, 3), dim=n(0)),
    "pad": lambda: F.pad(weft.ones(2, 2), (n(1), n(1))),
    "interpolate": lambda: F.interpolate(weft.ones(1, 1, 2, 2), size=(n(4), n(4))),
    "numbers": lambda: (f(2) * weft.ones(2)).clamp(f(0), np.float64(1)) * f(2),
    "elements": lambda: weft.tensor([n(1), n(2)]),
    "places": lambda: weft.ones(3)[n(1)] + weft.ones(3)[np.array([0, 1])].sum(),
    "rates": lambda: weft.optim.lr_scheduler.MultiStepLR(sgd(), [n(2)]).step(),
    "cycle": lambda: weft.optim.lr_scheduler.OneCycleLR(sgd(), np.float64(0.1), total_steps=n(5)).step(),
    "clip": lambda: nn.utils.clip_grad_norm_(weft.ones(1, requires_grad=True), f(1)),
    "seed": lambda: weft.Generator().manual_seed(n(3)),
}


@pytest.mark.parametrize("name", CASES)
def test_numpys_numbers_are_taken(name):
    CASES[name]()


def test_tensors_of_numpy_scalars_keep_their_dtype():
    for kind in (np.float64, np.float32, np.complex128, np.complex64, np.int16):
        assert weft.tensor(kind(1)).dtype.name == weft.as_tensor(kind(1)).dtype.name == kind.__name__
    assert weft.tensor(np.float64(1), dtype=weft.float32).dtype is weft.float32 and weft.tensor(1.0).dtype is weft.float32
