"""Tools under PyTorch's names: derivatives at given inputs, functional calls, pruning, fusion, trees, facts of tensors."""

import collections

import pytest

import weft
from weft import func, nn
from weft import _autograd_functional as functional
from weft.nn.utils import fusion, prune, stateless
from weft.utils import pytree


def cubes(x, y):
    return (x**3).sum() * y, x * y


def test_products_with_jacobians_and_hessians():
    x, y = weft.tensor([1.0, 2.0]), weft.tensor(3.0)
    value, product = functional.vjp(cubes, (x, y), (weft.tensor(1.0), weft.tensor([1.0, 0.0])))
    assert value[0].item() == 27 and product[0].tolist() == [12, 36] and product[1].item() == 10
    value, product = functional.jvp(cubes, (x, y), (weft.tensor([1.0, 0.0]), weft.tensor(0.0)))
    assert product[0].item() == 9 and product[1].tolist() == [3, 0]
    jacobian = functional.jacobian(cubes, (x, y))
    assert jacobian[0][0].tolist() == [9, 36] and jacobian[1][0].tolist() == [[3, 0], [0, 3]] and jacobian[1][1].tolist() == [1, 2]
    hessian = functional.hessian(lambda x: (x**3).sum(), x)
    assert hessian.tolist() == [[6, 0], [0, 12]]
    for product_of in (functional.hvp, functional.vhp):
        value, product = product_of(lambda x: (x**3).sum(), x, weft.tensor([1.0, 1.0]))
        assert value.item() == 9 and product.tolist() == [6, 12]
    pairs = functional.hessian(lambda x, y: (x * y).sum() ** 2, (x, y))
    assert pairs[0][1].tolist() == [36, 36] and pairs[1][1].item() == 18


def test_derivatives_are_recorded_or_refused_as_asked():
    x = weft.tensor([1.0, 2.0], requires_grad=True)
    jacobian = functional.jacobian(lambda x: x**2, x, create_graph=True)
    jacobian.sum().backward()
    assert x.grad.tolist() == [2, 2]
    assert not functional.jacobian(lambda x: x**2, x).requires_grad
    with pytest.raises(RuntimeError, match="strict"):
        functional.jacobian(lambda x: weft.ones(2), x, strict=True)
    assert functional.jacobian(lambda x: weft.ones(2), x).tolist() == [[0, 0], [0, 0]]
    with pytest.raises(RuntimeError, match="one number"):
        functional.hessian(lambda x: x, x)


def test_functional_calls_use_other_tensors():
    net = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    other = {"0.weight": weft.eye(2), "0.bias": weft.zeros(2, requires_grad=True)}
    before = net[0].weight
    x = weft.randn(4, 2)
    out = func.functional_call(net, other, (x,))
    out.sum().backward()
    assert other["0.bias"].grad is not None and net[0].weight is before and net[0].weight.grad is None
    assert weft.equal(stateless.functional_call(net[0], {"weight": weft.eye(2), "bias": weft.zeros(2)}, x), x)
    with pytest.raises(KeyError, match="no 2.weight"):
        func.functional_call(net, {"2.weight": x}, x)
    with pytest.raises(KeyError, match="missing"):
        func.functional_call(net, other, x, strict=True)
    tied = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    tied[1].weight = tied[0].weight
    doubled = func.functional_call(tied, {"0.weight": 2 * weft.eye(2), "0.bias": weft.zeros(2), "1.bias": weft.zeros(2)}, x)
    assert weft.allclose(doubled, 4 * x)


def test_ensembles_by_vmap():
    nets = [nn.Linear(3, 2) for _ in range(4)]
    parameters, buffers = func.stack_module_state(nets)
    x = weft.randn(5, 3)
    outs = func.vmap(lambda p, b: func.functional_call(nets[0], (p, b), (x,)))(parameters, buffers)
    assert weft.allclose(outs, weft.stack([net(x) for net in nets]), atol=1e-6)
    output, along = func.linearize(lambda x: x**2, weft.tensor([1.0, 2.0]))
    assert output.tolist() == [1, 4] and along(weft.tensor([1.0, 1.0])).tolist() == [2, 4]


def test_pruning_of_parts_of_a_tensor():
    layer = nn.Linear(4, 2)
    with weft.no_grad():
        layer.weight.copy_(weft.tensor([[1.0, -2.0, 3.0, -4.0], [5.0, -6.0, 7.0, -8.0]]))
    prune.l1_unstructured(layer, "weight", 3)
    assert layer.weight.tolist() == [[0, 0, 0, -4], [5, -6, 7, -8]]
    prune.ln_structured(layer, "weight", 1, n=1, dim=0)
    assert layer.weight.tolist() == [[0] * 4, [5, -6, 7, -8]]
    assert dict(layer.named_parameters()).keys() == {"weight_orig", "bias"} and "weight_mask" in layer.state_dict()
    layer(weft.ones(1, 4)).sum().backward()
    assert layer.weight_orig.grad.tolist() == [[0] * 4, [1] * 4]
    with weft.no_grad():
        layer.weight_orig.mul_(2)
    assert layer(weft.zeros(1, 4)) is not None and layer.weight[1].tolist() == [10, -12, 14, -16]
    prune.remove(layer, "weight")
    assert isinstance(layer.weight, nn.Parameter) and not prune.is_pruned(layer) and layer.weight[1].tolist() == [10, -12, 14, -16]
    for wrong in (1.5, -1, 9):
        with pytest.raises(ValueError, match="amount"):
            prune.random_unstructured(layer, "weight", wrong)


def test_pruning_over_several_modules_and_by_masks():
    net = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    with weft.no_grad():
        net[0].weight.copy_(weft.tensor([[1.0, 2.0], [3.0, 4.0]]))
        net[1].weight.copy_(weft.tensor([[0.5, 10.0], [20.0, 30.0]]))
    pairs = [(net[0], "weight"), (net[1], "weight")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=3)
    assert net[0].weight.tolist() == [[0, 0], [3, 4]] and net[1].weight.tolist() == [[0, 10], [20, 30]]
    prune.custom_from_mask(net[1], "bias", weft.tensor([1, 0]))
    assert net[1].bias[1].item() == 0
    prune.identity(net[0], "bias"), prune.random_structured(net[0], "weight", 1, dim=1)
    assert (net[0].weight == 0).all(0).sum().item() >= 1
    with pytest.raises(ValueError, match="not pruned"):
        prune.remove(nn.Linear(2, 2), "weight")


def test_norms_are_fused_into_layers():
    for layer, norm, x in ((nn.Conv2d(2, 3, 3, bias=False), nn.BatchNorm2d(3), weft.randn(2, 2, 5, 5)),
                           (nn.Linear(4, 3), nn.BatchNorm1d(3), weft.randn(6, 4))):
        norm(layer(x))
        with weft.no_grad():
            norm.weight.uniform_(0.5, 2), norm.bias.normal_()
        layer.eval(), norm.eval()
        fuse = fusion.fuse_linear_bn_eval if isinstance(layer, nn.Linear) else fusion.fuse_conv_bn_eval
        assert weft.allclose(fuse(layer, norm)(x), norm(layer(x)), atol=1e-5)
        with pytest.raises(RuntimeError, match="eval"):
            fuse(layer.train(), norm)


def test_trees_are_flattened_and_rebuilt():
    Pair = collections.namedtuple("Pair", "a b")
    tree = {"x": [1, (2, None)], "y": Pair(3, collections.OrderedDict(z=4))}
    leaves, spec = pytree.tree_flatten(tree)
    assert leaves == [1, 2, None, 3, 4] and spec.num_leaves == 5
    assert pytree.tree_unflatten(leaves, spec) == tree and type(pytree.tree_unflatten(leaves, spec)["y"]) is Pair
    assert pytree.tree_map(lambda a, b: (a or 0) + b, [1, None], [10, 20]) == [11, 20]
    assert pytree.tree_map_only(int, lambda n: n + 1, {"a": 1, "b": "x"}) == {"a": 2, "b": "x"}
    assert pytree.tree_any(lambda n: n == 4, tree) and not pytree.tree_all(bool, tree)

    class Box:
        def __init__(self, inside):
            self.inside = inside

    pytree.register_pytree_node(Box, lambda box: ([box.inside], None), lambda parts, _: Box(*parts))
    assert pytree.tree_map(lambda n: n * 2, Box([1, 2])).inside == [2, 4]
    with pytest.raises(ValueError, match="leaves"):
        pytree.tree_unflatten([1], spec)


def test_vectors_of_parameters():
    net = nn.Linear(2, 2)
    vector = nn.utils.parameters_to_vector(net.parameters())
    assert vector.shape == (6,) and vector.requires_grad
    nn.utils.vector_to_parameters(weft.arange(6.0), net.parameters())
    assert net.weight.tolist() == [[0, 1], [2, 3]] and net.bias.tolist() == [4, 5]
    with pytest.raises(ValueError, match="elements"):
        nn.utils.vector_to_parameters(weft.zeros(5), net.parameters())


def test_functions_may_set_up_their_context_apart():
    class Scale(weft.autograd.Function):
        @staticmethod
        def forward(x, factor):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, g):
            return g * ctx.factor, None, None

    x = weft.ones(2, requires_grad=True)
    Scale.apply(x, 3.0).sum().backward()
    assert x.grad.tolist() == [3, 3]


def test_embeddings_with_a_largest_norm():
    layer = nn.Embedding(3, 2, max_norm=1.0)
    with weft.no_grad():
        layer.weight.copy_(weft.tensor([[3.0, 4.0], [0.3, 0.4], [6.0, 8.0]]))
    out = layer(weft.tensor([0, 1, 0]))
    assert out[0].tolist() == pytest.approx([0.6, 0.8], abs=1e-5) and out[1].tolist() == pytest.approx([0.3, 0.4])
    assert layer.weight[2].tolist() == [6, 8]
    out.sum().backward()
    assert layer.weight.grad[0].tolist() == [2, 2]
    with pytest.raises(ValueError, match="expected a matrix"):
        nn.Embedding.from_pretrained(weft.zeros(3))


def test_states_are_changed_by_hooks_while_they_load():
    net, seen = nn.Linear(2, 2), []
    net.register_load_state_dict_pre_hook(lambda m, state, prefix, *_: state.update(weight=state.pop("old")))
    handle = net.register_load_state_dict_post_hook(lambda m, keys: seen.append(keys.missing_keys))
    found = net.load_state_dict({"old": weft.eye(2)}, strict=False)
    assert net.weight.tolist() == [[1, 0], [0, 1]] and found.missing_keys == ["bias"] and seen == [["bias"]]
    handle.remove()
    tensor = weft.ones(2, 2, dtype=weft.float64)
    net.load_state_dict({"old": tensor}, strict=False, assign=True)
    assert net.weight.dtype is weft.float64 and net.weight.data_ptr() == tensor.data_ptr() and len(seen) == 1


def test_facts_and_strides_of_tensors():
    x = weft.zeros(2, 3, 4, 5)
    assert x.is_contiguous() and not x.is_contiguous(memory_format=weft.channels_last)
    assert x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2).is_contiguous(memory_format=weft.channels_last)
    assert x.to(memory_format=weft.channels_last).shape == x.shape and x.dim_order() == (0, 1, 2, 3)
    y = weft.empty_strided((2, 3), (1, 2))
    assert y.stride() == (1, 2) and weft.empty_permuted((2, 3), (1, 0)).stride() == (1, 2)
    assert weft.scalar_tensor(2).dtype is weft.float32 and weft.t_copy(y).data_ptr() != y.data_ptr()
    assert weft.as_strided_scatter(weft.zeros(4), weft.ones(2), (2,), (2,), 1).tolist() == [0, 1, 0, 1]
    assert x.is_same_size(weft.ones(2, 3, 4, 5)) and weft.tensor(-1).is_signed() and not weft.tensor(0).is_nonzero()
    assert x.new(2, 2).shape == (2, 2) and x.new([1, 2]).tolist() == [1, 2] and x.to_sparse().to_dense().shape == x.shape


def test_states_are_changed_by_hooks_while_they_are_saved():
    net, calls = nn.Sequential(nn.Linear(2, 2)), []
    net[0].register_state_dict_pre_hook(lambda module, prefix, keep: calls.append(prefix))
    handle = net[0].register_state_dict_post_hook(lambda module, state, prefix, _: state.pop(prefix + "bias"))
    assert list(net.state_dict()) == ["0.weight"] and calls == ["0."]
    handle.remove()
    assert list(net.state_dict()) == ["0.weight", "0.bias"]
    given = collections.OrderedDict(first=1)
    assert net.state_dict(destination=given) is given and list(given) == ["first", "0.weight", "0.bias"]


def test_leaves_have_paths():
    tree = {"x": [1, {"y": 2}], "z": (3,)}
    pairs = pytree.tree_leaves_with_path(tree)
    assert [(pytree.keystr(path), leaf) for path, leaf in pairs] == [("['x'][0]", 1), ("['x'][1]['y']", 2), ("['z'][0]", 3)]
    assert pytree.tree_map_with_path(lambda path, n: (len(path), n), tree)["x"][1]["y"] == (3, 2)


def test_batch_norms_without_statistics_pass_vmap():
    net = func.replace_all_batch_norm_modules_(nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2)))
    assert net(weft.randn(4, 3)).mean(0).abs().max().item() < 1e-6 and not list(net.buffers())


def test_gradients_go_to_the_inputs_named_alone():
    a, b = weft.ones(2, requires_grad=True), weft.full((2,), 3.0, requires_grad=True)
    inner = a * b
    inner.sum().backward(inputs=[a], retain_graph=True)
    assert a.grad.tolist() == [3, 3] and b.grad is None
    inner.sum().backward(inputs=a, retain_graph=True)
    assert a.grad.tolist() == [6, 6]
    weft.autograd.backward([inner, a * 2], [weft.ones(2), weft.ones(2)], inputs=[b])
    assert b.grad.tolist() == [1, 1] and a.grad.tolist() == [6, 6]
    with pytest.raises(RuntimeError, match="at least one"):
        (a * b).sum().backward(inputs=[])
