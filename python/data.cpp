// Loaders for Python; weft/data/ gives them PyTorch's names. Batches are made by the C++ loader's threads: of tensors
// without the interpreter, of Python's datasets with it.
//
// Worker threads keep their Python thread state between batches and end before the interpreter does. With worker
// processes each thread talks to one forked process, which returns tensors in shared memory.
#include "../autograd/mode.hpp"
#include "../data/dataset.hpp"
#include "../data/loader.hpp"
#include "../ops/ipc.hpp"
#include "../tensor/error.hpp"
#include "../tensor/threads.hpp"

#include "caster.hpp"
#include "generator.hpp"

namespace weft::python {

namespace {

using data::BatchSampler;
using data::LoaderOptions;
using data::Sampler;
using data::detail::Job;
using data::detail::LoaderEngine;
using data::detail::NamedError;
using data::detail::SampleScope;
using data::detail::Source;
using Tensors = std::vector<Tensor>;

/// An object that any thread may drop.
struct Held {
  explicit Held(Ref object) : object_(object.release()) {}
  ~Held() {
    if (object_ != nullptr) drop_later(object_);
  }
  Held(const Held&) = delete;
  PyObject* get() const { return object_; }
  PyObject* release() { return std::exchange(object_, nullptr); }

 private:
  PyObject* object_;
};

/// Keeps a worker's Python thread state between batches.
class WorkerThread {
 public:
  /// True the first time.
  bool enter() {
    if (entered_) return false;
    if (Py_IsInitialized() == 0) wait_for_exit();
    state_ = PyGILState_Ensure();
    waiting_state = PyEval_SaveThread();
    return entered_ = true;
  }
  ~WorkerThread() {
    if (!entered_) return;
    take_back(std::exchange(waiting_state, nullptr));
    PyGILState_Release(state_);
  }

 private:
  bool entered_ = false;
  PyGILState_STATE state_ = PyGILState_UNLOCKED;
};
thread_local WorkerThread worker_thread;

/// A StopIteration of user code becomes an error that does not end the loop without a word, as in a generator.
void refuse_stop() {
  if (PyErr_ExceptionMatches(PyExc_StopIteration) == 0) return;
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  if (trace != nullptr) PyException_SetTraceback(value, trace);
  const Ref dropped_type(type);
  Py_XDECREF(trace);
  PyErr_SetString(PyExc_RuntimeError, "a DataLoader's function raised StopIteration");
  PyObject *error_type, *error, *error_trace;
  PyErr_Fetch(&error_type, &error, &error_trace);
  PyErr_NormalizeException(&error_type, &error, &error_trace);
  PyException_SetCause(error, value);
  PyErr_Restore(error_type, error, error_trace);
}
[[noreturn]] void carry() {
  refuse_stop();
  carry_error();
}

/// Python's error that is set gets the place of the job as a note.
void note_place(const Job& job) {
  refuse_stop();
  PyObject *type, *value, *trace;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  const std::string note = "weft.data.DataLoader: " + data::detail::place_of(job);
  PyObject* const added = value == nullptr ? nullptr : PyObject_CallMethod(value, "add_note", "s", note.c_str());
  if (added == nullptr) PyErr_Clear();
  Py_XDECREF(added);
  PyErr_Restore(type, value, trace);
}

/// Runs `f` with the interpreter; Python's error is carried on with that note.
template <class F>
Shared<void> with_python(const Job& job, F&& f) {
  const WithGil gil;
  try {
    return f();
  } catch (const PythonError&) {
    note_place(job);
    try {
      carry();
    } catch (...) {
      throw NamedError{std::current_exception()};
    }
  }
}

/// A Python dataset: functions that make a batch of it.
struct Functions {
  Callback get;      ///< index or what a stream gave -> sample; None: get_all is called
  Callback get_all;  ///< indices -> samples; None: get is called for each
  Callback collate;  ///< samples -> batch
  Callback start;    ///< number of the worker, once in its thread
  Callback remote;   ///< worker and job -> batch, in another process; None: all of the above is called
};

Ref call(const Callback& function, PyObject* argument) { return Ref(PyObject_CallOneArg(function.get(), argument)); }

Ref index_list(std::span<const int64_t> indices) {
  Ref list(PyList_New(static_cast<Py_ssize_t>(indices.size())));
  for (size_t i = 0; i < indices.size(); ++i) {
    PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), Ref(PyLong_FromLongLong(indices[i])).release());
  }
  return list;
}

Ref samples_of(const Functions& dataset, const Job& job) {
  if (job.read != nullptr) return Ref::share(static_cast<Held*>(job.read.get())->get());
  Ref list = index_list(job.indices);
  if (dataset.get_all.get() != Py_None) return call(dataset.get_all, list.get());
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
    job.at = i;
    const SampleScope random(job, i);
    Ref sample = call(dataset.get, PyList_GET_ITEM(list.get(), i));
    PyList_SetItem(list.get(), i, sample.release());
  }
  job.at = -1;
  return list;
}

Ref batch_of(const Functions& dataset, const Job& job) {
  const SampleScope whole(job, SampleScope::whole_batch);
  const Ref samples = samples_of(dataset, job);
  return call(dataset.collate, samples.get());
}

Ref ask_process(const Callback& remote, const Job& job) {
  const Ref indices = index_list(job.indices);
  return Ref(PyObject_CallFunction(remote.get(), "iKLLLO", job.worker, static_cast<unsigned long long>(job.seed),
                                   static_cast<long long>(job.epoch), static_cast<long long>(job.batch),
                                   static_cast<long long>(job.first), indices.get()));
}

Shared<void> make_batch(const Functions& dataset, const Job& job) {
  const bool first = job.worker >= 0 && worker_thread.enter();
  return with_python(job, [&]() -> Shared<void> {
    if (dataset.remote.get() != Py_None) return Shared<Held>::make(ask_process(dataset.remote, job));
    if (first) call(dataset.start, Ref(PyLong_FromLong(job.worker)).get());
    return Shared<Held>::make(batch_of(dataset, job));
  });
}

/// In a worker process.
nb::object make_batch_there(nb::handle get, nb::handle get_all, nb::handle collate, uint64_t seed, int64_t epoch,
                            int64_t batch, int64_t first, const std::vector<int64_t>& indices) {
  const NoGradGuard unrecorded;
  const OneThreadGuard alone;
  const Job job{.seed = seed, .epoch = epoch, .batch = batch, .first = first, .indices = indices};
  const Callback none{nb::none()};
  try {
    return nb::steal(batch_of({Callback(get), Callback(get_all), Callback(collate), none, none}, job).release());
  } catch (const PythonError&) {
    note_place(job);
    throw;
  }
}

/// Of the next `world` items that of number `rank`; null where there are not so many.
Ref own_of_each(PyObject* iterator, int64_t rank, int64_t world) {
  Ref own;
  for (int64_t i = 0; i < world; ++i) {
    PyObject* const next = PyIter_Next(iterator);
    if (next == nullptr && PyErr_Occurred() != nullptr) throw PythonError();
    if (next == nullptr) return {};
    Ref item(next);
    if (i == rank) own = std::move(item);
  }
  return own;
}

/// The next of the batches that processes make; null at the end. They have named the place of an error.
Shared<void> next_batch(PyObject* iterator) {
  const WithGil gil;
  try {
    PyObject* const batch = PyIter_Next(iterator);
    if (batch == nullptr && PyErr_Occurred() != nullptr) throw PythonError();
    return batch == nullptr ? Shared<void>() : Shared<Held>::make(Ref(batch));
  } catch (const PythonError&) {
    try {
      carry_error();
    } catch (...) {
      throw NamedError{std::current_exception()};
    }
  }
}

int64_t whole_from(const Ref& number) {
  const int64_t value = PyLong_AsLongLong(number.get());
  if (value == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  return value;
}

/// `length` is asked for the size, and None for a stream; `processes` is the number of those that read one and give
/// whole batches, or 0.
Source source_of_functions(nb::handle length, Functions dataset, const Callback& open, int64_t rank, int64_t world,
                           int64_t processes) {
  Source source;
  source.make = [dataset](const Job& job) { return make_batch(dataset, job); };
  if (!length.is_none()) {
    source.ask_size = [length = Callback(length)] {
      const WithGil gil;
      try {
        return whole_from(Ref(PyObject_CallNoArgs(length.get())));
      } catch (const PythonError&) {
        carry();
      }
    };
    source.size = source.ask_size();
    return source;
  }
  source.open = [open](int64_t epoch) -> Shared<void> {
    const WithGil gil;
    try {
      return Shared<Held>::make(call(open, Ref(PyLong_FromLongLong(epoch)).get()));
    } catch (const PythonError&) {
      carry();
    }
  };
  if (processes > 0) {
    source.stream_kind = "stream in " + std::to_string(processes) + " processes";
    source.pull = [](void* reader, const Job&, int64_t count, int64_t& got) {
      Shared<void> batch = next_batch(static_cast<Held*>(reader)->get());
      got = batch == nullptr ? 0 : count;
      return batch;
    };
    return source;
  }
  source.pull = [rank, world](void* reader, const Job& job, int64_t count, int64_t& got) -> Shared<void> {
    return with_python(job, [&]() -> Shared<void> {
      Ref list(PyList_New(0));
      for (got = 0; got < count; ++got) {
        const Ref own = own_of_each(static_cast<Held*>(reader)->get(), rank, world);
        if (!own) break;
        if (PyList_Append(list.get(), own.get()) != 0) throw PythonError();
      }
      return Shared<Held>::make(std::move(list));
    });
  };
  return source;
}

Source source_of_tensors(Tensors tensors, std::optional<std::vector<int64_t>> subset, bool pin,
                         std::optional<Device> device) {
  data::detail::check_rows(tensors, here());
  const int64_t rows = tensors.at(0).size(0);
  if (subset) data::detail::check_indices(*subset, rows, here());
  const int64_t size = subset ? static_cast<int64_t>(subset->size()) : rows;
  const auto make = [=](const Job& job) -> Shared<void> {
    std::vector<int64_t> inner;
    if (subset) {
      for (const int64_t i : job.indices) inner.push_back((*subset)[static_cast<size_t>(i)]);
    }
    auto batch = Shared<Tensors>::make();
    for (const Tensor& t : tensors) {
      Tensor part = data::detail::rows(t, subset ? std::span<const int64_t>(inner) : job.indices);
      batch->push_back(pin && part.device().is_cpu() ? part.pin_memory(device) : part);
    }
    return batch;
  };
  return {.size = size, .make = make};
}

std::vector<int64_t> indices_from(PyObject* list) {
  const Ref items(PySequence_Fast(list, "a sampler gives lists of integers"));
  std::vector<int64_t> indices;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
    const Ref number(PyNumber_Index(PySequence_Fast_GET_ITEM(items.get(), i)));
    indices.push_back(PyLong_AsLongLong(number.get()));
    if (indices.back() == -1 && PyErr_Occurred() != nullptr) throw PythonError();
  }
  return indices;
}

/// The result of `function(seed, epoch)`, converted by `read`.
template <class Read>
auto ask(const Callback& function, uint64_t seed, int64_t epoch, const Read& read) {
  const WithGil gil;
  try {
    return read(Ref(PyObject_CallFunction(function.get(), "KL", static_cast<unsigned long long>(seed),
                                          static_cast<long long>(epoch)))
                    .get());
  } catch (const PythonError&) {
    carry();
  }
}

Sampler sampler_of(const std::string& kind, int64_t size, nb::handle order) {
  return Sampler(
      kind, size,
      [order = Callback(order)](uint64_t seed, int64_t epoch) { return ask(order, seed, epoch, indices_from); },
      here());
}

BatchSampler batch_sampler_of(const std::string& kind, nb::handle batches) {
  return BatchSampler(kind, [batches = Callback(batches)](uint64_t seed, int64_t epoch) {
    return ask(batches, seed, epoch, [](PyObject* list) {
      const Ref items(PySequence_Fast(list, "a batch sampler gives lists of integers"));
      BatchSampler::Batches all;
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(items.get()); ++i) {
        all.push_back(indices_from(PySequence_Fast_GET_ITEM(items.get(), i)));
      }
      return all;
    });
  });
}

/// Its workers may need the interpreter while it waits for them.
class Loader {
 public:
  Loader(Source source, const LoaderOptions& options, bool of_tensors)
      : engine_(new LoaderEngine(std::move(source), options, here())), of_tensors_(of_tensors) {}
  ~Loader() { close(); }
  Loader(const Loader&) = delete;

  void close() {
    const WithoutGil others;
    engine_ = {};
  }
  uint64_t begin() {
    LoaderEngine& engine = open();
    const Location where = here();
    const WithoutGil others;
    return engine.begin(where);
  }
  nb::object next(uint64_t loop) {
    LoaderEngine& engine = open();
    const Location where = here();
    Shared<void> batch;
    {
      const WithoutGil others;
      batch = engine.next(loop, where);
    }
    if (batch == nullptr) throw nb::stop_iteration();
    if (!of_tensors_) return nb::steal(static_cast<Held*>(batch.get())->release());
    nb::list list;
    for (const Tensor& t : *static_cast<Tensors*>(batch.get())) list.append(nb::steal(wrap(t)));
    return list;
  }
  LoaderEngine& open() const {
    if (!engine_) raise<ValueError>({.op = "DataLoader", .problem = "it is closed"}, here());
    return *engine_;
  }

 private:
  detail::Pimpl<LoaderEngine> engine_;
  bool of_tensors_;
};

Generator* generator_from(nb::handle object) {
  if (object.is_none()) return nullptr;
  Generator* const generator = to_generator(object.ptr());
  if (generator == nullptr)
    throw_type_error("argument 'generator': expected a Generator, got " + type_name(object.ptr()));
  return generator;
}

LoaderOptions options_from(const nb::dict& given) {
  LoaderOptions o;
  const auto take = [&](const char* name, auto& field) {
    if (given.contains(name)) field = nb::cast<std::remove_reference_t<decltype(field)>>(given[name]);
  };
  take("batch_size", o.batch_size);
  take("shuffle", o.shuffle);
  take("seed", o.seed);
  take("sampler", o.sampler);
  take("batch_sampler", o.batch_sampler);
  take("workers", o.workers);
  take("prefetch", o.prefetch);
  take("drop_last", o.drop_last);
  take("rank", o.rank);
  take("world", o.world);
  take("timeout", o.timeout);
  if (given.contains("generator")) o.generator = generator_from(given["generator"]);
  return o;
}

void bind_samplers(nb::module_& m) {
  nb::class_<Sampler>(m, "_Sampler")
      .def("order", [](const Sampler& self, uint64_t seed, int64_t epoch) { return self.order(seed, epoch, here()); })
      .def("size", &Sampler::size)
      .def("kind", &Sampler::kind);
  nb::class_<BatchSampler>(m, "_BatchSampler")
      .def("batches", [](const BatchSampler& self, uint64_t seed, int64_t epoch) { return self.batches(seed, epoch); });
  m.def("_sampler", sampler_of);
  m.def("_batch_sampler", batch_sampler_of);
  m.def("_sequential_sampler", [](int64_t n) { return data::sequential_sampler(n, here()); });
  m.def(
      "_random_sampler",
      [](int64_t n, bool replacement, std::optional<int64_t> num_samples) {
        return data::random_sampler(n, {replacement, num_samples}, here());
      },
      nb::arg(), nb::arg(), nb::arg().none());
  m.def("_weighted_sampler", [](const Tensor& weights, int64_t num_samples, bool replacement) {
    return data::weighted_sampler(weights, num_samples, replacement, here());
  });
  m.def("_subset_sampler", [](std::vector<int64_t> indices, bool shuffle) {
    return data::subset_sampler(std::move(indices), shuffle, here());
  });
  m.def("_distributed_sampler", [](const Sampler& sampler, int64_t rank, int64_t world, bool drop_last) {
    return data::distributed_sampler(sampler, {rank, world, drop_last}, here());
  });
  m.def("_length_batch_sampler",
        [](std::vector<int64_t> lengths, int64_t batch_size, int64_t bucket, bool shuffle, bool drop_last) {
          return data::length_batch_sampler(std::move(lengths), {batch_size, bucket, shuffle, drop_last}, here());
        });
  m.def(
      "_draw_seed",
      [](nb::handle generator) {
        Generator* const given = generator_from(generator);
        return data::detail::drawn_seed(given != nullptr ? *given : default_generator());
      },
      nb::arg().none());
  m.def("_split_order", [](int64_t size, const nb::list& parts, bool fractions, uint64_t seed) {
    if (fractions) return data::detail::split_order(size, nb::cast<std::vector<double>>(parts), seed, here());
    return data::detail::split_order(size, nb::cast<std::vector<int64_t>>(parts), seed, here());
  });
}

}  // namespace

void bind_data(nb::module_& m) {
  bind_samplers(m);
  m.def("_pad", [](const Tensors& samples, nb::handle value, int64_t multiple_of, int64_t length) {
    const std::optional<Scalar> number = to_scalar(value.ptr());
    if (!number) throw_type_error("argument 'value': expected a number, got " + type_name(value.ptr()));
    const data::Padded p = data::detail::padded(samples, {*number, multiple_of, length});
    return std::pair(p.values, p.lengths);
  });
  m.def("_make_batch", make_batch_there, nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg(), nb::arg(), nb::arg(),
        nb::arg(), nb::arg());
  m.def(
      "_can_pin", [](std::optional<Device> device) { return data::detail::can_pin(device, here()); }, nb::arg().none());
  m.def("_call_alone", [](nb::handle function) {
    const NoGradGuard unrecorded;
    const OneThreadGuard alone;
    return function();
  });
  m.def("_share_memory", [](const Tensor& x) { return share_memory(x, here()); });
  m.def("_share", [](const Tensor& x) {
    const std::string bytes = share(x, here()).bytes;
    return nb::bytes(bytes.data(), bytes.size());
  });
  m.def("_open_shared", [](const nb::bytes& bytes) { return open_shared({{bytes.c_str(), bytes.size()}}, here()); });
  m.def("_stack_samples", [](const Tensors& samples) { return data::detail::stacked(samples); });
  nb::class_<Loader>(m, "_Loader")
      .def_static(
          "of_tensors",
          [](const Tensors& tensors, std::optional<std::vector<int64_t>> subset, bool pin, std::optional<Device> device,
             const nb::dict& options) {
            return new Loader(source_of_tensors(tensors, std::move(subset), pin, device), options_from(options), true);
          },
          nb::arg(), nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg())
      .def_static(
          "of_functions",
          [](nb::handle length, nb::handle get, nb::handle get_all, nb::handle collate, nb::handle start,
             nb::handle open, nb::handle remote, int64_t processes, const nb::dict& options) {
            const Functions dataset{Callback(get), Callback(get_all), Callback(collate), Callback(start),
                                    Callback(remote)};
            const LoaderOptions o = options_from(options);
            return new Loader(source_of_functions(length, dataset, Callback(open), o.rank, o.world, processes), o,
                              false);
          },
          nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg(), nb::arg().none(),
          nb::arg().none(), nb::arg(), nb::arg())
      .def("begin", &Loader::begin)
      .def("next", &Loader::next)
      .def("close", &Loader::close)
      .def("size", [](const Loader& self) { return self.open().size(here()); })
      .def("seed", [](const Loader& self) { return self.open().seed(); })
      .def("epoch", [](const Loader& self) { return self.open().epoch(); })
      .def("batch", [](const Loader& self) { return self.open().batch(); })
      .def("set_epoch", [](const Loader& self, int64_t epoch) { self.open().set_epoch(epoch, here()); })
      .def("state", [](const Loader& self) { return self.open().state(); })
      .def("restore", [](const Loader& self, const std::string& text) { self.open().restore(text, here()); });
}

}  // namespace weft::python
