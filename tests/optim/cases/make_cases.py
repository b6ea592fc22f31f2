"""Records PyTorch's optimizers and schedulers, so that the tests do not need PyTorch.

usage: python make_cases.py     (with PyTorch; written for 2.15)

steps.jsonl: an optimizer, its keywords, the groups' own keywords, and the parameters after some of 20 steps with the
gradients of `gradient`. schedules.jsonl: a scheduler, its keywords, and the rates and momenta over 200 steps.
lbfgs.jsonl: the loss and the parameters after each step on Rosenbrock's function. averages.jsonl: how a model is
averaged, and its average after each update with the values of `averaged_at`."""

import json
import math
import pathlib

import torch

FOLDER = pathlib.Path(__file__).parent
STEPS = 20
KEPT = (1, 2, 3, 7, 20)
SHAPES = ([3, 4], [5], [], [0, 3], [2, 3])  # the last one is transposed in memory

OPTIMIZERS = {
    "SGD": [{}, {"lr": 0.1, "weight_decay": 0.2}, {"lr": 0.05, "momentum": 0.9},
            {"lr": 0.05, "momentum": 0.9, "dampening": 0.3, "weight_decay": 0.1},
            {"lr": 0.05, "momentum": 0.8, "nesterov": True, "weight_decay": 0.01, "maximize": True}],
    "Adam": [{}, {"lr": 0.02, "betas": [0.8, 0.95], "eps": 1e-6, "weight_decay": 0.1}, {"lr": 0.02, "amsgrad": True},
             {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}],
    "AdamW": [{}, {"lr": 0.02, "weight_decay": 0.2}, {"lr": 0.02, "amsgrad": True, "maximize": True}],
    "Adamax": [{}, {"lr": 0.02, "betas": [0.8, 0.9], "weight_decay": 0.1}, {"lr": 0.02, "maximize": True}],
    "NAdam": [{}, {"lr": 0.02, "weight_decay": 0.1, "momentum_decay": 0.01},
              {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True, "maximize": True}],
    "RAdam": [{}, {"lr": 0.02, "weight_decay": 0.1}, {"lr": 0.02, "betas": [0.8, 0.9], "maximize": True},
              {"lr": 0.02, "weight_decay": 0.1, "decoupled_weight_decay": True}],
    "Adagrad": [{}, {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1},
                {"lr": 0.1, "initial_accumulator_value": 0.5, "eps": 1e-3, "maximize": True}],
    "Adadelta": [{}, {"lr": 0.5, "rho": 0.8, "eps": 1e-4, "weight_decay": 0.1}, {"maximize": True}],
    "RMSprop": [{}, {"lr": 0.02, "alpha": 0.9, "weight_decay": 0.1}, {"lr": 0.02, "momentum": 0.9},
                {"lr": 0.02, "centered": True, "eps": 1e-3},
                {"lr": 0.02, "centered": True, "momentum": 0.5, "eps": 1e-3, "maximize": True}],
    "Rprop": [{}, {"lr": 0.1, "etas": [0.4, 1.5], "step_sizes": [1e-3, 0.3]}, {"maximize": True}],
    "Adafactor": [{}, {"lr": 0.1, "beta2_decay": -0.5, "eps": [1e-6, 1e-2], "d": 2.0, "weight_decay": 0.1},
                  {"maximize": True}],
    "Muon": [{}, {"lr": 0.02, "momentum": 0.8, "nesterov": False, "weight_decay": 0.0},
             {"lr": 0.02, "adjust_lr_fn": "match_rms_adamw", "ns_steps": 3}],
}
# The second group's own keywords.
GROUPS = {"SGD": {"lr": 0.5, "momentum": 0.5}, "AdamW": {"lr": 0.1, "betas": [0.5, 0.9], "weight_decay": 0.0},
          "RMSprop": {"alpha": 0.5, "centered": True}, "Adam": {"amsgrad": True, "maximize": True}}

SCHEDULERS = [
    ("StepLR", {"step_size": 30, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [20, 20, 90], "gamma": 0.3}),
    ("ConstantLR", {"factor": 0.25, "total_iters": 7}),
    ("LinearLR", {"start_factor": 0.1, "end_factor": 0.9, "total_iters": 50}),
    ("ExponentialLR", {"gamma": 0.98}),
    ("PolynomialLR", {"total_iters": 120, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 60, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 10, "T_mult": 2, "eta_min": 0.001}),
    ("CosineAnnealingWarmRestarts", {"T_0": 30}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 200}),
    ("OneCycleLR", {"max_lr": 0.5, "total_steps": 250, "pct_start": 0.25, "anneal_strategy": "linear",
                    "three_phase": True, "div_factor": 10.0, "final_div_factor": 100.0}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 20, "step_size_down": 13}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 20, "mode": "triangular2",
                  "cycle_momentum": False}),
    ("CyclicLR", {"base_lr": 0.01, "max_lr": 0.2, "step_size_up": 20, "mode": "exp_range", "gamma": 0.99}),
    ("SWALR", {"swa_lr": 0.03, "anneal_epochs": 25}),
    ("SWALR", {"swa_lr": 0.3, "anneal_epochs": 25, "anneal_strategy": "linear"}),
]
# Several at once.
COMPOSED = [
    ("ChainedScheduler", [("ConstantLR", {"factor": 0.1, "total_iters": 12}), ("ExponentialLR", {"gamma": 0.97})], {}),
    ("ChainedScheduler", [("LinearLR", {"total_iters": 30}), ("CosineAnnealingLR", {"T_max": 250}),  # its way back adds to the base alone
                          ("StepLR", {"step_size": 50})], {}),
    ("SequentialLR", [("LinearLR", {"total_iters": 30}), ("CosineAnnealingLR", {"T_max": 100}),
                      ("ExponentialLR", {"gamma": 0.9})], {"milestones": [30, 130]}),
]


def gradient(number, i, step):
    """Of element i of a parameter."""
    return math.sin(3.0 * i + step + number) * (1 + 0.25 * math.cos(2.0 * step + i))


def start(number, i):
    return 1.5 * math.cos(1.0 + i + 2.0 * number)


def filled(shape, number, at, dtype):
    count = math.prod(shape)
    t = torch.tensor([at(number, i) for i in range(count)], dtype=torch.float64).reshape(shape).to(dtype)
    return t.t().contiguous().t() if number == len(SHAPES) - 1 else t


def digits(t):
    return [float(f"{v:.{17 if t.dtype == torch.float64 else 9}g}") for v in t.detach().flatten().tolist()]


def steps(name, keywords, own, dtype):
    shapes = [(n, s) for n, s in enumerate(SHAPES) if name != "Muon" or (len(s) == 2 and 0 not in s)]
    parameters = [filled(s, n, start, dtype).requires_grad_() for n, s in shapes]
    groups = [{"params": parameters[:2]}, {"params": parameters[2:], **own}] if own else parameters
    if name == "Adafactor":  # PyTorch divides by the number of its elements
        parameters = [p for p in parameters if p.numel()]
        groups = parameters
        shapes = [(n, s) for n, s in shapes if 0 not in s]
    optimizer = getattr(torch.optim, name)(groups, **keywords)
    kept = {}
    for step in range(1, STEPS + 1):
        for (n, s), p in zip(shapes, parameters):
            p.grad = filled(s, n, lambda number, i: gradient(number, i, step), dtype)
        optimizer.step()
        if step in KEPT:
            kept[step] = [digits(p) for p in parameters]
    return {"optimizer": name, "keywords": keywords, "own": own, "dtype": str(dtype)[6:],
            "numbers": [n for n, _ in shapes], "parameters": kept}


def make(optimizer, name, keywords):
    where = torch.optim.swa_utils if name == "SWALR" else torch.optim.lr_scheduler
    return getattr(where, name)(optimizer, **keywords)


def rates(name, keywords, schedulers, base="SGD"):
    p = torch.zeros(1, requires_grad=True)
    more = {"momentum": 0.9} if base == "SGD" else {}
    optimizer = getattr(torch.optim, base)([p], lr=0.1, **more)
    if schedulers:
        inner = [make(optimizer, n, k) for n, k in schedulers]
        if name == "SequentialLR":
            scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, inner, **keywords)
        else:
            scheduler = torch.optim.lr_scheduler.ChainedScheduler(inner)
    else:
        scheduler = make(optimizer, name, keywords)
    out, momenta = [], []
    for _ in range(200):
        group = optimizer.param_groups[0]
        out.append(group["lr"])
        momenta.append(group["momentum"] if base == "SGD" else group["betas"][0])
        optimizer.step()
        scheduler.step()
    return {"scheduler": name, "keywords": keywords, "schedulers": schedulers, "optimizer": base, "rates": out,
            "momenta": momenta if len(set(momenta)) > 1 else None}


def plateau(keywords):
    p = torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([p], lr=0.1)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **keywords)
    values = [round(math.exp(-t / 40) + 0.2 * math.sin(t / 3) * math.exp(-t / 90), 6) for t in range(200)]
    out = []
    for value in values:
        scheduler.step(value)
        out.append(optimizer.param_groups[0]["lr"])
    return {"scheduler": "ReduceLROnPlateau", "keywords": keywords, "values": values, "rates": out}


def lbfgs(keywords):
    a = torch.tensor([[-1.2, 1.0], [0.5, -0.75]], dtype=torch.float64, requires_grad=True)
    b = torch.tensor([0.25, 2.0, -0.5], dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([a, b], **keywords)
    out, losses = [], []

    def closure():
        optimizer.zero_grad()
        x = torch.cat([a.flatten(), b])
        loss = (10 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()
        loss = -loss if keywords.get("maximize") else loss
        loss.backward()
        return loss

    for _ in range(6):
        losses.append(optimizer.step(closure).item())
        out.append(a.flatten().tolist() + b.tolist())
    state = optimizer.state[a]
    return {"keywords": keywords, "losses": losses, "parameters": out, "func_evals": state["func_evals"],
            "n_iter": state["n_iter"]}


def averaged_at(number, i, update):
    """Element i of tensor `number` of the model; the third is an integer."""
    return update ** 2 + 3 if number == 2 else math.cos(1.0 + i + 2.0 * number + 0.7 * update)


def averages(decay, use_buffers, own):
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.zeros(2, 2))
    model.register_buffer("mean", torch.zeros(3))
    model.register_buffer("count", torch.tensor(0))
    model.register_buffer("wide", torch.zeros(2, dtype=torch.float64))
    options = {}
    if decay is not None:
        options["multi_avg_fn"] = torch.optim.swa_utils.get_ema_multi_avg_fn(decay)
    elif own == "each":
        options["avg_fn"] = lambda average, now, count: 0.75 * average + 0.5 * now * count
    elif own == "all":
        def in_place(averages, now, count):
            for a, x in zip(averages, now):
                a.add_(x, alpha=int(count))

        options["multi_avg_fn"] = in_place
    average = torch.optim.swa_utils.AveragedModel(model, use_buffers=use_buffers, **options)
    kept = []
    for update in range(6):
        with torch.no_grad():
            for number, t in enumerate((model.weight, model.mean, model.count, model.wide)):
                values = [averaged_at(number, i, update) for i in range(t.numel())]
                t.copy_(torch.tensor(values, dtype=torch.float64).reshape(t.shape))
        average.update_parameters(model)
        kept.append([digits(getattr(average.module, name)) for name in ("weight", "mean", "count", "wide")])
    return {"decay": decay, "use_buffers": use_buffers, "own": own, "averages": kept}


def write(name, cases):
    (FOLDER / name).write_text("".join(json.dumps(c) + "\n" for c in cases))


if __name__ == "__main__":
    write("steps.jsonl",
          [steps(name, keywords, {}, dtype) for name, all_of in OPTIMIZERS.items() for keywords in all_of
           for dtype in (torch.float64, torch.float32)] +
          [steps(name, OPTIMIZERS[name][1], own, torch.float64) for name, own in GROUPS.items()])
    write("schedules.jsonl",
          [rates(name, keywords, None) for name, keywords in SCHEDULERS] +
          [rates("OneCycleLR", {"max_lr": 0.5, "total_steps": 200}, None, "Adam")] +
          [rates(name, keywords, inner) for name, inner, keywords in COMPOSED] +
          [plateau({}), plateau({"factor": 0.5, "patience": 3, "cooldown": 4, "threshold": 0.01,
                                 "threshold_mode": "abs", "min_lr": 0.004}),
           plateau({"mode": "max", "patience": 5})])
    write("lbfgs.jsonl", [lbfgs(k) for k in ({"lr": 0.05}, {"lr": 0.1, "history_size": 2, "max_iter": 7},
                                             {"line_search_fn": "strong_wolfe"},
                                             {"line_search_fn": "strong_wolfe", "history_size": 3, "max_iter": 5},
                                             {"line_search_fn": "strong_wolfe", "maximize": True})])
    write("averages.jsonl", [averages(decay, use_buffers, own) for use_buffers in (False, True)
                             for decay, own in ((None, None), (0.9, None), (0.35, None), (None, "each"), (None, "all"))])
