// A pointer to members defined in a .cpp file.
#pragma once

#include <utility>

namespace weft::detail {

/// Owns a T. Used in public headers because each T of a std::unique_ptr adds 2 % to the compile time of <weft/weft.hpp>
/// (by -ftime-report). T must be complete where a Pimpl is destroyed.
template <class T>
class Pimpl {
 public:
  Pimpl() = default;
  explicit Pimpl(T* owned) : held_(owned) {}
  Pimpl(Pimpl&& other) noexcept : held_(std::exchange(other.held_, nullptr)) {}
  Pimpl& operator=(Pimpl&& other) noexcept {
    delete std::exchange(held_, std::exchange(other.held_, nullptr));
    return *this;
  }
  ~Pimpl() { delete held_; }

  T* get() const { return held_; }
  T* operator->() const { return held_; }
  T& operator*() const { return *held_; }
  explicit operator bool() const { return held_ != nullptr; }

 private:
  T* held_ = nullptr;
};

}  // namespace weft::detail
