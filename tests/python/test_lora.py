"""LoRA and checkpointed modules in Python."""

import json

import pytest

import weft
from weft import nn, optim
from weft.nn import lora
from weft.utils.checkpoint import checkpoint, checkpoint_sequential


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(9, 8)
        self.block = nn.TransformerBlock(8, 2)
        self.hidden = nn.Linear(8, 8)
        self.out = nn.Linear(8, 4)

    def forward(self, tokens):
        return self.out(weft.tanh(self.hidden(self.block(self.token(tokens)))))


@pytest.fixture
def net():
    weft.manual_seed(1)
    return Net()


tokens = weft.tensor([[1, 5, 0], [8, 2, 2]])
everything = ["token", "block\\.attention\\.qkv", "hidden", "out"]


def stir(model):
    with weft.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("lora_B.weight"):
                parameter.normal_(0, 0.5)


def test_worked_example():
    layer = lora.LoRALinear(2, 2, r=1, alpha=2, bias=False)
    with weft.no_grad():
        layer.weight.copy_(weft.tensor([[1.0, 0.0], [0.0, 1.0]]))
        layer.lora_A.weight.copy_(weft.tensor([[1.0, 2.0]]))
        layer.lora_B.weight.copy_(weft.tensor([[0.5], [-1.0]]))
    x = weft.ones(2, requires_grad=True)
    y = layer(x)
    assert y.tolist() == [4, -5]
    y.sum().backward()
    assert layer.lora_A.weight.grad.tolist() == [[-1, -1]]
    assert layer.lora_B.weight.grad.tolist() == [[6], [6]]
    assert x.grad.tolist() == [0, -1]
    layer.merge()
    assert layer.merged and layer.weight.t().tolist() == [[2, -2], [2, -3]]
    with pytest.raises(ValueError, match="merged layer is called in training"):
        layer(x)
    layer.unmerge()
    assert layer.weight.tolist() == [[1, 0], [0, 1]]


def test_only_adapters_train(net):
    before = net(tokens)
    assert lora.apply_lora(net, everything, r=2, alpha=4) == ["token", "block.attention.qkv", "hidden", "out"]
    assert net(tokens).tolist() == before.tolist()
    lora.mark_only_lora_trainable(net)
    values = {name: t.clone() for name, t in net.state_dict().items()}
    optimizer = optim.AdamW(lora.lora_parameter_groups(net, 0.01), lr=0.01)
    losses = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(tokens).flatten(0, 1), weft.tensor([0, 1, 2, 3, 0, 1]))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    for name, value in net.state_dict().items():
        assert value.tolist() == values[name].tolist() or "lora_A" in name or "lora_B" in name


def test_copies_of_layers_take_adapters_too():
    import copy
    import pickle

    net = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0), 2)  # its layers are copies
    assert lora.apply_lora(net, "linear1$", r=2) == ["layers.0.linear1", "layers.1.linear1"]
    for made in (copy.deepcopy(nn.Linear(3, 4)), pickle.loads(pickle.dumps(nn.Linear(3, 4)))):
        assert lora.apply_lora(nn.Sequential(made), "0", r=2) == ["0"]


def test_groups_have_the_rates_of_lora_plus():
    layer = lora.LoRALinear(4, 4, r=2, lora_plus_scale=16)
    groups = lora.lora_parameter_groups(layer, 1e-3)
    assert [g["lr"] for g in groups] == [1e-3, 1.6e-2]
    assert groups[1]["params"][0] is layer.lora_B.weight


def test_merging_keeps_values_and_state(net):
    lora.apply_lora(net, everything, r=2)
    stir(net)
    net.eval()
    apart, state = net(tokens), {name: t.tolist() for name, t in net.state_dict().items()}
    lora.merge_lora(net)
    assert lora.is_lora_merged(net)
    assert weft.allclose(net(tokens), apart, 1e-4, 1e-5)
    for name, value in net.state_dict().items():
        assert value.tolist() == (True if name.endswith("lora_merged") else state[name])
    lora.unmerge_lora(net)
    assert {name: t.tolist() for name, t in net.state_dict().items()} == state


def test_merge_on_eval():
    layer = nn.Sequential(nn.Linear(4, 4))
    lora.apply_lora(layer, "0", r=2, merge_on_eval=True)
    layer.eval()
    assert lora.is_lora_merged(layer)
    layer.train()
    assert not lora.is_lora_merged(layer)


def test_adapters_are_files(net, tmp_path):
    lora.apply_lora(net, everything, r=2, alpha=4)
    stir(net)
    lora.save_adapter(tmp_path / "a", net, base="base")
    config = json.loads((tmp_path / "a/adapter_config.json").read_text())
    assert (config["peft_type"], config["r"], config["lora_alpha"]) == ("LORA", 2, 4)
    names = weft.load_file(tmp_path / "a/adapter_model.safetensors")
    assert names["base_model.model.hidden.lora_A.weight"].shape == (2, 8)
    assert names["base_model.model.token.lora_embedding_A"].shape == (2, 9)
    weft.manual_seed(1)
    other = Net()
    assert lora.load_adapter(tmp_path / "a", other) == ("base", ["block.attention.qkv", "hidden", "out", "token"])
    assert other(tokens).tolist() == net(tokens).tolist()
    wrong = Net()
    lora.apply_lora(wrong, everything, r=3)
    with pytest.raises(ValueError, match="block.attention.qkv.lora_A.weight"):
        lora.load_adapter(tmp_path / "a", wrong)


def test_adapted_models_are_saved_as_a_whole(tmp_path):
    model = nn.Sequential(nn.TransformerBlock(8, 2), nn.Linear(8, 4))
    lora.apply_lora(model, "qkv$", r=2, alpha=6, enable=[True, False, True])
    lora.apply_lora(model, "^1$", r=3, rslora=True)
    stir(model)
    lora.merge_lora(model)
    weft.io.save_model(tmp_path / "m", model)
    loaded = weft.io.load_model(tmp_path / "m")
    assert lora.is_lora_merged(loaded)
    lora.unmerge_lora(model)
    lora.unmerge_lora(loaded)
    x = weft.randn(1, 3, 8)
    assert loaded(x).tolist() == model(x).tolist()
    assert [layer["r"] for layer in lora.lora_layers(loaded)] == [2, 3]


def test_errors():
    with pytest.raises(ValueError, match="r: expected at least 1, got 0"):
        lora.LoRALinear(2, 2, r=0)
    with pytest.raises(ValueError, match="targets find no"):
        lora.apply_lora(nn.Sequential(nn.Linear(2, 2)), "nowhere")
    with pytest.raises(ValueError, match="bias: expected"):
        lora.mark_only_lora_trainable(lora.LoRALinear(2, 2, r=1), bias="some")


# ---- checkpointing ----


def gradients(model, forward):
    model.zero_grad()
    weft.manual_seed(3)
    loss = forward().square().mean()
    loss.backward()
    return loss.item(), {name: p.grad.tolist() for name, p in model.named_parameters() if p.grad is not None}


def test_checkpointed_modules_have_the_same_gradients(net):
    plain = gradients(net, lambda: net(tokens))
    assert nn.set_checkpointing(net, "^(block|hidden)$") == ["block", "hidden"]
    assert nn.is_checkpointed(net.block)
    assert gradients(net, lambda: net(tokens)) == plain
    nn.set_checkpointing(net, "", False)
    assert gradients(net, lambda: net(tokens)) == plain


def test_a_checkpointed_module_runs_twice_and_its_hooks_once():
    class Counted(nn.Module):
        calls = 0

        def __init__(self):
            super().__init__()
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x, factor=1):
            self.calls += 1
            return weft.exp(self.norm(x)) * factor

    module = Counted()
    nn.checkpoint_module(module)
    seen = []
    module.register_forward_hook(lambda *_: seen.append(1))
    x = weft.randn(4, 3, requires_grad=True)
    module(x, factor=2).sum().backward()
    assert module.calls == 2 and seen == [1]
    assert module.norm.num_batches_tracked.item() == 1
    with weft.no_grad():
        module(x)
    assert module.calls == 3


def test_checkpoint_of_a_function():
    layer = nn.Linear(3, 3)
    x = weft.randn(2, 3, requires_grad=True)

    def f(a, scale, *, shift):
        return nn.functional.dropout(weft.exp(layer(a)) * scale + shift, 0.5)

    weft.manual_seed(2)
    f(x, 2.0, shift=1).sum().backward()
    plain, weights = x.grad.tolist(), layer.weight.grad.tolist()
    x.grad = None
    layer.zero_grad()
    weft.manual_seed(2)
    checkpoint(f, x, 2.0, shift=1, use_reentrant=False).sum().backward()
    assert x.grad.tolist() == plain and layer.weight.grad.tolist() == weights
    parts = [nn.Linear(3, 3), weft.tanh, nn.Linear(3, 3), weft.sigmoid]
    expected = x
    for part in parts:
        expected = part(expected)
    assert checkpoint_sequential(parts, 2, x).tolist() == expected.tolist()
    with pytest.raises(ValueError, match="segments"):
        checkpoint_sequential(parts, 5, x)


def test_an_error_in_the_second_run_is_pythons_own():
    runs = []

    def f(x):
        runs.append(1)
        if len(runs) == 2:
            raise KeyError("second")
        return weft.exp(x)

    y = checkpoint(f, weft.ones(2, requires_grad=True))
    with pytest.raises(KeyError, match="second"):
        y.sum().backward()


def tied():
    weft.manual_seed(2)
    return nn.CausalLM(vocabulary=11, width=8, layers=1, heads=2, context=16, tied=True)


def test_a_tied_head_has_an_adapter_of_its_own(tmp_path):
    model, base, tokens = tied(), tied(), weft.tensor([[1, 4, 2]])
    assert lora.apply_lora(model, "lm_head", r=2, alpha=4) == ["lm_head"]
    a, b = (dict(model.named_parameters())[f"lm_head.lora_{name}.weight"] for name in "AB")
    with weft.no_grad():
        b.normal_()
    hidden, weight = model.hidden(tokens), model.get_parameter("model.embed_tokens.weight")
    expected = hidden @ weight.T + 2 * (hidden @ a.T @ b.T)
    assert weft.allclose(model(tokens), expected, 1e-4, 1e-5)
    assert model.hidden(tokens).tolist() == base.hidden(tokens).tolist()

    weft.io.save_model(tmp_path / "model", model)
    assert weft.io.load_model(tmp_path / "model")(tokens).tolist() == model(tokens).tolist()
    lora.save_adapter(tmp_path / "adapter", model)
    assert lora.load_adapter(tmp_path / "adapter", base)[1] == ["lm_head"]
    assert base(tokens).tolist() == model(tokens).tolist()

    model.eval()
    plain = lora.merge_and_unload(model)
    assert weft.allclose(plain(tokens), expected, 1e-4, 1e-5)
    assert "lm_head.weight" in plain.state_dict()
    weft.io.save_model(tmp_path / "plain", plain)
    assert weft.io.load_model(tmp_path / "plain")(tokens).tolist() == plain(tokens).tolist()


def test_an_adapter_of_one_of_two_tied_layers_is_merged_into_a_copy():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.head = nn.Embedding(9, 6), nn.Linear(6, 9, bias=False)
            self.head.weight = self.token.weight

        def forward(self, tokens):
            return self.head(self.token(tokens))

    net, tokens = Net(), weft.tensor([1, 5])
    lora.apply_lora(net, "head", r=2, share=False)
    with weft.no_grad():
        net.head.lora_B.weight.normal_()
    before, apart = net.token.weight.tolist(), net(tokens)
    net.eval()
    lora.merge_lora(net)
    assert weft.allclose(net(tokens), apart, 1e-4, 1e-5) and net.token.weight.tolist() == before
    lora.merge_and_unload(net)
    assert weft.allclose(net(tokens), apart, 1e-4, 1e-5) and net.token.weight.tolist() == before
    assert net.head.weight.tolist() != before


def test_the_layer_of_a_loss_computes_with_its_adapter():
    loss, x, classes = nn.LinearCrossEntropyLoss(4, 3), weft.randn(5, 4), weft.tensor([0, 1, 2, 1, 0])
    plain = loss(x, classes).item()
    lora.apply_lora(loss, "linear", r=2)
    assert loss(x, classes).item() == pytest.approx(plain, 1e-6)
    with weft.no_grad():
        loss.linear.lora_B.weight.normal_()
    assert loss(x, classes).item() == pytest.approx(nn.functional.cross_entropy(loss.linear(x), classes).item(), 1e-6)
    assert abs(loss(x, classes).item() - plain) > 1e-3
