// Process groups and collectives for Python; weft/distributed.py gives them torch.distributed's names.
#include "../distributed.hpp"

#include "../distributed/detail/member.hpp"
#include "caster.hpp"

#include <memory>

#include <nanobind/stl/unique_ptr.h>

namespace weft::python {

namespace {

using namespace distributed;

void run_ranks(int ranks, double timeout, const nb::callable& body) {
  const Callback callable(body);
  without_gil([&](Location where) {
    LocalWorld(ranks, {.timeout_seconds = timeout}, where)
        .run(
            [&](const Group& group) {
              const WithGil gil;
              PyObject* const result = PyObject_CallOneArg(callable.get(), nb::cast(group).ptr());
              if (result == nullptr) carry_error();
              Py_DECREF(result);
            },
            where);
  });
}

void bind_groups(nb::module_& m) {
  nb::enum_<ReduceOp>(m, "ReduceOp", "How elements of several ranks become one.")
      .value("SUM", ReduceOp::sum)
      .value("AVG", ReduceOp::avg)
      .value("MAX", ReduceOp::max)
      .value("MIN", ReduceOp::min)
      .value("PRODUCT", ReduceOp::prod)
      .value("ANY", ReduceOp::any)
      .value("ALL", ReduceOp::all);
  nb::class_<Group>(m, "ProcessGroup", "One rank's part in a group of ranks.")
      .def("rank", &Group::rank, "This rank's number in the group; -1 where it does not belong to it.")
      .def("size", &Group::size)
      .def_prop_ro(
          "ranks", [](const Group& g) { return std::vector<int>(g.ranks().begin(), g.ranks().end()); },
          "The numbers that its ranks have in the world.")
      .def_prop_ro("wire", &Group::wire, "'MPI' or 'threads'.")
      .def(
          "subgroup",
          [](const Group& g, const std::vector<int>& ranks) {
            return without_gil([&](Location where) { return g.subgroup(ranks, where); });
          },
          nb::arg("ranks"), "The group of these ranks of this group.")
      .def(
          "split",
          [](const Group& g, int color) { return without_gil([&](Location where) { return g.split(color, where); }); },
          nb::arg("color"), "One group for each color, of the ranks that gave it.")
      .def_prop_rw("timeout", &Group::timeout, [](const Group& g, double seconds) { g.set_timeout(seconds, here()); })
      .def("__eq__", [](const Group& a, nb::handle b) { return nb::isinstance<Group>(b) && a == nb::cast<Group>(b); })
      .def("__hash__", [](const Group& g) { return reinterpret_cast<uintptr_t>(&g.member()); });
  nb::class_<Work>(m, "Work", "A collective under way.")
      .def("is_completed", &Work::is_done)
      .def(
          "wait", [](const Work& work) { return without_gil([&](Location) { return work.wait(); }); },
          "Waits, and raises the collective's error. Returns the result, or None.");
  nb::class_<DataParallel>(m, "Replicas", "Gradients that are averaged during backward.")
      .def("__init__",
           [](DataParallel* self, const std::vector<Tensor>& parameters, const std::vector<Tensor>& buffers,
              int64_t bytes, const Group& group) {
             without_gil([&](Location where) {
               return new (self)
                   DataParallel(parameters, {.bucket_bytes = bytes, .buffers = buffers, .group = group}, where);
             });
           })
      .def("finish", [](const DataParallel& r) { without_gil([&](Location where) { return r.finish(where); }); })
      .def("unused", &DataParallel::unused)
      .def("no_sync", [](const DataParallel& r) {
        return std::unique_ptr<DataParallel::NoSync>(new DataParallel::NoSync(r.no_sync()));
      });
  nb::class_<DataParallel::NoSync>(m, "NoSync");
  m.def("world", [] { return without_gil([](Location where) { return world(where); }); });
  m.def("run_ranks", run_ranks);
  m.def("announce_failure", [](const std::string& what) { world().member().wire().fail(what); });
}

}  // namespace

void bind_distributed(nb::module_& core) {
  nb::module_ m = core.def_submodule("_distributed");
  bind_groups(m);
  bind_dtensor(m);
  bind_parallelize(m);
  bind_distributed_states(m);
#define WEFT_COLLECTIVE(name, parameters, call) \
  m.def(#name, [] parameters { return without_gil([&]([[maybe_unused]] Location where) { return call; }); })
  WEFT_COLLECTIVE(all_reduce, (const Tensor& x, const Group& g, ReduceOp op), all_reduce(x, g, op, where));
  WEFT_COLLECTIVE(mean_weight, (double own, const Group& g), mean_weight(own, g, where));
  WEFT_COLLECTIVE(all_reduce_async_, (const Tensor& x, const Group& g, ReduceOp op),
                  all_reduce_async_(x, g, op, where));
  WEFT_COLLECTIVE(all_reduce_, (const Tensor& x, const Group& g, ReduceOp op), Tensor(all_reduce_(x, g, op, where)));
  WEFT_COLLECTIVE(reduce, (const Tensor& x, int root, const Group& g, ReduceOp op), reduce(x, root, g, op, where));
  WEFT_COLLECTIVE(broadcast, (const Tensor& x, int root, const Group& g), broadcast(x, root, g, where));
  WEFT_COLLECTIVE(broadcast_, (const Tensor& x, int root, const Group& g), Tensor(broadcast_(x, root, g, where)));
  WEFT_COLLECTIVE(broadcast_async_, (const Tensor& x, int root, const Group& g), broadcast_async_(x, root, g, where));
  WEFT_COLLECTIVE(all_gather, (const Tensor& x, const Group& g, int dim), all_gather(x, g, dim, where));
  WEFT_COLLECTIVE(all_gather_ragged, (const Tensor& x, const Group& g, int dim), all_gather_ragged(x, g, dim, where));
  WEFT_COLLECTIVE(reduce_scatter, (const Tensor& x, const Group& g, ReduceOp op, int dim),
                  reduce_scatter(x, g, op, dim, where));
  WEFT_COLLECTIVE(all_to_all,
                  (const Tensor& x, const Group& g, int split_dim, int join_dim, std::vector<int64_t> send_sizes,
                   std::vector<int64_t> receive_sizes),
                  all_to_all(x, g, {split_dim, join_dim, send_sizes, receive_sizes}, where));
  WEFT_COLLECTIVE(send, (const Tensor& x, int to, const Group& g, int tag), send(x, to, g, tag, where));
  WEFT_COLLECTIVE(send_with_gradient, (const Tensor& x, int to, const Group& g, int tag),
                  send_with_gradient(x, to, g, tag, where));
  WEFT_COLLECTIVE(receive_with_gradient, (int from, const Group& g, int tag),
                  receive_with_gradient(from, g, tag, where));
  WEFT_COLLECTIVE(receive_, (const Tensor& x, int from, const Group& g, int tag),
                  Tensor(receive_(x, from, g, tag, where)));
  WEFT_COLLECTIVE(send_async, (const Tensor& x, int to, const Group& g, int tag), send_async(x, to, g, tag, where));
  WEFT_COLLECTIVE(receive_async_, (const Tensor& x, int from, const Group& g, int tag),
                  receive_async_(x, from, g, tag, where));
  WEFT_COLLECTIVE(barrier, (const Group& g), barrier(g, where));
  WEFT_COLLECTIVE(barrier_async, (const Group& g), barrier_async(g, where));
#undef WEFT_COLLECTIVE
}

}  // namespace weft::python
