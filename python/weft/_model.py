"""Models as files: a module's tree as JSON, and folders with tree and weights that load without naming the class."""

import json as _json
import math as _math
import os as _os

from weft import _core


class ModuleRegistry:
    """Module classes by name, including those of weft.nn, and migrations from older versions of a class.

    registry = weft.io.ModuleRegistry()
    registry.add(Net, version=2)
    registry.add_migration("Net", 1, lambda tree: tree["config"].update(hidden=tree["config"].pop("size")))

    A migration changes a module's tree in place: a dict as documented for io::to_json, with tuples for lists.
    """

    def __init__(self, *classes):
        """Registers these classes with version 1."""
        self._classes, self._migrations = {}, {}
        for cls in classes:
            self.add(cls)

    def add(self, cls, version=1):
        """Raises ValueError for a name that exists. Version 0 marks a class that still changes."""
        name = cls.__name__
        if name in self._classes or version < 0:
            raise ValueError(f"ModuleRegistry.add(): there is a {name} already, or its version is negative")
        self._classes[name] = (cls, version)
        return self

    def add_migration(self, name, from_version, migration):
        """Registers a function that is called with every tree of this type and version; those of one version run in
        order of registration. The tree then has the next version, unless they set another version or change the type.
        """
        if from_version < 1:
            raise ValueError(f"ModuleRegistry.add_migration(): there is no version {from_version} to migrate from")
        self._migrations.setdefault((name, from_version), []).append(migration)
        return self

    def version(self, name):
        """Version of a type; 1 if it is not registered."""
        return self._classes[name][1] if name in self._classes else 1

    def _own_types(self):
        """The names of the registered classes, without those of weft.nn."""
        return list(self._classes)

    def find(self, name, path):
        """The class with this name; `path` is for the message of the KeyError if there is none."""
        if name in self._classes:
            return self._classes[name][0]
        import weft.nn as nn
        cls = getattr(nn, name, None)
        if isinstance(cls, type) and issubclass(cls, nn.Module):
            return cls
        raise KeyError(f"from_json(): {path or 'the model'}: the registry has no type {name!r}; give one that has its "
                       f"class, weft.io.ModuleRegistry({name})")

    def migrate(self, tree, path="", allow_unreleased=False):
        """The tree migrated to the current versions, in place."""
        for _ in range(1000):
            name, version = tree["type"], tree.get("version", 1)
            steps = self._migrations.get((name, version))
            if not steps:
                break
            for step in steps:
                step(tree)
            if (tree["type"], tree.get("version", 1)) == (name, version):
                tree["version"] = version + 1
        known, version = self.version(tree["type"]), tree.get("version", 1)
        if tree["type"] in self._classes and version != known and known != 0:
            if version != 0 or not allow_unreleased:
                raise ValueError(f"from_json(): {path or 'the model'}: there is no way from version {version} of "
                                         f"{tree['type']} to {known}")
        for child in tree.get("children", ()):
            self.migrate(child, _joined(path, child["name"]), allow_unreleased)
        return tree


def _joined(path, name):
    return f"{path}.{name}" if path else name


def _plain(value):
    """An option as a Python value: JSON lists carry their element type, and strings represent numbers that JSON lacks.
    """
    if isinstance(value, dict):
        (kind, items), = value.items()
        return tuple(float(item) if kind == "f64" else item for item in items)
    return float(value) if value in ("NaN", "Infinity", "-Infinity") else value


def _tell_configs(module, strict):
    """Passes the arguments of Python modules to their C++ counterparts."""
    from weft.nn.module import NativeModule, _Unkept
    from weft.nn.utils.parametrizations import _Native
    for path, part in module.named_modules():
        is_weft = isinstance(part, NativeModule) and type(part).__module__.startswith("weft.nn.")
        if type(part) is NativeModule or isinstance(part, _Native) or is_weft:
            continue  # created by C++, which has its config
        try:
            config = part.get_config()
            unkept = [f"{name!r} is a {value.kind}" for name, value in config.items() if isinstance(value, _Unkept)]
            if unkept:
                raise ValueError(f"to_json(): {path or 'the model'}: {type(part).__name__}'s argument {unkept[0]}, which "
                                 "no file of a model holds; write get_config and from_config")
            part._state.set_config(config)
        except (TypeError, ValueError):
            if strict:
                raise


def _tree(module, registry):
    _tell_configs(module, strict=True)
    document = _json.loads(_core._model_json(module._state))

    def put_versions(tree):
        if "shared_with" not in tree and registry.version(tree["type"]) != 1:
            tree["version"] = registry.version(tree["type"])
        for child in tree.get("children", ()):
            put_versions(child)

    put_versions(document["model"])
    return document


def to_json(module, registry=None):
    """A module's tree as JSON text, without its weights; see io/model.hpp for the format.

    A module's options are the arguments of its __init__. Raises ValueError if they are not numbers, strings or lists of
    them, unless the class defines get_config."""
    return _core._checked_model(_json.dumps(_tree(module, registry or ModuleRegistry())))


def from_json(text, registry=None, *, allow_unreleased=False):
    """A newly initialized module from the text of to_json, of C++ or of Python. Raises KeyError, with the path, for a
    type that neither weft.nn nor the registry has, and ValueError if a class does not fit its description or has
    another version."""
    registry = registry or ModuleRegistry()
    tree = _model_of(text)
    _core._check_claims(text, registry._own_types())
    return _build(registry.migrate(tree, "", allow_unreleased), registry)


def _model_of(text):
    return _prepared(_json.loads(_core._checked_model(text))["model"], "")


def _prepared(tree, path):
    """Converts options to Python values, and sets `stored_as`, the name of each tensor in the weights file."""
    tree["config"] = {name: _plain(value) for name, value in tree.get("config", {}).items()}
    for tensor in _tensors(tree):
        tensor["stored_as"] = tensor.get("tied_to") or _joined(path, tensor["name"])
    for child in tree.get("children", ()):
        _prepared(child, _joined(path, child["name"]))
    return tree


def _tensors(tree):
    return [*tree.get("parameters", ()), *tree.get("buffers", ())]


def _build(tree, registry):
    made = {}
    module = _make(tree, registry, "", made)
    _replace(tree, _described(module), module, registry, "", made)
    _parametrize(tree, module, registry, made)
    _adapt(tree, module)
    _tie(tree, _described(module), module)
    _compare(tree, _described(module), "")
    _set(tree, module)
    return module


def _make(tree, registry, path, made):
    if "shared_with" in tree:
        if tree["shared_with"] not in made:
            raise ValueError(f"from_json(): {path}: there is no module '{tree['shared_with']}' to share")
        return made[tree["shared_with"]]
    cls = registry.find(tree["type"], path)
    if hasattr(cls, "_of_children"):
        children = [child for child in tree.get("children", ()) if not _is_of_parametrizations(child)]
        module = cls._of_children([(c["name"], _make(c, registry, _joined(path, c["name"]), made)) for c in children])
    else:
        try:
            module = cls.from_config({k: v for k, v in tree["config"].items() if not k.startswith("lora_")})
        except (TypeError, ValueError) as error:
            raise ValueError(f"from_json(): {path or 'the model'}: no {tree['type']} can be made: {error}") from error
    made[path] = module
    return module


def _described(module):
    """The tree of a module, with the options that its classes report."""
    _tell_configs(module, strict=False)
    return _prepared(_json.loads(_core._model_json(module._state))["model"], "")


def _shapes(tree):
    return [(t["name"], list(t["shape"])) for t in _tensors(tree)]


def _replace(wanted, built, module, registry, path, made):
    """Replaces modules that the class constructs otherwise than described, such as `net.fc = nn.Linear(8, 2)`."""
    if "shared_with" in wanted or "shared_with" in built or wanted["type"] != built["type"]:
        return
    described = {child["name"]: child for child in wanted.get("children", ())}
    constructed = {child["name"]: child for child in built.get("children", ())}
    if not described or _has_parametrizations(wanted) or _is_native(module):
        return
    for name in constructed.keys() - described.keys():
        delattr(module, name)
    for name, child in described.items():
        old, below = constructed.get(name), _joined(path, name)
        if old is not None and ("shared_with" in child or "shared_with" in old or _is_same(child, old)):
            _replace(child, old, module._modules[name], registry, below, made)
        else:
            setattr(module, name, _make(child, registry, below, made))


def _is_same(child, old):
    """Whether a constructed module has the described type, options and tensors."""
    options = {k: v for k, v in child["config"].items() if not k.startswith("lora_")}
    return child["type"] == old["type"] and all(old["config"].get(k, v) == v for k, v in options.items()) and (
        _has_parametrizations(child) or _shapes(child) == _shapes(old))


def _has_parametrizations(tree):
    return any(_is_of_parametrizations(child) for child in tree.get("children", ()))


def _is_native(module):
    """Whether C++ constructs its children."""
    from weft.nn.module import NativeModule
    return isinstance(module, NativeModule)


def _tie(tree, built, module):
    """Ties tensors that are described as tied, and gives tensors of their own to those that are not."""
    tensors = dict([*module.named_parameters(), *module.named_buffers()])

    def walk(wanted, built, part):
        if "shared_with" in wanted or "shared_with" in built:
            return
        for w, b in zip(_tensors(wanted), _tensors(built)):
            first = tensors.get(w.get("tied_to") or b.get("tied_to"))
            if w["name"] != b["name"] or w.get("tied_to") == b.get("tied_to") or first is None:
                continue
            if "tied_to" not in w:
                first = type(first)(first.detach().clone())
            if list(first.shape) == list(w["shape"]):
                setattr(part, w["name"], first)
        for w, b in zip(wanted.get("children", ()), built.get("children", ())):
            if w["name"] == b["name"]:
                walk(w, b, part._modules[w["name"]])

    walk(tree, built, module)


def _is_of_parametrizations(tree):
    return tree["name"] == "parametrizations" and tree.get("type") == "ModuleDict"


def _parametrize(tree, module, registry, made, path=""):
    """Registers the described parametrizations, except those that a class registers itself."""
    from weft.nn.utils.parametrizations import _described, _weight
    from weft.nn.utils.parametrize import is_parametrized, register_parametrization

    for child in tree.get("children", ()):
        below = _joined(path, child["name"])
        for held in child.get("children", ()) if _is_of_parametrizations(child) else ():
            if is_parametrized(module, held["name"]):
                continue
            for step in held.get("children", ()):
                made_step = _described(step["type"], step["config"], _weight(module, held["name"]))
                if made_step is None:
                    made_step = _make(step, registry, _joined(_joined(below, held["name"]), step["name"]), made)
                register_parametrization(module, held["name"], made_step, unsafe=True)
        inner = module._modules.get(child["name"])
        if inner is not None:
            _parametrize(child, inner, registry, made, below)


def _adapt(tree, model):
    """Adds the described LoRA adapters."""
    from weft.nn import lora

    adapted = {layer["name"] for layer in lora.lora_layers(model)}

    def walk(tree, path):
        config = tree.get("config", {})
        if "lora_r" in config and path not in adapted:
            named = {"lora_r": "r", "lora_alpha": "alpha", "lora_dropout": "dropout", "lora_rslora": "rslora",
                     "lora_plus_scale": "lora_plus_scale", "lora_enable": "enable",
                     "lora_share": "share", "lora_merge_on_eval": "merge_on_eval"}
            pattern = "^" + path.replace(".", "\\.") + "$"
            lora.apply_lora(model, pattern, **{named[k]: v for k, v in config.items() if k in named})
        for child in tree.get("children", ()):
            walk(child, _joined(path, child["name"]))

    walk(tree, "")


def _compare(wanted, built, path):
    def fail(problem):
        raise ValueError(f"from_json(): {path or 'the model'}: {problem}")

    if wanted.get("shared_with") != built.get("shared_with"):
        fail("another module is shared here")
    if wanted["type"] != built["type"]:
        fail(f"it is described as a {wanted['type']}, and is a {built['type']}")
    for kind in ("parameters", "buffers"):
        if kind in wanted:
            shapes = [[(t["name"], list(t["shape"]), t.get("tied_to")) for t in side.get(kind, ())] for side in (wanted, built)]
            if shapes[0] != shapes[1]:
                fail(f"its {kind} are described as {shapes[0]}, and are {shapes[1]}")
    if "children" in wanted:
        names = [[child["name"] for child in side.get("children", ())] for side in (wanted, built)]
        if names[0] != names[1]:
            fail(f"its modules are described as {names[0]}, and are {names[1]}")
        for a, b in zip(wanted["children"], built["children"]):
            _compare(a, b, _joined(path, a["name"]))


def _set(tree, module):
    """Sets dtypes, requires_grad and training as described."""
    if "shared_with" in tree:
        return
    module.training = tree.get("training", True)
    for t in _tensors(tree):
        tensor = getattr(module, t["name"])
        dtype = getattr(_core, t["dtype"])
        if tensor.dtype != dtype and "tied_to" not in t:
            module._state.set_dtype(t["name"], dtype)
            module._state.forget_replaced()
            tensor = getattr(module, t["name"])
        if "requires_grad" in t:
            tensor.requires_grad_(t["requires_grad"])
    for child in tree.get("children", ()):
        _set(child, getattr(module, child["name"]))


def _check_types(tree, registry, path):
    """Raises ValueError for classes that load_model could not find. Only containers are checked recursively; other
    classes construct their own members."""
    try:
        cls = registry.find(tree["type"], path)
    except KeyError:
        raise ValueError(f"save_model(): {path or 'the model'}: no registry has the type {tree['type']!r}, so that nothing "
                         f"could build it; pass weft.io.ModuleRegistry({tree['type']}) to save_model and load_model") from None
    for child in tree.get("children", ()):
        if hasattr(cls, "_of_children") and "shared_with" not in child:
            _check_types(child, registry, _joined(path, child["name"]))


def _check_native(module):
    """Raises ValueError for a module of C++ whose members were replaced, such as a quantized layer in a CausalLM."""
    from weft.nn.module import NativeModule
    for _, part in module.named_modules():
        if isinstance(part, NativeModule) and type(part) is not NativeModule:
            _core._check_native(part._state)


def save_model(folder, module, registry=None, *, max_shard_size="5GB", documents=None):
    """Writes a module's tree and its weights to a folder, and replaces an existing model as a whole. Raises ValueError
    for a class that neither weft.nn nor the registry has."""
    registry = registry or ModuleRegistry()
    document = _tree(module, registry)
    _check_types(document["model"], registry, "")
    _check_native(module)
    tree = _json.dumps(document)
    texts = {name: _json.dumps(value, allow_nan=False) for name, value in (documents or {}).items()}
    _core._save_model(_os.fspath(folder), module._state, tree, str(max_shard_size), texts)


def load_model(folder, registry=None, *, device="cpu", dtype=None, allow_unreleased=False):
    """The model in a folder of save_model (C++ or Python) or of a training state, with its weights. Raises ValueError
    if the tree describes a model far larger than the weights."""
    registry = registry or ModuleRegistry()
    path = _os.path.join(_os.fspath(folder), "model.json")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    tree = _model_of(text)
    written = {t["stored_as"] for _, t in _named_tensors(tree, "")}
    tree = registry.migrate(tree, "", allow_unreleased)
    others = sum(_math.prod(t["shape"]) for t in _unsaved_tensors(tree))
    budget = _core._BuildBudget(_os.fspath(folder), text, registry._own_types(), min(others, 2**62))
    try:
        module = _build(tree, registry)
    finally:
        budget.end()
    weights = _core._load_sharded(_os.fspath(folder), "cpu", {}, None, False, "model", False, None)
    names = {name: t.get("stored_as") for name, t in _named_tensors(tree, "") if "tied_to" not in t}
    own = module.state_dict()
    state = {name: weights[stored] if stored else own[name] for name, stored in names.items() if not stored or stored in weights}
    module.load_state_dict(state | {name: value for name, value in weights.items() if name not in written})
    if dtype is not None or device != "cpu":
        module.to(device, dtype)
    return module


def _unsaved_tensors(tree):
    yield from (t for t in tree.get("buffers", ()) if not t.get("saved", True))
    for child in tree.get("children", ()):
        yield from _unsaved_tensors(child)


def _named_tensors(tree, path):
    for t in _tensors(tree):
        if t.get("saved", True):
            yield _joined(path, t["name"]), t
    for child in tree.get("children", ()):
        yield from _named_tensors(child, _joined(path, child["name"]))

