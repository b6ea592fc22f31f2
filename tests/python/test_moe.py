"""Mixtures of experts: the layer and its ops."""

import warnings

import numpy as np
import pytest

import weft
from weft import nn


def by_numpy(moe, x):
    """One token and choice after the other."""
    router, up, down = (p.detach().numpy().astype(np.float64) for p in (moe.router, moe.up, moe.down))
    out = np.zeros(x.shape)
    for s, row in enumerate(x.astype(np.float64)):
        logits = router @ row
        scores = np.exp(logits - logits.max())
        scores /= scores.sum()
        chosen = np.argsort(-scores, kind="stable")[:2]
        for e in chosen:
            gate, value = np.split(up[e] @ row, 2)
            out[s] += scores[e] / scores[chosen].sum() * (down[e] @ (gate / (1 + np.exp(-gate)) * value))
    return out


def test_a_mixture_is_that_of_loops_and_learns():
    moe = nn.MoE(6, 5, 4)
    x = weft.randn(9, 6)
    out = moe.forward_with_losses(x)
    assert np.allclose(moe(x).detach().numpy(), by_numpy(moe, x.numpy()), atol=1e-5)
    assert np.array_equal(out.output.detach().numpy(), moe(x).detach().numpy())
    assert out.counts.sum().item() == 18 and out.counts.dtype == weft.int64
    (out.output.sum() + out.balance_loss + out.z_loss).backward()
    assert all(p.grad is not None and p.grad.shape == p.shape for p in moe.parameters())


def test_a_changed_bias_and_changed_weights_change_the_result():
    moe = nn.MoE(4, 3, 4, expert_bias=True)
    moe.update_expert_bias(weft.tensor([1, 5, 3, 3]), 0.25)
    assert np.allclose(moe.expert_bias.numpy(), [0.25, -0.25, 0, 0])
    moe.update_expert_bias(weft.tensor([0, 9, 9, 9]), 100)
    x = weft.randn(7, 4)
    assert moe.forward_with_losses(x).counts[0].item() == 7
    twin = nn.MoE(4, 3, 4, expert_bias=True)
    twin.load_state_dict(moe.state_dict())
    assert np.array_equal(twin(x).detach().numpy(), moe(x).detach().numpy())
    moe.to(weft.float64)
    assert moe.forward_with_losses(x.double()).output.dtype == weft.float64
    with weft.no_grad():
        twin.up.fill_(0)
    assert np.allclose(twin(x).detach().numpy(), 0)


def test_options_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="scores"):
        nn.MoE(4, 4, 2, scores="relu")
    with pytest.raises(ValueError, match="kind"):
        nn.MoE(4, 4, 2, kind="relu")
    with pytest.raises(ValueError):
        nn.MoE(4, 4, 2, top_k=3)
    with pytest.raises(ValueError):
        nn.MoE(4, 4, 2).update_expert_bias(weft.tensor([1, 2]))


def test_tokens_go_to_their_experts_and_back():
    x, routing = weft.tensor([[1.0, 2], [3, 4], [5, 6]]), weft.tensor([[0, 2], [2, -1], [1, 0]])
    probs = weft.tensor([[0.6, 0.4], [1, 0], [0.7, 0.3]])
    out = weft.moe_permute(x, routing, probs, 3, [2, 1, 2], 2)
    assert out.rowmap.tolist() == [[0, -1, 4], [-1, -1, 5], [1, 2, -1]]
    assert out.tokens.tolist() == [[1, 2], [5, 6], [5, 6], [0, 0], [1, 2], [3, 4]]
    y, back = weft.moe_unpermute(out.tokens * out.probs.unsqueeze(1), out.rowmap, routing, out.probs, 3, 3)
    assert np.allclose(y.numpy(), x.numpy()) and np.array_equal(back.numpy(), probs.numpy())
    many = weft.moe_permute(weft.zeros(1, 2), weft.tensor([[64]]), weft.ones(1, 1), 65, [0] * 64 + [1], 1)
    assert many.rowmap[0, 64].item() == 0


def test_tokens_go_by_scores_up_to_a_capacity():
    x = weft.tensor([[1.0], [2], [3], [4]])
    scores = weft.tensor([[0.731, 0.269], [0.047, 0.953], [0.982, 0.018], [0.731, 0.269]])
    out = weft.moe_gate_dispatch(x, scores, 2, 3, True)
    assert out.y.flatten().tolist() == [1, 3, 4, 2, 1, 3]
    assert out.scatter.tolist() == [[0, 3, 1, 2], [4, -1, 5, -1]] and out.offset.tolist() == [4, 8]
    assert weft.moe_combine(out.y, out.weights, out.scatter).shape == (4, 1)
    biased = weft.moe_gate_dispatch(x, scores, 1, 4, False, bias=weft.tensor([0.0, 5]))
    assert biased.expert_id.flatten().tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("make", [
    lambda **options: nn.MoE(6, 5, 4, **options),
    lambda top_k, normalize: weft.moe_topk_gate(weft.randn(3, 4, requires_grad=True), top_k, normalize)])
def test_a_router_without_gradient_warns(make):
    with pytest.warns(UserWarning, match="one normalized weight is always 1"):
        make(top_k=1, normalize=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(top_k=1, normalize=False)
        make(top_k=2, normalize=True)
