#include "registry.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <climits>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "device.hpp"
#include "kernels.hpp"
#include "vendor_profiler.hpp"
#include "../watch/observe.hpp"
#include "../plugin.hpp"
#include "../../tensor/device_kinds.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/settings.hpp"

namespace weft {

namespace plugin {

namespace {

/// Lives until the program's end, as tensors on its devices may.
struct Plugin {
  std::unique_ptr<Library> library;
  std::vector<PluginDevice*> devices;
  QueuedBackend* backend = nullptr;
  std::unique_ptr<VendorProfiler> profiler;
  bool closed = false;
  /// A child of fork() has none of the plug-in's threads, and leaves its end to the parent.
  pid_t process = getpid();
};

constinit std::mutex mutex;
constinit Atomic<Plugin*> plugins[plugin_type_count] = {};

Plugin* plugin_of(DeviceType type) {
  const int slot = static_cast<int>(type) - static_cast<int>(DeviceType::first_plugin);
  return slot >= 0 && slot < plugin_type_count ? plugins[slot].load(MemoryOrder::acquire) : nullptr;
}

/// Runs at the program's end for each plug-in, newest first, before the static objects of its library are destroyed.
void close_newest() {
  for (int slot = plugin_type_count; slot-- > 0;) {
    Plugin* const plugin = plugins[slot].load(MemoryOrder::acquire);
    if (plugin == nullptr || std::exchange(plugin->closed, true)) continue;
    if (plugin->process != getpid()) return;
    if (plugin->backend != nullptr) plugin->backend->pinned_allocator().empty_cache();
    for (PluginDevice* device : plugin->devices) device->close();
    if (plugin->profiler != nullptr) plugin->profiler->finalize();
    plugin->library->finalize();
    return;
  }
}

DeviceType type_of(int slot) { return static_cast<DeviceType>(static_cast<int>(DeviceType::first_plugin) + slot); }

[[noreturn]] void refuse(const std::string& problem, const std::string& details = {}) {
  raise<DeviceError>({.problem = problem, .details = details});
}

void check_kind(const Library& library) {
  for (const char* known : {"cpu", "cuda", "hpu", "meta"}) {
    if (library.kind() == known) {
      refuse(fmt::format("{} brings the kind {}, which is built in", library.path(), known));
    }
  }
  for (const auto& slot : plugins) {
    const Plugin* const other = slot.load(MemoryOrder::relaxed);
    if (other == nullptr || other->library->kind() != library.kind()) continue;
    refuse(fmt::format("two plug-ins bring the kind {}", library.kind()),
           fmt::format("{} and {}", other->library->path(), library.path()));
  }
}

/// As dlopen wants it: a name with a slash is a file, any other is looked for first here, then as libraries are.
std::string found_path(const std::string& path) {
  char whole[PATH_MAX];
  return realpath(path.c_str(), whole) != nullptr ? whole : path;
}

DeviceType load_object(const std::string& given, const std::string& path, void* handle) {
  int slot = 0;
  for (; slot < plugin_type_count; ++slot) {
    const Plugin* const other = plugins[slot].load(MemoryOrder::relaxed);
    if (other == nullptr) break;
    if (other->library->handle() == handle) return type_of(slot);
  }
  if (slot == plugin_type_count) {
    refuse(fmt::format("cannot load the plug-in {}: there are {} already", given, plugin_type_count));
  }
  const DeviceType type = type_of(slot);
  auto plugin = std::make_unique<Plugin>();
  plugin->library = std::make_unique<Library>(path, handle);
  try {
    check_kind(*plugin->library);
    std::vector<std::unique_ptr<PluginDevice>> devices;
    const int count = static_cast<int>(plugin->library->numbers().size());
    for (int i = 0; i < count; ++i) {
      devices.push_back(std::make_unique<PluginDevice>(*plugin->library, Device(type, i)));
    }
    fill_kernels(type, plugin->library->table());
    for (auto& device : devices) {
      plugin->devices.push_back(device.get());
      register_device(*device.release());
    }
    if (count > 0) plugin->backend = new QueuedBackend(type);
    if (plugin->library->profiler().size != 0) {
      plugin->profiler = std::make_unique<VendorProfiler>(*plugin->library, plugin->devices);
    }
  } catch (const Error&) {
    plugin->library->finalize();
    throw;
  } catch (...) {
    plugin->library->finalize();
    plugin->library->raise_exception(-1, "has_kernel");
  }
  std::atexit(close_newest);
  const char* const kind = plugin->library->kind().c_str();
  plugins[slot].store(plugin.release(), MemoryOrder::release);
  detail::observe_new_kernels();
  detail::name_device_type(type, kind);
  return type;
}

DeviceType load(const std::string& given) {
  const std::string path = found_path(given);
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: its threads may run
  if (handle == nullptr) {
    const char* const why = dlerror();
    refuse(fmt::format("cannot load the plug-in {}", given), why != nullptr ? why : "");
  }
  static auto* const refused = new std::map<void*, std::string>;  // which were finalised, and are not called again
  if (const auto known = refused->find(handle); known != refused->end()) throw DeviceError(known->second);
  try {
    return load_object(given, path, handle);
  } catch (const DeviceError& error) {
    refused->emplace(handle, error.what());
    throw;
  }
}

}  // namespace

Backend* find_backend(DeviceType type) {
  const Plugin* const plugin = plugin_of(type);
  return plugin == nullptr ? nullptr : plugin->backend;
}

std::vector<VendorProfiler*> vendor_profilers() {
  std::vector<VendorProfiler*> all;
  for (const auto& slot : plugins) {
    const Plugin* const plugin = slot.load(MemoryOrder::acquire);
    if (plugin == nullptr || plugin->profiler == nullptr || plugin->process != getpid()) continue;
    all.push_back(plugin->profiler.get());
  }
  return all;
}

VendorProfiler* vendor_profiler(DeviceType type) {
  const Plugin* const plugin = plugin_of(type);
  return plugin == nullptr ? nullptr : plugin->profiler.get();
}

std::string why_no_device(DeviceType type) {
  const Plugin* const plugin = plugin_of(type);
  if (plugin == nullptr) return "no plug-in brought this kind of device";
  return fmt::format("the plug-in {} finds none", plugin->library->path());
}

}  // namespace plugin

DeviceType load_device_plugin(const std::string& path, Location where) {
  const CallScope call("load_device_plugin", where);
  const std::lock_guard lock(plugin::mutex);
  return plugin::load(path);
}

std::string plugin_path(DeviceType type) {
  const plugin::Plugin* const found = plugin::plugin_of(type);
  return found == nullptr ? "" : found->library->path();
}

const WeftCollectives& collectives_of(DeviceType type, Location where) {
  const CallScope call("collectives_of", where);
  const plugin::Plugin* const found = plugin::plugin_of(type);
  if (found == nullptr) raise<DeviceError>({.problem = "no plug-in brought " + Device(type).name()});
  const WeftCollectives* const collectives = found->library->table().collectives;
  if (collectives != nullptr) return *collectives;
  raise<NotImplementedError>({.problem = fmt::format("{} has no collectives", found->library->kind()),
                              .details = "plug-in " + found->library->path()});
}

void detail::load_plugins_of_environment() {
  static Atomic<bool> done{false};
  if (done.load(MemoryOrder::acquire)) return;
  const char* const setting = detail::setting("WEFT_PLUGINS");
  std::string_view left = setting == nullptr ? "" : setting;
  while (!left.empty()) {
    const std::string path(left.substr(0, left.find(':')));
    left.remove_prefix(std::min(left.size(), path.size() + 1));
    if (!path.empty()) load_device_plugin(path, Location::none());
  }
  done.store(true, MemoryOrder::release);
}

}  // namespace weft
