// Saved-tensor hooks: functions that convert the tensors that ops keep for backward.
//
//   {
//     SavedTensorHooks hooks([](const Tensor& t) { return t.to("cpu"); },        // as an op saves it
//                            [](const Tensor& kept) { return kept.to("cuda"); });  // as backward reads it
//     loss = model(x);
//   }
//   loss.backward();
//
// hooks/saved_tensors.hpp has ready-made ones.
//
// A packed saved tensor is a placeholder with a version that never matches. So the version check of every read finds it
// without a further test.
#pragma once

#include <any>
#include <optional>
#include <type_traits>
#include <utility>

#include "node.hpp"
#include "../tensor/callback.hpp"

namespace weft {

namespace detail {
struct SavedHooks {
  Weak<const SavedHooks> self;
  Callback<std::any(const Tensor&)> pack;
  Callback<Tensor(const std::any&)> unpack;
  /// Undefined for every tensor; else only tensors of these very elements are packed.
  Tensor only;
};

template <class T>
struct WithoutOptional {
  using type = T;
};
template <class T>
struct WithoutOptional<std::optional<T>> {
  using type = T;
};
}  // namespace detail

/// While one lives, each tensor that an op of this thread saves is passed to `pack`, and only its result is kept: a
/// tensor or any other copyable value; an empty optional or any leaves the tensor as it is. `unpack` gets it when the
/// node runs, at most once per run, and returns a tensor of the same shape, dtype and device (else ShapeError,
/// DTypeError or DeviceError; ValueError where it is undefined). Both run unrecorded, without saved-tensor hooks. Inner
/// scopes win over outer ones. `pack` must not write to its tensor (AutogradError); when it returns the tensor itself,
/// a later in-place write is still detected. Unpacked tensors keep their place in the graph, so `create_graph` works.
class WEFT_API SavedTensorHooks {
 public:
  template <class Pack, class Unpack>
  SavedTensorHooks(Pack pack, Unpack unpack) : SavedTensorHooks(Tensor(), std::move(pack), std::move(unpack)) {}
  /// Packs only where an op saves these very elements; all other tensors are kept as they are, even inside an outer
  /// scope.
  template <class Pack, class Unpack>
  SavedTensorHooks(const Tensor& only, Pack pack, Unpack unpack) {
    using Returned = std::remove_cvref_t<std::invoke_result_t<Pack&, const Tensor&>>;
    using Packed = typename detail::WithoutOptional<Returned>::type;
    auto hooks = Shared<detail::SavedHooks>::make();
    // An any is kept as it is, since it would not nest in another one.
    constexpr bool is_any = std::is_same_v<Packed, std::any>;
    hooks->pack = [pack = std::move(pack)](const Tensor& t) mutable {
      if constexpr (std::is_same_v<Packed, Returned>) {
        return std::any(Packed(pack(t)));
      } else {
        Returned packed = pack(t);
        return packed.has_value() ? std::any(*std::move(packed)) : std::any();
      }
    };
    hooks->unpack = [unpack = std::move(unpack)](const std::any& packed) mutable {
      if constexpr (is_any) return Tensor(unpack(packed));
      else return Tensor(unpack(*std::any_cast<Packed>(&packed)));
    };
    hooks->only = only;
    hooks->self = hooks;
    install(std::move(hooks));
  }
  ~SavedTensorHooks();
  SavedTensorHooks(const SavedTensorHooks&) = delete;

 private:
  void install(Shared<const detail::SavedHooks> hooks);

  Shared<const detail::SavedHooks> hooks_;
  const detail::SavedHooks* outer_ = nullptr;
};

namespace detail {

/// No saved-tensor hooks in this scope.
class WithoutSavedHooks {
 public:
  WithoutSavedHooks() : saved_(std::exchange(saved_hooks, nullptr)) {}
  ~WithoutSavedHooks() { saved_hooks = saved_; }
  WithoutSavedHooks(const WithoutSavedHooks&) = delete;

 private:
  const SavedHooks* saved_;
};

/// For the engine: drops the tensors that `node` unpacked.
void drop_unpacked(const Node& node);

}  // namespace detail
}  // namespace weft
