"""Every keyword of the functions that PyTorch has too is called with a value that is not its default, and answers as
PyTorch does: pytorch_cases/make_keywords.py recorded what it says."""

import ast
import json
import pathlib

import pytest
import test_pytorch_cases as pytorch_cases

import weft
from weft import _special_more

FOLDER = pathlib.Path(__file__).parent / "pytorch_cases"
FIRST, *CASES = map(json.loads, (FOLDER / "keywords.jsonl").open())
INPUTS = {path.stem: json.loads(path.open().readline())["inputs"] for path in FOLDER.glob("*.jsonl")
          if path.stem != "pointwise_cases"}
PLACES = {"m": weft, "x": weft.Tensor, "F": weft.nn.functional, "m.linalg": weft.linalg, "m.special": weft.special,
          "m.fft": weft.fft}
LOSSES = """binary_cross_entropy binary_cross_entropy_with_logits cosine_embedding_loss cross_entropy hinge_embedding_loss
kl_div l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss multilabel_soft_margin_loss nll_loss
poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss""".split()

# Functions and keywords that are not compared, with the reason.
NOT_COMPARED = [
    ("x.set_", "stride", "the memory of another tensor: test_own_memory.py"),
    ("F.embedding F.embedding_bag m.embedding m.embedding_bag", "max_norm scale_grad_by_freq sparse",
     "refused, or a gradient in rows"),
    (" ".join("F." + name for name in LOSSES), "size_average reduce", "refused: PyTorch gave them up"),
    (" ".join("m." + name for name in [*LOSSES, "ctc_loss"]),
     "weight pos_weight margin blank zero_infinity log_target p eps swap reduction", "undocumented; reductions are numbers"),
    ("m.embedding_bag", "mode per_sample_weights include_last_offset", "undocumented; the weight comes first"),
    ("F.linear_cross_entropy", "options", "refused"),
    ("F.multi_head_attention_forward", "static_k static_v", "refused"),
    ("F.softmax F.log_softmax F.softmin", "_stacklevel", "of a warning"),
    ("m.autocast", "dtype enabled cache_enabled", "a mode: test_amp.py"),
    ("m.linalg.lu m.linalg.lu_factor m.linalg.lu_factor_ex x.lu", "pivot", "on CUDA alone"),
    ("m.linalg.svd m.linalg.svdvals", "driver", "on CUDA alone"),
    ("m.linalg.lstsq", "driver rcond", "one algorithm, which gives every result: from_pytorch.md"),
    ("m.linalg.svd m.svd x.svd", "full_matrices some", "the vectors' signs are free: linalg.txt compares products"),
    ("x.cholesky_inverse x.cholesky_solve", "upper", "gradients of one triangle: from_pytorch.md"),
    ("x.backward", "gradient retain_graph create_graph inputs", "gives no result: test_autograd.py"),
    ("m.empty_like x.pin_memory x.to", "pin_memory device layout", "there is no pinned memory, and one layout"),
    ("x.uniform_", "from", "a word of Python's"),
    ("m.binomial", "generator out", "PyTorch's own has counts and chances alone"),
    ("m.einsum", "path", "PyTorch's Python has none"),
    ("m.stft x.stft", "align_to_window", "refused"),
    (" ".join("m.special." + name for name in _special_more.__all__) + " m.igamma m.igammac", "out", "computed by ops: test_special_more.py"),
    ("m.as_strided_scatter x.as_strided_scatter", "storage_offset", "the case's strides overlap: gradients are undefined"),
]
SKIPPED = {(f, k) for functions, keywords, _ in NOT_COMPARED for f in functions.split() for k in keywords.split()}


def place_of(function):
    head, _, name = function.rpartition(".")
    return getattr(PLACES[head], name, None)


def compared():
    for case in CASES:
        if place_of(case["function"]) and (case["function"], case["keyword"]) not in SKIPPED:
            yield pytest.param(case, id=case["expression"])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", list(compared()))
def test_keywords_answer_as_pytorchs(case):
    if case.get("draws"):
        return check_draw(case)
    if "out=" not in case["expression"]:
        return pytorch_cases.test_results_and_gradients_are_pytorchs(INPUTS[case["family"]], case)
    with weft.no_grad():
        pytorch_cases.test_results_and_gradients_are_pytorchs(INPUTS[case["family"]], case)


def check_draw(case):
    inputs = {name: pytorch_cases.tensor(*given) for name, given in INPUTS[case["family"]].items()}
    result = eval(case["expression"], {"m": weft, "F": weft.nn.functional, **inputs})
    wanted = case["result"] if isinstance(case["result"], list) else [case["result"]]
    for got, want in zip(result if isinstance(result, (tuple, list)) else [result], wanted, strict=True):
        assert got.dtype is getattr(weft, want["dtype"]) and list(got.shape) == want["shape"]


def called_keywords():
    """The keywords of a recorded call, by function: of these cases and of the families'."""
    found = {(case["function"], case["keyword"]) for case in CASES}
    for family in pytorch_cases.FAMILIES:
        for line in (FOLDER / f"{family}.jsonl").open():
            case = json.loads(line)
            node = ast.parse(case.get("expression", "0"), mode="eval").body
            if "result" not in case or not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                continue
            head = ast.unparse(node.func.value)
            found |= {(f"{head if head in PLACES else 'x'}.{node.func.attr}", k.arg) for k in node.keywords}
    return found


def test_every_keyword_of_pytorchs_is_called_or_listed():
    wanted = {(f, k) for f, keywords in FIRST["keywords"].items() if place_of(f) for k in keywords}
    assert len(wanted) >= 1300
    assert sorted(wanted - called_keywords() - SKIPPED) == []
    assert len(wanted & SKIPPED) == 136


def test_keywords_that_share_a_name_with_an_in_place_form_are_its_own():
    x = weft.tensor([1.0, 2.0])
    assert weft.cumsum(x, 0, dtype=weft.float64).dtype is weft.float64
    assert x.clone().cumsum_(0, dtype=weft.float32).tolist() == [1, 3]
    with pytest.raises(TypeError):
        x.cumsum_(0, dtype=weft.float64)
    assert x.tolist() == [1, 2]


def test_results_go_to_the_tensors_that_out_names():
    x = weft.tensor([[3.0, 1.0, 2.0], [4.0, 6.0, 5.0]])
    values, indices = weft.empty(2), weft.empty(2, dtype=weft.int64)
    result = weft.max(x, 1, out=(values, indices))
    assert result.values is values and result.indices is indices
    assert values.tolist() == [3, 6] and indices.tolist() == [0, 1]
    order = weft.sort(x, out=[weft.empty(2, 3), weft.empty(2, 3, dtype=weft.int64)])
    assert order.values.tolist() == [[1, 2, 3], [4, 5, 6]]
    least = weft.empty(())
    assert weft.min(x, out=least) is least and least.item() == 1
    with pytest.raises(ValueError):
        weft.max(x, 1, out=(values,))
    with pytest.raises(TypeError):
        weft.max(x, 1, out=(values, 3))


@pytest.mark.parametrize("name, arguments", [("leaky_relu", (0.5,)), ("elu", (0.5,)), ("celu", (0.5,)), ("hardtanh", (-0.5, 0.5)),
                                             ("threshold", (0.5, 2.0))])
def test_activations_in_place(name, arguments):
    function = getattr(weft.nn.functional, name)
    plain = weft.tensor([-1.0, 0.25, 2.0], requires_grad=True)
    wanted, x = function(plain, *arguments), plain * 1
    y = function(x, *arguments, inplace=True)
    assert y is x and y.tolist() == wanted.tolist()
    assert weft.autograd.grad(y.sum(), plain)[0].tolist() == weft.autograd.grad(wanted.sum(), plain)[0].tolist()


def test_losses_with_weights_of_elements():
    x, y = weft.tensor([1.0, 2.0, 4.0]), weft.zeros(3)
    w = weft.tensor([1.0, 0.0, 3.0])
    F = weft.nn.functional
    assert F.mse_loss(x, y, weight=w).item() == 49 / 4 and F.mse_loss(x, y, weight=w, reduction="sum").item() == 49
    assert F.l1_loss(x, y, weight=w, reduction="none").tolist() == [1, 0, 12]
    assert F.huber_loss(x, y, weight=w, delta=2.0).item() == pytest.approx((0.5 + 3 * 6) / 3)
    with pytest.raises(ValueError):
        F.mse_loss(x, y, weight=w[:2])
