// One plug-in that was loaded: its table, checked, and calls of its functions that let no exception through.
#pragma once

#include <string>
#include <vector>

#include "plugin.h"
#include "../../tensor/device.hpp"

namespace weft::plugin {

class Library {
 public:
  /// Opens the object, lets it fill the table, checks the table and initialises it. Raises DeviceError with the reason.
  /// `handle` is the result of dlopen.
  Library(std::string path, void* handle);
  Library(const Library&) = delete;

  const std::string& path() const { return path_; }
  const std::string& kind() const { return kind_; }
  /// Of the hardware, for people; may be empty.
  const std::string& sub_type() const { return sub_type_; }
  const WeftDeviceInterface& table() const { return table_; }
  /// Null for functions that the plug-in's version lacks; of size 0 if there are none.
  const WeftProfiler& profiler() const { return profiler_; }
  /// The plug-in's numbers of its devices, by Weft's index.
  const std::vector<int32_t>& numbers() const { return numbers_; }
  void* handle() const { return handle_; }
  void finalize() const noexcept;

  /// Raises DeviceError for any code but WEFT_OK. `index` is Weft's, or -1 where the call is of no device.
  template <class... P, class... A>
  void run(int index, const char* entry, int (*function)(P...), A... arguments) const {
    if (const int code = status(index, entry, function, arguments...); code != WEFT_OK) [[unlikely]]
      raise_failure(index, entry, code);
  }
  /// The code; an exception is a DeviceError, too.
  template <class... P, class... A>
  int status(int index, const char* entry, int (*function)(P...), A... arguments) const {
    try {
      return function(arguments...);
    } catch (...) {
      raise_exception(index, entry);
    }
  }
  /// For errors that cannot be reported otherwise.
  template <class R, class... P, class... A>
  void quietly(R (*function)(P...), A... arguments) const noexcept {
    try {
      function(arguments...);
    } catch (...) {
    }
  }
  [[noreturn]] void raise_failure(int index, const char* entry, int code, const std::string& details = {}) const;
  /// "device_alloc of stub:0 gave a null pointer".
  [[noreturn]] void raise_garbage(int index, const char* entry, const std::string& what) const;
  /// Where an exception was caught.
  [[noreturn]] void raise_exception(int index, const char* entry) const;

 private:
  [[noreturn]] void refuse(const std::string& problem, const std::string& remedy = {}) const;
  std::string device_text(int index) const;
  void fill_table();
  /// `minor`: the interface version of the plug-in.
  void take_profiler(int minor);
  void check_entries() const;
  void find_devices();

  const std::string path_;
  void* const handle_;
  std::string kind_, sub_type_;
  WeftDeviceInterface table_ = {};
  WeftProfiler profiler_ = {};
  std::vector<int32_t> numbers_;
};

/// WEFT_PLUGIN(library, index, entry, arguments...) calls an entry of the table and checks.
#define WEFT_PLUGIN(library, index, entry, ...) (library).run(index, #entry, (library).table().entry, __VA_ARGS__)

/// The host functions for plug-ins.
extern const WeftHost host_services;

}  // namespace weft::plugin
