// Shared and Weak: reference-counted ownership of a value.
#pragma once

#include <concepts>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>

#include "config.hpp"
#include "ref_count.hpp"

namespace weft {

namespace detail {

/// Reference counts of a shared value. All owners together count as one of the `holders`, so that the block outlives
/// them.
struct SharedBlock {
  RefCount owners, holders;
  void (*destroy_value)(SharedBlock*);
  void (*free_block)(SharedBlock*);

  WEFT_API void drop_owner();
  WEFT_API void drop_holder();
};

template <class T>
struct SharedValue : SharedBlock {
  template <class... A>
  explicit SharedValue(A&&... arguments)
      : SharedBlock{RefCount(), RefCount(), [](SharedBlock* self) { static_cast<SharedValue*>(self)->value.~T(); },
                    [](SharedBlock* self) { delete static_cast<SharedValue*>(self); }},
        value(std::forward<A>(arguments)...) {}
  ~SharedValue() {}
  union {
    T value;
  };
};

}  // namespace detail

template <class T>
class Weak;

/// Shared ownership of a T: the last owner destroys it. Copying and dropping are thread-safe. Public headers use it
/// because std::shared_ptr takes a tenth of the compile time of <weft/weft.hpp>. T may be incomplete except in `make`.
template <class T>
class Shared {
 public:
  Shared() = default;
  Shared(std::nullptr_t) {}
  template <class... A>
  static Shared make(A&&... arguments) {
    auto* made = new detail::SharedValue<std::remove_const_t<T>>(std::forward<A>(arguments)...);
    return Shared(made, &made->value);
  }
  Shared(const Shared& other) : block_(other.block_), held_(other.held_) {
    if (block_ != nullptr) block_->owners.increment();
  }
  Shared(Shared&& other) noexcept
      : block_(std::exchange(other.block_, nullptr)), held_(std::exchange(other.held_, nullptr)) {}
  /// Converts to an owner of a base class, of a const value or of Shared<void>.
  template <class U>
    requires(!std::same_as<U, T> && std::convertible_to<U*, T*>)
  Shared(Shared<U> other) : block_(std::exchange(other.block_, nullptr)), held_(std::exchange(other.held_, nullptr)) {}
  /// Shares ownership with `whole`, but points to `part` of it.
  template <class U>
  Shared(Shared<U> whole, T* part) : block_(std::exchange(whole.block_, nullptr)), held_(part) {}
  Shared& operator=(Shared other) noexcept {
    std::swap(block_, other.block_);
    std::swap(held_, other.held_);
    return *this;
  }
  ~Shared() {
    if (block_ != nullptr) block_->drop_owner();
  }

  T* get() const { return held_; }
  /// The number of owners; others may change it at any time.
  uint32_t owners() const { return block_ == nullptr ? 0 : block_->owners.value(); }
  T* operator->() const { return held_; }
  std::add_lvalue_reference_t<T> operator*() const { return *held_; }
  explicit operator bool() const { return held_ != nullptr; }
  bool operator==(const Shared& other) const { return held_ == other.held_; }
  bool operator==(std::nullptr_t) const { return held_ == nullptr; }
  /// True if no other Shared owns the value.
  bool is_only_owner() const { return block_ != nullptr && block_->owners.value() == 1; }

 private:
  template <class>
  friend class Shared;
  friend class Weak<T>;
  Shared(detail::SharedBlock* block, T* held) : block_(block), held_(held) {}

  detail::SharedBlock* block_ = nullptr;
  T* held_ = nullptr;
};

/// Refers to a shared T without owning it.
template <class T>
class Weak {
 public:
  Weak() = default;
  template <class U>
    requires std::convertible_to<U*, T*> Weak(const Shared<U>& owner) : Weak(Shared<T>(owner), 0) {}
    Weak(const Weak& other) : block_(other.block_), held_(other.held_) {
      if (block_ != nullptr) block_->holders.increment();
    }
    Weak(Weak&& other) noexcept : block_(std::exchange(other.block_, nullptr)), held_(other.held_) {}
    Weak& operator=(Weak other) noexcept {
      std::swap(block_, other.block_);
      std::swap(held_, other.held_);
      return *this;
    }
    ~Weak() {
      if (block_ != nullptr) block_->drop_holder();
    }

    /// An owner of the value, or nothing if it is destroyed.
    Shared<T> lock() const {
      if (block_ == nullptr || !block_->owners.try_increment()) return {};
      return Shared<T>(block_, held_);
    }
    bool expired() const { return block_ == nullptr || block_->owners.value() == 0; }

   private:
    Weak(const Shared<T>& owner, int) : block_(owner.block_), held_(owner.held_) {
      if (block_ != nullptr) block_->holders.increment();
    }

    detail::SharedBlock* block_ = nullptr;
    T* held_ = nullptr;
};
template <class T>
Weak(const Shared<T>&) -> Weak<T>;

/// Keeps an object alive: converts from any smart pointer, such as std::shared_ptr; empty if the pointer is null.
class Owner {
 public:
  Owner() = default;
  Owner(std::nullptr_t) {}
  template <class Pointer>
    requires requires(const Pointer& pointer) { static_cast<const void*>(pointer.get()); }
  Owner(Pointer pointer) {
    if (pointer.get() != nullptr) held_ = Shared<Pointer>::make(std::move(pointer));
  }
  template <class T>
  Owner(Shared<T> owner) : held_(std::move(owner)) {}
  explicit operator bool() const { return static_cast<bool>(held_); }

 private:
  Shared<const void> held_;
};

}  // namespace weft
