"""Modules, losses and optimizers."""

import copy
import inspect
import pickle
import warnings

import numpy as np
import pytest

import weft
from weft import nn, optim
import weft.nn.functional as F


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.hidden = nn.Linear(2, 16)
        self.out = nn.Linear(16, 1)
        self.scale = nn.Buffer(weft.ones(1))

    def forward(self, x):
        return self.out(weft.tanh(self.hidden(x))) * self.scale


def xor():
    return weft.tensor([[0.0, 0], [0, 1], [1, 0], [1, 1]]), weft.tensor([[0.0], [1], [1], [0]])


@pytest.mark.parametrize("make", [lambda p: optim.AdamW(p, lr=0.05), lambda p: optim.Adam(p, lr=0.05),
                                  lambda p: optim.SGD(p, lr=0.1, momentum=0.9)])
def test_training_solves_xor(make):
    net, (x, y) = Net(), xor()
    optimizer = make(net.parameters())
    for _ in range(400):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
    assert loss.item() < 0.02


def test_members_are_registered_in_order():
    net = Net()
    assert [n for n, _ in net.named_parameters()] == ["hidden.weight", "hidden.bias", "out.weight", "out.bias"]
    assert [n for n, _ in net.named_buffers()] == ["scale"] and [n for n, _ in net.named_children()] == ["hidden", "out"]
    assert list(net.state_dict()) == ["scale", "hidden.weight", "hidden.bias", "out.weight", "out.bias"]
    net.tied = net.hidden.weight
    assert len(list(net.parameters())) == 4
    del net.tied
    with pytest.raises(AttributeError):
        net.tied
    with pytest.raises(TypeError):
        net.hidden = 3
    assert "Linear(in_features=2, out_features=16, bias=True)" in repr(net)
    net.eval()
    assert not net.hidden.training and net.train().out.training


def test_errors_and_nodes_inside_modules_name_the_users_line():
    line = inspect.currentframe().f_lineno
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    with pytest.raises(ValueError, match=rf"linear[^@]*test_nn.py:{line + 3}$"):
        net(weft.ones(2, 5))
    assert net(weft.ones(2, 3)).grad_fn.line == line + 4
    with pytest.raises(ValueError, match=rf"test_nn.py:{line + 6}$"):
        weft.broadcast_tensors(weft.ones(2, 5), weft.ones(1))[0].view(3)
    called = inspect.getsourcelines(Net.forward)[1] + 1
    with pytest.raises(ValueError, match=rf"linear[^@]*test_nn.py:{called}$"):
        Net()(weft.ones(2, 5))


def test_state_moves_between_modules_and_files(tmp_path):
    a, b = Net(), Net()
    weft.save(a.state_dict(), tmp_path / "net")
    b.load_state_dict(weft.load(tmp_path / "net"))
    assert all((p == q).all() for p, q in zip(a.parameters(), b.parameters()))
    with pytest.raises(ValueError, match="missing"):
        b.load_state_dict({})
    assert b.load_state_dict({"bogus": weft.ones(1)}, strict=False)[1] == ["bogus"]
    with pytest.raises(ValueError, match="shape"):
        b.load_state_dict({**a.state_dict(), "scale": weft.ones(2)})
    c, d = copy.deepcopy(a), pickle.loads(pickle.dumps(a))
    x = xor()[0]
    for other in (b, c, d):
        assert (other(x) == a(x)).all() and isinstance(other.out.weight, nn.Parameter)


def test_to_converts_parameters():
    net = Net().double()
    assert net.hidden.weight.dtype is weft.float64 and net.scale.dtype is weft.float64 and net.hidden.weight.requires_grad
    assert net(xor()[0].double()).dtype is weft.float64


def test_forward_hooks_see_and_replace():
    layer, seen = nn.Linear(2, 2), []
    a = layer.register_forward_pre_hook(lambda m, args: (args[0] * 2,))
    b = layer.register_forward_hook(lambda m, args, out: seen.append(args[0].tolist()))
    layer.register_forward_hook(lambda m, args, out: out + 1)
    x = weft.ones(1, 2)
    want = F.linear(x * 2, layer.weight, layer.bias) + 1
    assert (layer(x) == want).all() and seen == [[[2, 2]]]
    assert a.remove() and b.remove() and not a.remove()
    layer(x)
    assert len(seen) == 1
    with pytest.raises(TypeError):
        layer.register_forward_hook(1)


def test_backward_hooks_see_only_gradients_of_the_call():
    layer, seen = nn.Linear(2, 1, bias=False), []
    layer.register_full_backward_hook(lambda m, gi, go: seen.append((gi[0].tolist(), go[0].tolist())))
    pre = layer.register_full_backward_pre_hook(lambda m, go: (go[0] * 2,))
    x = weft.ones(1, 2, requires_grad=True)
    (layer(x).sum() + (10 * x).sum()).backward()
    w = layer.weight.detach()
    assert seen == [((2 * w).tolist(), [[2]])]
    np.testing.assert_allclose(x.grad.tolist(), (2 * w + 10).tolist())
    pre.remove()
    x.grad = None
    layer.register_full_backward_hook(lambda m, gi, go: (gi[0] * 0,))
    layer(x).sum().backward()
    assert x.grad.tolist() == [[0, 0]]


def test_optimizer_groups_rates_and_state():
    a, b = nn.Parameter(weft.ones(2)), nn.Parameter(weft.ones(2))
    o = optim.AdamW([{"params": [a]}, {"params": [b], "lr": 0.5}], lr=0.1)
    assert [g["lr"] for g in o.param_groups] == [0.1, 0.5]
    o.param_groups[0]["lr"] = 0.2
    assert o.param_groups[0]["lr"] == 0.2
    (a.sum() + b.sum()).backward()
    calls = []
    o.register_step_pre_hook(lambda *_: calls.append(1))
    assert o.step(lambda: 7) == 7 and calls == [1]
    state = o.state_dict()
    other = optim.AdamW([{"params": [nn.Parameter(weft.ones(2))]}, {"params": [nn.Parameter(weft.ones(2))]}], lr=0.1)
    other.load_state_dict(state)
    assert other.param_groups[1]["lr"] == 0.5
    for bad in (3, [3], weft.ones(1), "a"):
        with pytest.raises(TypeError):
            optim.SGD(bad)
    with pytest.raises(ValueError):
        optim.SGD([weft.ones(2) * nn.Parameter(weft.ones(1))])
    assert nn.utils.clip_grad_norm_([a, b], 1.0).item() == pytest.approx(2.0)


def test_modules_take_pytorchs_keywords():
    x, target, w = weft.randn(4, 3), weft.tensor([0, 2, 1, 2]), weft.tensor([0.5, 1.0, 2.0])
    loss = nn.CrossEntropyLoss(w, size_average=None, ignore_index=1, reduce=None, reduction="sum", label_smoothing=0.1)
    assert list(loss.state_dict()) == ["weight"]
    want = F.cross_entropy(x, target, weight=w, ignore_index=1, reduction="sum", label_smoothing=0.1)
    assert loss(x, target).item() == want.item()
    assert nn.NLLLoss(weight=w)(x, target).item() == F.nll_loss(x, target, w).item()
    y = weft.rand(4, 3)
    assert nn.BCEWithLogitsLoss(pos_weight=w)(x, y).item() == \
        F.binary_cross_entropy_with_logits(x, y, pos_weight=w).item()
    table = nn.Embedding(4, 2, padding_idx=-1, max_norm=None, norm_type=2.0, scale_grad_by_freq=False, sparse=False)
    assert table.padding_idx == 3 and table.weight[3].tolist() == [0, 0]
    table(weft.tensor([0, 3])).sum().backward()
    assert table.weight.grad[:, 0].tolist() == [1, 0, 0, 0]
    assert nn.Softplus(beta=2, threshold=1)(x).tolist() == F.softplus(x, 2, 1).tolist()
    assert nn.ReLU(inplace=False)(x).tolist() == F.relu(x).tolist() and nn.Dropout(0.5, inplace=False).p == 0.5
    for wrong in (lambda: nn.ReLU(slope=1), lambda: nn.MSELoss(w), lambda: nn.CrossEntropyLoss(w, w)):
        with pytest.raises(TypeError):
            wrong()


def test_losses_and_layers_match_their_functions():
    x, t = weft.randn(3, 4), weft.tensor([0, 1, 3])
    assert nn.CrossEntropyLoss(label_smoothing=0.1)(x, t).item() == F.cross_entropy(x, t, label_smoothing=0.1).item()
    assert nn.MSELoss(reduction="sum")(x, x).item() == 0
    with pytest.raises(TypeError):
        nn.MSELoss(bogus=1)
    assert nn.Sequential(nn.Linear(4, 2), nn.ReLU(), nn.Flatten())(x).shape == (3, 2)
    assert nn.LayerNorm(4)(x).shape == (3, 4) and nn.RMSNorm(4)(x).shape == (3, 4)
    assert nn.Embedding(5, 2)(t).shape == (3, 2) and (nn.Dropout(0.5).eval()(x) == x).all()
    assert len(nn.ModuleList([nn.Identity()])) == 1 and "a" in nn.ModuleDict({"a": nn.GELU()})
    assert nn.Softmax(-1)(x).sum().item() == pytest.approx(3)


def test_the_gradient_recorder_finds_suspects_and_renders_itself():
    net, (x, y) = Net(), xor()
    optimizer = optim.SGD(net.parameters(), lr=0.1)
    recorder = weft.hooks.GradientRecorder(net)
    for step in range(3):
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        loss.backward()
        optimizer.step()
        recorder.step(loss.item())
    assert recorder.finite and len(recorder.json_lines()) == 3
    page = recorder._repr_html_()
    assert page.lstrip().startswith("<") and "hidden.weight" in page and "</html>" in page
    assert "src=\"http" not in page  # all that it shows is in it
    (net(x) * float("nan")).sum().backward()
    recorder.step()
    assert not recorder.finite and any("hidden" in s or "out" in s for s in recorder.suspects())
    with pytest.raises(TypeError):
        weft.hooks.GradientRecorder({"a": 3})


def test_losses_are_modules():
    x, y, z = weft.randn(4, 3), weft.randn(4, 3), weft.randn(4, 3)
    p, sign = weft.rand(4, 3), weft.tensor([1.0, -1.0, 1.0, -1.0])
    t, w = weft.tensor([0, 2, 1, 1]), weft.tensor([0.5, 1.0, 2.0])
    lists = weft.tensor([[0, -1, -1], [2, 1, -1], [1, -1, 0], [-1, 0, 0]])
    for module, function, arguments in (
            (nn.BCELoss(w), lambda *a: F.binary_cross_entropy(*a, weight=w), (p, p)),
            (nn.KLDivLoss(reduction="batchmean"), lambda *a: F.kl_div(*a, reduction="batchmean"), (x, p)),
            (nn.GaussianNLLLoss(full=True), lambda *a: F.gaussian_nll_loss(*a, full=True), (x, y, p)),
            (nn.PoissonNLLLoss(False, eps=0.1), lambda *a: F.poisson_nll_loss(*a, log_input=False, eps=0.1), (p, p)),
            (nn.CosineEmbeddingLoss(0.2), lambda *a: F.cosine_embedding_loss(*a, margin=0.2), (x, y, sign)),
            (nn.HingeEmbeddingLoss(0.5), lambda *a: F.hinge_embedding_loss(*a, margin=0.5), (x[:, 0], sign)),
            (nn.MarginRankingLoss(margin=0.3), lambda *a: F.margin_ranking_loss(*a, margin=0.3), (x[:, 0], y[:, 0], sign)),
            (nn.SoftMarginLoss(), F.soft_margin_loss, (x[:, 0], sign)),
            (nn.MultiMarginLoss(2, 0.5, w), lambda *a: F.multi_margin_loss(*a, p=2, margin=0.5, weight=w), (x, t)),
            (nn.MultiLabelMarginLoss(), F.multilabel_margin_loss, (x, lists)),
            (nn.MultiLabelSoftMarginLoss(w), lambda *a: F.multilabel_soft_margin_loss(*a, weight=w), (x, p)),
            (nn.TripletMarginLoss(2.0, 1), lambda *a: F.triplet_margin_loss(*a, margin=2.0, p=1), (x, y, z)),
            (nn.TripletMarginWithDistanceLoss(distance_function=nn.PairwiseDistance(), swap=True),
             lambda *a: F.triplet_margin_loss(*a, swap=True), (x, y, z)),
            (nn.CTCLoss(blank=2, zero_infinity=True), lambda *a: F.ctc_loss(*a, blank=2, zero_infinity=True),
             (weft.log_softmax(x, 1), weft.tensor([0, 1]), (4,), (2,))),
            (nn.CosineSimilarity(0), lambda *a: F.cosine_similarity(*a, dim=0), (x, y)),
            (nn.PairwiseDistance(1, keepdim=True), lambda *a: F.pairwise_distance(*a, p=1, keepdim=True), (x, y))):
        assert weft.equal(module(*arguments), function(*arguments)), module
    with pytest.raises(TypeError):
        nn.KLDivLoss(0.5)
    many = weft.log_softmax(weft.randn(6, 12, 4), 2)
    assert F.ctc_loss(many, weft.ones(12, 2, dtype=weft.int64), [6] * 12, [2] * 12).ndim == 0


def test_losses_warn_once_of_shapes_that_broadcast():
    x, y = weft.ones(4, 1), weft.zeros(4)
    for loss in (F.mse_loss, F.l1_loss, F.huber_loss, F.smooth_l1_loss, F.binary_cross_entropy_with_logits):
        with pytest.warns(UserWarning, match=r"input \[4, 1\] and target \[4\] differ in shape") as seen:
            for _ in range(3):
                loss(x, y)
        assert len(seen) == 1 and seen[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match="mse_loss"):
            F.mse_loss(x, y)
        F.mse_loss(x, weft.zeros(4, 1))


def test_losses_take_reduction_before_their_own_option():
    x, y = weft.tensor([0.0, 3.0]), weft.zeros(2)
    assert F.huber_loss(x, y, "sum", 2.0).item() == 4.0
    assert F.smooth_l1_loss(x, y, "sum", beta=2.0).item() == 2.0


def test_modules_print_as_in_pytorch():
    class Noted(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LayerNorm(8)

        def extra_repr(self):
            return "depth=1"

    assert repr(nn.Sequential(nn.Dropout(0.1), nn.GELU())) == \
        "Sequential(\n  (0): Dropout(p=0.1, inplace=False)\n  (1): GELU(approximate='none')\n)"
    assert repr(Noted()) == \
        "Noted(\n  depth=1\n  (layer): LayerNorm((8,), eps=1e-05, elementwise_affine=True, bias=True)\n)"
    layers = nn.ModuleList([nn.Linear(1, 1), nn.Linear(1, 1), nn.ReLU()])
    assert repr(layers) == \
        "ModuleList(\n  (0-1): 2 x Linear(in_features=1, out_features=1, bias=True)\n  (2): ReLU()\n)"


def test_init_bounds_and_moments():
    init = nn.init
    for fill, bound in ((init.xavier_uniform_, (6 / 300)**0.5), (init.kaiming_uniform_, 2**0.5 * (3 / 200)**0.5)):
        values = fill(weft.empty(100, 200)).numpy()
        assert 0.99 * bound < abs(values).max() <= bound * (1 + 1e-6) and abs(values.std() * 3**0.5 / bound - 1) < 0.02
    out = init.kaiming_normal_(weft.empty(100, 200), mode="fan_out", nonlinearity="relu").numpy()
    assert abs(out.std() / (2 / 100)**0.5 - 1) < 0.03
    assert abs(init.xavier_normal_(weft.empty(100, 200)).numpy().std() / (2 / 300)**0.5 - 1) < 0.03
    q = init.orthogonal_(weft.empty(20, 30, dtype=weft.float64)).numpy()
    assert abs(q @ q.T - np.eye(20)).max() < 1e-13
    x = init.trunc_normal_(weft.empty(100, 100), std=0.02, a=-0.04, b=0.04).numpy()
    assert abs(x).max() <= 0.04 + 1e-8 and abs(x.std() / (0.02 * 0.87963) - 1) < 0.03
    assert (init.sparse_(weft.empty(10, 50), 0.25).numpy() == 0).sum(0).tolist() == [3] * 50
    assert init.eye_(weft.empty(2, 3)).tolist() == [[1, 0, 0], [0, 1, 0]]
    assert init.dirac_(weft.empty(4, 2, 3), 2).numpy().nonzero()[1].tolist() == [0, 1, 0, 1]
    assert init.calculate_gain("tanh") == 5 / 3 and init.calculate_gain("leaky_relu", 0.2) == (2 / 1.04)**0.5
    with pytest.raises(ValueError):
        init.calculate_gain("step")
    with pytest.raises(ValueError):
        init.kaiming_normal_(weft.empty(3, 3), mode="fan")
    with pytest.raises(ValueError):
        init.xavier_uniform_(weft.empty(3))
    layer = nn.Linear(3, 3)
    a, b = (init.orthogonal_(layer.weight, generator=weft.Generator().manual_seed(5)).tolist() for _ in range(2))
    assert a == b and layer.weight.requires_grad and layer.weight.is_leaf


def test_gradient_clipping_by_norm_and_value():
    p = weft.zeros(2, requires_grad=True)
    p.grad = weft.tensor([3.0, -4.0])
    assert nn.utils.clip_grad_norm_(p, 100.0, norm_type=1).item() == 7.0
    assert nn.utils.clip_grad_norm_([p], 100.0, norm_type=float("inf")).item() == 4.0
    nn.utils.clip_grad_value_([p], 3.5)
    assert p.grad.tolist() == [3.0, -3.5]
    p.grad = weft.tensor([float("nan"), 1.0])
    with pytest.raises(ValueError, match="the norm of the gradients is nan"):
        nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)
    with pytest.raises(ValueError, match="no parameters"):
        optim.SGD([])


def test_clipping_counts_each_gradient_once_and_scales_where_squares_overflow():
    p, q = nn.Parameter(weft.zeros(2)), nn.Parameter(weft.zeros(3))
    p.grad, q.grad = weft.tensor([3.0, 4.0]), weft.tensor([2.0]).expand(3)
    assert nn.utils.clip_grad_norm_([p, p], 1.0).item() == 5.0
    assert p.grad.tolist() == pytest.approx([0.6, 0.8])
    assert nn.utils.clip_grad_norm_(q, 1.0).item() == pytest.approx(12 ** 0.5)
    assert q.grad.tolist() == pytest.approx([3 ** -0.5] * 3)
    for dtype, size in [(weft.float32, 1e19), (weft.bfloat16, 1e19), (weft.float16, 1e4), (weft.float64, 1e200)]:
        r = nn.Parameter(weft.zeros(2, dtype=dtype))
        r.grad = weft.tensor([3 * size, 4 * size], dtype=dtype)
        total = nn.utils.get_total_norm([r.grad])
        assert total.item() == pytest.approx(5 * size, rel=1e-2)
        nn.utils.clip_grads_with_norm_([r], 1e-2, total)
        assert r.grad.tolist() == pytest.approx([6e-3, 8e-3], rel=1e-2)
    assert nn.utils.get_total_norm([weft.tensor([0.0, 2.0]), weft.tensor([3.0])], norm_type=0).item() == 2
    assert nn.utils.get_total_norm([weft.tensor([0.5, 2.0])], norm_type=-1).item() == pytest.approx(0.4)


@pytest.mark.parametrize("shape, kernel, dilation, padding, stride", [
    ((2, 3, 5, 6), (2, 3), 1, 0, 1), ((1, 2, 7, 5), 3, (2, 1), (1, 2), (2, 1)), ((3, 4, 4), 2, 1, 1, 2)])
def test_unfold_is_im2col(shape, kernel, dilation, padding, stride):
    pair = lambda v: v if isinstance(v, tuple) else (v, v)
    (kh, kw), (dh, dw), (ph, pw), (sh, sw) = map(pair, (kernel, dilation, padding, stride))
    a = np.arange(1, 1 + np.prod(shape), dtype=np.float64).reshape(shape)
    x = weft.tensor(a, requires_grad=True)
    images = np.pad(a.reshape((-1,) + shape[-3:]), ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    n, c, rows, columns = images.shape
    expected = np.array([[images[:, :, i:i + dh * (kh - 1) + 1:dh, j:j + dw * (kw - 1) + 1:dw].reshape(n, -1)]
                         for i in range(0, rows - dh * (kh - 1), sh) for j in range(0, columns - dw * (kw - 1), sw)])
    expected = expected[:, 0].transpose(1, 2, 0)
    y = F.unfold(x, kernel, dilation, padding, stride)
    assert y.shape == (expected.shape if len(shape) == 4 else expected.shape[1:])
    assert np.array_equal(y.detach().numpy().reshape(expected.shape), expected)
    y.sum().backward()
    assert x.grad.sum().item() == np.count_nonzero(expected)


def test_unfold_rejects_other_ranks():
    with pytest.raises(ValueError, match="im2col"):
        F.unfold(weft.ones(3, 3), 2)
    with pytest.raises(ValueError, match="at least 1"):
        F.unfold(weft.ones(1, 3, 3), 0)


def test_options_of_losses_are_read_when_they_are_called():
    logits, classes = weft.tensor([[1.0, 5.0], [0.0, 1.0]]), weft.tensor([0, 1])
    loss = nn.CrossEntropyLoss()
    loss.ignore_index = 1
    assert loss(logits, classes).item() == nn.CrossEntropyLoss(ignore_index=1)(logits, classes).item()
    x, y = weft.tensor([0.0, 4.0]), weft.tensor([1.0, 1.0])
    for kind, name, value in ((nn.HuberLoss, "delta", 0.5), (nn.SmoothL1Loss, "beta", 2.0), (nn.GaussianNLLLoss, "full", True),
                              (nn.PoissonNLLLoss, "log_input", False)):
        loss = kind()
        setattr(loss, name, value)
        inputs = (x, y, y) if kind is nn.GaussianNLLLoss else (x, y)
        assert loss(*inputs).item() == kind(**{name: value})(*inputs).item() != kind()(*inputs).item()
        assert loss.get_config()[name] == value
