"""Recurrent layers and transformers agree with PyTorch, recorded by network_cases/make_cases.py."""

import json
import pathlib
import sys

import pytest
import weft
from weft import nn

FOLDER = pathlib.Path(__file__).parent / "network_cases"
sys.path.insert(0, str(FOLDER))
from network_values import run  # noqa: E402

CASES = [json.loads(line) for line in open(FOLDER / "cases.jsonl")]


def near(tensor, recorded):
    shape, values = recorded
    assert list(tensor.shape) == shape
    assert tensor.detach().to(weft.float64).flatten().tolist() == pytest.approx(values, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("case", CASES, ids=[f"{c['module']} {c['call']}"[:100] for c in CASES])
def test_as_pytorch(case):
    results, gradients = run(weft, nn, case)
    assert len(results) == len(case["results"])
    for result, recorded in zip(results, case["results"]):
        near(result, recorded)
    assert sorted(gradients) == sorted(case["gradients"])
    for name, gradient in gradients.items():
        near(gradient, case["gradients"][name])


@pytest.mark.parametrize("module, text", sorted({(c["module"], c["text"]) for c in CASES}))
def test_printed_as_pytorch(module, text):
    if "Transformer" not in module and "Attention" not in module:
        assert repr(eval(module)) == text


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_packed_sequences_are_each_alone(kind):
    net = getattr(nn, kind)(3, 4, 2, bidirectional=True).to(weft.float64)
    sequences = [weft.randn(n, 3, dtype=weft.float64) for n in (2, 5, 1)]
    packed, state = net(nn.utils.rnn.pack_sequence(sequences, enforce_sorted=False))
    for i, (sequence, output) in enumerate(zip(sequences, nn.utils.rnn.unpack_sequence(packed))):
        alone, last = net(sequence)
        assert weft.allclose(alone, output)
        assert weft.allclose((last[0] if kind == "LSTM" else last), (state[0] if kind == "LSTM" else state)[:, i])


def test_packing_rejects_invalid_arguments():
    x = weft.zeros(3, 2, 4)
    for lengths in ([2, 0], [1, 2], [4, 1]):
        with pytest.raises(ValueError):
            nn.utils.rnn.pack_padded_sequence(x, weft.tensor(lengths))
    with pytest.raises(ValueError):
        nn.utils.rnn.pack_padded_sequence(x, weft.tensor([1]))
    with pytest.raises(TypeError):
        nn.utils.rnn.pad_sequence([])


def test_sixteen_bit_floats_are_rounded_once():
    net = nn.LSTM(4, 8)
    x = weft.randn(6, 2, 4).to(weft.bfloat16)
    wide, _ = nn.LSTM.forward(net.to(weft.bfloat16).float(), x.float())
    narrow, _ = net.to(weft.bfloat16)(x)
    assert narrow.dtype == weft.bfloat16 and weft.equal(narrow, wide.to(weft.bfloat16))


def test_dropout_between_layers_draws_in_training_alone():
    net = nn.GRU(3, 16, 2, dropout=0.5)
    x = weft.randn(5, 2, 3)
    assert not weft.equal(net(x)[0], net(x)[0])
    net.eval()
    assert weft.equal(net(x)[0], net(x)[0])


def test_second_derivatives():
    x = weft.randn(3, 2, 2, dtype=weft.float64, requires_grad=True)
    for kind in ("LSTM", "GRU", "RNN"):
        net = getattr(nn, kind)(2, 3).to(weft.float64)
        assert weft.autograd.gradgradcheck(lambda t: net(t)[0], (x,))


def test_a_query_that_sees_no_key_gets_zeros():
    net = nn.MultiheadAttention(4, 2, bias=False)
    x = weft.randn(3, 1, 4)
    for need_weights in (True, False):
        output, _ = net(x, x, x, key_padding_mask=weft.tensor([[True, True, True]]), need_weights=need_weights)
        assert output.abs().max().item() == 0


def test_attention_refuses_masks_of_other_shapes():
    net = nn.MultiheadAttention(4, 2)
    x = weft.randn(3, 2, 4)
    for mask in ({"attn_mask": weft.zeros(2, 3)}, {"key_padding_mask": weft.zeros(3, 3)}):
        with pytest.raises(ValueError):
            net(x, x, x, **mask)
    with pytest.raises(ValueError):
        nn.MultiheadAttention(5, 2)


def test_layers_refuse_wrong_sizes():
    for arguments in ({"hidden_size": 0}, {"num_layers": 0}, {"dropout": 1.5}, {"proj_size": 4}):
        with pytest.raises(ValueError):
            nn.LSTM(**{"input_size": 3, "hidden_size": 4, **arguments})
    net = nn.LSTM(3, 4)
    for x in (weft.zeros(2, 2, 4), weft.zeros(3)):
        with pytest.raises(ValueError):
            net(x)
    with pytest.raises(ValueError):
        net(weft.zeros(2, 2, 3), (weft.zeros(1, 3, 4), weft.zeros(1, 3, 4)))
    with pytest.raises(ValueError):
        net(weft.zeros(0, 2, 3))


def test_freeze_and_unfreeze():
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    assert nn.utils.freeze(net, r"^0\.") == ["0.weight", "0.bias"]
    net(weft.randn(1, 2)).sum().backward()
    assert net[0].weight.grad is None and net[1].weight.grad is not None
    assert nn.utils.unfreeze(net) == ["0.weight", "0.bias"] and net[0].weight.requires_grad
    assert nn.utils.freeze(net, "bias$") == ["0.bias", "1.bias"] and nn.utils.freeze(net, "nothing") == []
    with pytest.raises(ValueError):
        nn.utils.freeze(net, "(")


def test_summary_counts_parameters_and_products():
    net = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 16, 5))
    nn.utils.freeze(net[3])
    found = nn.summary(net, (2, 3, 4, 4))
    assert [layer["outputs"] for layer in found.layers] == [[[2, 5]], [[2, 8, 4, 4]], [[2, 8, 4, 4]], [[2, 128]], [[2, 5]]]
    assert found.total["trainable"] == 8 * 27 + 8 and found.total["frozen"] == 128 * 5 + 5
    assert found.layers[1]["multiply_adds"] == 2 * 8 * 16 * 27 and found.layers[4]["multiply_adds"] == 2 * 128 * 5
    assert all(len(line) <= 70 for line in found.text(70).splitlines()) and "Conv2d" in found.text()
    assert not any(p.device.type == "meta" for p in net.parameters())
    lstm = nn.summary(nn.LSTM(3, 5), (7, 2, 3))
    assert lstm.total["multiply_adds"] == 7 * 2 * 20 * (3 + 5)
