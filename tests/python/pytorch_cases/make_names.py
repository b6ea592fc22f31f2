"""Records the names of PyTorch's functions, methods and modules: names.json. Written for 2.15."""

import json
import pathlib

import torch
import torch.overrides

FOLDER = pathlib.Path(__file__).parent
SPACES = {"torch": torch, "torch.Tensor": torch.Tensor, "torch.nn.functional": torch.nn.functional,
          "torch.linalg": torch.linalg, "torch.special": torch.special, "torch.fft": torch.fft}
# Names for the state of PyTorch's own tensor types, or for its compilers.
FOREIGN = ("sparse", "quant", "mkldnn", "cudnn", "miopen", "vulkan", "xla", "fake_", "fbgemm", "_copy", "is_", "dense",
           "q_", "int_repr", "crow_", "ccol_", "col_ind", "row_ind", "sym_", "nested", "names", "rename", "align_",
           "refine", "storage", "dequant", "ipu", "xpu", "backward_hook", "batch_norm_", "module_load", "untyped", "dim_order")


def names(space):
    functions = torch.overrides.get_overridable_functions()[space]
    bare = [f.__name__.removeprefix(space.__name__.split(".")[-1] + "_") for f in functions]
    found = {name for name in bare if hasattr(space, name)}
    return sorted(n for n in found if not n.startswith("_") and not any(part in n for part in FOREIGN))


if __name__ == "__main__":
    recorded = {name: names(space) for name, space in SPACES.items()}
    recorded["torch.nn"] = sorted(n for n, c in vars(torch.nn).items()
                                  if isinstance(c, type) and issubclass(c, torch.nn.Module) and n != "Module")
    with open(FOLDER / "names.json", "w") as file:
        json.dump({"torch": torch.__version__.split("+")[0], "names": recorded}, file, indent=0)
        print(file=file)
    print({name: len(found) for name, found in recorded.items()})
