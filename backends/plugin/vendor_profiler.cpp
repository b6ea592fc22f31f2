#include "vendor_profiler.hpp"

#include <unistd.h>

#include <new>
#include <utility>

#include <fmt/format.h>

#include "device.hpp"

namespace weft::plugin {

namespace {

/// As the plug-in told them, with its stream for a number.
struct Told {
  struct Span {
    std::string name;
    WeftStream stream;
    uint64_t begin, end;
  };
  std::vector<Span> spans;
  bool lacks_memory = false;

  static void add(void* data, const char* name, WeftStream stream, uint64_t begin, uint64_t end) noexcept {
    Told& told = *static_cast<Told*>(data);
    try {
      told.spans.push_back({name != nullptr ? name : "", stream, begin, end});
    } catch (...) {
      told.lacks_memory = true;
    }
  }
};

}  // namespace

VendorProfiler::VendorProfiler(const Library& library, std::vector<PluginDevice*> devices)
    : library_(library), devices_(std::move(devices)) {}

void VendorProfiler::start() {
  const WeftProfiler& entries = library_.profiler();
  if (!initialised_) library_.run(-1, "profiler.initialize", entries.initialize);
  initialised_ = true;
  library_.run(-1, "profiler.prepare", entries.prepare);
  library_.run(-1, "profiler.start", entries.start);
  started_ = true;
  process_ = getpid();
}

std::vector<MeasuredSpan> VendorProfiler::stop() {
  if (!runs()) return {};
  started_ = false;
  library_.run(-1, "profiler.stop", library_.profiler().stop);
  return collect();
}

bool VendorProfiler::runs() const { return started_ && process_ == getpid(); }

void VendorProfiler::abandon() noexcept {
  if (runs()) library_.quietly(library_.profiler().stop);
  started_ = false;
}

std::vector<MeasuredSpan> VendorProfiler::collect() const {
  Told told;
  library_.run(-1, "profiler.collect", library_.profiler().collect, Told::add, static_cast<void*>(&told));
  if (told.lacks_memory) throw std::bad_alloc();
  std::vector<MeasuredSpan> spans;
  for (Told::Span& span : told.spans) {
    if (span.end < span.begin) {
      library_.raise_garbage(-1, "profiler.collect",
                             fmt::format("gave a span of '{}' that ends before it begins", span.name));
    }
    MeasuredSpan& measured = spans.emplace_back();
    measured.name = std::move(span.name);
    measured.begin = static_cast<int64_t>(span.begin), measured.end = static_cast<int64_t>(span.end);
    measured.device = device_of(span.stream, measured.stream);
  }
  return spans;
}

Device VendorProfiler::device_of(WeftStream stream, int& number) const {
  for (PluginDevice* device : devices_) {
    number = device->number_of(stream);
    if (number >= 0) return device->device();
  }
  number = -1;
  return devices_.empty() ? Device() : devices_[0]->device();
}

void VendorProfiler::begin_span(const char* name, Location where) const noexcept {
  const auto entry = library_.profiler().begin_span;
  if (entry == nullptr || !runs()) return;
  library_.quietly(entry, name, where.known() ? where.file() : nullptr, where.known() ? where.line() : 0);
}

void VendorProfiler::end_span() const noexcept {
  const auto entry = library_.profiler().end_span;
  if (entry != nullptr && runs()) library_.quietly(entry);
}

void VendorProfiler::finalize() noexcept {
  abandon();
  if (std::exchange(initialised_, false)) library_.quietly(library_.profiler().finalize);
}

}  // namespace weft::plugin
