// ModuleHolder: a module by shared_ptr, called and used like the module. TORCH_MODULE(Net) makes Net of NetImpl.
#pragma once

#include <memory>

#include <c10/util/Exception.h>
#include <torch/detail/static.h>

namespace torch::serialize {
class InputArchive;
class OutputArchive;
}  // namespace torch::serialize

namespace torch::nn {

template <class Contained>
class ModuleHolder : torch::detail::ModuleHolderIndicator {
 public:
  using ContainedType = Contained;

  ModuleHolder() : impl_(std::make_shared<Contained>()) {}
  /// An empty holder; using it raises an error.
  ModuleHolder(std::nullptr_t) {}
  template <class Head, class... Tail>
    requires(!(torch::detail::is_module_holder_of<Head, Contained>::value && sizeof...(Tail) == 0) &&
             !std::is_convertible_v<Head, std::shared_ptr<Contained>>)
  explicit ModuleHolder(Head&& head, Tail&&... tail)
      : impl_(new Contained(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}
  ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}

  explicit operator bool() const noexcept { return !is_empty(); }
  bool is_empty() const noexcept { return impl_ == nullptr; }
  Contained* operator->() { return get(); }
  const Contained* operator->() const { return get(); }
  Contained& operator*() { return *get(); }
  const Contained& operator*() const { return *get(); }
  const std::shared_ptr<Contained>& ptr() const {
    TORCH_CHECK(impl_ != nullptr, "Accessing empty ModuleHolder");
    return impl_;
  }
  Contained* get() { return ptr().get(); }
  const Contained* get() const { return ptr().get(); }
  template <class... A>
  auto operator()(A&&... arguments) -> torch::detail::return_type_of_forward_t<Contained, A...> {
    return get()->forward(std::forward<A>(arguments)...);
  }
  template <class A>
  decltype(auto) operator[](A&& argument) {
    return (*get())[std::forward<A>(argument)];
  }

 protected:
  std::shared_ptr<Contained> impl_;
};

template <class M>
std::ostream& operator<<(std::ostream& out, const ModuleHolder<M>& module) {
  return out << *module;
}

template <class M>
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const ModuleHolder<M>& module) {
  return archive << module.ptr();
}
template <class M>
serialize::InputArchive& operator>>(serialize::InputArchive& archive, ModuleHolder<M>& module) {
  return archive >> module.ptr();
}

}  // namespace torch::nn

#define TORCH_MODULE_IMPL(Name, ImplType)                  \
  class Name : public torch::nn::ModuleHolder<ImplType> {  \
   public:                                                 \
    using torch::nn::ModuleHolder<ImplType>::ModuleHolder; \
    using Impl = ImplType;                                 \
  }
#define TORCH_MODULE(Name) TORCH_MODULE_IMPL(Name, Name##Impl)
