// TORCH_ARG(type, name) declares an option with its builder: options.name(value) sets it and returns the options.
#pragma once

#include <utility>

#define TORCH_ARG(T, name)                                        \
 public:                                                          \
  inline auto name(const T& value)->decltype(*this) {             \
    this->name##_ = value;                                        \
    return *this;                                                 \
  }                                                               \
  inline auto name(T&& value)->decltype(*this) {                  \
    this->name##_ = std::move(value);                             \
    return *this;                                                 \
  }                                                               \
  inline const T& name() const noexcept { return this->name##_; } \
  inline T& name() noexcept { return this->name##_; }             \
                                                                  \
 private:                                                         \
  T name##_ /* NOLINT */
