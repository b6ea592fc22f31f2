// A convolution as a graph of cuDNN's, which has one operation.
#pragma once

#include "dnn.hpp"

#if WEFT_HAS_CUDNN

#include "../../dispatch.hpp"

namespace weft::cuda {

/// Two spatial dimensions, or three: the outer ones that are 1 are left out.
struct ConvolutionProblem {
  Convolution product;
  DType dtype;
  bool adds;  ///< to what the result holds
  int dims;
  std::array<int64_t, 5> data, weight, result;  ///< their sizes, [batch or outputs, channels, spatial]
  ConvolutionSteps steps;
  int64_t alignment;
};

Descriptor convolution_graph(const ConvolutionProblem&, cudnnHandle_t, int device);
/// No product of f32 is of numbers that are rounded before.
inline DnnWishes wishes_of(const ConvolutionProblem& p) { return {.tensor_cores = p.dtype != DType::f32}; }

}  // namespace weft::cuda

#endif
