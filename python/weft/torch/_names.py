"""The table of names: module paths of PyTorch, and the modules of Weft that their names come from, in order.

A source `module:attribute` is an object with these names as attributes. Everything else in this package follows from
this table: imports, errors, `--check` and docs/torch.md.
"""

_NN_LAYERS = ("activation adaptive batchnorm channelshuffle container conv distance dropout flatten fold instancenorm lazy "
              "linear loss module normalization padding pixelshuffle pooling rnn sparse transformer upsampling utils")
_OPTIMIZERS = ("adadelta adafactor adagrad adam adamax adamw asgd lbfgs nadam optimizer radam rmsprop rprop sgd sparse_adam "
               "_multi_tensor")
_DISTRIBUTIONS = ("bernoulli beta binomial categorical cauchy chi2 constraint_registry constraints continuous_bernoulli "
                  "dirichlet distribution exp_family exponential fishersnedecor gamma geometric gumbel half_cauchy "
                  "half_normal independent inverse_gamma kl kumaraswamy laplace lkj_cholesky log_normal logistic_normal "
                  "lowrank_multivariate_normal mixture_same_family multinomial multivariate_normal negative_binomial normal "
                  "one_hot_categorical pareto poisson relaxed_bernoulli relaxed_categorical studentT "
                  "transformed_distribution transforms uniform utils von_mises weibull wishart")

_TABLE = {
    "torch": "weft.torch._legacy weft.torch._top weft",
    "torch.nn": "weft.torch._nn weft.nn",
    "torch.nn.functional": "weft.torch._functional weft.nn.functional",
    "torch.nn.init": "weft.torch._init weft.nn.init",
    "torch.nn.modules": "weft.torch._nn weft.nn weft.torch._bases",
    "torch.nn.grad": "weft.torch._nn_grad",
    "torch.nn.parameter": "weft.torch._nn weft.nn",
    "torch.nn.parallel": "weft.torch._parallel",
    "torch.nn.parallel.distributed": "weft.torch._parallel",
    "torch.nn.parallel.data_parallel": "weft.torch._parallel",
    "torch.nn.parallel.scatter_gather": "weft.torch._parallel",
    "torch.nn.utils": "weft.torch._nn_utils weft.nn.utils",
    "torch.nn.utils.rnn": "weft.nn.utils.rnn",
    "torch.nn.utils.prune": "weft.nn.utils.prune",
    "torch.nn.utils.parametrize": "weft.nn.utils.parametrize",
    "torch.nn.utils.parametrizations": "weft.nn.utils.parametrizations",
    "torch.nn.utils.stateless": "weft.nn.utils.stateless",
    "torch.nn.utils.fusion": "weft.nn.utils.fusion",
    "torch.nn.utils.clip_grad": "weft.torch._nn_utils weft.nn.utils",
    "torch.nn.utils.convert_parameters": "weft.torch._nn_utils weft.nn.utils",
    "torch.nn.attention": "weft.torch._attention",
    "torch.optim": "weft.optim",
    "torch.optim.lr_scheduler": "weft.torch._lr_scheduler weft.optim.lr_scheduler",
    "torch.optim.swa_utils": "weft.optim.swa_utils",
    "torch.autograd": "weft.torch._gradcheck weft.torch._autograd weft.autograd",
    "torch.autograd.function": "weft.torch._autograd weft.autograd",
    "torch.autograd.functional": "weft._autograd_functional",
    "torch.autograd.grad_mode": "weft.torch._autograd weft.autograd",
    "torch.autograd.gradcheck": "weft.torch._gradcheck",
    "torch.autograd.forward_ad": "weft.torch._forward_ad",
    "torch.autograd.graph": "weft.torch._autograd_graph",
    "torch.autograd.profiler": "weft.torch._tools:profiler",
    "torch.autograd.variable": "weft.torch._legacy",
    "torch.func": "weft.torch._func weft.func",
    "torch._vmap_internals": "weft.torch._func weft.func",
    "torch.linalg": "weft.linalg",
    "torch.fft": "weft.fft",
    "torch.special": "weft.special",
    "torch.signal": "weft.torch._signal",
    "torch.signal.windows": "weft.torch._signal",
    "torch.sparse": "weft.torch._sparse",
    "torch.random": "weft.torch._random",
    "torch.cuda": "weft.torch._cuda weft:cuda",
    "torch.cuda.amp": "weft.torch._cuda_amp",
    "torch.cuda.amp.autocast_mode": "weft.torch._cuda_amp",
    "torch.cuda.amp.grad_scaler": "weft.torch._cuda_amp",
    "torch.cuda.nvtx": "weft.torch._tools:nvtx",
    "torch.cuda.random": "weft.torch._cuda",
    "torch.cpu": "weft.torch._tools:cpu",
    "torch.cpu.amp": "weft.torch._cuda_amp",
    "torch.mps": "weft.torch._tools:no_device",
    "torch.xpu": "weft.torch._tools:no_device",
    "torch.accelerator": "weft.torch._tools:accelerator",
    "torch.amp": "weft.torch._amp weft.amp",
    "torch.amp.autocast_mode": "weft.torch._amp weft.amp",
    "torch.amp.grad_scaler": "weft.torch._amp weft.amp",
    "torch.backends": "",
    "torch.backends.cudnn": "weft.torch._backends:cudnn",
    "torch.backends.cuda": "weft.torch._backends:cuda",
    "torch.backends.mps": "weft.torch._backends:mps",
    "torch.backends.mkl": "weft.torch._backends:mkl",
    "torch.backends.mkldnn": "weft.torch._backends:mkldnn",
    "torch.backends.openmp": "weft.torch._backends:openmp",
    "torch.backends.opt_einsum": "weft.torch._backends:opt_einsum",
    "torch.backends.quantized": "weft.torch._backends:quantized",
    "torch.distributed": "weft.torch._distributed weft.distributed",
    "torch.multiprocessing": "weft.torch._tools:multiprocessing multiprocessing",
    "torch.jit": "weft.torch._tools:jit",
    "torch.onnx": "weft.torch._tools:onnx",
    "torch.version": "weft.torch._tools:version",
    "torch.hub": "weft.torch._tools:hub",
    "torch.library": "weft.library",
    "torch.ops": "weft.ops",
    "torch.masked": "weft.torch._masked",
    "torch.testing": "weft.torch._testing weft.testing",
    "torch.profiler": "weft.torch._tools:profiler",
    "torch.overrides": "weft.torch._subclasses",
    "torch.types": "weft.torch._tools:types",
    "torch.storage": "weft._own_memory",
    "torch._tensor_str": "weft._own_memory",
    "torch.serialization": "weft.torch._serialization",
    "torch.compiler": "weft.torch._tools:compiler",
    "torch._dynamo": "weft.torch._tools:compiler",
    "torch._dynamo.config": "weft.torch._tools:config",
    "torch._inductor": "",
    "torch._inductor.config": "weft.torch._tools:config",
    "torch._C": "weft.torch._tools:c",
    "torch._utils": "weft.torch._tools:c",
    "torch._six": "weft.torch._tools:types",
    "torch.distributions": "weft.distributions",
    "torch.utils": "weft.torch._utils_names",
    "torch.utils.data": "weft.torch._data weft.data",
    "torch.utils.data.dataloader": "weft.torch._data weft.data",
    "torch.utils.data.dataset": "weft.torch._data weft.data",
    "torch.utils.data.sampler": "weft.torch._data weft.data",
    "torch.utils.data.distributed": "weft.torch._data weft.data",
    "torch.utils.data._utils": "",
    "torch.utils.data._utils.collate": "weft.torch._data weft.data",
    "torch.utils.checkpoint": "weft.utils.checkpoint",
    "torch.utils.tensorboard": "weft.utils.tensorboard",
    "torch.utils.tensorboard.writer": "weft.utils.tensorboard",
    "torch.utils._pytree": "weft.utils.pytree",
    "torch.utils.hooks": "weft.torch._utils_names",
    "torch.utils.model_zoo": "weft.torch._tools:hub",
    "torch.utils.benchmark": "weft.torch._tools:benchmark",
    "torch.utils.dlpack": "weft.torch._tools:dlpack",
    "torch.utils.collect_env": "weft.torch._tools:version",
}
_TABLE |= {f"torch.nn.modules.{name}": "weft.torch._nn weft.nn weft.torch._bases" for name in _NN_LAYERS.split()}
_TABLE["torch.nn.modules.module"] += " weft.nn._global_hooks"
_TABLE["torch._VF"] = _TABLE["torch"]
_TABLE |= {f"torch.optim.{name}": "weft.optim" for name in _OPTIMIZERS.split()}
_TABLE |= {f"torch.distributions.{name}": "weft.distributions" for name in _DISTRIBUTIONS.split()}
_TABLE |= {"torch.distributions.constraints": "weft._distributions.constraints",
           "torch.distributions.transforms": "weft._distributions.transforms", "torch.distributions.kl": "weft._distributions.kl",
           "torch.distributions.utils": "weft._distributions.base weft._distributions.more",
           "torch.distributions.constraint_registry": "weft.distributions"}

PATHS = frozenset(_TABLE)
# As attributes of their parents these are functions, which PyTorch imports from the modules of their names.
FUNCTIONS = frozenset(("torch.autograd.gradcheck", "torch.nn.parallel.data_parallel"))


def sources_of(path):
    """The modules of Weft with the names of a path of PyTorch's."""
    return _TABLE[path].split()


def nearest(name, names):
    """The name most like the given one; None where none is similar."""
    import difflib  # which only errors need

    known = {other.lower(): other for other in sorted(names)}
    found = difflib.get_close_matches(name.lower(), known, 1, 0.7)
    return known[found[0]] if found else None
