#include "generator.hpp"

#include <map>
#include <mutex>

#include "../ops/random.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

/// weft.Generator. Default seeds start far from the small seeds of programs.
struct Owned {
  explicit Owned(Device device_) : device(device_), number(next()) {
    std::lock_guard lock(mutex());
    living()[number] = this;
  }
  ~Owned() {
    std::lock_guard lock(mutex());
    living().erase(number);
  }
  Owned(const Owned&) = delete;

  static std::mutex& mutex() {
    static std::mutex m;
    return m;
  }
  static std::map<int64_t, Owned*>& living() {
    static std::map<int64_t, Owned*> all;
    return all;
  }
  static int64_t next() {
    static int64_t last = int64_t{0x5eed} << 40;
    return ++last;
  }

  Generator own;
  Device device;
  int64_t number;
};

}  // namespace

Generator* find_generator(std::optional<int64_t> number) {
  if (!number) return nullptr;
  std::lock_guard lock(Owned::mutex());
  const auto at = Owned::living().find(*number);
  if (at == Owned::living().end()) {
    raise<ValueError>({.op = "random", .problem = "argument 'generator' is no weft.Generator"}, Location::none());
  }
  return &at->second->own;
}

Generator* to_generator(PyObject* object) {
  Owned* owned = nullptr;
  return nb::try_cast(nb::handle(object), owned) && owned != nullptr ? &owned->own : nullptr;
}

void bind_generator(nb::module_& m) {
  nb::class_<Owned>(m, "Generator", "A source of random numbers of its own, with the same numbers on every device.")
      .def(nb::init<Device>(), nb::arg("device") = Device())
      .def(
          "manual_seed",
          [](nb::object self, uint64_t seed) {
            nb::cast<Owned&>(self).own.manual_seed(seed);
            return self;
          },
          nb::arg("seed"), "Starts over from the first number of this seed.")
      .def("initial_seed", [](const Owned& self) { return self.own.seed(); })
      .def("get_state",
           [](const Owned& self) {
             const auto bytes = self.own.state_bytes();
             return nb::bytes(bytes.data(), bytes.size());
           })
      .def(
          "set_state",
          [](Owned& self, const nb::bytes& bytes) {
            self.own.set_state_bytes({reinterpret_cast<const uint8_t*>(bytes.c_str()), bytes.size()}, here());
          },
          nb::arg("state"))
      .def("__index__", [](const Owned& self) { return self.number; })
      .def_ro("device", &Owned::device);
  m.def(
      "manual_seed", [](uint64_t seed) { manual_seed(seed); }, nb::arg("seed"),
      "Seeds the default generator of every device.");
  m.def("initial_seed", [] { return default_generator().seed(); });
  m.def(
      "get_rng_state", [](Device device) { return get_rng_state(device, here()); }, nb::arg("device") = Device(),
      "The exact state of a device's default generator as a uint8 tensor.");
  m.def(
      "set_rng_state", [](const Tensor& state, Device device) { set_rng_state(state, device, here()); },
      nb::arg("state"), nb::arg("device") = Device());
}

}  // namespace weft::python
