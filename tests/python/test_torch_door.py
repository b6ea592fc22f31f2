"""`import torch` on Weft: module paths, errors, the command line, and forms of early PyTorch."""

import importlib
import io
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

import weft
import weft.torch as torch
from weft.torch import _door
from weft.torch._names import PATHS, sources_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPTS = ROOT / "tests" / "python" / "torch_scripts"


def run(*arguments, folder=None):
    return subprocess.run([sys.executable, "-m", "weft.torch", *map(str, arguments)], capture_output=True, text=True, cwd=folder,
                          env={**os.environ, "PYTHONPATH": str(pathlib.Path(weft.__file__).parents[1])})


# ---- modules ----

def test_every_path_of_the_table_is_imported_with_its_names(installed):
    for path in sorted(PATHS):
        module = importlib.import_module(path)
        assert module is importlib.import_module(f"weft.torch{path[len('torch'):]}") and dir(module) is not None
        for source in sources_of(path):
            assert _door._loaded(source) is not None


def test_install_and_uninstall_set_the_modules_of_another_torch_aside():
    other = type(sys)("torch")
    before = sys.modules.get("torch")
    sys.modules["torch"], sys.modules["torch.nn"] = other, other
    try:
        torch.install()
        torch.install()
        import torch as found
        import torch.nn.functional as F

        assert found is torch and F.relu is weft.nn.functional.relu
        torch.uninstall()
        torch.uninstall()
        assert sys.modules["torch"] is other and sys.modules["torch.nn"] is other
        assert "torch.nn.functional" not in sys.modules
    finally:
        for name in ("torch", "torch.nn"):
            sys.modules.pop(name, None)
        if before is not None:
            sys.modules["torch"] = before


def test_the_forms_of_import(installed):
    import torch.nn as nn
    import torch.utils.data.dataloader
    from torch import Tensor, optim
    from torch.autograd import Variable
    from torch.cuda.amp import GradScaler, autocast
    from torch.nn import Linear, functional
    from torch.nn.modules.batchnorm import BatchNorm2d
    from torch.optim.lr_scheduler import StepLR, _LRScheduler
    from torch.utils.data import DataLoader

    assert nn is torch.nn and Linear is weft.nn.Linear and BatchNorm2d is weft.nn.BatchNorm2d
    assert issubclass(DataLoader, weft.data.DataLoader) and optim.Adam is weft.optim.Adam and issubclass(StepLR, _LRScheduler)
    assert functional is nn.functional and isinstance(weft.zeros(2), Tensor) and isinstance(weft.zeros(2), Variable)
    assert not GradScaler(enabled=False).is_enabled() and autocast(enabled=False) is not None


def test_missing_names_are_named_with_the_nearest():
    with pytest.raises(AttributeError, match=r"module 'torch.nn' on Weft has no attribute 'Linaer'; .*'torch.nn.Linear'"):
        torch.nn.Linaer
    with pytest.raises(AttributeError, match="zzzzzz"):
        torch.zzzzzz
    with pytest.raises(ModuleNotFoundError, match="no module 'torch.optm'; the nearest module is 'torch.optim'"):
        import weft.torch.optm  # noqa: F401
    assert not hasattr(torch, "lobpcg") and hasattr(torch, "compile")


def test_settings_of_other_devices_are_kept_and_change_nothing():
    torch.backends.cudnn.benchmark = True
    assert torch.backends.cudnn.benchmark is True
    with torch.backends.cudnn.flags(enabled=False):
        pass
    assert torch.compile(len) is len and torch.jit.script(len) is len
    assert torch.cuda.is_available() == weft.cuda.is_available() and not torch.backends.mps.is_available()
    torch.backends.cuda.matmul.allow_tf32 = True
    assert weft.tf32_state()
    torch.set_float32_matmul_precision("highest")
    assert not weft.tf32_state() and torch.get_float32_matmul_precision() == "highest"
    with pytest.raises(NotImplementedError, match="save"):
        torch.onnx.export(None, (), "x.onnx")


# ---- the command line ----

def test_a_script_runs_with_its_arguments(tmp_path):
    (tmp_path / "helper.py").write_text("import torch\nvalue = torch.ones(2).sum().item()\n")
    (tmp_path / "script.py").write_text("import sys\nimport torch.nn as nn\nimport helper\nprint(sys.argv[1:], helper.value, __name__)\n")
    done = run(tmp_path / "script.py", "--lr", "0.1", folder="/")
    assert done.returncode == 0 and done.stdout == "['--lr', '0.1'] 2.0 __main__\n"
    done = run("-m", "script", "x", folder=tmp_path)
    assert done.returncode == 0 and done.stdout == "['x'] 2.0 __main__\n"
    (tmp_path / "wrong.py").write_text("from torch.nn import Linaer\n")
    done = run(tmp_path / "wrong.py")
    assert done.returncode == 1 and "the nearest name is 'torch.nn.Linear'" in done.stderr
    assert run(tmp_path / "absent.py").returncode == 2 and run("--help").returncode == 0 and run("--chek").returncode == 2


def test_check_lists_missing_names_without_running(tmp_path):
    (tmp_path / "script.py").write_text("""
import torch
import torch.nn as nn, torch._inductor.fx
from torch import nn as layers, lobpcg
from torch.nn import functional as F
raise SystemExit("not run")
F.reluu(nn.Linear(2, 3), torch.backends.cudnn.benchmark)
layers.Conv9d(1)
torch.flag = 1
if hasattr(torch, "newest"):
    torch.newest()
""")
    done = run("--check", tmp_path / "script.py")
    lines = done.stdout.splitlines()
    assert done.returncode == 1 and [line.split("script.py:")[1].split(":")[0] for line in lines] == ["3", "4", "7", "8"]
    assert "torch._inductor.fx" in lines[0] and "lobpcg" in lines[1] and "'torch.nn.functional.relu'" in lines[2]
    assert "Conv9d" in lines[3]
    done = run("--check", SCRIPTS / "vae.py", SCRIPTS / "swin.py")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 2


def test_weft_has_every_name_that_the_scripts_use():
    from weft.torch._script_names import missing_names

    assert [line for script in SCRIPTS.glob("*.py") for line in missing_names(script)] == []


# ---- forms of early PyTorch ----

def test_tensor_types_make_tensors_and_are_types(installed):
    assert torch.Tensor(2, 3).shape == (2, 3) and torch.Tensor(2, 3).dtype is weft.float32
    assert torch.Tensor([1, 2]).tolist() == [1.0, 2.0] and torch.Tensor(np.arange(3)).dtype is weft.float32
    assert torch.Tensor().numel() == 0 and torch.Tensor(np.int64(4)).shape == (4,)
    assert torch.LongTensor([1.7]).tolist() == [1] and torch.FloatTensor(2).shape == (2,)
    assert torch.ByteTensor([1, 0]).dtype is weft.uint8 and torch.DoubleTensor(torch.ones(2)).dtype is weft.float64
    x = weft.zeros(2)
    assert isinstance(x, torch.Tensor) and isinstance(x, torch.FloatTensor) and not isinstance(x, torch.LongTensor)
    assert issubclass(weft.nn.Parameter, torch.Tensor) and torch.Tensor.add is weft.Tensor.add
    assert x.type() == "torch.FloatTensor" and x.type(torch.LongTensor).dtype is weft.int64
    assert x.type("torch.DoubleTensor").dtype is weft.float64 and x.long().type() == "torch.LongTensor"

    class Named(torch.Tensor):
        def doubled(self):
            return self * 2

    assert Named(weft.ones(2)).doubled().tolist() == [2, 2]


def test_variables_and_default_types():
    x = weft.ones(2)
    v = torch.autograd.Variable(x, requires_grad=True)
    assert v.requires_grad and not x.requires_grad and v.data_ptr() == x.data_ptr()
    torch.set_default_tensor_type("torch.DoubleTensor")
    try:
        assert weft.zeros(1).dtype is weft.float64
        torch.set_default_tensor_type(torch.FloatTensor)
        assert weft.zeros(1).dtype is weft.float32
    finally:
        weft.set_default_dtype(weft.float32)
    with pytest.raises(TypeError, match="no tensor type"):
        torch.set_default_tensor_type("torch.NoTensor")


def test_data_is_read_and_assigned():
    layer = weft.nn.Linear(2, 2)
    layer.weight.data = weft.eye(2)
    assert layer.weight.tolist() == [[1, 0], [0, 1]] and layer.weight.requires_grad and layer.weight.is_leaf
    layer.weight.data.mul_(3)
    layer.weight.data[0] = 7
    assert layer.weight.tolist() == [[7, 7], [0, 3]]
    assert not layer.weight.is_cuda and layer.weight.is_cpu and not layer.weight.is_sparse
    layer.weight.data = weft.eye(3)
    assert layer.weight.shape == (3, 3) and layer.weight.requires_grad


@pytest.mark.parametrize("old, new", [({"size_average": False}, "sum"), ({"size_average": True}, "mean"), ({"reduce": False}, "none"),
                                      ({"size_average": False, "reduce": True}, "sum")])
def test_old_keywords_of_losses(old, new):
    x, y, t = weft.randn(3, 4), weft.randn(3, 4), weft.tensor([0, 1, 2])
    F, nn = torch.nn.functional, torch.nn
    assert weft.equal(F.mse_loss(x, y, **old), weft.nn.functional.mse_loss(x, y, reduction=new))
    assert weft.equal(nn.L1Loss(**old)(x, y), weft.nn.functional.l1_loss(x, y, reduction=new))
    assert weft.equal(F.cross_entropy(x, t, **old), weft.nn.functional.cross_entropy(x, t, reduction=new))
    assert weft.equal(nn.CrossEntropyLoss(**old)(x, t), weft.nn.functional.cross_entropy(x, t, reduction=new))


def test_losses_take_pytorchs_positions():
    x, t = weft.randn(3, 4), weft.tensor([0, 2, 1])
    weight = weft.tensor([1.0, 2.0, 3.0, 4.0])
    assert weft.equal(torch.nn.functional.cross_entropy(x, t, weight, None, 2),
                      weft.nn.functional.cross_entropy(x, t, weight, ignore_index=2))
    loss = torch.nn.BCEWithLogitsLoss(None, None, None, "sum", weight)
    assert loss.reduction == "sum" and loss.pos_weight.tolist() == weight.tolist()
    assert isinstance(loss, weft.nn.BCEWithLogitsLoss) and pickle.loads(pickle.dumps(loss)).reduction == "sum"
    assert torch.nn.MSELoss(False)(x, x + 1).item() == 12


def test_numpy_numbers_are_sizes():
    nn = weft.nn
    three, one = np.int64(3), np.int32(1)
    assert nn.Conv2d(three, 4, three, padding=one).kernel_size == (3, 3)
    assert nn.Conv2d(3, 4, (3,)).kernel_size == (3, 3) and nn.Conv1d(3, 4, [3]).kernel_size == (3,)
    assert nn.LayerNorm(three).normalized_shape == (3,) and nn.Linear(np.array([2, 3]).prod(), three).in_features == 6
    assert weft.zeros(three, one).shape == (3, 1) and weft.randn((three, 2)).shape == (3, 2)
    assert nn.AvgPool1d(np.int64(2))(weft.ones(1, 1, 4)).shape == (1, 1, 2)
    assert weft.ones(4).reshape(np.int64(2), -1).shape == (2, 2)
    with pytest.raises(TypeError):
        nn.Conv2d(3, 4, 2.5)


def test_numpy_reads_tensors():
    x = weft.arange(6.0).reshape(2, 3)
    assert np.mean(x) == 2.5 and np.asarray(x[:, 1]).tolist() == [1, 4] and np.array(x.T).shape == (3, 2)
    x.numpy()[0, 0] = 9
    assert x[0, 0].item() == 9 and np.concatenate([x, x]).shape == (4, 3)


def test_random_states_are_kept(installed):
    generator = torch.manual_seed(-3)
    first = weft.rand(3).tolist()
    assert isinstance(generator, weft.Generator)
    with torch.random.fork_rng():
        weft.rand(100)
    second = weft.rand(3).tolist()
    torch.manual_seed(-3)
    assert weft.rand(3).tolist() == first and weft.rand(3).tolist() == second


def test_functional_names_in_place_and_old():
    F = torch.nn.functional
    x = weft.tensor([-1.0, 2.0])
    assert F.relu_(x) is x and x.tolist() == [0, 2]
    assert F.upsample(weft.ones(1, 1, 2, 2), scale_factor=2).shape == (1, 1, 4, 4)
    assert torch.nn.init.xavier_uniform(weft.empty(2, 2)).shape == (2, 2)
    assert torch.nn.init._calculate_fan_in_and_fan_out(weft.empty(4, 3, 5, 5)) == (75, 100)


def test_norms_of_weights_by_hooks():
    layer = torch.nn.utils.weight_norm(weft.nn.Linear(3, 2))
    assert sorted(layer.state_dict()) == ["bias", "weight_g", "weight_v"]
    x = weft.randn(4, 3)
    with weft.no_grad():
        before = layer(x) - layer.bias
        layer.weight_g.mul_(2)
        assert weft.allclose(layer(x) - layer.bias, 2 * before, atol=1e-6)
    layer(x).sum().backward()
    assert layer.weight_g.grad is not None
    weight = layer.weight.detach().clone()
    torch.nn.utils.remove_weight_norm(layer)
    assert weft.allclose(layer.weight, weight) and sorted(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="WeightNorm"):
        torch.nn.utils.remove_weight_norm(layer)
    normed = torch.nn.utils.spectral_norm(weft.nn.Conv2d(2, 3, 3))
    for _ in range(30):
        normed(weft.randn(1, 2, 5, 5))
    assert weft.linalg.matrix_norm(normed.weight.detach().reshape(3, -1), 2).item() == pytest.approx(1, abs=1e-4)


def test_parallel_wrappers_on_one_rank():
    net = weft.nn.Linear(2, 2)
    wrapped = torch.nn.DataParallel(net).cuda() if weft.cuda.is_available() else torch.nn.DataParallel(net)
    assert wrapped.module is net and sorted(wrapped.state_dict()) == ["module.bias", "module.weight"]
    ddp = torch.nn.parallel.DistributedDataParallel(net)
    ddp(weft.ones(1, 2)).sum().backward()
    assert net.weight.grad is not None
    with ddp.no_sync():
        assert not ddp.require_backward_grad_sync


# ---- files ----

class Settings:
    def __init__(self, rate):
        self.rate = rate


def through_file(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **options)


def test_saved_objects_come_back():
    base = weft.arange(6.0)
    saved = {"a": base, "b": base[2:4], "c": base.reshape(2, 3).T, "n": [1, 2.5, "x", None, (True,)], "t": weft.int32,
             "empty": weft.zeros(0, 3), "half": weft.ones(2, dtype=weft.float16), "device": weft.device("cpu"),
             "p": weft.nn.Parameter(weft.ones(2), requires_grad=False), "scalar": weft.tensor(3)}
    found = through_file(saved)
    assert found["b"].tolist() == [2, 3] and found["c"].tolist() == [[0, 3], [1, 4], [2, 5]] and found["n"] == saved["n"]
    found["a"][2] = 9
    assert found["b"][0].item() == 9 and found["c"][2, 0].item() == 9, "memory is shared as before"
    assert found["t"] is weft.int32 and found["empty"].shape == (0, 3) and found["half"].dtype is weft.float16
    assert type(found["p"]) is weft.nn.Parameter and not found["p"].requires_grad and found["scalar"].item() == 3
    assert found["device"] == weft.device("cpu")


def test_only_weights_are_loaded_unless_the_file_is_trusted():
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        through_file({"settings": Settings(0.1)})
    assert through_file({"settings": Settings(0.1)}, weights_only=False)["settings"].rate == 0.1
    with torch.serialization.safe_globals([Settings]):
        assert through_file(Settings(0.2)).rate == 0.2
    with pytest.raises(pickle.UnpicklingError):
        through_file(os.system)


def test_modules_and_optimizers_are_saved_as_objects(tmp_path):
    net = weft.nn.Sequential(weft.nn.Linear(2, 3), weft.nn.BatchNorm1d(3))
    optimizer = weft.optim.Adam(net.parameters(), lr=0.1)
    net(weft.randn(4, 2)).sum().backward()
    optimizer.step()
    torch.save((net, optimizer), tmp_path / "all.pt")
    again, twin = torch.load(tmp_path / "all.pt", weights_only=False)
    assert weft.equal(again[0].weight, net[0].weight) and twin.param_groups[0]["params"][0] is again[0].weight
    state = torch.load(save_state(tmp_path, net))
    assert list(state) == list(net.state_dict()) and weft.equal(state["1.running_mean"], net[1].running_mean)


def save_state(folder, net):
    torch.save(net.state_dict(), folder / "state.pt")
    return folder / "state.pt"


def test_files_of_pytorch_are_read_and_read_by_it(tmp_path):
    found = torch.load(ROOT / "tests" / "io" / "pt_cases" / "training.pt")
    assert found["model"]["fc.weight"].shape == (3, 2) and found["optimizer"]["param_groups"][0]["lr"] == 0.1
    weft.save({"w": weft.ones(2)}, tmp_path / "own.safetensors")
    assert torch.load(tmp_path / "own.safetensors")["w"].tolist() == [1, 1]
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode:
        pytest.skip("PyTorch is not installed")
    base = weft.arange(6.0)
    torch.save({"a": base, "b": base[2:], "p": weft.nn.Parameter(weft.ones(2)), "t": weft.int64}, tmp_path / "ours.pt")
    code = f"import torch; f = torch.load({str(tmp_path / 'ours.pt')!r}); f['a'][2] = 9; " \
           "assert f['b'].tolist() == [9, 3, 4, 5] and type(f['p']) is torch.nn.Parameter and f['t'] is torch.int64"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("name", ["image", "sequence", "attention", "words"])
def test_whole_modules_of_pytorch_are_read(name):
    file = ROOT / "tests" / "python" / "pytorch_cases" / "modules.pt"
    module, x, wanted = torch.load(file, weights_only=False)[name]
    result = module(x)
    result = result[0] if isinstance(result, tuple) else result
    assert not module.training and weft.allclose(result, wanted, atol=1e-6)
    if name == "words":
        assert module.padding_idx == 1
    with pytest.raises(pickle.UnpicklingError, match="torch.nn.modules"):
        torch.load(file)


def test_numpys_functions_and_operators_on_tensors():
    x = weft.tensor([1.0, 4.0], requires_grad=True)
    array = np.array([2.0, 3.0], dtype=np.float32)
    for product in (array * x, x * array, np.multiply(array, x)):
        assert isinstance(product, weft.Tensor) and product.tolist() == [2, 12]
    (array * x).sum().backward()
    assert x.grad.tolist() == [2, 3]
    y = x.detach()
    assert isinstance(np.sqrt(y), weft.Tensor) and np.sqrt(y).tolist() == [1, 2] and np.add.reduce(y).item() == 5
    assert (np.float64(2) * y).dtype is weft.float32 and (array > y).tolist() == [True, False]
    fraction, whole = np.modf(y + 0.5)
    assert fraction.tolist() == [0.5, 0.5] and whole.tolist() == [1, 4]
    array += y
    assert isinstance(array, np.ndarray) and array.tolist() == [3, 7]
    with pytest.raises((ValueError, RuntimeError), match="grad"):
        np.exp(x)


def test_numbers_before_tensors(installed):
    x, g = weft.zeros(2), weft.ones(2)
    x.add_(-0.5, g)
    assert x.tolist() == [-0.5, -0.5] and x.add(2, g).tolist() == [1.5, 1.5] and torch.add(x, 2, g).tolist() == [1.5, 1.5]
    assert x.addcmul_(3, g, g).tolist() == [2.5, 2.5] and x.addcdiv_(-1, g, g + 1).tolist() == [2, 2]
    assert x.add(g, alpha=3).tolist() == [5, 5] and x.add_(1).tolist() == [3, 3] and torch.sub(x, g).tolist() == [2, 2]


def test_bounds_of_random_integers():
    for drawn in (torch.randint(3, (2, 5)), torch.randint(3, size=(2, 5)), torch.randint(high=3, size=(2, 5)),
                  torch.randint(0, 3, (2, 5)), torch.randint(low=0, high=3, size=(2, 5))):
        assert drawn.shape == (2, 5) and drawn.min() >= 0 and drawn.max() < 3
    assert weft.Generator().seed() >= 0


def test_loaders_show_their_samplers():
    data = torch.utils.data
    loader = data.DataLoader(range(5), batch_size=2, shuffle=True)
    assert isinstance(loader.sampler, data.RandomSampler) and len(loader.sampler) == 5 and loader.batch_sampler.batch_size == 2
    assert isinstance(data.DataLoader(range(5)).sampler, data.SequentialSampler)
    assert sorted(n for batch in loader for n in batch.tolist()) == [0, 1, 2, 3, 4]
    assert data.DataLoader(range(4), num_workers=2, multiprocessing_context="spawn").num_workers == 2


def test_tuples_of_sizes_are_not_taken_for_elements():
    with pytest.raises(TypeError, match="torch.empty"):
        torch.Tensor((2, 3))
    assert torch.Tensor((2.0, 3.0)).tolist() == [2, 3]


def test_reductions_over_the_elements_that_a_mask_marks():
    x = torch.tensor([[1.0, 2, 3], [4, 5, 6]])
    mask = torch.tensor([[True, False, True], [False, True, False]])
    masked = torch.masked
    assert masked.sum(x, 1, mask=mask).tolist() == [4, 5] and masked.mean(x, 1, mask=mask).tolist() == [2, 5]
    assert masked.prod(x, 1, mask=mask).tolist() == [3, 5] and masked.var(x, 1, mask=mask).tolist() == [1, 0]
    assert masked.var(x, 1, True, mask=mask)[0].item() == 2 and masked.std(x, 1, mask=mask).tolist() == [1, 0]
    assert masked.amax(x, 1, mask=mask).tolist() == [3, 5] and masked.amin(x, 1, mask=mask).tolist() == [1, 5]
    assert masked.argmax(x, 1, mask=mask).tolist() == [2, 1] and masked.argmin(x, 1, mask=mask).tolist() == [0, 1]
    assert masked.amax(x.long(), 1, mask=mask).tolist() == [3, 5] and masked.sum(x).item() == 21
    assert torch.allclose(masked.softmax(x, 1, mask=mask)[0, [0, 2]], torch.softmax(torch.tensor([1.0, 3]), 0))
    assert masked.softmin(x, 1, mask=mask)[1].tolist() == [0, 1, 0]
    assert torch.allclose(masked.log_softmax(x, 1, mask=mask)[0, [0, 2]], torch.log_softmax(torch.tensor([1.0, 3]), 0))
    assert torch.allclose(masked.logsumexp(x, 1, mask=mask)[0], torch.tensor([1.0, 3]).logsumexp(0))
    assert masked.cumsum(x, 1, mask=mask)[0].tolist() == [1, 1, 4] and masked.cumprod(x, 1, mask=mask)[0].tolist() == [1, 1, 3]
    assert torch.allclose(masked.norm(x, 2, 1, mask=mask), torch.tensor([10.0 ** 0.5, 5]))
    assert masked.normalize(x, 2.0, 1, mask=mask)[1].tolist() == [0, 1, 0]


def test_the_door_changes_methods_of_tensors_only_while_it_is_installed():
    x = weft.ones(2)
    with pytest.raises(TypeError):
        x.add_(-0.5, x)
    torch.install()
    try:
        with pytest.raises(ValueError, match="expected a Tensor"):
            weft.distributions.Normal(0.0, 1.0).log_prob(0.5)
        assert x.type() == "torch.FloatTensor" and x.add_(-0.5, x).tolist() == [0.5, 0.5]
    finally:
        torch.uninstall()
    assert x.type() == "weft.FloatTensor" and weft.distributions.Normal(0.0, 1.0).log_prob(0.5).ndim == 0
    with pytest.raises(TypeError):
        x.add_(-0.5, x)


def test_parts_of_complex_tensors_are_assigned():
    x = weft.tensor([1 + 2j, 3 + 4j])
    x.real = weft.tensor([5, 6])
    x.imag = 0.5
    assert x.tolist() == [5 + 0.5j, 6 + 0.5j]
    with pytest.raises(RuntimeError):
        weft.ones(2).imag = 1


# ---- autograd ----

def test_once_differentiable_refuses_a_second_derivative():
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        @torch.autograd.function.once_differentiable
        def backward(ctx, gradient):
            return 2 * gradient * ctx.saved_tensors[0]

    x = weft.tensor([3.0], requires_grad=True)
    first, = torch.autograd.grad(Square.apply(x), x, weft.ones(1, requires_grad=True), create_graph=True)
    assert first.tolist() == [6] and first.requires_grad
    with pytest.raises(RuntimeError, match="once_differentiable"):
        first.sum().backward()


class Wrong(torch.autograd.Function):
    """A gradient that is not the derivative."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2.1


@pytest.mark.parametrize("fast_mode", (False, True))
def test_gradcheck_takes_options_complex_numbers_and_several_outputs(fast_mode):
    from weft.torch.autograd.gradcheck import GradcheckError, gradcheck, gradgradcheck

    x = weft.randn(2, 3, dtype=weft.float64, requires_grad=True)
    z = weft.randn(3, dtype=weft.complex128, requires_grad=True)
    assert gradcheck(lambda x, n: (x.sin(), x * n), (x, 3), fast_mode=fast_mode, check_batched_grad=True)
    assert gradgradcheck(lambda x: x * x * x, x, fast_mode=fast_mode)
    assert gradcheck(lambda z: z * z.conj() + z.exp(), z, fast_mode=fast_mode)
    assert not gradcheck(Wrong.apply, x, fast_mode=fast_mode, raise_exception=False)
    with pytest.raises(GradcheckError, match="mismatch"):
        gradcheck(Wrong.apply, x, fast_mode=fast_mode)
    with pytest.raises(ValueError, match="require"):
        gradcheck(Wrong.apply, x.detach())


def test_gradcheck_is_a_function_and_a_module(installed):
    from torch.autograd.gradcheck import gradcheck
    assert torch.autograd.gradcheck is gradcheck


def test_dual_tensors_have_tangents():
    import weft.torch.autograd.forward_ad as forward_ad

    x, tangent = weft.randn(3), weft.randn(3)
    with pytest.raises(RuntimeError, match="level"):
        forward_ad.make_dual(x, tangent)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, tangent)
        primal, found = forward_ad.unpack_dual((dual.sin() * dual).exp())
        assert forward_ad.unpack_dual(x).tangent is None and forward_ad.unpack_dual(dual).tangent is tangent
    expected = weft.func.jvp(lambda x: (x.sin() * x).exp(), (x,), (tangent,))
    assert weft.allclose(primal, expected[0]) and weft.allclose(found, expected[1])
    assert forward_ad._current_level == -1


# ---- subclasses of torch.Tensor ----

class Plain(torch.Tensor):
    """A subclass without a __torch_function__ of its own."""


class Logged(torch.Tensor):
    """A subclass that notes the ops it takes part in."""

    seen: list = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs)


def test_results_of_subclasses_are_of_the_subclass():
    x = weft.tensor([1.0, 2.0]).as_subclass(Plain)
    for result in (x + 1, 1 + x, x.sin(), torch.add(x, 2), x[0], x.T, torch.cat([x, x]), x.max(0)[0]):
        assert type(result) is Plain, result
    assert type(weft.ones(2) + weft.ones(2)) is weft.Tensor and x.tolist() == [1, 2]
    first, second = x.split(1)
    assert type(first) is type(second) is Plain
    with torch._C.DisableTorchFunctionSubclass():
        assert type(x + 1) is weft.Tensor


def test_subclasses_compute_ops_by_their_torch_function():
    x = weft.ones(2).as_subclass(Logged)
    Logged.seen.clear()
    assert type(torch.add(x, x) * 2) is Logged
    assert Logged.seen == ["add", "__mul__"]


def test_a_torch_function_may_refuse_and_give_other_results():
    class Refusing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return "computed" if func is weft.sin else NotImplemented

    x = weft.ones(2).as_subclass(Refusing)
    assert torch.sin(x) == "computed"
    with pytest.raises(TypeError, match="no implementation found for 'cos'"):
        torch.cos(x)


def test_functions_of_python_are_overridden(installed):
    from torch.overrides import handle_torch_function, has_torch_function, is_tensor_like

    class Other:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return func.__name__, args

    def twice(x):
        if has_torch_function((x,)):
            return handle_torch_function(twice, (x,), x)
        return x * 2

    other = Other()
    assert twice(2) == 4 and twice(other) == ("twice", (other,)) and is_tensor_like(other) and not is_tensor_like(2)


def test_subclasses_are_differentiated():
    x = weft.tensor([1.0, 2.0]).as_subclass(Plain).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.tolist() == [2, 4]
    made = torch.Tensor._make_subclass(Plain, weft.ones(2), True)
    assert type(made) is Plain and made.requires_grad and made.is_leaf


def test_lazy_modules_hold_uninitialized_tensors_and_load_states():
    lazy = torch.nn.LazyBatchNorm1d()
    assert isinstance(lazy.weight, torch.nn.UninitializedParameter) and lazy.has_uninitialized_params()
    assert isinstance(lazy.running_mean, torch.nn.UninitializedBuffer)
    full = torch.nn.BatchNorm1d(3)
    with weft.no_grad():
        full.weight.fill_(2)
    lazy.load_state_dict(full.state_dict())
    assert not lazy.has_uninitialized_params() and not isinstance(lazy.weight, torch.nn.UninitializedParameter)
    x = weft.randn(4, 3)
    assert weft.allclose(lazy(x), full(x)) and type(lazy) is torch.nn.BatchNorm1d and lazy.weight.tolist() == [2, 2, 2]
    with pytest.raises(RuntimeError, match="shape"):
        full.load_state_dict(torch.nn.LazyBatchNorm1d().state_dict())


def test_copies_of_views_are_written_into_several_tensors():
    x = weft.arange(4.0)
    first, second = weft.empty(0), weft.empty(2)
    assert torch.split_copy(x, 2, out=(first, second)) == (first, second) and first.tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="3 tensors"):
        torch.split_copy(x, 2, out=(first, second, x))
    assert x.conj() is x and torch.tensor([1j]).conj().tolist() == [-1j]
    with pytest.raises(RuntimeError, match="negative"):
        torch.broadcast_shapes((2, -1), (2, 1))


def test_new_takes_a_size():
    x = weft.zeros(2, 3)
    assert x.new(x.size()).shape == (2, 3) and x.new([2, 3]).tolist() == [2, 3] and x.new(4).shape == (4,)


def test_gradients_of_convolutions_by_name():
    x, w, g = weft.randn(1, 2, 5, 5), weft.randn(3, 2, 3, 3), weft.randn(1, 3, 3, 3)
    leaf_x, leaf_w = x.clone().requires_grad_(), w.clone().requires_grad_()
    weft.nn.functional.conv2d(leaf_x, leaf_w).backward(g)
    assert weft.allclose(torch.nn.grad.conv2d_input(x.shape, w, g), leaf_x.grad)
    assert weft.allclose(torch.nn.functional.grad.conv2d_weight(x, w.shape, g), leaf_w.grad)


def test_losses_of_two_outcomes_need_targets_of_the_inputs_size():
    for loss in (torch.nn.BCEWithLogitsLoss(), torch.nn.functional.binary_cross_entropy_with_logits):
        with pytest.raises(ValueError, match="size"):
            loss(weft.zeros(5, 1), weft.zeros(5))


def test_jacobians_by_differences_and_by_backward():
    from weft.torch.autograd.gradcheck import get_analytical_jacobian, get_numerical_jacobian

    a, b = (weft.rand(2, dtype=weft.float64, requires_grad=True) for _ in range(2))
    with pytest.warns(UserWarning, match="private"):
        found = get_numerical_jacobian(lambda inputs: 2 * inputs[0] + inputs[1], (a, b), eps=1e-6)
    assert weft.allclose(found[0], 2 * weft.eye(2, dtype=weft.float64)) and weft.allclose(found[1], weft.eye(2, dtype=weft.float64))
    with pytest.warns(UserWarning, match="private"):
        jacobians, repeatable, sizes, dtypes = get_analytical_jacobian((a, b), 2 * a + b)
    assert weft.equal(jacobians[0], 2 * weft.eye(2, dtype=weft.float64)) and repeatable and sizes and dtypes
    with pytest.warns(UserWarning), pytest.raises(ValueError, match="1.0"):
        get_numerical_jacobian(lambda inputs: inputs[0], (a,), grad_out=2.0)


def test_masked_reductions_of_complex_numbers_scalars_and_all_dimensions():
    z = torch.tensor([1 + 1j, 3 - 1j])
    assert torch.masked.var(z).item() == pytest.approx(2) and torch.masked.prod(torch.tensor(3.0)).item() == 3
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert torch.masked.logsumexp(x).item() == pytest.approx(x.exp().sum().log().item())
    assert torch.masked._reduction_identity("masked.amax", x).item() == -float("inf")
    assert torch.masked._reduction_identity("masked.mean", x) is None
    assert torch.masked._reduction_identity("prod", torch.tensor([2])).item() == 1


def test_modules_list_their_names_for_star_imports():
    names = torch.nn.modules.__all__
    assert "Linear" in names and "functional" not in names and not any(isinstance(getattr(torch.nn.modules, n), dict) for n in names)
    space: dict = {}
    exec("from weft.torch.nn.functional import *", space)
    assert space["relu"] is weft.nn.functional.relu


def test_transposes_of_scalars_are_the_scalars():
    x, z = weft.tensor(2.0), weft.tensor(1 + 2j)
    assert x.mT is x and x.mH is x and x.adjoint() is x and z.mH.item() == z.adjoint().item() == 1 - 2j and z.mT is z
    assert weft.ones(2, 3).mT.shape == weft.ones(2, 3).mH.shape == weft.ones(2, 3).adjoint().shape == (3, 2)
    with pytest.raises(RuntimeError):
        weft.ones(2).mT
