// The names of libtorch's tensors in namespace torch.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>

namespace torch {

using namespace at;
using at::AutoGradMode;
using at::NoGradGuard;
using c10::InferenceMode;
using at::optional;
using at::nullopt;
using Dtype = at::ScalarType;
using at::Device;
using at::IValue;
using c10::Error;
using autograd::Variable;

namespace indexing {
using namespace at::indexing;
}

}  // namespace torch
