// The table is filled in a larger zeroed buffer, so that a newer plug-in can be rejected after it wrote too much.
// Sizes, required entries, names, device numbers and alignments are checked before the device type has a name.
#include "library.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <exception>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::plugin {

namespace {

constexpr int most_devices = 256;
constexpr const char* wrong_group = "has a group of functions with another size than its struct";
/// By minor version: how large the table was, and the profiler's.
constexpr size_t table_sizes[] = {offsetof(WeftDeviceInterface, elapsed_time), sizeof(WeftDeviceInterface),
                                  sizeof(WeftDeviceInterface)};
constexpr size_t profiler_sizes[] = {offsetof(WeftProfiler, begin_span), offsetof(WeftProfiler, begin_span),
                                     sizeof(WeftProfiler)};
static_assert(std::size(table_sizes) == WEFT_PLUGIN_ABI_MINOR + 1);
static_assert(std::size(profiler_sizes) == WEFT_PLUGIN_ABI_MINOR + 1);

bool is_name(const char* text) {
  const size_t length = text == nullptr ? 0 : strnlen(text, 32);
  return length > 0 && length < 32 && std::all_of(text, text + length, [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
         });
}

}  // namespace

Library::Library(std::string path, void* handle) : path_(std::move(path)), handle_(handle) {
  fill_table();
  check_entries();
  run(-1, "initialize", table_.initialize);
  try {
    find_devices();
  } catch (...) {
    finalize();
    throw;
  }
}

void Library::finalize() const noexcept { quietly(table_.finalize); }

void Library::refuse(const std::string& problem, const std::string& remedy) const {
  raise<DeviceError>({.op = "load_device_plugin", .problem = path_ + " " + problem, .remedy = remedy});
}

std::string Library::device_text(int index) const {
  if (kind_.empty()) return path_;
  return index < 0 ? kind_ : fmt::format("{}:{}", kind_, index);
}

void Library::raise_failure(int index, const char* entry, int code, const std::string& details) const {
  const CallPlace place = detail::current_call;
  std::string meaning;
  if (table_.error_text != nullptr) {
    try {
      if (const char* text = table_.error_text(code)) meaning = fmt::format(" ({})", text);
    } catch (...) {
    }
  }
  raise<DeviceError>(
      {.op = place.op != nullptr ? place.entry : "device",
       .problem = fmt::format("{} failed on {} with code {}{}", entry, device_text(index), code, meaning),
       .details = details},
      place.where);
}

void Library::raise_garbage(int index, const char* entry, const std::string& what) const {
  const CallPlace place = detail::current_call;
  raise<DeviceError>({.op = place.op != nullptr ? place.entry : "device",
                      .problem = fmt::format("{} of {} {}", entry, device_text(index), what),
                      .details = "plug-in " + path_},
                     place.where);
}

void Library::raise_exception(int index, const char* entry) const {
  std::string what = "threw an exception";
  try {
    throw;
  } catch (const std::exception& error) {
    what += std::string(": ") + error.what();
  } catch (...) {
  }
  raise_garbage(index, entry, what);
}

void Library::fill_table() {
  const auto init = reinterpret_cast<int (*)(WeftPluginParams*)>(dlsym(handle_, "weft_plugin_init"));
  if (init == nullptr) refuse("is no plug-in: it exports no weft_plugin_init");
  // A newer plug-in may write a longer table before it can be refused.
  const auto room = std::make_unique<WeftDeviceInterface[]>((1 << 14) / sizeof(WeftDeviceInterface) + 1);
  WeftDeviceInterface& filled = room[0];
  WeftPluginParams params = {};
  params.struct_size = sizeof params;
  params.abi_major = WEFT_PLUGIN_ABI_MAJOR;
  params.abi_minor = WEFT_PLUGIN_ABI_MINOR;
  params.abi_patch = WEFT_PLUGIN_ABI_PATCH;
  params.table = &filled;
  params.host = &host_services;
  run(-1, "weft_plugin_init", init, &params);

  if (params.abi_major != WEFT_PLUGIN_ABI_MAJOR || params.abi_minor > WEFT_PLUGIN_ABI_MINOR || params.abi_minor < 0) {
    refuse(fmt::format("was written for version {}.{} of the plug-in interface, and this Weft has {}.{}",
                       params.abi_major, params.abi_minor, WEFT_PLUGIN_ABI_MAJOR, WEFT_PLUGIN_ABI_MINOR),
           "build it with the plugin.h of this Weft");
  }
  if (params.struct_size != sizeof params) {
    refuse("sets " + mismatch_text("params.struct_size", sizeof params, params.struct_size));
  }
  const size_t expected = table_sizes[params.abi_minor];
  if (params.table != &filled || filled.size != expected) {
    refuse("sets " + mismatch_text("table.size",
                                   fmt::format("{} of version {}.{}", expected, params.abi_major, params.abi_minor),
                                   filled.size),
           "set table->size to sizeof(WeftDeviceInterface)");
  }
  if (!is_name(params.device_type)) refuse("names no kind of device: letters a to z, digits and _, up to 31");
  kind_ = params.device_type;
  if (params.sub_type != nullptr) sub_type_.assign(params.sub_type, strnlen(params.sub_type, 256));
  std::memcpy(&table_, &filled, expected);
  if (table_.profiler != nullptr) take_profiler(params.abi_minor);
}

void Library::take_profiler(int minor) {
  if (table_.profiler->size != profiler_sizes[minor]) refuse(wrong_group);
  std::memcpy(&profiler_, table_.profiler, profiler_sizes[minor]);
}

void Library::check_entries() const {
  std::string missing;
#define WEFT_REQUIRED(entry) \
  if (table_.entry == nullptr) missing += missing.empty() ? #entry : ", " #entry;
  WEFT_REQUIRED(initialize)
  WEFT_REQUIRED(finalize)
  WEFT_REQUIRED(init_device)
  WEFT_REQUIRED(deinit_device)
  WEFT_REQUIRED(set_device)
  WEFT_REQUIRED(get_device)
  WEFT_REQUIRED(get_device_count)
  WEFT_REQUIRED(get_device_list)
  WEFT_REQUIRED(create_stream)
  WEFT_REQUIRED(destroy_stream)
  WEFT_REQUIRED(synchronize_stream)
  WEFT_REQUIRED(create_event)
  WEFT_REQUIRED(destroy_event)
  WEFT_REQUIRED(record_event)
  WEFT_REQUIRED(synchronize_event)
  WEFT_REQUIRED(stream_wait_event)
  WEFT_REQUIRED(synchronize_device)
  WEFT_REQUIRED(device_alloc)
  WEFT_REQUIRED(device_free)
  WEFT_REQUIRED(memory_stats)
  WEFT_REQUIRED(min_chunk_size)
  WEFT_REQUIRED(h2d)
  WEFT_REQUIRED(d2h)
  WEFT_REQUIRED(d2d)
  if ((table_.pinned_host_alloc == nullptr) != (table_.pinned_host_free == nullptr)) WEFT_REQUIRED(pinned_host_free)
  if (table_.has_kernel != nullptr && table_.recipes == nullptr) WEFT_REQUIRED(run_kernel)
  if (table_.recipes != nullptr) {
    WEFT_REQUIRED(recipes->compile)
    WEFT_REQUIRED(recipes->launch)
    WEFT_REQUIRED(recipes->destroy)
  }
  if (table_.profiler != nullptr) {
    WEFT_REQUIRED(profiler->initialize)
    WEFT_REQUIRED(profiler->prepare)
    WEFT_REQUIRED(profiler->start)
    WEFT_REQUIRED(profiler->stop)
    WEFT_REQUIRED(profiler->collect)
    WEFT_REQUIRED(profiler->finalize)
  }
#undef WEFT_REQUIRED
  if (!missing.empty()) refuse(fmt::format("has no {} in its table", missing));
  const bool fits = (table_.recipes == nullptr || table_.recipes->size == sizeof *table_.recipes) &&
                    (table_.collectives == nullptr || table_.collectives->size == sizeof *table_.collectives);
  if (!fits) refuse(wrong_group);
}

void Library::find_devices() {
  int32_t count = -1;
  run(-1, "get_device_count", table_.get_device_count, &count);
  if (count < 0 || count > most_devices) {
    raise_garbage(-1, "get_device_count", fmt::format("gave {} devices; 0 to {} can be", count, most_devices));
  }
  numbers_.assign(static_cast<size_t>(count), -1);
  if (count > 0) run(-1, "get_device_list", table_.get_device_list, numbers_.data());
  for (auto number = numbers_.begin(); number != numbers_.end(); ++number) {
    if (*number < 0 || std::find(numbers_.begin(), number, *number) != number) {
      raise_garbage(-1, "get_device_list", fmt::format("gave {}, below 0 or twice", *number));
    }
  }
}

}  // namespace weft::plugin
