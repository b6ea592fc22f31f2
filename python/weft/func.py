"""Transforms of functions of tensors under torch.func's names."""

import functools
from numbers import Integral

from weft import _core
from weft._core import Tensor
from weft.errors import KeyError, ValueError

_made = _core._func

__all__ = ["vjp", "jvp", "jacrev", "jacfwd", "jacobian", "hessian", "hvp", "grad", "grad_and_value", "vmap", "functional_call",
           "linearize", "replace_all_batch_norm_modules_", "stack_module_state"]


def _flat(tree):
    """The tensors of nested tuples, lists and dicts, and a function that replaces them."""
    if isinstance(tree, Tensor):
        return [tree], lambda leaves: leaves[0]
    if isinstance(tree, dict):
        parts, make = [_flat(v) for v in tree.values()], lambda items: dict(zip(tree, items))
    elif isinstance(tree, (tuple, list)):
        kind = type(tree)
        parts, make = [_flat(v) for v in tree], lambda items: kind(*items) if hasattr(kind, "_fields") else kind(items)
    else:
        return [], lambda leaves: tree
    leaves = [leaf for part, _ in parts for leaf in part]

    def rebuild(given):
        items, at = [], 0
        for part, again in parts:
            items.append(again(given[at:at + len(part)]))
            at += len(part)
        return make(items)

    return leaves, rebuild


class _Flat:
    """A function of structures as one of flat tensors, which gives two lists: outputs and aux."""

    def __init__(self, function, arguments, has_aux=False):
        self.function, self.has_aux = function, has_aux
        self.inputs, self.rebuild = _flat(arguments)

    def __call__(self, *leaves):
        result = self.function(*self.rebuild(list(leaves)))
        aux = ()
        if self.has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise TypeError("has_aux: the function must return an output and aux")
            result, aux = result
        outputs, self.outputs_again = _flat(result)
        others, self.aux_again = _flat(aux)
        return outputs, others

    def told(self, outputs, aux):
        return (self.outputs_again(outputs), self.aux_again(aux)) if self.has_aux else self.outputs_again(outputs)


def vjp(func, *primals, has_aux=False):
    """The output at the primals, and the function that takes a cotangent of it to those of the primals."""
    flat = _Flat(func, primals, has_aux)
    made = _made.vjp(flat, flat.inputs)

    def pull(cotangents):
        return flat.rebuild(made(_flat(cotangents)[0]))

    output = flat.outputs_again(made.outputs)
    return (output, pull, flat.aux_again(made.aux)) if has_aux else (output, pull)


def jvp(func, primals, tangents, *, strict=False, has_aux=False):
    """The output at the primals, and how it changes along the tangents."""
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise TypeError("jvp() takes tuples of primals and of tangents")
    flat = _Flat(func, primals, has_aux)
    outputs, along, aux = _made.jvp(flat, flat.inputs, _flat(tangents)[0], strict)
    result = flat.outputs_again(outputs), flat.outputs_again(along)
    return (*result, flat.aux_again(aux)) if has_aux else result


def _differentiated(func, args, kwargs, argnums):
    """func as one of the arguments that argnums name, and these."""
    chosen = (argnums,) if isinstance(argnums, Integral) else tuple(argnums)
    for n in chosen:
        if not -len(args) <= n < len(args):
            raise ValueError(f"argnums {n} for {len(args)} arguments")
    chosen = [n % len(args) for n in chosen]

    def of_chosen(*values):
        full = list(args)
        for n, value in zip(chosen, values):
            full[n] = value
        return func(*full, **kwargs)

    return of_chosen, tuple(args[n] for n in chosen)


def _jacobian(func, argnums, has_aux, mode):
    @functools.wraps(func)
    def of(*args, **kwargs):
        of_chosen, chosen = _differentiated(func, args, kwargs, argnums)
        flat = _Flat(of_chosen, chosen, has_aux)
        kept = []

        def keep_aux(*leaves):
            outputs, aux = flat(*leaves)
            kept[:] = aux if any(t.requires_grad for t in flat.inputs) else [t.detach() for t in aux]
            return outputs, ()

        lines = [flat.rebuild(line) for line in _made.jacobian(keep_aux, flat.inputs, mode)]
        if isinstance(argnums, Integral):
            lines = [line[0] for line in lines]
        result = flat.outputs_again(lines)
        return (result, flat.aux_again(kept)) if has_aux else result

    return of


def jacrev(func, argnums=0, *, has_aux=False):
    """The function that gives all derivatives, by a pass for each element of the output."""
    return _jacobian(func, argnums, has_aux, "reverse")


def jacfwd(func, argnums=0, has_aux=False):
    """The function that gives all derivatives, by a pass for each element of the arguments."""
    return _jacobian(func, argnums, has_aux, "forward")


def jacobian(func, argnums=0, *, has_aux=False):
    """The function that gives all derivatives, by the side that takes fewer passes."""
    return _jacobian(func, argnums, has_aux, "automatic")


def hessian(func, argnums=0):
    """The function that gives all second derivatives of a number."""

    @functools.wraps(func)
    def of(*args, **kwargs):
        of_chosen, chosen = _differentiated(func, args, kwargs, argnums)
        flat = _Flat(of_chosen, chosen)
        lines = flat.rebuild([flat.rebuild(line) for line in _made.hessian(flat, flat.inputs)])
        return lines[0][0] if isinstance(argnums, Integral) else lines

    return of


def hvp(func, primals, direction):
    """A number at the primals, and the product of its hessian with a direction."""
    flat = _Flat(func, primals)
    output, products = _made.hvp(flat, flat.inputs, _flat(direction)[0])
    return output, flat.rebuild(products)


def grad_and_value(func, argnums=0, has_aux=False):
    """The function that gives the gradient of a number, and the number; with has_aux (the number, aux)."""

    @functools.wraps(func)
    def of(*args, **kwargs):
        of_chosen, chosen = _differentiated(func, args, kwargs, argnums)
        flat = _Flat(of_chosen, chosen, has_aux)
        (value, *gradients), aux = _made.grad_and_value(flat, flat.inputs)
        result = flat.rebuild(gradients)
        return result[0] if isinstance(argnums, Integral) else result, flat.told([value], aux)

    return of


def grad(func, argnums=0, has_aux=False):
    """The function that gives the gradient of a number; with has_aux (gradient, aux)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def of(*args, **kwargs):
        gradient, value = both(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return of


def _dims(dims, tree, what):
    """A dimension or None for each tensor of the structure."""
    if dims is None or isinstance(dims, Integral):
        return [dims] * len(_flat(tree)[0])
    if isinstance(tree, Tensor):
        raise ValueError(f"{what} has a structure where there is a tensor")
    items, parts = (tree.values(), dims.values()) if isinstance(tree, dict) else (tree, dims)
    if len(items) != len(parts):
        raise ValueError(f"{what} has {len(parts)} entries for {len(items)}")
    return [dim for part, item in zip(parts, items) for dim in _dims(part, item, what)]


def vmap(func, in_dims=0, out_dims=0, randomness="error"):
    """The function that applies func to each example of a batch."""

    @functools.wraps(func)
    def of(*args, **kwargs):
        flat = _Flat(lambda *values: func(*values, **kwargs), args)
        listed = _dims(in_dims, args, "in_dims")
        places = []

        def told(*leaves):
            outputs, _ = flat(*leaves)
            places[:] = _dims(out_dims, flat.outputs_again(outputs), "out_dims")
            return outputs, ()

        results = _made.vmap(told, flat.inputs, listed, [0], randomness)
        return flat.outputs_again([t.movedim(0, dim) if dim else t for t, dim in zip(results, places)])

    return of


def linearize(func, *primals):
    """The output at the primals, and the function that takes tangents to the change of the output along them."""
    output = func(*primals)

    def along(*tangents):
        return jvp(func, primals, tangents)[1]

    return output, along


def _holders(module, names):
    """The module and the attribute of each name."""
    for name in names:
        path, _, own = name.rpartition(".")
        yield name, module.get_submodule(path), own


def _same_tensors(module, names):
    """The other names of tensors that the module holds under several, as tied weights."""
    known: dict = {}
    for path, part in module.named_modules():
        for own, tensor in [*part._state.parameters().items(), *part._state.buffers().items()]:
            known.setdefault(tensor._impl(), []).append(f"{path}.{own}" if path else own)
    return {name: [other for others in known.values() if name in others for other in others if other != name]
            for name in names}


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with other parameters and buffers, a dict by name or several. KeyError for an unknown name,
    and with strict=True for a missing one. Layers whose forward is C++'s take their own parameters."""
    dicts = parameter_and_buffer_dicts if isinstance(parameter_and_buffer_dicts, (tuple, list)) else [parameter_and_buffer_dicts]
    tensors = {name: tensor for given in dicts for name, tensor in given.items()}
    known = {name for name, _ in [*module.named_parameters(), *module.named_buffers()]}
    known |= set(module.state_dict(keep_vars=True))
    if tensors.keys() - known:
        raise KeyError(f"functional_call(): {type(module).__name__} has no {', '.join(sorted(tensors.keys() - known))}")
    if strict and known - tensors.keys():
        raise KeyError(f"functional_call(): {', '.join(sorted(known - tensors.keys()))} is missing")
    if tie_weights:
        for name, others in _same_tensors(module, tensors).items():
            tensors.update({other: tensors[name] for other in others if other not in tensors})
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    shadowed = []
    try:
        for name, holder, own in _holders(module, tensors):
            if own in holder.__dict__:
                raise KeyError(f"functional_call(): '{name}' is replaced already")
            holder.__dict__[own] = tensors[name]
            shadowed.append((holder, own))
        return module(*args, **(kwargs or {}))
    finally:
        for holder, own in shadowed:
            holder.__dict__.pop(own, None)


def stack_module_state(models):
    """(parameters, buffers) of equal models, each by name with the models along a new first dimension."""
    if not models:
        raise ValueError("stack_module_state(): there are no models")

    def stacked(named, leaves):
        columns = [dict(getattr(model, named)()) for model in models]
        rows = {name: _core._ops["stack"]([column[name].detach() for column in columns]) for name in columns[0]}
        return {name: row.requires_grad_(columns[0][name].requires_grad) if leaves else row for name, row in rows.items()}

    return stacked("named_parameters", True), stacked("named_buffers", False)


def replace_all_batch_norm_modules_(root):
    """Makes all batch norms of a module use the statistics of each batch, so that vmap may call it."""
    from weft import nn

    for module in root.modules():
        if isinstance(module, (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)):
            module.track_running_stats = False
            module.running_mean = module.running_var = module.num_batches_tracked = None
    return root
