"""Gradients, first and second, where formulas divide by 0, overflow or do not depend on their operand."""

import math

import numpy as np
import pytest

import weft
from weft.nn import functional as F


def tensor(values, grad=True):
    return weft.tensor(values, dtype=weft.float64).requires_grad_(grad)


def gradients(function, *values):
    xs = [tensor(v) for v in values]
    return [g.tolist() for g in weft.autograd.grad(function(*xs).sum(), xs)]


def second(function, *values):
    """The gradients of the sum of each first gradient: a row for each."""
    xs = [tensor(v) for v in values]
    firsts = weft.autograd.grad(function(*xs).sum(), xs, create_graph=True)
    rows = [weft.autograd.grad(first.sum(), xs, retain_graph=True, allow_unused=True) for first in firsts]
    return [[[0.0] * x.numel() if g is None else g.tolist() for g, x in zip(row, xs)] for row in rows]


def close(got, wanted, rtol=1e-12):
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), rtol=rtol, atol=1e-13)


# ---- x log y --------------------------------------------------------------------------------------------------------

def test_xlogy_of_nothing_has_no_slope():
    close(gradients(weft.xlogy, [0.0, 0.0, 2.0], [0.0, 4.0, 4.0]), [[0, math.log(4), math.log(4)], [0, 0, 0.5]])
    (aa, ab), (ba, bb) = second(weft.xlogy, [0.0, 0.0, 2.0], [0.0, 4.0, 4.0])
    close([ab, ba, bb], [[0, 0.25, 0.25], [0, 0.25, 0.25], [0, 0, -0.125]])


def test_xlog1py_of_nothing_has_no_slope():
    close(gradients(weft.special.xlog1py, [0.0, 0.0, 2.0], [-1.0, 3.0, 3.0]),
          [[0, math.log(4), math.log(4)], [0, 0, 0.5]])
    (aa, ab), (ba, bb) = second(weft.special.xlog1py, [0.0, 0.0, 2.0], [-1.0, 3.0, 3.0])
    close([ab, ba, bb], [[0, 0.25, 0.25], [0, 0.25, 0.25], [0, 0, -0.125]])


def test_kl_div_takes_targets_of_zero():
    logs, target = [-1.0, -0.5, -math.inf], [0.0, 0.5, 0.0]
    x, t = tensor(logs), tensor(target)
    loss = F.kl_div(x, t, reduction="sum")
    assert loss.item() == pytest.approx(0.5 * (math.log(0.5) + 0.5))
    gx, gt = weft.autograd.grad(loss, [x, t])
    close(gx.tolist(), [0, -0.5, 0])
    assert gt.isfinite().all().item() and gt[1].item() == pytest.approx(math.log(0.5) + 1.5)
    x, t = tensor(logs), tensor([-math.inf, math.log(0.5), -math.inf])
    loss = F.kl_div(x, t, reduction="sum", log_target=True)
    assert loss.item() == pytest.approx(0.5 * (math.log(0.5) + 0.5))
    gx, gt = weft.autograd.grad(loss, [x, t])
    close([gx.tolist(), gt.tolist()], [[0, -0.5, 0], [0, 0.5 * (math.log(0.5) + 1.5), 0]])


# ---- second derivatives ---------------------------------------------------------------------------------------------

def test_sinc_bends_at_zero():
    close(second(weft.sinc, [0.0, 1e-9, 1e-3])[0][0], [-math.pi**2 / 3] * 2 + [-math.pi**2 / 3 + math.pi**4 * 1e-6 / 10],
          rtol=1e-9)


@pytest.mark.parametrize("exponent", [2.0, 2.5, 3.0])
def test_powers_of_zero_do_not_change_with_their_exponent(exponent):
    (aa, ab), (ba, bb) = second(weft.pow, [0.0], [exponent])
    close([aa[0], ab[0], ba[0], bb[0]], [2.0 if exponent == 2 else 0.0, 0, 0, 0])


def test_first_slopes_of_powers_of_zero():
    close(gradients(weft.pow, [0.0, 0.0, 0.0], [0.0, 1.0, 2.0]), [[0, 1, 0], [0, 0, 0]])


FAR = [-800.0, 800.0, 0.5]


@pytest.mark.parametrize("name", ["softplus", "logsigmoid", "silu", "mish", "elu", "celu", "selu", "gelu", "sigmoid", "tanh"])
def test_second_derivatives_far_out_are_numbers(name):
    function = getattr(F, name)
    far = second(function, FAR)[0][0]
    close(far[:2], [0, 0])
    step = 1e-4
    (above,), (below,) = gradients(function, [0.5 + step]), gradients(function, [0.5 - step])
    assert far[2] == pytest.approx((above[0] - below[0]) / (2 * step), rel=1e-6)


def test_softplus_in_single_precision():
    x = weft.tensor([-100.0, 100.0], requires_grad=True)
    g, = weft.autograd.grad(F.softplus(x, beta=2).sum(), x, create_graph=True)
    assert weft.autograd.grad(g.sum(), x)[0].tolist() == [0, 0]


def test_sums_of_exponentials_far_apart():
    for function in (weft.logaddexp, weft.logaddexp2):
        a, b = gradients(function, [-math.inf, 1.0, -math.inf, 2000.0], [-math.inf, -math.inf, 2.0, 0.0])
        close([a, b], [[0.5, 1, 0, 1], [0.5, 0, 1, 0]])
        for row in second(function, [1.0, -math.inf, 2000.0], [-math.inf, 2.0, 0.0]):
            close(row, [[0, 0, 0], [0, 0, 0]])


def test_angles_at_the_origin():
    close(gradients(weft.atan2, [0.0, 3.0], [0.0, 4.0]), [[0, 0.16], [0, -0.12]])
    for row in second(weft.atan2, [0.0], [0.0]):
        close(row, [[0], [0]])


def test_huber_bends_at_zero():
    y = tensor([0.0, 0.0, 0.0], False)
    for function in (F.huber_loss, F.smooth_l1_loss):
        close(second(lambda x: function(x, y, reduction="sum"), [0.0, 0.5, 3.0])[0][0], [1, 1, 0])


PIECEWISE = {
    "relu": F.relu, "relu6": F.relu6, "hardsigmoid": F.hardsigmoid, "hardtanh": F.hardtanh, "leaky_relu": F.leaky_relu,
    "hardshrink": F.hardshrink, "softshrink": F.softshrink, "threshold": lambda x: F.threshold(x, 0.5, 2.0),
    "prelu": lambda x: F.prelu(x, tensor([0.25], False)), "clamp": lambda x: x.clamp(-1, 1), "clamp_min": lambda x: x.clamp(min=0),
    "clamp_tensors": lambda x: weft.clamp(x, tensor(-1.0, False), tensor(1.0, False)), "frac": weft.frac,
    "floor": weft.floor, "ceil": weft.ceil, "round": weft.round, "trunc": weft.trunc, "sign": weft.sign,
    "fmod": lambda x: weft.fmod(x, 2.0), "remainder": lambda x: weft.remainder(x, 2.0), "abs": weft.abs,
    "floor_divide": lambda x: weft.floor_divide(x, 2.0), "maximum": lambda x: weft.maximum(x, tensor(0.0, False)),
    "minimum": lambda x: weft.minimum(x, tensor(0.0, False)), "fmax": lambda x: weft.fmax(x, tensor(0.0, False)),
    "heaviside": lambda x: weft.heaviside(x, tensor(0.5, False)), "max_pool": lambda x: F.max_pool1d(x[None], 2),
}


@pytest.mark.parametrize("name", PIECEWISE)
def test_pieces_that_are_lines_have_second_derivatives_of_zero(name):
    close(second(PIECEWISE[name], [-4.0, -1.25, 0.0, 0.25, 1.25, 7.0])[0][0], [0.0] * 6)


def test_slopes_of_hardswish_and_abs_bend_where_they_should():
    close(second(F.hardswish, [-4.0, -1.5, 0.0, 4.0])[0][0], [0, 1 / 3, 1 / 3, 0])


def test_a_hessian_of_a_piecewise_linear_network_is_zero():
    w = tensor([[1.0, -2.0], [0.5, 1.5]])
    y = F.relu6(w @ tensor([1.0, 2.0], False)).sum()
    g, = weft.autograd.grad(y, w, create_graph=True)
    close(weft.autograd.grad(g.square().sum(), w)[0].tolist(), np.zeros((2, 2)))


# ---- nothing to depend on -------------------------------------------------------------------------------------------

@pytest.mark.parametrize("inputs, targets, batch", [([0, 0], [0, 0], 2), ([0, 0], [1, 1], 2), ([], [], 0)])
def test_ctc_loss_of_no_time_stays_connected(inputs, targets, batch):
    x = weft.zeros(4, batch, 3, dtype=weft.float64).log_softmax(-1).detach().requires_grad_()
    loss = F.ctc_loss(x, weft.ones(batch, 2, dtype=weft.int64), weft.tensor(inputs, dtype=weft.int64),
                      weft.tensor(targets, dtype=weft.int64), reduction="sum", zero_infinity=True)
    assert loss.requires_grad
    g, = weft.autograd.grad(loss, x)
    assert g.shape == x.shape and not g.any().item()


def test_distances_that_count_stay_connected():
    a, b = tensor([[0.0, 1.0], [2.0, 3.0]]), tensor([[0.0, 5.0]])
    ga, gb = weft.autograd.grad(weft.cdist(a, b, p=0).sum(), [a, b])
    assert not ga.any().item() and not gb.any().item()
    assert not weft.autograd.grad(F.pdist(a, p=0).sum(), a)[0].any().item()


def test_weight_norm_of_rows_without_elements():
    layer = weft.nn.utils.parametrizations.weight_norm(weft.nn.Linear(0, 2))
    layer(weft.zeros(3, 0)).sum().backward()
    for parameter in layer.parametrizations.weight.parameters():
        assert parameter.grad.isfinite().all().item() and not parameter.grad.any().item()


def test_draws_have_gradients_of_zero():
    for draw in (weft.bernoulli, weft.poisson):
        for x in (tensor([0.5, 0.25]), weft.zeros(0, dtype=weft.float64, requires_grad=True)):
            g, = weft.autograd.grad(draw(x).sum(), x)
            assert g.shape == x.shape and not g.any().item()


def test_the_next_number_moves_as_its_start():
    a, b = gradients(weft.nextafter, [[1.0, 2.0]], [[2.5], [0.5]])
    assert (a, b) == ([[2, 2]], [[0], [0]])
    assert gradients(weft.nextafter, [1.0], [1.0]) == [[0], [1]]


def test_windows_of_zeros_have_no_slope():
    for order in (2.0, 3.0):
        x = tensor([[[0.0, 0.0, 3.0, 4.0]]])
        g, = weft.autograd.grad(F.lp_pool1d(x, order, 2).sum(), x, create_graph=True)
        norm = (3**order + 4**order) ** (1 / order)
        close(g.tolist(), [[[0, 0, (3 / norm) ** (order - 1), (4 / norm) ** (order - 1)]]])
        assert weft.autograd.grad(g.sum(), x)[0].isfinite().all().item()
    assert not weft.autograd.grad(F.lp_pool2d(x[None], 2, (1, 2)).sum(), x)[0][..., :2].any().item()


# ---- equal eigenvalues ----------------------------------------------------------------------------------------------

EQUAL = {"one": np.eye(3), "two": np.diag([2.0, 2.0, 3.0]), "zero": np.zeros((2, 2))}


@pytest.mark.parametrize("name", EQUAL)
def test_eigh_of_equal_values_where_nothing_depends_on_the_vectors(name):
    n = len(EQUAL[name])
    for loss in (lambda w, v: w.sum() + 0 * v.sum(), lambda w, v: w.sum() + v.square().sum(), lambda w, v: w.sum()):
        x = tensor(EQUAL[name])
        close(weft.autograd.grad(loss(*weft.linalg.eigh(x)), x)[0].tolist(), np.eye(n))
    x = weft.tensor(EQUAL[name] + 0j).requires_grad_()
    w, v = weft.linalg.eig(x)
    g, = weft.autograd.grad(w.real.sum() + 0 * v.real.sum(), x)
    close(g.real.tolist(), np.eye(n))


@pytest.mark.parametrize("shape", [(3, 3), (4, 3), (2, 3)])
@pytest.mark.parametrize("kind", ["equal", "zero"])
def test_svd_of_equal_values_where_nothing_depends_on_the_vectors(shape, kind):
    a = np.eye(*shape) if kind == "equal" else np.zeros(shape)
    for loss in (lambda u, s, v: 0 * u.sum() + 0 * v.sum(), lambda u, s, v: u.square().sum() + v.square().sum()):
        x = tensor(a)
        close(weft.autograd.grad(loss(*weft.linalg.svd(x, full_matrices=False)), x)[0].tolist(), np.zeros(shape))
    x = tensor(a)
    u, s, v = weft.linalg.svd(x, full_matrices=False)
    g, = weft.autograd.grad(s.sum() + 0 * u.sum(), x)
    assert g.isfinite().all().item()


def test_a_loss_of_the_vectors_of_equal_values_has_no_gradient():
    x = tensor(np.eye(3))
    _, v = weft.linalg.eigh(x)
    assert weft.autograd.grad((v[0] * tensor([1.0, 2.0, 3.0], False)).sum(), x)[0].isnan().any().item()


@pytest.mark.parametrize("function", [lambda x: weft.linalg.eigvalsh(x).sum(), lambda x: weft.linalg.svdvals(x).sum(),
                                      lambda x: weft.linalg.matrix_norm(x, "nuc")])
def test_values_alone_have_gradients_where_they_are_equal(function):
    x = tensor(np.eye(3))
    close(weft.autograd.grad(function(x), x)[0].tolist(), np.eye(3))


def test_determinants_of_singular_matrices_have_second_derivatives():
    x = tensor([[1.0, 2.0, 0.5], [2.0, 4.0, 1.0], [0.0, 1.0, 3.0]])
    g, = weft.autograd.grad(weft.linalg.det(x), x, create_graph=True)
    a = x.detach().numpy()
    cofactors = [[(-1) ** (i + j) * np.linalg.det(np.delete(np.delete(a, i, 0), j, 1)) for j in range(3)] for i in range(3)]
    close(g.tolist(), cofactors, rtol=1e-10)
    h, = weft.autograd.grad(g[0, 0], x)
    close(h.tolist(), [[0, 0, 0], [0, a[2, 2], -a[2, 1]], [0, -a[1, 2], a[1, 1]]], rtol=1e-9)


def test_vectors_of_values_that_are_nearly_zero_count():
    for rows in ([[1.0, 2.0, 3.0], [2.0, 4.0, 6.0]], [[1.0, 2.0], [2.0, 4.0], [3.0, 6.0], [0.0, 0.0]],
                 [[1.0, 2.0, 3.0], [2.0, 4.0, 6.0], [3.0, 6.0, 9.0]]):
        x = tensor(rows)
        u, s, v = weft.linalg.svd(x, full_matrices=False)
        close(weft.autograd.grad(((u * s) @ v).sum(), x)[0].tolist(), np.ones_like(rows), rtol=1e-9)
    w, v = weft.linalg.eigh(x)
    close(weft.autograd.grad(((v * w) @ v.mT).sum(), x)[0].tolist(), np.ones((3, 3)), rtol=1e-9)


def test_equal_values_of_a_matrix_that_is_not_diagonal():
    q = np.linalg.qr(np.array([[1.0, 2.0, 0.5], [0.3, 1.0, 2.0], [1.0, 0.0, 3.0]]))[0]
    x = tensor((q * [2.0, 2.0, 3.0]) @ q.T)
    w, v = weft.linalg.eigh(x)
    close(weft.autograd.grad(w.sum() + v.square().sum(), x)[0].tolist(), np.eye(3))
    u, s, v = weft.linalg.svd(x)
    close(weft.autograd.grad(s.sum() + u.square().sum() + v.square().sum(), x)[0].tolist(), np.eye(3))


@pytest.mark.parametrize("exponent", [0, 1, 2, 3])
def test_powers_at_zero_have_every_derivative(exponent):
    x = weft.tensor(0.0, dtype=weft.float64, requires_grad=True)
    value = x ** weft.tensor(float(exponent), dtype=weft.float64)
    for order in range(1, 4):
        value, = weft.autograd.grad(value, x, create_graph=True)
        assert value.item() == (math.factorial(order) if order == exponent else 0)
