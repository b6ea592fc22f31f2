"""Rejected calls of layers, optimizers and schedulers change nothing: all checks come before the first write."""

import math

import pytest

import weft
from weft import nn, optim
import weft.nn.functional as F
from weft.nn.utils.parametrizations import spectral_norm
from weft.optim import lr_scheduler as schedules
from weft.optim.swa_utils import AveragedModel


def state(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


def unchanged(before, module):
    after = module.state_dict()
    return list(before) == list(after) and all(weft.equal(before[name], after[name]) for name in before)


def _of_channels():
    for dims, (batch, instance, lazy) in enumerate([
            (nn.BatchNorm1d, nn.InstanceNorm1d, nn.LazyBatchNorm1d), (nn.BatchNorm2d, nn.InstanceNorm2d, nn.LazyBatchNorm2d),
            (nn.BatchNorm3d, nn.InstanceNorm3d, nn.LazyBatchNorm3d)], 1):
        sizes = (2,) * dims
        for name, make in (("batch", lambda momentum, c=batch: c(3, momentum=momentum)),
                           ("instance", lambda momentum, c=instance: c(3, momentum=momentum, track_running_stats=True)),
                           ("lazy", lambda momentum, c=lazy: c(momentum=momentum))):
            for momentum in (0.1, None):
                one, ones = weft.ones(1, 3, *(1,) * dims), weft.ones(2, 3, *sizes, dtype=weft.int64)
                wrong = [one, ones] if name == "lazy" else [one, ones, weft.ones(2, 4, *sizes)]
                for number, x in enumerate(wrong):
                    yield pytest.param(make, momentum, x, id=f"{name}{dims}-{momentum}-{number}")


@pytest.mark.parametrize("make, momentum, x", list(_of_channels()))
def test_norms_count_no_batch_that_they_refuse(make, momentum, x):
    layer = make(momentum)
    before = state(layer)
    with pytest.raises((ValueError, TypeError)):
        layer(x)
    assert unchanged(before, layer)


@pytest.mark.parametrize("dims, layer", [(1, nn.BatchNorm1d(3)), (2, nn.InstanceNorm2d(3, track_running_stats=True))])
def test_norms_count_accepted_batches(dims, layer):
    for _ in range(2):
        layer(weft.randn(4, 3, *(2,) * dims))
    assert layer.num_batches_tracked.item() == 2
    mean = nn.BatchNorm1d(2, momentum=None)
    for value in (1.0, 4.0):
        mean(weft.tensor([[value, 0.0], [value, 1.0]]))
    assert mean.running_mean[0].item() == pytest.approx(2.5)


@pytest.mark.parametrize("make, x", [
    (lambda: nn.Linear(3, 4), weft.ones(2, 5)), (lambda: nn.Linear(3, 4), weft.ones(2, 3, dtype=weft.int64)),
    (lambda: nn.Conv2d(3, 4, 3), weft.ones(2, 5, 4, 4)), (lambda: nn.Embedding(3, 4), weft.tensor([7]))])
def test_spectral_norm_iterates_for_no_call_that_is_refused(make, x):
    layer = spectral_norm(make())
    before = state(layer)
    with pytest.raises((ValueError, TypeError, IndexError)):
        layer(x)
    assert unchanged(before, layer)
    layer.weight
    assert not unchanged(before, layer)  # in training each use iterates


@pytest.mark.parametrize("layer, x", [(nn.LazyLinear(4), weft.ones(2, 3, dtype=weft.int64)),
                                      (nn.LazyConv2d(4, 3), weft.ones(2, 3, 2, 2))])
def test_lazy_layers_take_no_size_from_a_call_that_they_refuse(layer, x):
    kind, drawn = type(layer), weft.get_rng_state()
    with pytest.raises((ValueError, TypeError)):
        layer(x)
    assert type(layer) is kind and layer.weight.numel() == 0
    assert weft.equal(drawn, weft.get_rng_state())


def test_lazy_layers_compute_and_train_with_the_parameters_that_they_get():
    layer = nn.LazyLinear(4).double()
    y = layer(weft.ones(2, 3, dtype=weft.float64))
    y.sum().backward()
    assert y.dtype is weft.float64 and layer.weight.grad.tolist() == [[2.0] * 3] * 4


@pytest.mark.parametrize("layer", [nn.Dropout(), nn.AlphaDropout(), nn.Dropout2d(), nn.RReLU(),
                                   nn.LSTM(3, 4, num_layers=2, dropout=0.5)], ids=lambda layer: type(layer).__name__)
def test_layers_draw_nothing_for_a_call_that_they_refuse(layer):
    drawn = weft.get_rng_state()
    with pytest.raises((ValueError, TypeError)):
        layer(weft.ones(2, 2, 3, dtype=weft.int64))
    assert weft.equal(drawn, weft.get_rng_state())


@pytest.mark.parametrize("function", [F.dropout, F.dropout2d, F.alpha_dropout, F.rrelu])
@pytest.mark.parametrize("target", [weft.ones(1, 2, 2).expand(2, 2, 2), weft.ones(2, 2, 2, requires_grad=True)])
def test_functions_draw_nothing_for_a_target_that_they_refuse(function, target):
    drawn = weft.get_rng_state()
    with pytest.raises((ValueError, RuntimeError)):
        function(target, training=True, inplace=True)
    assert weft.equal(drawn, weft.get_rng_state())


def test_a_group_takes_all_options_or_none():
    optimizer = optim.SGD([nn.Parameter(weft.ones(2))], lr=0.1)
    with pytest.raises(ValueError):
        optimizer.param_groups[0].update(lr=0.5, weight_decay=-1.0)
    assert optimizer.param_groups[0]["lr"] == 0.1
    optimizer.param_groups[0].update(lr=0.5, momentum=0.9, name="all")
    group = optimizer.param_groups[0]
    assert (group["lr"], group["momentum"], group["name"]) == (0.5, 0.9, "all")


def refused(optimizer, parameters, step, error):
    before, kept = [p.detach().clone() for p in parameters], repr(optimizer.state_dict())
    with pytest.raises(error):
        step()
    assert all(weft.equal(*both) for both in zip(before, parameters))
    assert repr(optimizer.state_dict()) == kept


OPTIMIZERS = [getattr(optim, name) for name in (
    "SGD", "Adam", "AdamW", "Adagrad", "Adadelta", "RMSprop", "Rprop", "Adamax", "NAdam", "RAdam", "Lion", "SparseAdam",
    "Adafactor", "Muon")]


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimizers_refuse_parameters_that_cannot_be_written(kind):
    with pytest.raises(ValueError, match="expanded"):
        kind([nn.Parameter(weft.ones(2, 2)), nn.Parameter(weft.ones(1, 2).expand(2, 2))], lr=0.1)


# Adafactor's states are rows and columns.
@pytest.mark.parametrize("kind", [kind for kind in OPTIMIZERS if kind is not optim.Adafactor])
def test_a_step_without_memory_for_its_state_moves_no_parameter(kind):
    # A third one between, so that a kernel takes them in two calls.
    small = [nn.Parameter(weft.ones(2, 2)), nn.Parameter(weft.ones(2, 2, dtype=weft.float64))]
    large = nn.Parameter(weft.ones(1 << 11, 1 << 10))
    options = {"momentum": 0.9} if kind is optim.SGD else {}
    optimizer = kind([*small, large], lr=0.1, **options)
    for p in (*small, large):
        p.grad = weft.ones_like(p)
    cpu = weft.device("cpu")
    weft.set_memory_limit(cpu, weft.memory_stats(cpu)["allocated"] + (1 << 20))
    try:
        refused(optimizer, small, optimizer.step, MemoryError)
    finally:
        weft.set_memory_limit(cpu, 0)
    optimizer.step()
    assert all((p != 1).any() for p in (*small, large))


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_brings_parameters_back_where_the_closure_raises(search):
    p = nn.Parameter(weft.tensor([3.0, -2.0]))
    optimizer = optim.LBFGS([p], lr=0.5, max_iter=10, line_search_fn=search)
    calls = []

    def closure():
        calls.append(1)
        if len(calls) == 4:
            raise RuntimeError("no more")
        optimizer.zero_grad()
        loss = (p * p * weft.tensor([1.0, 7.0])).sum() + p.prod() ** 2
        loss.backward()
        return loss

    refused(optimizer, [p], lambda: optimizer.step(closure), RuntimeError)


def _fails(step):
    if step:
        raise KeyError("no such step")
    return 1.0


@pytest.mark.parametrize("make, error", [
    (lambda o: schedules.LambdaLR(o, [lambda _: 0.5, lambda step: -1.0 if step else 1.0]), ValueError),
    (lambda o: schedules.LambdaLR(o, [lambda _: 0.5, lambda step: math.nan if step else 1.0]), ValueError),
    (lambda o: schedules.LambdaLR(o, [lambda _: 0.5, _fails]), KeyError),
    (lambda o: schedules.ChainedScheduler([schedules.StepLR(o, 1), schedules.LambdaLR(o, [lambda _: 1.0, _fails])]), KeyError),
])
def test_a_refused_step_of_a_scheduler_moves_nothing(make, error):
    optimizer = optim.SGD([{"params": [nn.Parameter(weft.ones(2))], "lr": lr} for lr in (0.1, 0.2)], momentum=0.9)
    scheduler = make(optimizer)
    optimizer.step()
    before = scheduler.state_dict(), [group["lr"] for group in optimizer.param_groups]
    with pytest.raises(error):
        scheduler.step()
    assert (scheduler.state_dict(), [group["lr"] for group in optimizer.param_groups]) == before


@pytest.mark.parametrize("layers", [[2, 2], [2, 3], [2], [2, 2, 2]])
def test_an_average_takes_all_of_a_model_or_nothing(layers):
    average = AveragedModel(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    average.update_parameters(nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2)))
    model = nn.Sequential(*(nn.Linear(2, width) for width in layers))
    if layers == [2, 2]:
        return average.update_parameters(model)
    before = state(average)
    with pytest.raises(ValueError):
        average.update_parameters(model)
    assert unchanged(before, average)


@pytest.mark.parametrize("layer", [
    "Hardtanh(3, 1)", "Softshrink(-1)", "Softshrink(math.nan)", "CELU(0)", "RReLU(0.5, 0.1)", "GELU('bad')", "Dropout(2)", "Dropout1d(2)",
    "AlphaDropout(-1)", "FeatureAlphaDropout(math.nan)", "MaxPool1d(0)", "MaxPool2d(2, -1)", "MaxPool3d(2, 1, 2)", "MaxPool1d(2, dilation=0)",
    "MaxPool2d((2, 2, 2))", "MaxUnpool1d(2, -1)", "AvgPool1d(0)", "AvgPool2d(2, divisor_override=0)", "AvgPool3d(2, padding=-1)", "LPPool1d(0, 2)",
    "LPPool2d(2, 2, 0)", "AdaptiveAvgPool1d(-1)", "AdaptiveMaxPool3d(-1)", "FractionalMaxPool2d(2)", "FractionalMaxPool3d(2, output_ratio=2.0)",
    "Unfold(0)", "Unfold(2, stride=0)", "Fold(4, 2, 0)", "Fold(-4, 2)", "LocalResponseNorm(0)", "Upsample()", "Upsample(size=0)",
    "Upsample(scale_factor=-1.0)", "Upsample(size=2, mode='bad')", "Upsample(size=4, align_corners=True)", "PixelShuffle(0)", "PixelUnshuffle(-1)",
    "ChannelShuffle(0)", "Conv1d(2, 2, 0)", "Conv2d(2, 2, 3, 0)", "Conv3d(2, 2, 3, padding=-1)", "Conv1d(2, 2, 3, dilation=0)",
    "ConvTranspose2d(2, 2, 3, output_padding=1)", "LayerNorm(())", "LayerNorm(-2)", "RMSNorm(())", "EmbeddingBag(3, 2, mode='bad')",
    "EmbeddingBag(3, 2, max_norm=-1.0)", "MultiheadAttention(8, 2, dropout=2)", "MultiheadAttention(8, 2, kdim=-1)", "Transformer(8, 2, -1)",
    "TransformerBlock(8, 2, -4)", "CrossEntropyLoss(label_smoothing=2)", "CrossEntropyLoss(reduction='bad')", "MSELoss(reduction='batchmean')",
    "HuberLoss(delta=0)", "SmoothL1Loss(beta=-1)", "MultiMarginLoss(p=3)", "TripletMarginLoss(margin=0)",
    "TripletMarginWithDistanceLoss(margin=-1)", "CTCLoss(blank=-1)", "PairwiseDistance(math.nan)", "GroupNorm(3, 4)", "LSTM(2, 0)"])
def test_options_that_no_input_suits_are_refused_where_they_are_given(layer):
    with pytest.raises(ValueError):
        eval(layer, {"math": math}, vars(nn))


def test_a_layer_is_made_without_its_subclass_and_without_draws():
    class Doubled(nn.Hardtanh):
        def __init__(self):
            super().__init__(-2, 2)
            self.factor = 2

        def forward(self, input):
            return super().forward(input) * self.factor

    assert Doubled()(weft.tensor([5.0])).tolist() == [4]
    weft.manual_seed(3)
    wanted = weft.rand(4).tolist()
    weft.manual_seed(3)
    nn.RReLU(), nn.Dropout2d(), nn.FractionalMaxPool2d(2, 3), nn.AlphaDropout()
    assert weft.rand(4).tolist() == wanted


@pytest.mark.parametrize("change", [
    lambda net: net.__setitem__(0, 3), lambda net: net.extend([nn.ReLU(), 3]), lambda net: net.insert(0, 3),
    lambda net: net.__setitem__(5, nn.ReLU()), lambda net: net.append(net), lambda net: net.extend([nn.ReLU(), net]),
    lambda net: net.insert(0, net), lambda net: net.__delitem__(4), lambda net: net.pop(4)])
@pytest.mark.parametrize("kind", [nn.Sequential, lambda *modules: nn.ModuleList(modules)])
def test_a_rejected_change_leaves_a_container_unchanged(kind, change):
    net = kind(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    before = dict(net._modules)
    with pytest.raises((TypeError, ValueError, IndexError)):
        change(net)
    assert dict(net._modules) == before
