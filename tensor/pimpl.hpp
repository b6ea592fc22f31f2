// What only a .cpp file knows, behind a pointer.
#pragma once

#include <utility>

namespace weft::detail {

/// Owns a T as std::unique_ptr does, in whose place it stands in public headers: that one costs every file 2 % of the
/// compile time of <weft/weft.hpp> for each T, as -ftime-report tells. T is complete where one is destroyed.
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
