"""Records PyTorch's recurrent layers and transformers, so that the tests do not need PyTorch.

usage: python make_cases.py     (with PyTorch; written for 2.15)

A case is a module and a call of it, both expressions over nn, m (torch or weft), rnn (nn.utils.rnn) and the inputs. What
goes in follows from network_values.py; results and gradients are kept."""

import json
import pathlib

import torch

from network_values import run

X = {"x": [4, 3, 3]}
ENCODER = "nn.TransformerEncoderLayer(4, 2, 6, {})"
DECODER = "nn.TransformerDecoderLayer(4, 2, 6, {})"
UNSORTED = "rnn.pack_padded_sequence(x, m.tensor([2, 4, 1]), enforce_sorted=False)"


def packed(arguments):
    return f"(lambda r: (rnn.pad_packed_sequence(r[0], padding_value=-1.0), r[1]))(net({arguments}))"


def cases():
    yield "nn.Bilinear(3, 2, 4)", {"x": [2, 5, 3], "y": [2, 5, 2]}, "net(x, y)"
    yield "nn.Bilinear(3, 2, 4, bias=False)", {"x": [3], "y": [2]}, "net(x, y)"
    for kind in ("LSTM", "GRU", "RNN"):
        for options in ("", ", num_layers=2", ", bidirectional=True", ", num_layers=2, bidirectional=True, bias=False",
                        ", batch_first=True"):
            yield f"nn.{kind}(3, 5{options})", X, "net(x)"
        yield f"nn.{kind}(3, 5)", {"x": [4, 3]}, "net(x)"
        yield f"nn.{kind}(3, 17)", {"x": [1, 2, 3]}, "net(x)"
        both = ", num_layers=2, bidirectional=True"
        states = {"h": [4, 3, 5], "c": [4, 3, 5]}
        given = "(h, c)" if kind == "LSTM" else "h"
        used = {**X, **(states if kind == "LSTM" else {"h": states["h"]})}
        yield f"nn.{kind}(3, 5{both})", used, f"net(x, {given})"
        yield f"nn.{kind}(3, 5{both})", used, packed(f"rnn.pack_padded_sequence(x, m.tensor([4, 2, 1])), {given}")
        yield f"nn.{kind}(3, 5{both})", used, packed(f"{UNSORTED}, {given}")
        yield f"nn.{kind}(3, 5)", X, packed(UNSORTED)
        cell = {"x": [2, 3], "h": [2, 5], **({"c": [2, 5]} if kind == "LSTM" else {})}
        yield f"nn.{kind}Cell(3, 5)", cell, f"net(x, {given})"
        yield f"nn.{kind}Cell(3, 5, bias=False)", {"x": [3]}, "net(x)"
    yield "nn.RNN(3, 5, nonlinearity='relu', num_layers=2)", X, "net(x)"
    yield "nn.RNNCell(3, 5, nonlinearity='relu')", {"x": [2, 3]}, "net(x)"
    yield "nn.LSTM(3, 5, 2, proj_size=2, bidirectional=True)", X, "net(x)"
    yield "nn.LSTM(3, 5, proj_size=2)", X, packed(UNSORTED)
    q, kv = {"q": [3, 2, 4]}, {"k": [5, 2, 4], "v": [5, 2, 4]}
    cross = {**q, **kv}
    padding = "key_padding_mask=m.tensor([[False, True, False, False, True], [False, False, False, True, True]])"
    floats = "attn_mask=m.tensor([[0.5, -1.0, 0.0, 2.0, 0.25]] * 3, dtype=m.float64)"
    block = "attn_mask=m.tensor([[False, True, False, True, False], [True, False, False, False, True], [False] * 5])"
    for options in ("", ", bias=False", ", add_bias_kv=True", ", add_zero_attn=True",
                    ", add_bias_kv=True, add_zero_attn=True"):
        net = f"nn.MultiheadAttention(4, 2{options})"
        yield net, {"x": [3, 2, 4]}, "net(x, x, x)"
        for more in ("", f", {padding}", f", {floats}", f", {block}", f", {padding}, {block}",
                     ", need_weights=False", f", need_weights=False, {block}", ", average_attn_weights=False"):
            yield net, cross, f"net(q, k, v{more})"
    yield "nn.MultiheadAttention(4, 2)", cross, f"net(q, k, v, attn_mask=m.stack([{block[10:]}] * 4))"
    yield "nn.MultiheadAttention(4, 2, kdim=3, vdim=5)", {**q, "k": [5, 2, 3], "v": [5, 2, 5]}, "net(q, k, v)"
    yield "nn.MultiheadAttention(4, 4, batch_first=True)", {"x": [2, 3, 4]}, "net(x, x, x)"
    yield "nn.MultiheadAttention(4, 2)", {"q": [3, 4], "k": [5, 4], "v": [5, 4]}, "net(q, k, v)"
    mask = "nn.Transformer.generate_square_subsequent_mask(3, dtype=m.float64)"
    for options in ("", "norm_first=True", "activation='gelu'", "bias=False", "batch_first=True"):
        yield ENCODER.format(options), {"x": [3, 3, 4]}, "net(x)"
        yield ENCODER.format(options), {"x": [3, 3, 4]}, f"net(x, src_mask={mask}, is_causal=True)"
        yield DECODER.format(options), {"x": [3, 3, 4], "y": [3, 3, 4]}, "net(x, y)"
        yield DECODER.format(options), {"x": [3, 3, 4], "y": [3, 3, 4]}, f"net(x, y, tgt_mask={mask})"
    pad = "m.tensor([[False, False, True], [False, True, True], [False] * 3])"
    layer = ENCODER.format("norm_first=True")
    yield f"nn.TransformerEncoder({layer}, 2, nn.LayerNorm(4))", {"x": [3, 3, 4]}, f"net(x, src_key_padding_mask={pad})"
    yield f"nn.TransformerDecoder({DECODER.format('')}, 2)", {"x": [3, 3, 4], "y": [3, 3, 4]}, "net(x, y)"
    yield "nn.Transformer(4, 2, 2, 1, 6)", {"x": [5, 2, 4], "y": [3, 2, 4]}, f"net(x, y, tgt_mask={mask})"


def listed(tensor):
    return [list(tensor.shape), [float(f"{value:.11g}") for value in tensor.detach().double().flatten().tolist()]]


path = pathlib.Path(__file__).parent / "cases.jsonl"
with open(path, "w") as out:
    for module, inputs, call in cases():
        case = {"module": module, "inputs": inputs, "call": call}
        results, gradients = run(torch, torch.nn, case)
        text = repr(eval(module, {"nn": torch.nn}))
        case |= {"text": text, "results": [listed(r) for r in results],
                 "gradients": {name: listed(g) for name, g in gradients.items()}}
        out.write(json.dumps(case) + "\n")
