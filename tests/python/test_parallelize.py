"""weft.distributed.parallel: a model for one process on a mesh of ranks, beside one process."""

import collections

import numpy as np
import pytest

import weft
from weft import nn
from weft.distributed import LocalWorld
from weft.distributed.parallel import (BackgroundSaver, ColwiseParallel, ExpertParallel, HeadParallel, ParallelTraining, RowwiseParallel,
                                       SequenceParallel, ToSequenceParts, VocabParallel, gather_history, parallelize)
from weft.distributed.tensor import init_device_mesh

WIDTH, VOCABULARY, LENGTH, ROWS = 16, 24, 8, 8


class Embed(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(VOCABULARY, WIDTH)
        self.position = nn.Embedding(LENGTH, WIDTH)

    def forward(self, tokens):
        return self.token(tokens) + self.position(weft.arange(tokens.shape[1]))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.mixed = nn.Linear(WIDTH, 2 * WIDTH)
        self.down = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        gate, value = self.mixed(self.norm(x)).chunk(2, -1)
        return x + self.down(weft.sigmoid(gate) * value)


def model():
    weft.manual_seed(3)
    return nn.Sequential(Embed(), Block(), Block(), Block(), nn.Linear(WIDTH, VOCABULARY))


SPLITS = {"token$": VocabParallel(), "mixed$": ColwiseParallel(blocks=2), "down$": RowwiseParallel(),
          "norm$": SequenceParallel(), "position$": ToSequenceParts(), "^4$": ColwiseParallel(gather_output=True)}


def batch(step):
    tokens = np.random.default_rng(step).integers(0, VOCABULARY, (ROWS, LENGTH + 1))
    return weft.tensor(tokens[:, :-1]), weft.tensor(tokens[:, 1:])


def loss_of(logits, targets):
    return nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


def alone(steps):
    net = model()
    optimizer = weft.optim.AdamW(net.parameters(), lr=0.01)
    losses = []
    for step in range(steps):
        x, y = batch(step)
        optimizer.zero_grad()
        loss = loss_of(net(x), y)
        loss.backward()
        losses.append(loss.item())
        nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
    return losses


def trained(shape, first, last, *, load=None, save=None, net=None, **plan):
    out = []

    def body(group):
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "pp", "tp"))
        parallel = parallelize(net() if net else model(), mesh, SPLITS, **plan)
        training = ParallelTraining(parallel, weft.optim.AdamW(parallel.parameters(), lr=0.01))
        if load:
            training.load(load)
        own = ROWS // shape[0]
        begin = own * parallel.data_parallel.rank()
        losses = []
        for step in range(first, last):
            x, y = (t[begin:begin + own] for t in batch(step))
            training.zero_grad()
            losses.append(training.backward(x, y, loss_of))
            training.clip_grad_norm(0.5)
            training.step()
        if save:
            training.save(save)
        if group.rank() == 0:
            out.extend(losses)

    LocalWorld(int(np.prod(shape)), timeout=60).run(body)
    return out


@pytest.mark.parametrize("shape, plan", [
    ((2, 1, 1), {}), ((4, 1, 1), {"shard_stage": 2}), ((2, 1, 1), {"shard_stage": 3}), ((1, 1, 2), {}), ((1, 1, 4), {}),
    ((1, 2, 1), {"micro_batches": 4}), ((1, 2, 2), {"micro_batches": 2, "schedule": "GPipe", "cuts": ["2"]}),
    ((2, 1, 2), {"shard_stage": 3}), ((1, 2, 1), {"micro_batches": 4, "schedule": "ZeroBubble"}),
])
def test_losses_are_those_of_one_process(shape, plan):
    np.testing.assert_allclose(trained(shape, 0, 5, **plan), alone(5), rtol=1e-5)


def test_a_run_resumes_by_another_plan(tmp_path):
    expected = alone(6)
    trained((2, 1, 2), 0, 3, save=tmp_path / "state", shard_stage=1)
    got = trained((1, 2, 2), 3, 6, load=tmp_path / "state", micro_batches=2, net=model)
    np.testing.assert_allclose(got, expected[3:], rtol=1e-5)


def test_sequences_in_parts():
    splits = {k: v for k, v in SPLITS.items()}
    losses = []

    def body(group):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        parallel = parallelize(model(), mesh, splits, sequence_parallel=True)
        training = ParallelTraining(parallel, weft.optim.AdamW(parallel.parameters(), lr=0.01))
        for step in range(4):
            x, y = batch(step)
            training.zero_grad()
            loss = training.backward(x, y, loss_of)
            training.clip_grad_norm(0.5)
            training.step()
            if group.rank() == 0:
                losses.append(loss)

    LocalWorld(2, timeout=60).run(body)
    np.testing.assert_allclose(losses, alone(4), rtol=1e-5)


def test_adapters_are_cut_along():
    from weft.nn.lora import apply_lora

    def net():
        net = model()
        apply_lora(net, ["mixed$", "down$"], r=2)
        with weft.no_grad():
            for name, p in net.named_parameters():
                if "lora_B" in name:
                    p.copy_(weft.arange(p.numel()).reshape(p.shape) / p.numel() - 0.5)
        return net

    x, _ = batch(0)
    expected = net()(x)

    def body(group):
        parallel = parallelize(net(), init_device_mesh("cpu", (2,), mesh_dim_names=("tp",)), SPLITS)
        np.testing.assert_allclose(parallel(x).detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=1e-5)

    LocalWorld(2, timeout=60).run(body)


def test_schedules_use_the_parallel_optimizer():
    def body(group):
        parallel = parallelize(model(), init_device_mesh("cpu", (2,), mesh_dim_names=("dp",)), shard_stage=1)
        optimizer = weft.optim.SGD(parallel.parameters(), lr=0.5)
        training = ParallelTraining(parallel, optimizer)
        schedule = weft.optim.lr_scheduler.StepLR(optimizer, 1, 0.1)
        x, y = batch(0)
        training.backward(x, y, loss_of)
        training.step()
        schedule.step()
        assert training.optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
        with training.whole_parameters():
            pass

    LocalWorld(2, timeout=60).run(body)


def test_invalid_arguments_raise():
    def body(group):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        with pytest.raises(ValueError, match="finds no module"):
            parallelize(model(), mesh, {"nothing": RowwiseParallel()})
        with pytest.raises(ValueError, match="is not cut so"):
            parallelize(model(), mesh, {"norm$": ColwiseParallel()})
        with pytest.raises(ValueError, match="schedule"):
            parallelize(model(), mesh, schedule="other")
        stages = init_device_mesh("cpu", (2,), mesh_dim_names=("pp",))
        with pytest.raises(ValueError, match="Sequential"):
            parallelize(Block(), stages)
        parallel = parallelize(model(), stages)
        with pytest.raises(ValueError, match="stage"):
            parallel(batch(0)[0])

    LocalWorld(2, timeout=60).run(body)


@pytest.mark.parametrize("shape, stage", [((1, 2), 0), ((2, 2), 3)])
def test_experts_of_their_own_on_each_rank(shape, stage):
    def net():
        weft.manual_seed(3)
        return nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.MoE(WIDTH, 2 * WIDTH, 4), nn.Linear(WIDTH, WIDTH))

    def rows(step):
        return weft.tensor(np.random.default_rng(step).standard_normal((ROWS, WIDTH)).astype(np.float32))

    single, losses = net(), []
    optimizer = weft.optim.AdamW(single.parameters(), lr=0.01)
    for step in range(4):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(single(rows(step)), rows(step + 50))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    got = []

    def body(group):
        mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "ep"))
        parallel = parallelize(net(), mesh, {"^1$": ExpertParallel()}, shard_stage=stage)
        training = ParallelTraining(parallel, weft.optim.AdamW(parallel.parameters(), lr=0.01))
        own = ROWS // group.size()
        begin = own * parallel.data_parallel.rank()
        for step in range(4):
            training.zero_grad()
            loss = training.backward(rows(step)[begin:begin + own], rows(step + 50)[begin:begin + own],
                                     nn.functional.mse_loss)
            training.step()
            if group.rank() == 0:
                got.append(loss)

    LocalWorld(int(np.prod(shape)), timeout=60).run(body)
    np.testing.assert_allclose(got, losses, rtol=1e-5)


def encoder_losses(shape, **plan):
    out = []

    def body(group):
        weft.manual_seed(5)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 32, dropout=0.0, batch_first=True)
        net = nn.TransformerEncoder(layer, 2)
        splits = {"self_attn$": HeadParallel(), "linear1$": ColwiseParallel(), "linear2$": RowwiseParallel()}
        parallel = parallelize(net, init_device_mesh("cpu", shape, mesh_dim_names=("dp", "tp")), splits, **plan)
        training = ParallelTraining(parallel, weft.optim.AdamW(parallel.parameters(), lr=0.01))
        own = 4 // shape[0]
        begin = own * parallel.data_parallel.rank()
        for step in range(4):
            x = weft.tensor(np.random.default_rng(step).normal(size=(4, 6, WIDTH)).astype("float32"))[begin:begin + own]
            training.zero_grad()
            loss = training.backward(x, 2 * x, nn.functional.mse_loss)
            training.step()
            if group.rank() == 0:
                out.append(loss)

    LocalWorld(int(np.prod(shape)), timeout=60).run(body)
    return out


@pytest.mark.parametrize("shape, plan", [((1, 2), {}), ((1, 4), {}), ((2, 2), {"shard_stage": 3})])
def test_heads_of_an_encoder_are_shared_out(shape, plan):
    np.testing.assert_allclose(encoder_losses(shape, **plan), encoder_losses((1, 1)), rtol=1e-5)


def test_recorders_of_all_ranks_make_one_history():
    pages = []

    def body(group):
        mesh = init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "pp"))
        net = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4))
        parallel = parallelize(net, mesh, micro_batches=2)
        recorder = weft.hooks.GradientRecorder(parallel)
        training = ParallelTraining(parallel, weft.optim.SGD(parallel.parameters(), lr=0.1))
        for _ in range(3):
            training.zero_grad()
            loss = training.backward(weft.ones(4, 4), weft.full((4, 4), float("nan")), nn.functional.mse_loss)
            with training.whole_parameters():
                recorder.step(loss)
        history = gather_history(recorder)
        assert (history is None) == (group.rank() != 0)
        if history is not None:
            pages.append((history.html("All ranks"), history.suspects(), len(history.json_lines())))

    LocalWorld(4, timeout=60).run(body)
    (page, suspects, steps), = pages
    assert steps == 3 and "2.weight @1" in page and "0.weight @0" in page and "2 @3" in page
    assert any("2 @3" in text and "NaN" in text for text in suspects)


def test_messages_take_gradients_back():
    from weft.distributed import functional as parts

    def body(group):
        if group.rank() == 0:
            x = weft.tensor([1.0, 2.0], requires_grad=True)
            parts.send(x * 3, 1).backward()
            return x.grad.tolist()
        y = parts.recv(0)
        (y * y).sum().backward()
        return y.tolist()

    assert LocalWorld(2, timeout=60).run(body) == [[18.0, 36.0], [3.0, 6.0]]


def test_a_mixture_carries_the_losses_of_its_router():
    weft.manual_seed(1)
    carrying = nn.MoE(4, 6, 4, balance_weight=0.5, z_weight=0.25)
    plain = nn.MoE(4, 6, 4)
    plain.load_state_dict(carrying.state_dict())
    x = weft.randn(10, 4)
    out, balance, z, _ = plain.forward_with_losses(x)
    (out.square().mean() + 0.5 * balance + 0.25 * z).backward()
    for _ in range(2):
        with nn.auxiliary_loss_scale(0.5):
            (carrying(x).square().mean() / 2).backward()
    np.testing.assert_allclose(carrying.router.grad.numpy(), plain.router.grad.numpy(), rtol=1e-5, atol=1e-7)
    y = weft.tensor([1.0], requires_grad=True)
    nn.add_auxiliary_loss(2 * y, (y * y).sum(), 3).sum().backward()
    assert y.grad.item() == 8


@pytest.mark.parametrize("in_background", [False, True])
def test_a_whole_run_resumes_by_another_plan(tmp_path, in_background):
    expected = alone(6)

    def run(shape, first, last, **plan):
        def body(group):
            mesh = init_device_mesh("cpu", shape, mesh_dim_names=("dp", "pp", "tp"))
            parallel = parallelize(model(), mesh, SPLITS, **plan)
            training = ParallelTraining(parallel, weft.optim.AdamW(parallel.parameters(), lr=0.01))
            saver = BackgroundSaver() if in_background else None
            if first:
                state = training.load_run(tmp_path)
                assert state.step == first and state.documents["config"] == {"width": WIDTH}
            own = ROWS // shape[0]
            begin = own * parallel.data_parallel.rank()
            losses = []
            for step in range(first, last):
                x, y = (t[begin:begin + own] for t in batch(step))
                training.zero_grad()
                losses.append(training.backward(x, y, loss_of))
                training.clip_grad_norm(0.5)
                training.step()
                state = weft.io.RunState(step=step + 1, documents={"config": {"width": WIDTH}})
                folder = training.save_run(tmp_path, state, keep_last=2, saver=saver)
                assert folder.endswith(f"step-{step + 1:08}")
            if saver:
                saver.wait()
            return losses

        return LocalWorld(int(np.prod(shape)), timeout=60).run(body)[0]

    np.testing.assert_allclose(run((2, 1, 2), 0, 3, shard_stage=3), expected[:3], rtol=1e-5)
    assert len(weft.io.training_states(tmp_path)) == 2
    np.testing.assert_allclose(run((1, 2, 1), 3, 6, micro_batches=2), expected[3:], rtol=1e-5)


class Positions(nn.Module):
    """Positions of words among other things that it gives."""

    def __init__(self, given):
        super().__init__()
        self.table = nn.Parameter(weft.arange(LENGTH * WIDTH, dtype=weft.float32).reshape(1, LENGTH, WIDTH))
        self.given = given

    def forward(self, tokens):
        return self.given(self.table * 1, tokens)


Pair = collections.namedtuple("Pair", ["positions", "tokens"])


@pytest.mark.parametrize("given, first", [
    (lambda p, t: (p, t, "words"), lambda out: out[0]), (lambda p, t: [p, {"tokens": t}], lambda out: out[0]),
    (Pair, lambda out: out.positions), (lambda p, t: {"positions": p, "tokens": t}, lambda out: out["positions"]),
    (lambda p, t: (((p,), None), t), lambda out: out[0][0][0]), (lambda p, t: p, lambda out: out)])
def test_a_hook_of_cpp_replaces_one_of_several_outputs(given, first):
    def body(group):
        mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("tp",))
        module = Positions(given)
        net = nn.Sequential(module)
        parallelize(net, mesh, {"^0$": ToSequenceParts()}, sequence_parallel=True)
        tokens = weft.arange(3)
        out, plain = module(tokens), module.forward(tokens)
        rows = slice(group.rank() * LENGTH // 2, (group.rank() + 1) * LENGTH // 2)
        assert type(out) is type(plain)
        assert first(out).tolist() == first(plain)[:, rows].tolist()
        assert str(_with_first(out, "here")) == str(given("here", tokens))
        (first(out) * 2).sum().backward()
        assert module.table.grad.shape == module.table.shape and module.table.grad.sum().item() == LENGTH * WIDTH * 2
        seen = []
        with module.register_forward_hook(lambda m, args, output: seen.append(first(output).shape)):
            assert first(module(tokens)).shape == (1, LENGTH // 2, WIDTH) and seen == [(1, LENGTH, WIDTH)]

    LocalWorld(2).run(body)


def _with_first(out, what):
    """The same with something else for its first tensor."""
    if isinstance(out, weft.Tensor):
        return what
    if isinstance(out, dict):
        return {"positions": what, **{k: v for k, v in out.items() if k != "positions"}}
    items = [_with_first(out[0], what), *out[1:]]
    return type(out)(*items) if hasattr(out, "_fields") else type(out)(items)
