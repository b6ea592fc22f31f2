#include "detail/records.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "complex.hpp"
#include "create.hpp"

namespace weft {

namespace {

// SplitMix64: a well-mixed word from a counter.
uint64_t mixed(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}
double unit(uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

std::vector<int64_t> permutation(int64_t n, uint64_t seed) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const auto j = static_cast<size_t>(mixed(seed + static_cast<uint64_t>(i)) % static_cast<uint64_t>(i + 1));
    order[static_cast<size_t>(i)] = order[j];
    order[j] = i;
  }
  return order;
}

// Off the multiples of 1/2, where rounding and its kin jump.
double off_ties(double value) {
  const double nearest = std::rint(value * 2) / 2;
  const double distance = value - nearest;
  return std::fabs(distance) < 0.03 ? nearest + (distance < 0 ? -0.03 : 0.03) : value;
}

double whole(double value, double low, double high, DType dtype) {
  if (dtype == DType::boolean) return value > (low + high) / 2 ? 1 : 0;
  if (!is_signed(dtype) && low < 0) return std::floor(std::fabs(value));
  const double least = std::ceil(low), highest = std::max(least, std::floor(high));
  return std::min(std::max(std::rint(value), least), highest);
}

}  // namespace

Tensor SampleMaker::tensor(const Dims& shape, double low, double high) {
  if (is_complex(dtype_)) {
    SampleMaker part(real_type(dtype_), device_, state_++);
    const Tensor re = part.tensor(shape, low, high);
    return complex(re, part.tensor(shape, low, high));
  }
  const int64_t n = shape.product();
  const uint64_t seed = mixed(state_++);
  const std::vector<int64_t> order = permutation(n, seed);
  std::vector<double> values(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    const double place = static_cast<double>(order[static_cast<size_t>(i)]) + 0.2 +
                         0.6 * unit(mixed(seed ^ mixed(static_cast<uint64_t>(i))));
    const double value = low + (high - low) * place / static_cast<double>(n);
    values[static_cast<size_t>(i)] = is_floating(dtype_) ? off_ties(value) : whole(value, low, high, dtype_);
  }
  return weft::tensor(std::span<const double>(values), shape, DType::f64).to(dtype_).to(device_);
}

Tensor SampleMaker::indices(const Dims& shape, int64_t bound) {
  const uint64_t seed = mixed(state_++);
  std::vector<int64_t> values(static_cast<size_t>(shape.product()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int64_t>(mixed(seed + i) % static_cast<uint64_t>(bound));
  }
  return weft::tensor(std::span<const int64_t>(values), shape, DType::i64).to(device_);
}

Tensor SampleMaker::mask(const Dims& shape) {
  const uint64_t seed = mixed(state_++);
  const int64_t n = shape.product();
  const auto values = std::make_unique<bool[]>(static_cast<size_t>(n) + 1);
  // Both values occur wherever there are two elements.
  for (int64_t i = 0; i < n; ++i)
    values[static_cast<size_t>(i)] = i < 2 ? i == 0 : (mixed(seed + static_cast<uint64_t>(i)) & 1) != 0;
  return weft::tensor(std::span<const bool>(values.get(), static_cast<size_t>(n)), shape, DType::boolean).to(device_);
}

OpRecord& find_in(std::vector<OpRecord>& records, std::string_view name) {
  return *std::ranges::find(records, name, &OpRecord::name);
}

void widen(std::vector<OpRecord>& records, const char* name, const char* schema, const char* document,
           SampleFunction samples, BoxedFunction function) {
  OpRecord& record = find_in(records, name);
  record.schema = schema;
  record.document = document;
  record.samples = samples;
  record.function = function;
}

std::vector<int64_t> integers_in(const Value& v, int argument) {
  try {
    std::vector<int64_t> integers;
    if (const auto* dims = std::get_if<Dims>(&v)) {
      integers.assign(dims->begin(), dims->end());
    } else if (const auto* tensors = std::get_if<std::vector<Tensor>>(&v)) {
      for (const Tensor& t : *tensors) integers.push_back(detail::integer_in(t));
    } else if (const auto* t = std::get_if<Tensor>(&v); t != nullptr && t->defined() && t->dim() == 1) {
      if (!is_integer(t->dtype())) throw BadArgument(argument);
      if (t->device().type == DeviceType::meta) {
        raise<NotImplementedError>({.problem = "the result follows from values, which meta tensors lack"});
      }
      if (t->numel() > int64_t{1} << 24) {
        raise<ShapeError>({.problem = fmt::format("{} integers are too many", t->numel())});
      }
      integers = t->to_vector<int64_t>();
    } else {
      integers.push_back(detail::integer_in(v));
    }
    return integers;
  } catch (const std::bad_variant_access&) {
    throw BadArgument(argument);
  }
}

namespace detail {

int64_t integer_in(const Value& v) {
  const auto* t = std::get_if<Tensor>(&v);
  if (t == nullptr) return std::get<int64_t>(v);
  if (!t->defined() || t->dim() != 0 || !is_integer(t->dtype())) throw std::bad_variant_access();
  return t->item<int64_t>();
}

Scalar number_in(const Value& v) {
  if (const auto* i = std::get_if<int64_t>(&v)) return *i;
  if (const auto* b = std::get_if<bool>(&v)) return *b;
  const auto* t = std::get_if<Tensor>(&v);
  if (t == nullptr) return std::get<double>(v);
  if (!t->defined() || t->dim() != 0) throw std::bad_variant_access();
  return t->item_scalar();
}

Dims dims_in(const Value& v) {
  if (const auto* dims = std::get_if<Dims>(&v)) return *dims;
  const auto* tensors = std::get_if<std::vector<Tensor>>(&v);
  if (tensors == nullptr) return Dims(integer_in(v));
  Dims dims;
  for (const Tensor& t : *tensors) dims.push_back(integer_in(t));
  return dims;
}

}  // namespace detail

std::span<const OpRecord> op_records() {
  static const std::vector<OpRecord> all = [] {
    std::vector<OpRecord> records;
    for (const auto family : {unary_records,      binary_records,      ternary_records,
                              predicate_records,  special_records,     foreach_records,
                              activation_records, copy_records,        complex_records,
                              fft_records,        stft_records,        create_records,
                              view_records,       where_records,       matmul_records,
                              index_records,      subscript_records,   scatter_records,
                              masked_records,     search_records,      rearrange_records,
                              join_records,       reduce_records,      vector_norm_records,
                              scan_records,       sort_records,        running_records,
                              histogram_records,  statistics_records,  difference_records,
                              softmax_records,    norm_records,        loss_records,
                              pool_records,       columns_records,     interpolate_records,
                              grid_records,       dropout_records,     channel_records,
                              bag_records,        sparse_records,      moe_records,
                              likelihood_records, margin_loss_records, ctc_records,
                              distance_records,   sequence_records,    distribution_records,
                              random_records,     attention_records,   head_attention_records,
                              recurrent_records,  packed_records,      bilinear_records,
                              batch_norm_records, convolution_records, axes_records,
                              pieces_records,     stacks_records,      combine_records,
                              repeat_records,     shuffle_records,     pad_records,
                              diagonal_records,   triangle_records,    tensordot_records,
                              rotary_records,     fused_records,       quantize_records,
                              einsum_records,     product_records,     matrix_function_records,
                              triangular_records, lu_records,          qr_records,
                              spectral_records,   rank_records,        eig_records}) {
      const std::span<const OpRecord> of_family = family();
      records.insert(records.end(), of_family.begin(), of_family.end());
    }
    return records;
  }();
  return all;
}

}  // namespace weft
