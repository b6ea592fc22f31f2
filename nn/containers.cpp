#include "containers.hpp"
#include "../tensor/expect-inl.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace weft::nn {

namespace detail {

void raise_no_layer(const Module& held, Location where) {
  raise<ValueError>({.op = "nn::AnyModule",
                     .problem = fmt::format("a {} is not called with one tensor alone", held.class_name()),
                     .remedy = "call it as its class: module.as<Its class>()(...)"},
                    where);
}

void raise_wrong_type(const Module& held, TypeId wanted, Location where) {
  raise<ValueError>({.op = "nn::AnyModule", .problem = mismatch_text("module", short_name(wanted), held.class_name())},
                    where);
}

size_t checked_place(const char* list, int64_t i, size_t size, Location where) {
  const auto count = static_cast<int64_t>(size);
  if (i >= -count && i < count) return static_cast<size_t>(i < 0 ? i + count : i);
  raise<IndexError>({.op = list, .problem = fmt::format("there is no module {} of {}", i, count)}, where);
}

void raise_missing_name(Key key, const std::vector<std::string>& names) {
  raise<IndexError>({.op = "nn::ModuleDict",
                     .problem = fmt::format("there is no module \"{}\"", key.name),
                     .details = fmt::format("there are: {}", fmt::join(names, ", "))},
                    key.where);
}

}  // namespace detail

AnyModule::AnyModule(const AnyModule& other)
    : Module(other), held_(detail::cloning_now() ? other.held_->copy() : other.held_) {
  become_copy(other);
}

void Sequential::append_layer(AnyModule layer) {
  register_module(std::to_string(layers_->size()), layer);
  layers_.append(std::move(layer));
}

Tensor Sequential::forward(const Tensor& x, Location where) const {
  Tensor out = x;
  for (const AnyModule& layer : *layers_) out = layer(Input(out, where));
  return out;
}

}  // namespace weft::nn
