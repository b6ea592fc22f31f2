// Streams and events. Waiting lets other Python threads run, and functions of the host take the GIL when their time has
// come.
#include "../backends/backend.hpp"
#include "../backends/stream.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

/// `with weft.stream(s):`. Guards are C++ objects on the heap, since a with block has no scope of C++'s.
class Block {
 public:
  explicit Block(const Stream& stream) : stream_(stream) {}
  Block(Block&&) = default;
  Block(const Block&) = delete;
  void enter() { guards_.push_back(std::make_unique<StreamGuard>(stream_)); }
  void leave() {
    if (!guards_.empty()) guards_.pop_back();
  }

 private:
  Stream stream_;
  std::vector<std::unique_ptr<StreamGuard>> guards_;
};

Stream stream_of(const std::optional<Stream>& stream, Device device) {
  return stream ? *stream : current_stream(device, here());
}

void bind_stream(nb::module_& m) {
  nb::class_<Stream>(m, "Stream", "Work of a device that runs in its own order, beside that of other streams.")
      .def(
          "__init__", [](Stream* self, Device device) { new (self) Stream(device, here()); }, nb::arg("device"))
      .def(
          "synchronize",
          [](const Stream& self) {
            const Location where = here();
            const WithoutGil waiting;
            self.synchronize(where);
          },
          "Waits until all work on it is done; raises the first error since the last wait.")
      .def("query", &Stream::query, "Whether all work on it is done.")
      .def(
          "wait_event", [](const Stream& self, const Event& event) { self.wait_event(event, here()); },
          nb::arg("event"), "Work that is queued from now on runs after the event, of any device.")
      .def(
          "wait_stream", [](const Stream& self, const Stream& other) { self.wait_stream(other, here()); },
          nb::arg("stream"), "Work that is queued from now on runs after all that the other stream has by now.")
      .def(
          "record_event",
          [](const Stream& self, std::optional<Event> event) {
            if (!event) return self.record_event(here());
            event->record(self, here());
            return *event;
          },
          nb::arg("event").none() = nb::none(), "An event at this point.")
      .def(
          "call",
          [](const Stream& self, nb::callable function) {
            const Location where = here();
            const WithoutGil waiting;
            self.call(
                [kept = Callback(function)] {
                  const WithGil gil;
                  PyObject* result = PyObject_CallNoArgs(kept.get());
                  if (result == nullptr) carry_error();
                  Py_DECREF(result);
                },
                where);
          },
          nb::arg("function"), "Runs a function on a thread of the host, in the stream's order.")
      .def_prop_ro("device", &Stream::device)
      .def_prop_ro("stream_id", &Stream::id)
      .def("__eq__", [](const Stream& self, const Stream& other) { return self == other; })
      .def("__hash__", [](const Stream& self) { return self.id() * 1024 + static_cast<int>(self.device().type); })
      .def("__repr__", [](const Stream& self) {
        return "<weft.Stream " + std::to_string(self.id()) + " of " + self.device().name() + ">";
      });
  nb::class_<Block>(m, "_StreamBlock")
      .def(nb::init<const Stream&>())
      .def("__enter__", &Block::enter)
      .def("__exit__", [](Block& self, nb::args) { self.leave(); });
  m.def(
      "stream", [](const Stream& stream) { return Block(stream); }, nb::arg("stream"),
      "A context manager in which a stream is the thread's current one for its device.");
  m.def(
      "current_stream", [](Device device) { return current_stream(device, here()); }, nb::arg("device") = Device(),
      "The thread's stream of a device.");
  m.def(
      "default_stream", [](Device device) { return default_stream(device, here()); }, nb::arg("device") = Device());
  m.def(
      "synchronize",
      [](Device device) {
        const Location where = here();
        const WithoutGil waiting;
        synchronize(device, where);
      },
      nb::arg("device") = Device(), "Waits for all streams of a device.");
  m.def("_record_stream", [](const Tensor& tensor, const Stream& stream) { record_stream(tensor, stream); });
}

void bind_event(nb::module_& m) {
  nb::class_<Event>(m, "Event", "A point in a stream.")
      .def(
          "__init__", [](Event* self, bool timing) { new (self) Event({.timing = timing}); },
          nb::arg("enable_timing") = false)
      .def(
          "record",
          [](Event& self, const std::optional<Stream>& stream, Device device) {
            self.record(stream_of(stream, device), here());
          },
          nb::arg("stream").none() = nb::none(), nb::arg("device") = Device(),
          "The point after the present work of the stream: the given one, or the current one of the device.")
      .def(
          "wait",
          [](const Event& self, const std::optional<Stream>& stream, Device device) {
            stream_of(stream, device).wait_event(self, here());
          },
          nb::arg("stream").none() = nb::none(), nb::arg("device") = Device())
      .def("query", &Event::query, "Whether all work before it is done.")
      .def("synchronize",
           [](const Event& self) {
             const Location where = here();
             const WithoutGil waiting;
             self.synchronize(where);
           })
      .def(
          "elapsed_time",
          [](const Event& self, const Event& end) {
            const Location where = here();
            const WithoutGil waiting;
            return self.elapsed_time(end, where);
          },
          nb::arg("end_event"), "Milliseconds from this event to the other, both recorded with enable_timing.");
}

}  // namespace

void bind_streams(nb::module_& m) {
  bind_event(m);
  bind_stream(m);
}

}  // namespace weft::python
