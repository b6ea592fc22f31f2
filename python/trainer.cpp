// The trainer for Python; weft/_trainer.py gives it keywords. `fit` keeps the GIL, because it calls Python.
//
// Listeners are stored in Python, and C++ holds one function with a weak reference to the trainer, so no reference
// cycle passes through C++.
#include <nanobind/stl/tuple.h>

#include "../train/trainer.hpp"

#include <memory>

#include "caster.hpp"
#include "generator.hpp"

namespace weft::python {

namespace {

/// Calls `f`; a Python error becomes a C++ exception that passes through the trainer.
template <class F>
auto in_python(F&& f) {
  try {
    return f();
  } catch (const PythonError&) {
    carry_error();
  } catch (nb::python_error& error) {
    error.restore();
    carry_error();
  }
}

/// A batch of Python's, and how many samples it has.
struct Batch {
  nb::object held;
  int64_t samples;
  /// How often its loss was computed.
  int runs = 0;
  int64_t dim() const { return 1; }
  int64_t size(int64_t) const { return samples; }
};

/// A Python iterable of batches. `count(batch)` is the number of its samples; `state` and `restore` are None if its
/// position cannot be saved.
class PythonLoader {
 public:
  PythonLoader(nb::object loader, nb::object count) : loader_(std::move(loader)), count_(std::move(count)) {}

  class Iterator {
   public:
    Iterator() = default;
    Iterator(const PythonLoader& loader) : loader_(&loader) {
      in_python([&] { iterator_ = nb::steal(Ref(PyObject_GetIter(loader.loader_.ptr())).release()); });
      advance();
    }
    Batch& operator*() { return batch_; }
    Iterator& operator++() {
      advance();
      return *this;
    }
    bool operator!=(const Iterator&) const { return iterator_.is_valid(); }

   private:
    void advance() {
      in_python([&] {
        batch_.held = nb::steal(PyIter_Next(iterator_.ptr()));
        batch_.runs = 0;
        if (batch_.held.is_valid()) {
          batch_.samples = nb::cast<int64_t>(loader_->count_(batch_.held));
          return;
        }
        if (PyErr_Occurred() != nullptr) throw PythonError();
        iterator_ = nb::object();
      });
    }
    const PythonLoader* loader_ = nullptr;
    nb::object iterator_;
    Batch batch_;
  };
  Iterator begin() const { return Iterator(*this); }
  Iterator end() const { return {}; }
  /// 0 where it is not known.
  int64_t size() const {
    const Py_ssize_t length = PyObject_Length(loader_.ptr());
    if (length < 0) PyErr_Clear();
    return std::max<int64_t>(length, 0);
  }

 private:
  nb::object loader_, count_;
};

/// An object with a state of a text and named tensors.
struct SavedObject {
  nb::object state_of, restore_to;
  train::PartState state() const {
    return in_python([&] {
      auto [text, tensors] = nb::cast<std::pair<std::string, std::map<std::string, Tensor>>>(state_of());
      return train::PartState{std::move(text), std::move(tensors)};
    });
  }
  void restore(const train::PartState& state) const {
    in_python([&] { restore_to(state.text, state.tensors); });
  }
};

struct PlacedLoader : PythonLoader, SavedObject {};

using Event = std::tuple<int64_t, int64_t, int64_t, io::Figures>;

/// Of a tensor, or (tensor, weight).
train::BatchLoss loss_from(nb::handle made) {
  const bool is_pair = PyTuple_Check(made.ptr()) != 0 && PyTuple_GET_SIZE(made.ptr()) == 2;
  const nb::handle mean = is_pair ? nb::handle(PyTuple_GET_ITEM(made.ptr(), 0)) : made;
  if (!is_tensor(mean.ptr())) {
    throw_type_error("the loss is a " + type_name(mean.ptr()) + ", no Tensor, nor a pair of one and its weight");
  }
  if (!is_pair) return nb::cast<Tensor>(mean);
  const Ref weight(PyNumber_Float(PyTuple_GET_ITEM(made.ptr(), 1)));
  return {nb::cast<Tensor>(mean), PyFloat_AsDouble(weight.get())};
}

class PythonTrainer {
 public:
  /// `tell(kind, …)` is called for all that listeners hear; `held` are objects that the options point into.
  PythonTrainer(nb::handle model, optim::Optimizer& optimizer, train::TrainerOptions options, nb::object tell,
                nb::object held)
      : tell_(std::move(tell)),
        held_(std::move(held)),
        trainer_(module_of(model), optimizer, std::move(options), here()) {
    const auto hears = [this](const char* kind) {
      return [this, kind](const train::TrainEvent& e) { say(kind, Event{e.step, e.epoch, e.batch, e.figures}); };
    };
    trainer_.on_update([this] { say("update", nb::none()); });
    trainer_.on_step_end(hears("step_end"));
    trainer_.on_epoch_end(hears("epoch_end"));
    trainer_.on_evaluate(hears("evaluate"));
    trainer_.on_save([this](const train::Checkpoints::Saved& saved) {
      say("save", std::tuple(saved.path.string(), saved.step, saved.best));
    });
  }

  void keep(const std::string& name, nb::object state, nb::object restore) {
    parts_.push_back(std::make_unique<SavedObject>(SavedObject{std::move(state), std::move(restore)}));
    trainer_.keep(name, *parts_.back(), here());
  }

  nb::tuple fit(nb::object loader, nb::object count, nb::object state, nb::object restore, nb::object loss_of,
                nb::object evaluate) {
    Callback_<void(train::Evaluation&)> figures;
    if (!evaluate.is_none()) {
      figures = [evaluate](train::Evaluation& e) {
        const auto found = in_python([&] { return nb::cast<io::Figures>(evaluate()); });
        for (const auto& [name, value] : found) e.set(name, value);
      };
    }
    const auto loss = [&](Batch& batch) {
      // The loss that was not finite runs once more, and the op that made it so raises in the middle of Python.
      const bool again = batch.runs++ > 0;
      return in_python([&] {
        nb::object made;
        try {
          made = loss_of(batch.held);
        } catch (nb::python_error& error) {
          if (again) throw NonFiniteError(nb::str(error.value()).c_str());
          throw;
        }
        return loss_from(made);
      });
    };
    const Location where = here();
    train::FitResult result;
    if (state.is_none()) {
      PythonLoader range(loader, count);
      result = trainer_.fit(range, loss, std::move(figures), where);
    } else {
      // The trainer refers to it until the next fit.
      placed_ = std::make_unique<PlacedLoader>(PlacedLoader{{loader, count}, {state, restore}});
      result = trainer_.fit(*placed_, loss, std::move(figures), where);
    }
    return nb::make_tuple(result.steps, result.epochs, result.best, result.stopped_early, result.signal);
  }

  void stop() { trainer_.stop(); }
  int64_t steps() const { return trainer_.steps(); }
  bool ended() const { return trainer_.ended(); }

 private:
  template <class F>
  using Callback_ = weft::Callback<F>;

  template <class T>
  void say(const char* kind, const T& what) const {
    in_python([&] { tell_(kind, what); });
  }

  nb::object tell_, held_;
  std::vector<std::unique_ptr<SavedObject>> parts_;
  std::unique_ptr<PlacedLoader> placed_;
  train::Trainer trainer_;
};

train::TrainerOptions options_from(const nb::dict& given) {
  train::TrainerOptions o;
  const auto take = [&](const char* name, auto& field) {
    if (!given.contains(name) || nb::try_cast(given[name], field)) return;
    throw_type_error("argument '" + std::string(name) + "' cannot be a " + type_name(nb::object(given[name]).ptr()));
  };
  take("epochs", o.epochs);
  take("steps", o.steps);
  take("accumulate", o.accumulate);
  take("clip_norm", o.clip_norm);
  take("halt_on_nan", o.halt_on_nan);
  take("offload_optimizer", o.offload_optimizer);
  take("rank", o.rank);
  take("evaluate_every", o.evaluate_every);
  take("metric", o.metric);
  take("maximize", o.early_stopping.maximize);
  take("patience", o.early_stopping.patience);
  take("min_delta", o.early_stopping.min_delta);
  take("save_every", o.save.every);
  take("keep_last", o.save.keep_last);
  take("keep_best", o.save.keep_best);
  take("resume", o.resume);
  take("empty_cache_every", o.empty_cache_every);
  take("end_by_signal", o.end_by_signal);
  take("unit", o.unit);
  take("scaler", o.scaler);
  take("masters", o.masters);
  take("log", o.log);
  std::string folder;
  take("save", folder);
  o.save.folder = folder;
  if (AutocastOptions mixed; given.contains("autocast")) {
    take("autocast", mixed.dtype);
    o.autocast = mixed;
  }
  if (given.contains("reduce")) {
    o.reduce = [reduce = Callback(given["reduce"])] {
      in_python([&] { (void)Ref(PyObject_CallNoArgs(reduce.get())); });
    };
  }
  if (given.contains("mean_weight")) {
    o.mean_weight = [mean = Callback(given["mean_weight"])](double own) {
      return in_python([&] {
        const Ref result(PyObject_CallOneArg(mean.get(), Ref(PyFloat_FromDouble(own)).get()));
        return PyFloat_AsDouble(Ref(PyNumber_Float(result.get())).get());
      });
    };
  }
  if (given.contains("generators")) {
    for (const auto& [name, object] : nb::cast<nb::dict>(given["generators"])) {
      Generator* const generator = to_generator(object.ptr());
      if (generator == nullptr) throw_type_error("argument 'generators' has an element that is no weft.Generator");
      o.generators.emplace(nb::cast<std::string>(name), generator);
    }
  }
  return o;
}

}  // namespace

void bind_trainer(nb::module_& m) {
  nb::class_<PythonTrainer>(m, "_Trainer")
      .def("__init__",
           [](PythonTrainer* self, nb::handle model, optim::Optimizer& optimizer, const nb::dict& options,
              nb::object tell, nb::object held) {
             new (self) PythonTrainer(model, optimizer, options_from(options), std::move(tell), std::move(held));
           })
      .def("keep", &PythonTrainer::keep)
      .def("fit", &PythonTrainer::fit, nb::arg(), nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg(),
           nb::arg().none())
      .def("stop", &PythonTrainer::stop)
      .def("steps", &PythonTrainer::steps)
      .def("ended", &PythonTrainer::ended);
}

}  // namespace weft::python
