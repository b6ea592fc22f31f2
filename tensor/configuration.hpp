// A hash of all settings that a step reads on the host, such as modes and hooks of modules. A captured step
// (hooks/capture.hpp) is replayed only if the hash is the same as during its recording.
#pragma once

#include <cstdint>
#include <utility>

#include "config.hpp"

namespace weft::detail {

/// Returns the hash. Restoring a setting restores the former hash.
WEFT_API uint64_t configuration();
/// Adds the setting to the hash, or removes it if it is included.
WEFT_API void toggle_configuration(uint64_t setting);
/// Changes the hash permanently, unless a step is being recorded.
WEFT_API void change_configuration();
/// Returns a setting id that is not in use.
WEFT_API uint64_t new_setting();

/// A setting that is included in the hash for the lifetime of this object.
class Setting {
 public:
  Setting() : number_(new_setting()) { toggle_configuration(number_); }
  Setting(const Setting&) : Setting() {}
  Setting& operator=(const Setting&) { return *this; }
  ~Setting() { toggle_configuration(number_); }

 private:
  uint64_t number_;
};

/// Counts the changes of an object: each change gives a different hash, until the object is destroyed.
class WEFT_API Changes {
 public:
  Changes() = default;
  Changes(const Changes&) {}
  Changes& operator=(const Changes&) { return *this; }
  ~Changes();
  /// Notes a change. Ignored while a step is being recorded, because each replay makes the same changes.
  void note();

 private:
  uint64_t number_ = 0;
};

/// A flag that is included in the hash while its value is not `usual`.
template <bool usual>
class Flag {
 public:
  Flag() : number_(new_setting()) {}
  Flag(const Flag& other) : Flag() { set(other.on_); }
  Flag& operator=(const Flag& other) { return *this = other.on_; }
  Flag& operator=(bool on) {
    set(on);
    return *this;
  }
  ~Flag() { set(usual); }
  operator bool() const { return on_; }

 private:
  void set(bool on) {
    if (std::exchange(on_, on) != on) toggle_configuration(number_);
  }

  bool on_ = usual;
  uint64_t number_;
};

}  // namespace weft::detail
