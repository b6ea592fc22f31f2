// The settings that a step reads on the host, such as modes and hooks of modules, as one number. A captured step
// (hooks/capture.hpp) is replayed only where the number is that of its recording.
#pragma once

#include <cstdint>
#include <utility>

#include "config.hpp"

namespace weft::detail {

/// Equal where all settings are: one that is set back gives the former number again.
WEFT_API uint64_t configuration();
/// Each setting has a number that the first call puts in and the second takes out.
WEFT_API void toggle_configuration(uint64_t setting);
/// For a change that is not undone, outside of a step that is being recorded.
WEFT_API void change_configuration();
/// The number of no other setting.
WEFT_API uint64_t new_setting();

/// Counts as a setting from its construction to its end.
class Setting {
 public:
  Setting() : number_(new_setting()) { toggle_configuration(number_); }
  Setting(const Setting&) : Setting() {}
  Setting& operator=(const Setting&) { return *this; }
  ~Setting() { toggle_configuration(number_); }

 private:
  uint64_t number_;
};

/// Counts as another setting after each change of an object, until that ends.
class WEFT_API Changes {
 public:
  Changes() = default;
  Changes(const Changes&) {}
  Changes& operator=(const Changes&) { return *this; }
  ~Changes();
  /// A step that is being recorded makes its own changes in each call: these are not counted.
  void note();

 private:
  uint64_t number_ = 0;
};

/// A flag that counts as a setting while it is not `usual`.
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
