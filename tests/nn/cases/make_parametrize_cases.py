"""Records results of torch.nn.utils.parametrizations, so that the tests need no PyTorch.

usage: python make_parametrize_cases.py     (with PyTorch; written for 2.15)

parametrizations.jsonl, one case a line, all in float64: the layer and its arguments, the parametrized tensor, the
parametrization and its keywords; whether the call is in training, the state before it, the input, the output, the
tensor and the state after it, and the gradients of sum(output * sin(0, 1, 2, …))."""

import json
import pathlib

import torch
from torch import nn
from torch.nn.utils import parametrizations

FOLDER = pathlib.Path(__file__).parent

LAYERS = [("Linear", [4, 3], [5, 4]), ("Linear", [3, 3], [2, 3]), ("Linear", [3, 5], [2, 3]),
          ("Conv1d", [3, 4, 2], [2, 3, 6]), ("Conv2d", [2, 3, 2], [2, 2, 4, 3]), ("Conv3d", [1, 2, 2], [1, 1, 3, 3, 2]),
          ("ConvTranspose1d", [3, 2, 2], [2, 3, 4]), ("ConvTranspose2d", [2, 3, 2], [1, 2, 2, 3]),
          ("ConvTranspose3d", [1, 2, 2], [1, 1, 2, 2, 2]), ("Embedding", [6, 3], [2, 4]),
          ("EmbeddingBag", [6, 3], [2, 4]), ("Bilinear", [3, 2, 4], [2, 3]), ("LSTM", [3, 4], [4, 2, 3]),
          ("GRU", [3, 4], [4, 2, 3]), ("RNN", [3, 4], [4, 2, 3]), ("LSTMCell", [3, 4], [2, 3]), ("GRUCell", [3, 4], [2, 3]),
          ("RNNCell", [3, 4], [2, 3])]
NORMS = [("weight_norm", {"dim": 0}), ("weight_norm", {"dim": 1}), ("weight_norm", {"dim": None}), ("spectral_norm", {}),
         ("spectral_norm", {"n_power_iterations": 3, "eps": 1e-3, "dim": 1})]
ORTHOGONAL = [("orthogonal", {"orthogonal_map": kind, "use_trivialization": base}) for kind in
              ("householder", "matrix_exp", "cayley") for base in (True, False)]


def state(layer):
    return {name: {"shape": list(t.shape), "values": t.flatten().tolist()} for name, t in layer.state_dict().items()}


def first(output):
    return output[0] if isinstance(output, tuple) else output


def inputs(kind, shape):
    if kind.startswith("Embedding"):
        return [torch.randint(0, 6, shape)]
    x = [torch.randn(shape, dtype=torch.float64)]
    return x + [torch.randn(2, 2, dtype=torch.float64)] if kind == "Bilinear" else x


def case(kind, arguments, shape, function, keywords, name="weight"):
    layer = getattr(nn, kind)(*arguments).double()
    getattr(parametrizations, function)(layer, name, **keywords)
    training = not isinstance(layer, nn.RNNBase)  # PyTorch's read their weights several times in a call
    layer.train(training)
    before = state(layer)
    x = inputs(kind, shape)
    output = first(layer(*x))
    (output * torch.sin(torch.arange(output.numel(), dtype=torch.float64)).reshape(output.shape)).sum().backward()
    after = state(layer)
    layer.eval()
    return {"layer": kind, "arguments": arguments, "name": name, "function": function, "keywords": keywords,
            "training": training, "before": before, "input": [{"shape": list(t.shape), "values": t.flatten().tolist()} for t in x],
            "output": output.flatten().tolist(), "after": after,
            "value": getattr(layer, name).flatten().tolist(),
            "gradients": {n: p.grad.flatten().tolist() for n, p in layer.named_parameters() if p.grad is not None}}


def main():
    torch.manual_seed(20)
    with open(FOLDER / "parametrizations.jsonl", "w", encoding="utf-8") as out:
        for kind, arguments, shape in LAYERS:
            of_state = kind in ("LSTM", "GRU", "RNN")
            name = "weight_hh_l0" if of_state else "weight_hh" if kind.endswith("Cell") else "weight"
            for function, keywords in NORMS:
                print(json.dumps(case(kind, arguments, shape, function, keywords, name)), file=out)
            if kind in ("Linear", "LSTMCell"):
                for function, keywords in ORTHOGONAL:
                    print(json.dumps(case(kind, arguments, shape, function, keywords, name)), file=out)
        for function, keywords in [("weight_norm", {"dim": 0}), ("weight_norm", {"dim": None}), ("spectral_norm", {})]:
            print(json.dumps(case("Linear", [4, 3], [5, 4], function, keywords, "bias")), file=out)


main()
