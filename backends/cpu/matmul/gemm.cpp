#include "gemm.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
#include <unordered_map>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "../onednn.hpp"
#include "../workspace.hpp"

namespace weft::cpu {

namespace {

#if WEFT_HAS_ONEDNN
/// A matrix as BLAS wants it: transposed or not, and the distance between its lines.
struct Lead {
  bool transposed;
  int64_t distance;
};

/// Needs a unit stride. A matrix of one line may have any distance.
template <class T>
Lead lead_of(const Matrix<T>& matrix, int64_t rows, int64_t columns) {
  if (matrix.column == 1) return {false, std::max<int64_t>({matrix.row, columns, 1})};
  return {true, std::max<int64_t>({matrix.column, rows, 1})};
}

bool onednn_is_fast() {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("avx512f") != 0;
  return fast;
#else
  return true;
#endif
}

#if defined(__x86_64__)
bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & (1u << 22)) != 0;
}
#endif

/// The initial value of a product.
enum class Start : uint8_t { zeros, one_row, itself };

struct ProductKey {
  int64_t m, n, k, a_distance, b_distance, stride;
  dnnl::memory::data_type type, result;
  bool a_transposed, b_transposed;
  Start start;

  bool operator==(const ProductKey&) const = default;
  struct Hash {
    size_t operator()(const ProductKey& key) const {
      uint64_t h = static_cast<uint64_t>(key.type) * 256 + static_cast<uint64_t>(key.result) * 16 +
                   key.a_transposed * 8 + key.b_transposed * 4 + static_cast<uint64_t>(key.start);
      for (int64_t x : {key.m, key.n, key.k, key.a_distance, key.b_distance, key.stride}) {
        h = (h ^ static_cast<uint64_t>(x)) * 0x9e3779b97f4a7c15u;
        h ^= h >> 29;
      }
      return h;
    }
  };
};

/// A product of one shape with its own memory handles; used by one thread.
struct Product {
  dnnl::matmul primitive;
  dnnl::memory a, b, bias, c, scratchpad;
  std::unordered_map<int, dnnl::memory> arguments;  // the five above
  size_t scratch_bytes;

  explicit Product(const ProductKey& key);
};

Product::Product(const ProductKey& key) {
  using dnnl::memory;
  const auto matrix = [](memory::data_type type, int64_t rows, int64_t columns, bool transposed, int64_t distance) {
    return memory::desc({rows, columns}, type, transposed ? memory::dims{1, distance} : memory::dims{distance, 1});
  };
  const memory::desc x = matrix(key.type, key.m, key.k, key.a_transposed, key.a_distance);
  const memory::desc y = matrix(key.type, key.k, key.n, key.b_transposed, key.b_distance);
  const memory::desc row = matrix(key.result, 1, key.n, false, key.n);
  const memory::desc z = matrix(key.result, key.m, key.n, false, key.stride);
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (key.start == Start::itself) {
    dnnl::post_ops added;
    added.append_sum();
    attributes.set_post_ops(added);
  }
  const auto description = key.start == Start::one_row ? dnnl::matmul::desc(x, y, row, z) : dnnl::matmul::desc(x, y, z);
  const dnnl::matmul::primitive_desc chosen(description, attributes, onednn_engine());
  primitive = dnnl::matmul(chosen);
  a = memory(x, onednn_engine(), nullptr);
  b = memory(y, onednn_engine(), nullptr);
  bias = memory(row, onednn_engine(), nullptr);
  c = memory(z, onednn_engine(), nullptr);
  scratchpad = memory(chosen.scratchpad_desc(), onednn_engine(), nullptr);
  scratch_bytes = chosen.scratchpad_desc().get_size();
  arguments = {{DNNL_ARG_SRC, a}, {DNNL_ARG_WEIGHTS, b}, {DNNL_ARG_DST, c}, {DNNL_ARG_SCRATCHPAD, scratchpad}};
  if (key.start == Start::one_row) arguments.emplace(DNNL_ARG_BIAS, bias);
}

/// Making a product takes a tenth of a millisecond: each thread keeps those it met.
Product& product_of(const ProductKey& key) {
  constexpr size_t most = 256;
  // A pointer, because late-loaded modules have little static thread-local storage.
  static thread_local const auto own = std::make_unique<std::unordered_map<ProductKey, Product, ProductKey::Hash>>();
  auto& products = *own;
  const auto found = products.find(key);
  if (found != products.end()) return found->second;
  if (products.size() >= most) products.clear();
  return products.try_emplace(key, key).first->second;
}

template <class T>
bool fills(const Matrix<T>& matrix, int64_t rows, int64_t columns) {
  return matrix.column == 1 ? matrix.row == columns : matrix.row == 1 && matrix.column == rows;
}

/// oneDNN's best kernels take matrices without gaps; for others its BLAS needs no set-up.
void onednn_sgemm(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, bool accumulate, float* c,
                  int64_t stride) {
  const OneOpenmpThread one;
  const Lead x = lead_of(a, m, k), y = lead_of(b, k, n);
  const HeldSignals held;
  dnnl_sgemm(x.transposed ? 'T' : 'N', y.transposed ? 'T' : 'N', m, n, k, 1, a.data, x.distance, b.data, y.distance,
             accumulate ? 1 : 0, c, stride);
}

template <class T>
constexpr auto onednn_type = sizeof(T) == 2 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32;

/// `start` is nothing, one row for all, or c itself.
template <class T, class R>
void onednn_gemm(int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, Addend<R> start, R* c, int64_t stride) {
  const OneOpenmpThread one;
  const Lead x = lead_of(a, m, k), y = lead_of(b, k, n);
  const Start kind = start.data == nullptr ? Start::zeros : start.data == c ? Start::itself : Start::one_row;
  Product& product = product_of(
      {m, n, k, x.distance, y.distance, stride, onednn_type<T>, onednn_type<R>, x.transposed, y.transposed, kind});
  const Workspace scratch(product.scratch_bytes);
  product.a.set_data_handle(const_cast<T*>(a.data));
  product.b.set_data_handle(const_cast<T*>(b.data));
  product.c.set_data_handle(c);
  product.scratchpad.set_data_handle(scratch.as<void>());
  if (kind == Start::one_row) product.bias.set_data_handle(const_cast<R*>(start.data));
  const HeldSignals held;
  product.primitive.execute(onednn_stream(), product.arguments);
}
#endif

}  // namespace

template <>
GemmCode choose_gemm<float>([[maybe_unused]] int64_t m, [[maybe_unused]] int64_t n, [[maybe_unused]] int64_t k) {
#if WEFT_HAS_ONEDNN
  // Up to 64³ the own kernels need no set-up, and win.
  const double volume = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  const bool small = m == 1 || n == 1 || (m <= 64 && n <= 64) || volume <= 64.0 * 64 * 64;
  if (!small && onednn_is_fast()) return GemmCode::onednn;
#endif
  return GemmCode::native;
}

template <>
GemmCode choose_gemm<double>(int64_t, int64_t, int64_t) {
  return GemmCode::native;
}

namespace {

/// Copies the initial value of c into c, unless it is there already.
template <class T>
[[maybe_unused]] Addend<T> start_in_place(int64_t m, int64_t n, Addend<T> start, T* c, int64_t stride) {
  if (start.data == nullptr || start.data == c) return start;
  for (int64_t i = 0; i < m; ++i) std::copy_n(start.data + i * start.row, n, c + i * stride);
  return {c, stride};
}

}  // namespace

template <class T>
void gemm([[maybe_unused]] GemmCode code, int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, Addend<T> start,
          T* c, int64_t stride) {
  if (m == 0 || n == 0) return;
#if WEFT_HAS_ONEDNN
  if constexpr (std::is_same_v<T, float>) {
    if (code == GemmCode::onednn) {
      const bool dense = fills(a, m, k) && fills(b, k, n) && stride == n;
      if (!dense || start.row != 0) start = start_in_place(m, n, start, c, stride);
      if (dense) return onednn_gemm(m, n, k, a, b, start, c, stride);
      return onednn_sgemm(m, n, k, a, b, start.data != nullptr, c, stride);
    }
  }
#endif
  native_gemm(m, n, k, a, b, start, c, stride);
}
template void gemm(GemmCode, int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, Addend<float>, float*, int64_t);
template void gemm(GemmCode, int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, Addend<double>, double*,
                   int64_t);

namespace {

/// Whether the own kernels are the fastest: few rows do not pay for packing b. Intel's vector units do as many
/// multiplications in bfloat16 as in f32; only its tiles do more.
bool pair_gemm_is_fast([[maybe_unused]] int64_t m, [[maybe_unused]] int64_t n) {
#if defined(__x86_64__)
  static const bool twice = has_pair_products() && __builtin_cpu_is("amd") != 0;
  return twice && m >= 16 && n >= 16;
#else
  return false;
#endif
}

}  // namespace

bool has_fast_bf16_gemm(int64_t m, int64_t n) {
  if (pair_gemm_is_fast(m, n)) return true;
#if WEFT_HAS_ONEDNN && defined(__x86_64__)
  static const bool present = __builtin_cpu_supports("avx512bf16") != 0;
  static const bool twice = __builtin_cpu_is("amd") != 0 || has_tiles();
  return present && (twice || m == 1 || n == 1);
#else
  return false;
#endif
}

template <class T>
void bf16_gemm(int64_t m, int64_t n, int64_t k, Matrix<uint16_t> a, Matrix<uint16_t> b, const T* bias, T* c,
               int64_t stride) {
#if WEFT_HAS_ONEDNN
  if (!pair_gemm_is_fast(m, n)) return onednn_gemm(m, n, k, a, b, Addend<T>{bias, 0}, c, stride);
#endif
  pair_gemm(m, n, k, a, b, bias, c, stride);
}
template void bf16_gemm(int64_t, int64_t, int64_t, Matrix<uint16_t>, Matrix<uint16_t>, const uint16_t*, uint16_t*,
                        int64_t);
template void bf16_gemm(int64_t, int64_t, int64_t, Matrix<uint16_t>, Matrix<uint16_t>, const float*, float*, int64_t);

}  // namespace weft::cpu
