"""Classes of the layers that C++ describes: signatures, attributes, errors and files."""

import inspect
import pathlib
import pickle

import pytest

import weft
from weft import nn

SIGNATURES = """
ReLU(inplace: bool = False)
Tanh()
ELU(alpha: float = 1.0, inplace: bool = False)
GELU(approximate: str = 'none')
Threshold(threshold: float, value: float, inplace: bool = False)
Softmax(dim: int | None = None)
PReLU(num_parameters: int = 1, init: float = 0.25, device=None, dtype=None)
Dropout(p: float = 0.5, inplace: bool = False)
MaxPool2d(kernel_size: int | tuple[int, ...] | list[int], stride: int | tuple[int, ...] | list[int] | None = None, \
padding: int | tuple[int, ...] | list[int] = 0, dilation: int | tuple[int, ...] | list[int] = 1, return_indices: bool = False, \
ceil_mode: bool = False)
AvgPool1d(kernel_size: int | tuple[int, ...] | list[int], stride: int | tuple[int, ...] | list[int] | None = None, \
padding: int | tuple[int, ...] | list[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True)
ZeroPad2d(padding: int | tuple[int, ...] | list[int])
BatchNorm2d(num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = True, \
track_running_stats: bool = True, device=None, dtype=None)
InstanceNorm1d(num_features: int, eps: float = 1e-05, momentum: float | None = 0.1, affine: bool = False, \
track_running_stats: bool = False, device=None, dtype=None)
Linear(in_features: int, out_features: int, bias: bool = True, device=None, dtype=None)
Embedding(num_embeddings: int, embedding_dim: int, padding_idx: int | None = None, max_norm: float | None = None, \
norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False, _weight: weft.Tensor | None = None, \
_freeze: bool = False, device=None, dtype=None)
RNN(input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = 'tanh', bias: bool = True, \
batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device=None, dtype=None)
CrossEntropyLoss(weight: weft.Tensor | None = None, *, ignore_index: int = -100, label_smoothing: float = 0.0, \
reduction: str = 'mean', size_average=None, reduce=None)
MultiMarginLoss(p: int = 1, margin: float = 1.0, weight: weft.Tensor | None = None, *, reduction: str = 'mean', \
size_average=None, reduce=None)
""".strip().splitlines()


@pytest.mark.parametrize("line", SIGNATURES)
def test_signatures_come_from_the_descriptions(line):
    name, _, arguments = line.partition("(")
    assert str(inspect.signature(getattr(nn, name))) == f"({arguments}"
    stub = (pathlib.Path(weft.__file__).parent / "nn" / "__init__.pyi").read_text()
    start = stub.index(f"class {name}(")
    method = f"def __init__(self, {arguments}".replace("self, )", "self)")
    assert method in stub[start:stub.index("\nclass ", start)]


@pytest.mark.parametrize("make, text", [
    (lambda: nn.ELU("x"), "ELU(): argument 'alpha': expected a number, got str"),
    (lambda: nn.GLU(1.5), "GLU(): argument 'dim': expected an int, got float"),
    (lambda: nn.MaxPool2d((2, "x")), "MaxPool2d(): argument 'kernel_size': expected an int or ints, got tuple"),
    (lambda: nn.MaxPool2d(2, ceil_mode=1), "MaxPool2d(): argument 'ceil_mode': expected a bool, got int"),
    (lambda: nn.GELU(1), "GELU(): argument 'approximate': expected a str, got int"),
    (lambda: nn.Threshold(1), "Threshold(): missing a required argument: 'value'"),
    (lambda: nn.Threshold(1, None), "Threshold(): argument 'value': expected a number, got NoneType"),
    (lambda: nn.ReLU(False, 1), "ReLU(): too many positional arguments"),
    (lambda: nn.Tanh(inplace=True), "Tanh(): got an unexpected keyword argument 'inplace'"),
    (lambda: nn.MultiMarginLoss(1.5), "MultiMarginLoss(): argument 'p': expected an int, got float"),
    (lambda: nn.CrossEntropyLoss(1), "CrossEntropyLoss(): argument 'weight': expected a Tensor or None, got int"),
    (lambda: nn.Conv2d(1, 1, 3, padding=0.5), "Conv2d(): argument 'padding': expected an int, ints or a str, got float"),
    (lambda: nn.FractionalMaxPool2d(2, 2, _random_samples=1),
     "FractionalMaxPool2d(): argument '_random_samples': expected a Tensor or None, got int")])
def test_arguments_of_another_type_are_refused(make, text):
    with pytest.raises(TypeError) as error:
        make()
    assert str(error.value) == text


def test_values_out_of_range_are_refused_with_the_line_of_the_call():
    for make, text in ((lambda: nn.Dropout2d(2), "p: expected a number in [0, 1], got 2"),
                       (lambda: nn.PReLU(0), "num_parameters: expected at least 1, got 0"),
                       (lambda: nn.GELU("x"), "[GELU] argument 'approximate': expected 'none' or 'tanh', got 'x'"),
                       (lambda: nn.HuberLoss(delta=0), "[nn::HuberLoss] delta: expected a number above 0, got 0"),
                       (lambda: nn.MSELoss(reduction="x"),
                        "[MSELoss] argument 'reduction': expected 'none', 'mean' or 'sum', got 'x'"),
                       (lambda: nn.Linear(-1, 2), "[nn::Linear] in_features: expected at least 0, got -1"),
                       (lambda: nn.Embedding(5, 3, 7), "padding_idx: expected one of 5 rows, got 7"),
                       (lambda: nn.ZeroPad2d((1, 2, 3)), "padding: expected 1 or 4 numbers")):
        with pytest.raises(weft.errors.ValueError) as error:
            make()
        assert text in str(error.value) and "test_described.py" in str(error.value)


def test_attributes_are_read_by_each_call():
    layer, x = nn.LeakyReLU(0.5), weft.tensor([-2.0, 4.0])
    layer.negative_slope = 0.25
    assert layer(x).tolist() == [-0.5, 4.0] and repr(layer) == "LeakyReLU(negative_slope=0.25)"
    distance = nn.PairwiseDistance()
    distance.norm = 1.0
    assert distance.p == 1.0 and distance(weft.zeros(1, 2), weft.ones(1, 2)).item() == pytest.approx(2, abs=1e-4)


@pytest.mark.parametrize("layer", [nn.UpsamplingNearest2d(3), nn.UpsamplingBilinear2d(scale_factor=2), nn.MaxPool2d(2),
                                   nn.AvgPool1d(2), nn.ConstantPad2d(1, 2), nn.Dropout2d(0.25), nn.Softmin(1),
                                   nn.BatchNorm2d(3, affine=False), nn.KLDivLoss(reduction="batchmean"),
                                   nn.TripletMarginWithDistanceLoss(margin=2.0), nn.Conv2d(2, 3, 3, padding="same"),
                                   nn.LSTM(2, 3, proj_size=1), nn.EmbeddingBag(4, 2, padding_idx=-1), nn.AdaptiveAvgPool2d((None, 2))], ids=repr)
def test_layers_come_back_from_files_and_pickles(layer):
    assert repr(pickle.loads(pickle.dumps(layer))) == repr(layer)
    if not isinstance(layer, nn.AdaptiveAvgPool2d):
        assert repr(weft.io.from_json(weft.io.to_json(layer))) == repr(layer)


def test_a_subclass_passes_its_options_on():
    class Halving(nn.MaxPool2d):
        def __init__(self, ceil_mode=False):
            super().__init__(2, ceil_mode=ceil_mode)

    assert repr(Halving(True)) == "Halving(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=True)"
    assert Halving()(weft.ones(1, 4, 4)).shape == (1, 2, 2)


# ---- docs/modules.md ----

PAGE = pathlib.Path(__file__).parent.parent.parent / "docs" / "modules.md"
BEGIN, END = "<!-- written by `python tests/python/test_described.py` -->\n", "<!-- end -->\n"


def _cpp(options):
    """The arguments of the constructor in C++: `(kernel_size, {stride, padding = 0})`."""
    listed, members = [], []
    for option in options:
        default = option["default"]
        text = option["name"] if default is None else f"{option['name']} = {str(default).lower()}"
        text = text.replace("nonlinearity = tanh", "relu = false")
        if option["role"] < 2:
            (members if option["role"] else listed).append(text)
    return f"({', '.join(listed + ['{' + ', '.join(members) + '}'] * bool(members))})"


def rows():
    names = {}
    for name, _, options in weft._core._described_layers():
        if not hasattr(nn, name):
            continue
        python = str(inspect.signature(getattr(nn, name).__init__)).replace("self, ", "").replace("(self)", "()")
        for text in (": int | tuple[int, ...] | list[int] | None", ": int | tuple[int, ...] | list[int]",
                     ": float | tuple[float, ...] | list[float] | None", ": weft.Tensor | None"):
            python = python.replace(text, "")
        for kind in ("bool", "int", "float", "str"):
            python = python.replace(f": {kind} | None", "").replace(f": {kind}", "")
        python = python.replace(" = ", "=")
        names.setdefault((_cpp(options), python), []).append(f"`{name}`")
    yield "| layer | C++ | Python |\n|---|---|---|\n"
    for (cpp, python), alike in names.items():
        yield f"| {', '.join(alike)} | `{cpp}` | `{python}` |\n"


def page():
    before, _, rest = PAGE.read_text().partition(BEGIN)
    return before + BEGIN + "".join(rows()) + END + rest.partition(END)[2]


def test_the_table_of_options_is_current():
    assert PAGE.read_text() == page(), "python tests/python/test_described.py writes it anew"


if __name__ == "__main__":
    PAGE.write_text(page())
