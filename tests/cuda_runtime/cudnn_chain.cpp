// Operations one after the other: matrix products, pointwise ones, sums and maxima, transposes. Each result is rounded
// to its tensor's type.
#include "cudnn.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

namespace weft::testing::dnn {

namespace {

using Sizes = std::vector<int64_t>;

struct Numbers {
  Sizes sizes;
  std::vector<double> values;  ///< dense
};

/// A tensor of an operation: in device memory, in host memory, or virtual.
struct Operand {
  Tensor tensor;
  bool is_virtual, is_number;
};
Operand operand_of(const Object& operation, int name) {
  const Object& o = *part(operation, name);
  return {tensor_of(o), one<bool>(o, CUDNN_ATTR_TENSOR_IS_VIRTUAL), one<bool>(o, CUDNN_ATTR_TENSOR_IS_BY_VALUE)};
}

struct Step {
  cudnnBackendDescriptorType_t kind;
  int mode = 0;       ///< of a pointwise operation or a reduction
  int64_t axis = -1;  ///< of the index
  std::vector<Operand> operands;
  Operand result;
};

Step step_of(const Object& o) {
  Step step = {.kind = o.type, .operands = {}, .result = {}};
  const auto read = [&](std::initializer_list<int> names, int result) {
    for (const int name : names) {
      if (o.values.contains(name)) step.operands.push_back(operand_of(o, name));
    }
    step.result = operand_of(o, result);
  };
  if (o.type == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) {
    read({CUDNN_ATTR_OPERATION_MATMUL_ADESC, CUDNN_ATTR_OPERATION_MATMUL_BDESC}, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  } else if (o.type == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR) {
    read({CUDNN_ATTR_OPERATION_REDUCTION_XDESC}, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
    step.mode = one<int>(*part(o, CUDNN_ATTR_OPERATION_REDUCTION_DESC), CUDNN_ATTR_REDUCTION_OPERATOR);
  } else if (o.type == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR) {
    read({CUDNN_ATTR_OPERATION_RESHAPE_XDESC}, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  } else {
    read({CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
          CUDNN_ATTR_OPERATION_POINTWISE_TDESC},
         CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    const Object& how = *part(o, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
    step.mode = one<int>(how, CUDNN_ATTR_POINTWISE_MODE);
    if (how.values.contains(CUDNN_ATTR_POINTWISE_AXIS)) step.axis = one<int64_t>(how, CUDNN_ATTR_POINTWISE_AXIS);
  }
  return step;
}

// ---- requirements of cuDNN
// --------------------------------------------------------------------------------------------

bool is_right(const Step& step) {
  const Sizes& y = step.result.tensor.sizes;
  const Sizes& x = step.operands[0].tensor.sizes;
  if (y.size() != 4 || x.size() != 4) return false;
  switch (step.kind) {
    case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR: {
      const Sizes& b = step.operands[1].tensor.sizes;
      return x[3] == b[2] && y == Sizes{x[0], x[1], x[2], b[3]} && x[0] == b[0] && x[1] % b[1] == 0;
    }
    case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
      for (size_t d = 0; d < 4; ++d) {
        if (x[d] % y[d] != 0) return false;
      }
      return true;
    case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
      return y == Sizes{x[0], x[1], x[3], x[2]};
    default:
      for (const Operand& operand : step.operands) {
        for (size_t d = 0; d < 4; ++d) {
          if (operand.tensor.sizes[d] != y[d] && operand.tensor.sizes[d] != 1) return false;
        }
      }
      return true;
  }
}

/// Rows of floats of 16 bits are read by vectors.
bool has_vectors(const Operand& operand) {
  const Tensor& t = operand.tensor;
  if (operand.is_virtual || operand.is_number || bytes_of(t.type) != 2) return true;
  int64_t unit = 0;
  for (const int64_t stride : t.strides) unit += stride == 1 ? 1 : 0;
  const bool steps = std::all_of(t.strides.begin(), t.strides.end(),
                                 [](int64_t stride) { return stride == 1 || (stride > 0 && stride % 8 == 0); });
  return unit >= 1 && steps && t.alignment % 16 == 0;
}

// ---- values ---------------------------------------------------------------------------------------------------------

double rounded(double x, cudaDataType_t type) {
  switch (type) {
    case CUDA_R_32I:
      return std::trunc(x);
    case CUDA_R_8U:
      return x != 0;
    default: {
      alignas(8) char bytes[8];
      store(bytes, type, 0, x);
      return load(bytes, type, 0);
    }
  }
}

size_t count_of(const Sizes& sizes) {
  size_t count = 1;
  for (const int64_t size : sizes) count *= static_cast<size_t>(size);
  return count;
}
size_t offset_of(const Sizes& sizes, const Sizes& at) {
  size_t offset = 0;
  for (size_t d = 0; d < 4; ++d)
    offset = offset * static_cast<size_t>(sizes[d]) + static_cast<size_t>(at[d] % sizes[d]);
  return offset;
}
/// Broadcast along dimensions of size 1.
double at_place(const Numbers& x, const Sizes& at) { return x.values[offset_of(x.sizes, at)]; }

double pointwise(int mode, const std::vector<double>& x) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x[0] + x[1];
    case CUDNN_POINTWISE_SUB:
      return x[0] - x[1];
    case CUDNN_POINTWISE_MUL:
      return x[0] * x[1];
    case CUDNN_POINTWISE_DIV:
      return x[0] / x[1];
    case CUDNN_POINTWISE_EXP:
      return std::exp(x[0]);
    case CUDNN_POINTWISE_LOG:
      return std::log(x[0]);
    case CUDNN_POINTWISE_CMP_GE:
      return x[0] >= x[1];
    case CUDNN_POINTWISE_BINARY_SELECT:
      return x[2] != 0 ? x[0] : x[1];
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

double product_at(const Numbers& a, const Numbers& b, const Sizes& at) {
  const int64_t share = a.sizes[1] / b.sizes[1];
  double sum = 0;
  for (int64_t k = 0; k < a.sizes[3]; ++k) {
    sum += a.values[offset_of(a.sizes, {at[0], at[1], at[2], k})] *
           b.values[offset_of(b.sizes, {at[0], at[1] / share, k, at[3]})];
  }
  return sum;
}

/// Over as many neighbours along each dimension as the result's size divides the operand's.
double reduced_at(int op, const Numbers& x, const Sizes& sizes, const Sizes& at) {
  Sizes share(4), near(4);
  for (size_t d = 0; d < 4; ++d) share[d] = x.sizes[d] / sizes[d];
  double result = op == CUDNN_REDUCE_TENSOR_MAX ? -std::numeric_limits<double>::infinity() : 0;
  do {
    Sizes from(4);
    for (size_t d = 0; d < 4; ++d) from[d] = at[d] * share[d] + near[d];
    const double value = x.values[offset_of(x.sizes, from)];
    result = op == CUDNN_REDUCE_TENSOR_MAX ? std::max(result, value) : result + value;
  } while (advance(near, share));
  return result;
}

Numbers computed(const Step& step, const std::vector<const Numbers*>& x) {
  Numbers y = {step.result.tensor.sizes, std::vector<double>(count_of(step.result.tensor.sizes))};
  Sizes at(4);
  do {
    double value = 0;
    if (step.kind == CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR) value = product_at(*x[0], *x[1], at);
    else if (step.kind == CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
      value = reduced_at(step.mode, *x[0], y.sizes, at);
    else if (step.kind == CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
      value = at_place(*x[0], {at[0], at[1], at[3], at[2]});
    else if (step.mode == CUDNN_POINTWISE_GEN_INDEX) value = static_cast<double>(at[static_cast<size_t>(step.axis)]);
    else {
      std::vector<double> operands;
      for (const Numbers* operand : x) operands.push_back(at_place(*operand, at));
      value = pointwise(step.mode, operands);
    }
    y.values[offset_of(y.sizes, at)] = rounded(value, step.result.tensor.type);
  } while (advance(at, y.sizes));
  return y;
}

Numbers loaded(const Tensor& tensor, const char* data) {
  Numbers x = {tensor.sizes, std::vector<double>(count_of(tensor.sizes))};
  Sizes at(4);
  do x.values[offset_of(x.sizes, at)] = load(data, tensor.type, place(tensor, at));
  while (advance(at, tensor.sizes));
  return x;
}
void stored(const Tensor& tensor, char* data, const Numbers& y) {
  Sizes at(4);
  do store(data, tensor.type, place(tensor, at), y.values[offset_of(y.sizes, at)]);
  while (advance(at, tensor.sizes));
}

}  // namespace

bool is_right_chain(const std::vector<Object*>& operations) {
  std::map<int64_t, bool> made;
  for (const Object* operation : operations) {
    const Step step = step_of(*operation);
    for (const Operand& operand : step.operands) {
      if (operand.is_virtual && !made.contains(operand.tensor.id)) return false;
      if (!has_vectors(operand)) return false;
    }
    if (!is_right(step) || !has_vectors(step.result) || !made.emplace(step.result.tensor.id, true).second) return false;
  }
  return !operations.empty();
}

std::function<void()> chain(const std::vector<Object*>& operations, const Memory& memory) {
  std::vector<Step> steps;
  std::map<int64_t, char*> places;
  std::map<int64_t, Numbers> host;  // numbers are read when the call is made
  for (const Object* operation : operations) {
    steps.push_back(step_of(*operation));
    std::vector<Operand> all_operands = steps.back().operands;
    all_operands.push_back(steps.back().result);
    for (const Operand& operand : all_operands) {
      if (operand.is_virtual) continue;
      char* const data =
          operand.is_number ? memory({operand.tensor.id, 1, CUDA_R_32F, {}, {}}) : memory(operand.tensor);
      if (data == nullptr) return {};
      if (operand.is_number) host.insert_or_assign(operand.tensor.id, loaded(operand.tensor, data));
      else places[operand.tensor.id] = data;
    }
  }
  return [steps, places, host] {
    std::map<int64_t, Numbers> numbers = host;
    for (const Step& step : steps) {
      std::vector<const Numbers*> operands;
      for (const Operand& operand : step.operands) {
        const int64_t id = operand.tensor.id;
        const auto known = numbers.find(id);
        // One memory may be read as several matrices: transposed, too.
        if (known != numbers.end() && known->second.sizes == operand.tensor.sizes) operands.push_back(&known->second);
        else operands.push_back(&(numbers[id] = loaded(operand.tensor, places.at(id))));
      }
      Numbers y = computed(step, operands);
      if (!step.result.is_virtual) stored(step.result.tensor, places.at(step.result.tensor.id), y);
      numbers[step.result.tensor.id] = std::move(y);
    }
  };
}

}  // namespace weft::testing::dnn
