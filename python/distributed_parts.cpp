// States, layers and batches in parts for Python; weft/distributed/checkpoint.py, nn.py and data.py give them names.
#include "../distributed/rng_tracker.hpp"
#include "../distributed/shard_data_loader.hpp"
#include "../distributed/sharded_state.hpp"
#include "../distributed/tensor_parallel.hpp"

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/unique_ptr.h>

#include "module_object.hpp"
#include "shards.hpp"

namespace weft::python {

namespace {

using namespace distributed;

using Names = std::map<std::string, std::vector<std::string>>;

Sizes sizes_of(const Dims& dims) { return Sizes(dims.begin(), dims.end()); }

/// Of a part that is a box.
python::Shard shard_tuple(const io::ShardedTensor& part) {
  return {part.local, sizes_of(part.global_shape), sizes_of(part.global_offset), {}, {}};
}

std::map<std::string, python::Shard> shard_tuples(const io::ShardedState& state) {
  std::map<std::string, python::Shard> out;
  for (const auto& [name, part] : state) out.emplace(name, shard_tuple(part));
  return out;
}

void bind_states_in_parts(nb::module_& m) {
  m.def("shard_of", [](const DTensor& x) { return shard_tuple(shard_of(x, here())); });
  m.def(
      "save_state_dict",
      [](const Shards& shards, const std::string& folder, const Group& group, std::optional<int64_t> id,
         const Names& nested) {
        const io::ShardedState state = state_of(shards);
        return without_gil([&](Location where) {
          return save_state_dict(state, folder, group, {.id = id, .nested_names = nested}, where);
        });
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none(), nb::arg());
  nb::class_<BackgroundSaver>(m, "BackgroundSaver", "Saves states in the background.")
      .def("__init__",
           [](BackgroundSaver* self, const Group& group) {
             without_gil([&](Location where) { return new (self) BackgroundSaver(group, where); });
           })
      .def(
          "save",
          [](BackgroundSaver& saver, const Shards& shards, const std::string& folder, std::optional<int64_t> id,
             const Names& nested) {
            const io::ShardedState state = state_of(shards);
            return without_gil(
                [&](Location where) { return saver.save(state, folder, {.id = id, .nested_names = nested}, where); });
          },
          nb::arg(), nb::arg(), nb::arg().none(), nb::arg())
      .def("wait", [](BackgroundSaver& saver) { without_gil([&](Location) { return saver.wait(), 0; }); });
}

/// With the places of its parts.
template <class T>
nb::tuple made_layer(const std::function<T(Location)>& make) {
  std::optional<T> layer;
  without_gil([&](Location where) { return layer.emplace(make(where)), 0; });
  return nb::make_tuple(Layer{*layer, nn::AnyModule(*layer)}, shard_tuples(sharded_state(*layer)));
}

void bind_layers_in_parts(nb::module_& m) {
  m.def("column_parallel_linear",
        [](int64_t in, int64_t out, bool bias, bool gather_output, bool sequence_parallel, const Group& group) {
          return made_layer<ColumnParallelLinear>([&](Location where) {
            return ColumnParallelLinear(
                in, out,
                {.bias = bias, .gather_output = gather_output, .sequence_parallel = sequence_parallel, .group = group},
                where);
          });
        });
  m.def("row_parallel_linear",
        [](int64_t in, int64_t out, bool bias, bool input_is_parallel, bool sequence_parallel, const Group& group) {
          return made_layer<RowParallelLinear>([&](Location where) {
            return RowParallelLinear(in, out, {bias, input_is_parallel, sequence_parallel, group}, where);
          });
        });
  m.def("vocab_parallel_embedding", [](int64_t count, int64_t width, bool sequence_parallel, const Group& group) {
    return made_layer<VocabParallelEmbedding>([&](Location where) {
      return VocabParallelEmbedding(count, width, {sequence_parallel, group}, where);
    });
  });
  m.def("parallel_cross_entropy", [](const Tensor& logits, const Tensor& targets, const std::string& reduction,
                                     int64_t ignore_index, const Group& group) {
    const LossReduction how = reduction == "none"  ? LossReduction::none
                              : reduction == "sum" ? LossReduction::sum
                                                   : LossReduction::mean;
    return without_gil([&](Location where) {
      return parallel_cross_entropy(logits, targets, {how, ignore_index, group}, where);
    });
  });
}

void bind_rng_tracker(nb::module_& m) {
  nb::class_<RngTracker::Guard>(m, "RngGuard");
  nb::class_<RngTracker>(m, "RngTracker", "Named streams of random numbers, for draws that differ between ranks.")
      .def(nb::init<std::optional<uint64_t>>(), nb::arg("default_seed") = nb::none())
      .def(
          "add", [](const RngTracker& t, const std::string& name, uint64_t seed) { t.add(name, seed, here()); },
          nb::arg("name"), nb::arg("seed"), "A stream that begins as manual_seed(seed) would.")
      .def("_use",
           [](const RngTracker& t, const std::string& name) {
             return std::unique_ptr<RngTracker::Guard>(new RngTracker::Guard(t.use(name, Device(), here())));
           })
      .def("state",
           [](const RngTracker& t) {
             std::map<std::string, std::tuple<uint64_t, uint64_t, uint64_t>> out;
             for (const auto& [name, s] : t.state()) out.emplace(name, std::tuple(s.seed, s.subsequence, s.offset));
             return out;
           })
      .def("set_state",
           [](const RngTracker& t, const std::map<std::string, std::tuple<uint64_t, uint64_t, uint64_t>>& streams) {
             RngTracker::State state;
             for (const auto& [name, s] : streams) state[name] = {std::get<0>(s), std::get<1>(s), std::get<2>(s)};
             t.set_state(state, here());
           });
  m.def(
      "model_parallel_seed",
      [](uint64_t seed, const Group& tensor, const std::optional<Group>& pipeline) {
        return model_parallel_seed(seed, tensor, pipeline, here());
      },
      nb::arg(), nb::arg(), nb::arg().none());
}

using Parts = distributed::detail::BatchParts;
constexpr const char* sharded_loader = "ShardDataLoader";

/// A check, as ShardDataLoader makes it.
template <class Check, class... Arguments>
void called(const Parts& parts, Check check, const Arguments&... arguments) {
  without_gil([&](Location where) {
    const CallScope call(sharded_loader, where);
    (parts.*check)(arguments...);
  });
}

ShardDataLoaderOptions::LastBatch last_batch_of(const std::string& name) {
  using LastBatch = ShardDataLoaderOptions::LastBatch;
  return name == "pad" ? LastBatch::pad : name == "drop" ? LastBatch::drop : LastBatch::ragged;
}

void bind_batches_in_parts(nb::module_& m) {
  using Dim = std::pair<std::string, int>;
  nb::class_<Parts>(m, "BatchParts", "The placement of each input of a batch on a mesh.")
      .def("__init__",
           [](Parts* self, const std::vector<Mesh>& meshes, const std::vector<std::string>& keys,
              const std::vector<std::vector<Dim>>& inputs, bool already_split, const std::string& last_batch) {
             ShardDataLoaderOptions options{.input_keys = keys, .already_split = already_split};
             for (const std::vector<Dim>& cuts : inputs) {
               ShardDims& all = options.shard_dims.emplace_back();
               for (const auto& [dim, axis] : cuts) all.cuts.emplace_back(dim, axis);
             }
             options.last_batch = last_batch_of(last_batch);
             new (self) Parts(meshes, options, here());
           })
      .def("check_loader",
           [](const Parts& p, int64_t rank, int64_t world) { called(p, &Parts::check_loader, rank, world); })
      .def("check_count", [](const Parts& p, size_t inputs) { called(p, &Parts::check_count, inputs); })
      .def("check_keys", [](const Parts& p, bool named) { called(p, &Parts::check_keys, named); })
      .def("raise_missing", [](const Parts& p, const std::string& key) { called(p, &Parts::raise_missing, key); })
      .def("raise_not_last", [](const Parts& p) { called(p, &Parts::raise_not_last); })
      .def("check_alike", [](const Parts& p, const std::string& position) { called(p, &Parts::check_alike, position); })
      .def("begin", &Parts::begin)
      .def("cut",
           [](Parts& p, const Tensor& x, size_t input) {
             return without_gil([&](Location where) {
               const CallScope call(sharded_loader, where);
               return p.cut(x, input);
             });
           })
      .def("drops", &Parts::drops)
      .def("drops_uneven", &Parts::drops_uneven)
      .def("divides", &Parts::divides)
      .def("masks", [](const Parts& p) { return without_gil([&](Location) { return p.masks(); }); });
}

}  // namespace

void bind_distributed_states(nb::module_& m) {
  bind_states_in_parts(m);
  bind_layers_in_parts(m);
  bind_rng_tracker(m);
  bind_batches_in_parts(m);
}

}  // namespace weft::python
