// A convolution, by the definition.
#include "cudnn.hpp"

#include <algorithm>

namespace weft::testing::dnn {

namespace {

/// An operation's attributes.
struct Names {
  int steps, data, weight, result, alpha, beta;
};
#define WEFT_NAMES(kind, x, w, y)                                                                       \
  return {                                                                                              \
    CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_CONV_DESC, CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##x, \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##w, CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_##y,   \
        CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_ALPHA, CUDNN_ATTR_OPERATION_CONVOLUTION_##kind##_BETA \
  }
Names names_of(cudnnBackendDescriptorType_t type) {
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR) WEFT_NAMES(FORWARD, X, W, Y);
  if (type == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR) WEFT_NAMES(BWD_DATA, DX, W, DY);
  WEFT_NAMES(BWD_FILTER, X, DW, DY);
}
#undef WEFT_NAMES

struct Problem {
  cudnnBackendDescriptorType_t product;
  Tensor data, weight, result;
  std::vector<int64_t> stride, low, high, dilation;
  double alpha, beta;
  int64_t groups;
};

double factor(const Object& o, int name) {
  return o.values.at(name).type == CUDNN_TYPE_DOUBLE ? one<double>(o, name) : one<float>(o, name);
}

Problem problem_of(const Object& operation) {
  const Names names = names_of(operation.type);
  const Object& steps = *part(operation, names.steps);
  Problem p = {operation.type,
               tensor_of(*part(operation, names.data)),
               tensor_of(*part(operation, names.weight)),
               tensor_of(*part(operation, names.result)),
               all<int64_t>(steps, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES),
               all<int64_t>(steps, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
               all<int64_t>(steps, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS),
               all<int64_t>(steps, CUDNN_ATTR_CONVOLUTION_DILATIONS),
               factor(operation, names.alpha),
               factor(operation, names.beta),
               0};
  p.groups = p.data.sizes[1] / p.weight.sizes[1];
  return p;
}

/// The sizes follow from one another, as cuDNN requires.
bool is_right(const Problem& p) {
  const size_t rank = p.data.sizes.size();
  if (rank < 4 || p.weight.sizes.size() != rank || p.result.sizes.size() != rank || p.stride.size() != rank - 2) {
    return false;
  }
  if (p.data.sizes[1] % p.weight.sizes[1] != 0 || p.weight.sizes[0] % p.groups != 0) return false;
  if (p.result.sizes[0] != p.data.sizes[0] || p.result.sizes[1] != p.weight.sizes[0]) return false;
  for (size_t d = 0; d + 2 < rank; ++d) {
    if (p.low[d] < 0 || p.high[d] < 0 || p.stride[d] < 1 || p.dilation[d] < 1) return false;
    const int64_t reach = p.dilation[d] * (p.weight.sizes[d + 2] - 1) + 1;
    const int64_t room = p.data.sizes[d + 2] + p.low[d] + p.high[d] - reach;
    if (room < 0 || room / p.stride[d] + 1 != p.result.sizes[d + 2]) return false;
  }
  return true;
}

/// Adds each product of a number of the data and one of the weight, or of the gradient, where it belongs.
void convolve(const Problem& p, char* data, char* weight, char* result, bool in_tf32) {
  const bool by_data = p.product == CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR;
  const bool forward = p.product == CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR;
  const Tensor& target = forward ? p.result : by_data ? p.data : p.weight;
  char* const out = forward ? result : by_data ? data : weight;
  int64_t count = 1;
  for (const int64_t size : target.sizes) count *= size;
  std::vector<double> sums(static_cast<size_t>(count));
  const auto number = [&](const Tensor& t, const char* from, int64_t i) {
    const double x = load(from, t.type, i);
    return in_tf32 ? to_tf32(x) : x;
  };
  const int64_t outputs = p.weight.sizes[0] / p.groups, channels = p.weight.sizes[1];
  std::vector<int64_t> y(p.result.sizes.size()), x(y.size()), w(y.size());
  do {
    std::fill(w.begin(), w.end(), 0);
    do {  // w[0] is not walked: it is the result's channel
      w[0] = y[1];
      x[0] = y[0], x[1] = y[1] / outputs * channels + w[1];
      bool inside = true;
      for (size_t d = 2; d < y.size(); ++d) {
        x[d] = y[d] * p.stride[d - 2] - p.low[d - 2] + w[d] * p.dilation[d - 2];
        inside &= x[d] >= 0 && x[d] < p.data.sizes[d];
      }
      if (inside) {
        const int64_t at_x = place(p.data, x), at_w = place(p.weight, w), at_y = place(p.result, y);
        if (forward) sums[static_cast<size_t>(at_y)] += number(p.data, data, at_x) * number(p.weight, weight, at_w);
        else if (by_data)
          sums[static_cast<size_t>(at_x)] += number(p.result, result, at_y) * number(p.weight, weight, at_w);
        else sums[static_cast<size_t>(at_w)] += number(p.result, result, at_y) * number(p.data, data, at_x);
      }
      w[0] = 0;
      std::vector<int64_t> taps = p.weight.sizes;
      taps[0] = 1;
      if (!advance(w, taps)) break;
    } while (true);
  } while (advance(y, p.result.sizes));
  for (int64_t i = 0; i < count; ++i) {
    const double value = p.alpha * sums[static_cast<size_t>(i)];
    store(out, target.type, i, p.beta == 0 ? value : value + p.beta * load(out, target.type, i));
  }
}

}  // namespace

bool is_right_convolution(const Object& operation) { return is_right(problem_of(operation)); }

std::function<void()> convolution(const Object& operation, const Memory& memory, bool in_tf32) {
  const Problem p = problem_of(operation);
  char *const data = memory(p.data), *const weight = memory(p.weight), *const result = memory(p.result);
  if (data == nullptr || weight == nullptr || result == nullptr) return {};
  const bool tf32 = in_tf32 && p.data.type == CUDA_R_32F;
  return [=] { convolve(p, data, weight, result, tf32); };
}

}  // namespace weft::testing::dnn
