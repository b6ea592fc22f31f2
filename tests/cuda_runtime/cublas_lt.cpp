// cuBLASLt for tests, on the test runtime: products computed by the host in the stream's order, by the definition in
// cuBLAS's documentation. It is a library of its own, which is opened in the place of NVIDIA's.
//
// It is strict: a product must be the one that its algorithm was asked for, with operands as well aligned as was said.
// WEFT_TEST_CUBLAS_LT=none finds no algorithm for anything.
#include <cublasLt.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <vector>

#include "stand_in.hpp"

namespace {

using weft::testing::bytes_of;
using weft::testing::is_aligned;
using weft::testing::load;
using weft::testing::store;
using weft::testing::to_tf32;

struct Operation {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
};
struct Layout {
  cudaDataType_t type;
  uint64_t rows, columns;
  int64_t pitch;
  int32_t batch = 1;
  int64_t stride = 0;

  bool operator==(const Layout&) const = default;
};
struct Preference {
  uint64_t workspace_bytes = 0;
  uint32_t a = 256, b = 256, c = 256, d = 256;  ///< alignments in bytes
};

/// The problem of an algorithm.
uint64_t digest(const Operation& operation, std::initializer_list<const Layout*> layouts) {
  uint64_t hash = 1469598103934665603u;
  const auto add = [&](uint64_t value) { hash = (hash ^ value) * 1099511628211u; };
  add(operation.compute);
  add(operation.a * 16 + operation.b);
  for (const Layout* l : layouts) {
    for (const uint64_t value : {static_cast<uint64_t>(l->type), l->rows, l->columns, static_cast<uint64_t>(l->pitch),
                                 static_cast<uint64_t>(l->batch), static_cast<uint64_t>(l->stride)}) {
      add(value);
    }
  }
  return hash;
}

struct Algorithm {
  uint64_t digest;
  Preference promised;
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));

template <class T, class Handle>
T& object(Handle handle) {
  return *reinterpret_cast<T*>(handle);
}
template <class T, class Handle>
cublasStatus_t destroy(Handle handle) {
  delete reinterpret_cast<T*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t set(T& field, const void* value, size_t bytes) {
  if (bytes != sizeof field) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&field, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

struct Product {
  Operation operation;
  Layout a, b, d;
  double alpha, beta;
  const char *a_data, *b_data, *c_data;
  char* d_data;
};

/// `count` rows of `depth` numbers: those of op(a), or the columns of op(b).
std::vector<double> lines_of(const Layout& l, const char* data, bool lines_are_columns, bool in_tf32) {
  const auto count = static_cast<int64_t>(lines_are_columns ? l.columns : l.rows);
  const auto depth = static_cast<int64_t>(lines_are_columns ? l.rows : l.columns);
  std::vector<double> lines;
  lines.reserve(static_cast<size_t>(count * depth));
  for (int64_t i = 0; i < count; ++i) {
    for (int64_t k = 0; k < depth; ++k) {
      const double x = load(data, l.type, lines_are_columns ? i * l.pitch + k : k * l.pitch + i);
      lines.push_back(in_tf32 ? to_tf32(x) : x);
    }
  }
  return lines;
}

/// d = alpha op(a) op(b) + beta c of one matrix of the batch. Columns are contiguous.
void multiply(const Product& p, int64_t batch) {
  const auto at = [batch](const Layout& l, const char* data) { return data + batch * l.stride * bytes_of(l.type); };
  const bool in_tf32 = p.operation.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  const std::vector<double> a = lines_of(p.a, at(p.a, p.a_data), p.operation.a == CUBLAS_OP_T, in_tf32);
  const std::vector<double> b = lines_of(p.b, at(p.b, p.b_data), p.operation.b == CUBLAS_OP_N, in_tf32);
  const char* const c = at(p.d, p.c_data);
  char* const d = p.d_data + batch * p.d.stride * bytes_of(p.d.type);
  const size_t depth = a.size() / p.d.rows;
  for (uint64_t column = 0; column < p.d.columns; ++column) {
    for (uint64_t row = 0; row < p.d.rows; ++row) {
      const double* const left = a.data() + row * depth;
      const double value = p.alpha * std::inner_product(left, left + depth, b.data() + column * depth, 0.0);
      const auto i = static_cast<int64_t>(column) * p.d.pitch + static_cast<int64_t>(row);
      store(d, p.d.type, i, p.beta == 0 ? value : value + p.beta * load(c, p.d.type, i));  // else c may hold anything
    }
  }
}

bool fits(const Layout& l) {
  return l.pitch >= static_cast<int64_t>(l.rows) && l.rows > 0 && l.columns > 0 && l.batch > 0;
}

bool is_product(const Operation& operation, const Layout& a, const Layout& b, const Layout& d) {
  const bool a_turned = operation.a == CUBLAS_OP_T, b_turned = operation.b == CUBLAS_OP_T;
  const uint64_t m = a_turned ? a.columns : a.rows, k = a_turned ? a.rows : a.columns;
  const uint64_t k_of_b = b_turned ? b.columns : b.rows, n = b_turned ? b.rows : b.columns;
  return fits(a) && fits(b) && fits(d) && m == d.rows && n == d.columns && k == k_of_b && a.batch == d.batch &&
         b.batch == d.batch && a.type == b.type && a.type == d.type;
}

double factor(const void* value, cudaDataType_t scale) {
  return scale == CUDA_R_64F ? *static_cast<const double*>(value) : *static_cast<const float*>(value);
}

}  // namespace

extern "C" {

const char* cublasLtGetStatusString(cublasStatus_t) { return "an error of the test library"; }

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(0));
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t handle) { return destroy<int>(handle); }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* out, cublasComputeType_t compute, cudaDataType_t scale) {
  *out = reinterpret_cast<cublasLtMatmulDesc_t>(new Operation{compute, scale});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t operation) { return destroy<Operation>(operation); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* value, size_t bytes) {
  auto& operation = object<Operation>(handle);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSA) return set(operation.a, value, bytes);
  if (attribute == CUBLASLT_MATMUL_DESC_TRANSB) return set(operation.b, value, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* out, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t pitch) {
  *out = reinterpret_cast<cublasLtMatrixLayout_t>(new Layout{type, rows, columns, pitch});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy<Layout>(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* value,
                                                size_t bytes) {
  auto& layout = object<Layout>(handle);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT) return set(layout.batch, value, bytes);
  if (attribute == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET) return set(layout.stride, value, bytes);
  return CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* out) {
  *out = reinterpret_cast<cublasLtMatmulPreference_t>(new Preference);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* value,
                                                    size_t bytes) {
  auto& preference = object<Preference>(handle);
  uint32_t reductions = 0;
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return set(preference.workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return set(reductions, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return set(preference.a, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return set(preference.b, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return set(preference.c, value, bytes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return set(preference.d, value, bytes);
    default:
      return CUBLAS_STATUS_NOT_SUPPORTED;
  }
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation_handle,
                                              cublasLtMatrixLayout_t a_handle, cublasLtMatrixLayout_t b_handle,
                                              cublasLtMatrixLayout_t c_handle, cublasLtMatrixLayout_t d_handle,
                                              cublasLtMatmulPreference_t preference, int,
                                              cublasLtMatmulHeuristicResult_t results[], int* count) {
  *count = 0;
  const char* const wanted = std::getenv("WEFT_TEST_CUBLAS_LT");
  if (wanted != nullptr && std::strcmp(wanted, "none") == 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto& operation = object<Operation>(operation_handle);
  const auto &a = object<Layout>(a_handle), &b = object<Layout>(b_handle), &d = object<Layout>(d_handle);
  if (!is_product(operation, a, b, d) || object<Layout>(c_handle) != d) return CUBLAS_STATUS_INVALID_VALUE;
  results[0] = {};
  const Algorithm algorithm = {digest(operation, {&a, &b, &d}), object<Preference>(preference)};
  std::memcpy(&results[0].algo, &algorithm, sizeof algorithm);
  results[0].workspaceSize = algorithm.promised.workspace_bytes;
  *count = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation_handle, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_handle, const void* b, cublasLtMatrixLayout_t b_handle,
                              const void* beta, const void* c, cublasLtMatrixLayout_t, void* d,
                              cublasLtMatrixLayout_t d_handle, const cublasLtMatmulAlgo_t* chosen, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const auto& operation = object<Operation>(operation_handle);
  const Product product = {operation,
                           object<Layout>(a_handle),
                           object<Layout>(b_handle),
                           object<Layout>(d_handle),
                           factor(alpha, operation.scale),
                           factor(beta, operation.scale),
                           static_cast<const char*>(a),
                           static_cast<const char*>(b),
                           static_cast<const char*>(c),
                           static_cast<char*>(d)};
  Algorithm algorithm = {};
  std::memcpy(static_cast<void*>(&algorithm), chosen, sizeof algorithm);
  const Preference& promised = algorithm.promised;
  if (algorithm.digest != digest(operation, {&product.a, &product.b, &product.d})) return CUBLAS_STATUS_INVALID_VALUE;
  if (!is_aligned(a, promised.a) || !is_aligned(b, promised.b) || !is_aligned(c, promised.c) ||
      !is_aligned(d, promised.d) || workspace == nullptr || workspace_bytes < promised.workspace_bytes) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool queued = weft::testing::run_on(stream, [product] {
    for (int64_t i = 0; i < product.d.batch; ++i) multiply(product, i);
  });
  return queued ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}

}  // extern "C"
