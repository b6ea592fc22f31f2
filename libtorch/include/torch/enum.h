// Choices such as torch::kMean, as types: an option that takes some of them is a variant.
#pragma once

#include <string>
#include <variant>

#include <ATen/Operations.h>

#define TORCH_ENUMS(X)                                                                                              \
  X(Linear)                                                                                                         \
  X(Conv1D) X(Conv2D) X(Conv3D) X(ConvTranspose1D) X(ConvTranspose2D) X(ConvTranspose3D) X(Sigmoid) X(Tanh) X(ReLU) \
      X(GELU) X(SiLU) X(Mish) X(LeakyReLU) X(FanIn) X(FanOut) X(Constant) X(Reflect) X(Replicate) X(Circular)       \
          X(Nearest) X(Bilinear) X(Bicubic) X(Trilinear) X(Area) X(NearestExact) X(Sum) X(Mean) X(Max) X(None)      \
              X(BatchMean) X(Zeros) X(Border) X(Reflection) X(RNN_TANH) X(RNN_RELU) X(LSTM) X(GRU) X(Valid) X(Same)

namespace torch {

namespace enumtype {
#define TORCH_ENUM(name)                             \
  struct k##name {                                   \
    static constexpr const char* text = "k" #name;   \
    bool operator==(const k##name&) const = default; \
  };
TORCH_ENUMS(TORCH_ENUM)
#undef TORCH_ENUM

/// The name of the choice, such as "kMean".
template <class V>
std::string get_enum_name(const V& choice) {
  return std::visit([](const auto& c) { return std::string(std::remove_cvref_t<decltype(c)>::text); }, choice);
}
/// A choice of kNone, kMean and kSum as at::Reduction.
template <class V>
at::Reduction::Reduction reduction_get_enum(const V& choice) {
  if (std::holds_alternative<kNone>(choice)) return at::Reduction::None;
  return std::holds_alternative<kMean>(choice) ? at::Reduction::Mean : at::Reduction::Sum;
}
}  // namespace enumtype

#define TORCH_ENUM(name) inline constexpr enumtype::k##name k##name{};
TORCH_ENUMS(TORCH_ENUM)
#undef TORCH_ENUM

}  // namespace torch
