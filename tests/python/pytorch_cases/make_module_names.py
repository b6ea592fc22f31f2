"""Records the public names of PyTorch's modules: module_names.json. Written for 2.15."""

import importlib
import inspect
import json
import pathlib
import warnings

MODULES = """torch.autograd torch.autograd.functional torch.func torch.optim torch.optim.lr_scheduler torch.optim.swa_utils
torch.nn.init torch.nn.utils torch.nn.utils.rnn torch.nn.utils.prune torch.nn.utils.parametrize torch.nn.utils.parametrizations
torch.nn.utils.stateless torch.nn.utils.fusion torch.nn.parallel torch.nn.attention torch.utils.data torch.utils.checkpoint
torch.utils._pytree torch.distributions torch.distributions.constraints torch.distributions.transforms torch.distributions.kl
torch.random torch.cuda torch.cuda.amp torch.amp torch.accelerator torch.jit torch.onnx torch.compiler torch.profiler torch.hub
torch.testing torch.multiprocessing torch.signal.windows torch.sparse torch.serialization torch.overrides torch.distributed
torch.backends.cudnn""".split()
CLASSES = ["torch.nn.Module", "torch.optim.Optimizer", "torch.distributions.Distribution", "torch.utils.data.DataLoader"]


def is_own(module, name):
    """Whether a name is offered by the module, and not one that it imports."""
    value = getattr(module, name, None)
    if name.startswith("_") or inspect.ismodule(value):
        return False
    if hasattr(module, "__all__"):
        return name in module.__all__
    home = getattr(value, "__module__", None)
    return callable(value) and isinstance(home, str) and home.startswith("torch")


def names():
    found = {path: sorted(n for n in dir(importlib.import_module(path)) if is_own(importlib.import_module(path), n))
             for path in MODULES}
    for path in CLASSES:
        module, _, name = path.rpartition(".")
        found[path] = [n for n in dir(getattr(importlib.import_module(module), name)) if not n.startswith("_")]
    return found


if __name__ == "__main__":
    import torch

    warnings.simplefilter("ignore")
    lines = [f"{json.dumps(path)}: {json.dumps(own)}" for path, own in names().items()]
    text = f'{{"torch": {json.dumps(torch.__version__.split("+")[0])}, "names": {{\n' + ",\n".join(lines) + "\n}}\n"
    (pathlib.Path(__file__).parent / "module_names.json").write_text(text)
