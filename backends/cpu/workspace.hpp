// Scratch memory of a kernel, released when the kernel ends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

namespace weft::cpu {

/// Memory from the CPU's allocator for the length of a scope, 64-byte aligned; too little raises OutOfMemoryError.
class Workspace {
 public:
  explicit Workspace(size_t bytes);
  ~Workspace();
  Workspace(Workspace&& other) noexcept : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}
  Workspace& operator=(Workspace&&) = delete;
  template <class T>
  T* as() const {
    return static_cast<T*>(data_);
  }

 private:
  void* data_;
  size_t bytes_;
};

/// A workspace for the lines that one chunk of a kernel computes in; nothing where `wanted` is false.
class Scratch {
 public:
  explicit Scratch(int64_t size, bool wanted = true) {
    if (!wanted) return;
    if (size <= static_cast<int64_t>(sizeof small_)) data_ = small_;
    else data_ = memory_.emplace(static_cast<size_t>(size)).as<void>();
  }
  Scratch(const Scratch&) = delete;
  template <class A>
  A* as() const {
    return static_cast<A*>(data_);
  }

 private:
  alignas(64) char small_[512];  // so that small calls need no heap
  std::optional<Workspace> memory_;
  void* data_ = nullptr;
};

}  // namespace weft::cpu
