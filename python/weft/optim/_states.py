"""States of optimizers in two forms: flat names as C++ has them, and PyTorch's states and groups."""

import collections

import weft

# Keywords of PyTorch's groups that have no effect here.
_IDLE = {"foreach": None, "capturable": False, "differentiable": False, "fused": None}
_COUNTS = ("step", "mu_product")  # of float32 in PyTorch


def by_parameter(flat):
    """{number of a parameter: {name: value}} of the entries "3.exp_avg"."""
    found = collections.defaultdict(dict)
    for key, value in flat.items():
        number, _, name = key.partition(".")
        if number.isdigit():
            found[int(number)][name] = value
    return found


class FlatState(dict):
    """The state of an optimizer by flat names. "state" and "param_groups" give PyTorch's form, which is also pickled."""

    def __init__(self, flat, groups):
        super().__init__(flat)
        self._groups = groups

    def as_pytorch(self):
        """{"state": states by number of the parameter, "param_groups": groups with numbers of parameters}."""
        states = {number: {name: value.to(weft.float32) if name in _COUNTS else value for name, value in state.items()}
                  for number, state in by_parameter(self).items()}
        return {"state": states, "param_groups": [dict(group) for group in self._groups]}

    def __missing__(self, key):
        if key in ("state", "param_groups"):
            return self.as_pytorch()[key]
        raise KeyError(key)

    def __contains__(self, key):
        return key in ("state", "param_groups") or super().__contains__(key)

    def __reduce__(self):
        return dict, (self.as_pytorch(),)


def numbered_groups(groups):
    """PyTorch's groups of an optimizer's, with numbers in the place of parameters."""
    numbers: dict = {}
    result = []
    for group in groups:
        own = [numbers.setdefault(p._impl(), len(numbers)) for p in group["params"]]
        result.append({**_IDLE, **{key: value for key, value in group.items() if key != "params"}, "params": own})
    return result


def flattened(state_dict, optimizer):
    """The flat form of a state in PyTorch's. ValueError where it is of other groups."""
    groups = state_dict["param_groups"]
    sizes, own = [len(g["params"]) for g in groups], [len(g["params"]) for g in optimizer.param_groups]
    if sizes != own:
        raise ValueError(f"load_state_dict(): expected groups of {own} parameters, got {sizes}")
    flat, place = {}, {number: i for i, number in enumerate(n for g in groups for n in g["params"])}
    for number, state in state_dict["state"].items():
        for name, value in state.items():
            kind = weft.int64 if name == "step" else weft.float64 if name in _COUNTS else None
            flat[f"{place[number]}.{name}"] = weft.as_tensor(value, dtype=kind)
    for i, group in enumerate(groups):
        known = {key: value for key, value in group.items() if key in optimizer._options.parts}
        options = {**optimizer._options.keywords_of(optimizer.param_groups[i]), **known}
        flat |= {f"group.{i}.{name}": weft.tensor(value, dtype=weft.float64)
                 for name, value in optimizer._options.named(options).items()}
        flat[f"group.{i}.params"] = weft.tensor(len(group["params"]))
    return flat
