// The C++ optimizers and schedules for Python; weft/optim/ gives them PyTorch's argument names.
#include "../distributed/parallelize.hpp"
#include "../optim/gradient_merge.hpp"
#include "../optim/master_weights.hpp"
#include "../optim/optim.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

using optim::NamedOptions;
using optim::Optimizer;
using optim::OptionInfo;
using optim::Schedule;
using Tensors = std::vector<Tensor>;

/// Python's description of an option: (name, kind, keyword, part of the keyword's tuple or -1, names of a choice).
nb::list described(std::span<const OptionInfo> infos) {
  nb::list out;
  for (const OptionInfo& o : infos) {
    nb::list choices;
    for (const char* choice : o.choices) choices.append(choice == nullptr ? nb::none() : nb::object(nb::str(choice)));
    out.append(nb::make_tuple(o.name, static_cast<int>(o.kind), o.tuple != nullptr ? o.tuple : o.name,
                              o.tuple != nullptr ? o.part : -1, choices));
  }
  return out;
}

/// Calls the method while other threads have the interpreter.
template <class C>
auto without_gil(void (C::*method)(Location)) {
  return [method](C& self) {
    const Location where = here();
    const WithoutGil others;
    (self.*method)(where);
  };
}

/// The references of an optimizer to the parameters of its groups, whose Python objects its own Python object holds.
class OptimizerHolder final : public TensorHolder {
 public:
  explicit OptimizerHolder(const Optimizer* optimizer) : optimizer_(optimizer) {}
  int64_t references(PyObject* tensor) const override {
    const TensorImpl* const impl = tensor_of(tensor).impl();
    int64_t count = 0;
    for (const optim::Group& group : optimizer_->groups()) {
      count += std::ranges::count_if(group.parameters, [&](const Tensor& p) { return p.impl() == impl; });
    }
    return count;
  }

 private:
  const Optimizer* optimizer_;
};
/// A Python object that keeps the holder.
struct References {
  std::shared_ptr<const OptimizerHolder> holder;
};

void bind_common(nb::module_& m) {
  nb::class_<References>(m, "_References")
      .def(nb::new_(
               [](const Optimizer& optimizer) { return References{std::make_shared<OptimizerHolder>(&optimizer)}; }),
           nb::keep_alive<0, 2>())
      .def(
          "add",
          [](const References& self, const nb::list& parameters) {
            for (const nb::handle p : parameters) {
              checked_tensor(p);
              add_holder(p.ptr(), self.holder);
            }
          },
          "For the collector of cycles: these tensors' objects live as long as this object.");
  nb::class_<Optimizer>(m, "_Optimizer")
      .def("_has_stepped", &Optimizer::has_stepped)
      .def("_step", without_gil<Optimizer>(&Optimizer::step))
      .def("_step_with",
           [](Optimizer& self, const nb::callable& closure) {
             return self.step([&] { return nb::cast<Tensor>(closure()); }, here());
           })
      .def("_zero_grad", [](Optimizer& self, bool set_to_none) { self.zero_grad(set_to_none); })
      .def("_add_group", [](Optimizer& self, const Tensors& parameters,
                            const NamedOptions& options) { self.add_named_group(parameters, options, here()); })
      .def("_groups",
           [](const Optimizer& self) {
             nb::list groups;
             for (const optim::Group& g : self.groups()) groups.append(nb::make_tuple(g.parameters, g.values));
             return groups;
           })
      .def("_set_options",
           [](Optimizer& self, const NamedOptions& options, size_t group) {
             if (options.size() == 1 && options.begin()->first == "lr") {
               self.set_lr(options.begin()->second, group, here());
             } else {
               self.set_options(options, group, here());
             }
           })
      .def("_state_dict", [](const Optimizer& self) { return self.state_dict(); })
      .def("_load_state_dict",
           [](Optimizer& self, const Optimizer::StateDict& values) { self.load_state_dict(values, here()); });
}

template <class O>
void bind_optimizer(nb::module_& m, const char* name) {
  const nb::object bound = nb::class_<O, Optimizer>(m, name).def(
      "__init__", [](O* self, const Tensors& parameters, const NamedOptions& defaults, const NamedOptions& own) {
        const Location where = here();
        // The first group may have options of its own, the others take the defaults.
        const auto options = optim::options_named<typename O::Options>(defaults, where);
        const auto first = optim::options_named<typename O::Options>(own, where);
        new (self) O(std::vector<optim::ParameterGroup<typename O::Options>>{{parameters, first}}, options, where);
      });
  nb::setattr(bound, "_options", described(O::option_list()));
  // It continues as training.optimizer().
  nb::setattr(bound, "_train",
              nb::cpp_function(
                  [](O& self, const distributed::ParallelModel& model) {
                    std::unique_ptr<Optimizer> taken(new O(std::move(self)));
                    const Location where = here();
                    const WithoutGil others;
                    return distributed::ParallelTraining(model, std::move(taken), where);
                  },
                  nb::is_method()));
}

optim::Anneal anneal_of(const std::string& name) {
  if (name == "cos") return optim::Anneal::cos;
  if (name == "linear") return optim::Anneal::linear;
  raise<ValueError>(
      {.op = "lr_scheduler", .problem = "anneal_strategy: expected 'cos' or 'linear', got '" + name + "'"}, here());
}

optim::Cycle cycle_of(const std::string& name) {
  if (name == "triangular") return optim::Cycle::triangular;
  if (name == "triangular2") return optim::Cycle::triangular2;
  if (name == "exp_range") return optim::Cycle::exp_range;
  raise<ValueError>({.op = "lr_scheduler",
                     .problem = "mode: expected 'triangular', 'triangular2' or 'exp_range', got '" + name + "'"},
                    here());
}

void bind_schedules(nb::module_& m) {
  nb::class_<Schedule>(m, "_Schedule")
      .def("rate", [](const Schedule& self, int64_t step, double base) { return self.rate(step, base, here()); })
      .def("has_momentum", &Schedule::has_momentum)
      .def("momentum",
           [](const Schedule& self, int64_t step, double base) { return self.momentum(step, base, here()); });
  m.def("_step_lr", [](int64_t size, double gamma) { return optim::step_lr(size, gamma, here()); });
  m.def("_multi_step_lr", [](const std::vector<int64_t>& milestones, double gamma) {
    return optim::multi_step_lr(milestones, gamma, here());
  });
  m.def("_constant_lr", [](double factor, int64_t total) { return optim::constant_lr(factor, total, here()); });
  m.def("_linear_lr", [](double start, double end, int64_t total) {
    return optim::linear_lr({start, end, total}, here());
  });
  m.def("_exponential_lr", [](double gamma) { return optim::exponential_lr(gamma, here()); });
  m.def("_polynomial_lr", [](int64_t total, double power) { return optim::polynomial_lr(total, power, here()); });
  m.def("_cosine_annealing_lr",
        [](int64_t T_max, double least) { return optim::cosine_annealing_lr(T_max, least, here()); });
  m.def("_warm_restarts", [](int64_t T_0, int64_t T_mult, double least) {
    return optim::cosine_annealing_warm_restarts(T_0, T_mult, least, here());
  });
  m.def("_one_cycle_lr", [](double max_lr, int64_t total, double pct_start, const std::string& anneal, bool momentum,
                            double base_momentum, double max_momentum, double div, double final_div, bool three_phase) {
    return optim::one_cycle_lr({.max_lr = max_lr,
                                .total_steps = total,
                                .pct_start = pct_start,
                                .anneal_strategy = anneal_of(anneal),
                                .cycle_momentum = momentum,
                                .base_momentum = base_momentum,
                                .max_momentum = max_momentum,
                                .div_factor = div,
                                .final_div_factor = final_div,
                                .three_phase = three_phase},
                               here());
  });
  m.def(
      "_cyclic_lr",
      [](double base_lr, double max_lr, int64_t up, int64_t down, const std::string& mode, double gamma,
         std::optional<std::function<double(double)>> scale, bool by_iterations, bool momentum, double base_momentum,
         double max_momentum) {
        optim::CyclicOptions o{.base_lr = base_lr,
                               .max_lr = max_lr,
                               .step_size_up = up,
                               .step_size_down = down,
                               .mode = cycle_of(mode),
                               .gamma = gamma,
                               .scale_by_iterations = by_iterations,
                               .cycle_momentum = momentum,
                               .base_momentum = base_momentum,
                               .max_momentum = max_momentum};
        if (scale) o.scale_fn = *scale;
        return optim::cyclic_lr(o, here());
      },
      nb::arg("base_lr"), nb::arg("max_lr"), nb::arg("up"), nb::arg("down"), nb::arg("mode"), nb::arg("gamma"),
      nb::arg("scale").none(), nb::arg("by_iterations"), nb::arg("momentum"), nb::arg("base_momentum"),
      nb::arg("max_momentum"));
  m.def("_swa_lr", [](double rate, int64_t epochs, const std::string& anneal) {
    return optim::swa_lr(rate, epochs, anneal_of(anneal), here());
  });
  m.def("_warmup_cosine", [](int64_t step, double lr, int64_t warmup, int64_t steps, double minimum) {
    return optim::warmup_cosine(step, {.lr = lr, .warmup = warmup, .steps = steps, .minimum = minimum});
  });
}

Ref called(const Callback& function, PyObject* first, PyObject* second, int64_t count) {
  const Ref number(PyLong_FromLongLong(count));
  PyObject* result = PyObject_CallFunctionObjArgs(function.get(), first, second, number.get(), nullptr);
  if (result == nullptr) carry_error();
  return Ref(result);
}

auto averaging_function(nb::handle callable) {
  return [function = Callback(callable)](const Tensor& average, const Tensor& parameter, int64_t count) -> Tensor {
    const WithGil gil;
    const Ref own(wrap(average)), now(wrap(parameter)), result = called(function, own.get(), now.get(), count);
    if (!is_tensor(result.get()))
      throw_type_error("result of avg_fn: expected a Tensor, got " + type_name(result.get()));
    return tensor_of(result.get());
  };
}

auto averaging_functions(nb::handle callable) {
  return [function = Callback(callable)](std::span<const Tensor> averages, std::span<const Tensor> parameters,
                                         int64_t count) {
    const WithGil gil;
    const Ref own = tuple_of(averages), now = tuple_of(parameters);
    called(function, own.get(), now.get(), count);
  };
}

void bind_averager(nb::module_& m) {
  using optim::Averager;
  nb::class_<Averager::Swap>(m, "_Swap");
  nb::class_<Averager>(m, "_Averager")
      .def(
          "__init__",
          [](Averager* self, const Tensors& parameters, const Tensors& buffers, std::optional<double> decay,
             nb::object each, nb::object all) {
            optim::AverageOptions options{.decay = decay, .buffers = buffers};
            if (!each.is_none()) options.function = averaging_function(each);
            if (!all.is_none()) options.functions = averaging_functions(all);
            new (self) Averager(parameters, options, here());
          },
          nb::arg("parameters"), nb::arg("buffers"), nb::arg("decay").none(), nb::arg("each").none(),
          nb::arg("all").none())
      .def("update", [](Averager& self) { self.update(here()); })
      .def("count", &Averager::count)
      .def("averages", [](const Averager& self) { return Tensors(self.averages().begin(), self.averages().end()); })
      .def(
          "swap", [](const Averager& self) { return new Averager::Swap(self.swap(here())); },
          nb::rv_policy::take_ownership)
      .def("copy_to_parameters", [](const Averager& self) { self.copy_to_parameters(here()); })
      .def("state_dict", &Averager::state_dict)
      .def("load_state_dict",
           [](Averager& self, const std::map<std::string, Tensor>& values) { self.load_state_dict(values, here()); });
}

void bind_master_weights(nb::module_& m) {
  using optim::MasterWeights;
  nb::class_<MasterWeights>(m, "_MasterWeights")
      .def("__init__",
           [](MasterWeights* self, const Tensors& parameters) { new (self) MasterWeights(parameters, here()); })
      .def("parameters", &MasterWeights::parameters)
      .def("take_gradients", without_gil(&MasterWeights::take_gradients))
      .def("write_back", without_gil(&MasterWeights::write_back))
      .def("zero_grad", &MasterWeights::zero_grad)
      .def("state_dict", &MasterWeights::state_dict)
      .def("load_state_dict", [](MasterWeights& self, const std::map<std::string, Tensor>& values) {
        self.load_state_dict(values, here());
      });
}

void bind_gradient_merge(nb::module_& m) {
  using optim::GradientMerge;
  nb::class_<GradientMerge>(m, "_GradientMerge")
      .def("__init__", [](GradientMerge* self, const Tensors& parameters, int64_t k,
                          bool average) { new (self) GradientMerge(parameters, {.k = k, .average = average}, here()); })
      .def("take", [](GradientMerge& self, double weight) { return self.take(weight, here()); })
      .def("flush", [](GradientMerge& self) { return self.flush(here()); })
      .def("drop", &GradientMerge::drop)
      .def("pending", &GradientMerge::pending)
      .def("state_dict", &GradientMerge::state_dict)
      .def("load_state_dict", [](GradientMerge& self, const std::map<std::string, Tensor>& values) {
        self.load_state_dict(values, here());
      });
}

}  // namespace

void bind_optim(nb::module_& m) {
  bind_common(m);
#define WEFT_BIND(O) bind_optimizer<optim::O>(m, "_" #O);
  WEFT_OPTIMIZERS_BY_NAME(WEFT_BIND)
#undef WEFT_BIND
  bind_schedules(m);
  bind_averager(m);
  bind_master_weights(m);
  bind_gradient_merge(m);
  m.def("_clip_grad_norm_", [](const Tensors& parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
    return optim::clip_grad_norm_(parameters, max_norm,
                                  {.norm_type = norm_type, .error_if_nonfinite = error_if_nonfinite}, here());
  });
  m.def("_clip_grads_with_norm_", [](const Tensors& parameters, double max_norm, const Tensor& total_norm) {
    optim::clip_grads_with_norm_(parameters, max_norm, total_norm, here());
  });
  m.def("_total_norm", [](const Tensors& tensors, double norm_type, bool error_if_nonfinite) {
    return optim::total_norm(tensors, norm_type, error_if_nonfinite, here());
  });
  m.def("_clip_grad_value_",
        [](const Tensors& parameters, double max_value) { optim::clip_grad_value_(parameters, max_value, here()); });
}

}  // namespace weft::python
