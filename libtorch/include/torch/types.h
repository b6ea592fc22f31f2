// The names of libtorch's tensors in namespace torch.
#pragma once

#include <ATen/ATen.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/generated/variable_factories.h>

namespace torch {

using namespace at;
using at::AutoGradMode;
using at::NoGradGuard;
using at::nullopt;
using at::optional;
using c10::InferenceMode;
using Dtype = at::ScalarType;
using at::Device;
using at::IValue;
using autograd::Variable;
using c10::Error;

namespace indexing {
using namespace at::indexing;
}

}  // namespace torch
