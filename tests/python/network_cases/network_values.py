"""The numbers that cases of networks are computed with, in PyTorch and in Weft alike, and how a case is run."""

import math


def numbers(count, seed):
    """Between -1 and 1, the same everywhere."""
    return [math.sin(1.7 * i + 0.37 * seed + 0.11 * i * i) for i in range(count)]


def filled(m, shape, seed, scale=1.0):
    count = math.prod(shape)
    return m.tensor([scale * value for value in numbers(count, seed)], dtype=m.float64).reshape(tuple(shape))


def flat(results):
    """All tensors in nested results, in order."""
    if isinstance(results, (tuple, list)):
        return [tensor for result in results for tensor in flat(result)]
    return [] if results is None else [results]


def run(m, nn, case):
    """The results of a case, and the gradients of its inputs and parameters by their sum with fixed weights."""
    inputs = {name: filled(m, shape, seed).requires_grad_() for seed, (name, shape) in enumerate(case["inputs"].items())}
    names = {"m": m, "nn": nn, "rnn": nn.utils.rnn, **inputs}
    net = names["net"] = eval(case["module"], names).to(m.float64)
    state = net.state_dict()
    net.load_state_dict({name: filled(m, state[name].shape, seed + 7, 0.5).to(state[name].dtype)
                         for seed, name in enumerate(sorted(state))})
    net.eval()
    results = flat(eval(case["call"], names))
    total = 0
    for seed, result in enumerate(r for r in results if r.dtype == m.float64):
        total = total + (result * filled(m, result.shape, seed + 100)).sum()
    total.backward()
    named = [*inputs.items(), *sorted(net.named_parameters())]
    return results, {name: t.grad for name, t in named if t.grad is not None}
