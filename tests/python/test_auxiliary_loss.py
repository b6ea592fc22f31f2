"""Auxiliary losses of mixtures have the factors of their batches' losses: in a Trainer's steps, on stages and replicas."""

import numpy as np
import pytest

import weft
from weft import nn, optim, train
from weft.distributed import LocalWorld
from weft.distributed.parallel import ColwiseParallel, ParallelTraining, SequenceParallel, ToSequenceParts, parallelize
from weft.distributed.tensor import init_device_mesh

WIDTH = 6


def mixture():
    return nn.MoE(WIDTH, 5, 4, balance_weight=0.5, z_weight=0.1)


def with_losses(moe, x):
    out, balance, z, _ = moe.forward_with_losses(x)
    return out, 0.5 * balance + 0.1 * z


def rows(seed, *shape):
    return weft.tensor(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def expect_near(got, expected, name=""):
    expected = expected.numpy()
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max(), err_msg=name)


@pytest.mark.parametrize("weights", [None, (1, 5, 2), (0, 2, 10), (4, 1, 0)])
@pytest.mark.parametrize("scales", [False, True])
def test_batches_of_a_trainers_step(weights, scales):
    batches = [rows(seed, 4, WIDTH) for seed in range(3)]
    weft.manual_seed(1)
    whole, pieces = mixture(), mixture()
    pieces.load_state_dict(whole.state_dict())
    factors = np.array(weights or (1, 1, 1)) / sum(weights or (1, 1, 1))
    for x, factor in zip(batches, factors):
        out, losses = with_losses(whole, x)
        ((nn.functional.mse_loss(out, 2 * x) + losses) * float(factor)).backward()
    optim.SGD(whole.parameters(), lr=1).step()

    def loss_of(batch):
        i, x = batch
        loss = nn.functional.mse_loss(pieces(x), 2 * x)
        return loss if weights is None else (loss, weights[i])

    scaler = weft.amp.GradScaler(init_scale=1024) if scales else None
    trainer = train.Trainer(pieces, optim.SGD(pieces.parameters(), lr=1), steps=1, accumulate=3, scaler=scaler)
    trainer.fit([(i, x) for i, x in enumerate(batches)], loss_of)
    for name, p in pieces.named_parameters():
        expect_near(p.detach(), dict(whole.named_parameters())[name].detach(), name)


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.moe = nn.Linear(WIDTH, WIDTH), mixture()

    def forward(self, x):
        return x + self.moe(weft.tanh(self.linear(x)))


def mixing_model(stages):
    weft.manual_seed(2)
    return nn.Sequential(*[Mixing() for _ in range(stages)])


def count_of(target):
    return (target[:, 0] > 0).sum().item()


@pytest.mark.parametrize("shape, schedule", [((1, 1), "1F1B"), ((1, 2), "GPipe"), ((1, 3), "1F1B"), ((1, 3), "ZeroBubble"),
                                             ((2, 1), "1F1B"), ((2, 2), "ZeroBubble"), ((2, 3), "1F1B")])
def test_micro_batches_of_stages_and_replicas(shape, schedule):
    replicas, stages = shape
    data = [(rows(10 + r, 12, WIDTH), rows(20 + r, 12, WIDTH)) for r in range(replicas)]
    whole = mixing_model(stages)
    parts = [part for x, y in data for part in zip(x.chunk(3), y.chunk(3))]
    for x, y in parts:
        losses = 0
        for layer in whole:
            out, own = with_losses(layer.moe, weft.tanh(layer.linear(x)))
            x, losses = x + out, losses + own
        factor = count_of(y) / sum(count_of(target) for _, target in parts)
        ((nn.functional.mse_loss(x, y) + losses) * factor).backward()
    expected = {name: p.grad for name, p in whole.named_parameters()}

    def body(group):
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "pp"))
        parallel = parallelize(mixing_model(stages), mesh, micro_batches=3, schedule=schedule)
        training = ParallelTraining(parallel, optim.SGD(parallel.parameters(), lr=1))
        training.backward(*data[parallel.data_parallel.rank()], nn.functional.mse_loss, weight=count_of)
        training.clip_grad_norm(1e9)
        for name, p in parallel.named_parameters():
            expect_near(p.grad, expected[name], name)

    LocalWorld(replicas * stages, timeout=60).run(body)


def test_shards_of_sequences():
    def model():
        weft.manual_seed(3)
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), mixture(), nn.Linear(WIDTH, WIDTH))

    x, whole = rows(1, 2, 6, WIDTH), model()
    out, losses = with_losses(whole[1], whole[0](x))
    (nn.functional.mse_loss(whole[2](out), 2 * x) + losses).backward()
    expected = {name: p.grad for name, p in whole.named_parameters()}
    splits = {"^0$": ToSequenceParts(), "^1$": SequenceParallel(), "^2$": ColwiseParallel(gather_output=True)}

    def body(group):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        parallel = parallelize(model(), mesh, splits, sequence_parallel=True)
        training = ParallelTraining(parallel, optim.SGD(parallel.parameters(), lr=1))
        training.backward(x, 2 * x, nn.functional.mse_loss)
        training.clip_grad_norm(1e9)
        for name, p in parallel.named_parameters():
            if not name.startswith("2."):
                expect_near(p.grad, expected[name], name)

    LocalWorld(2, timeout=60).run(body)
