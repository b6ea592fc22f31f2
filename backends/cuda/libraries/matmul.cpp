// Matrix products of floats by cuBLASLt, in TF32 if enabled; unsupported products use the portable kernel.
//
// cuBLASLt's matrices have contiguous columns, so out^T = b^T a^T is computed: the first matrix is b, the second a.
#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "library.hpp"
#include "plans.hpp"
#include "../queue.hpp"
#include "../../portable/host/host.hpp"
#include "../../portable/host/launch.hpp"
#include "../../../tensor/tf32.hpp"

namespace weft::cuda {

namespace {

// ---- operands -------------------------------------------------------------------------------------------------------

/// A matrix with contiguous rows, or contiguous columns (`transposed`); the pitch and the batch's stride in elements.
struct Matrix {
  int64_t pitch = 0, batch_stride = 0;
  bool transposed = false;
};

std::optional<Matrix> as_matrix(const View& view) {
  const Layout& l = view.layout;
  const int64_t item = itemsize(l.dtype);
  const int64_t rows = l.sizes[l.rank - 2], columns = l.sizes[l.rank - 1];
  const int64_t row_bytes = rows == 1 ? columns * item : l.strides[l.rank - 2];
  const int64_t column_bytes = columns == 1 ? item : l.strides[l.rank - 1];
  if (row_bytes % item != 0 || column_bytes % item != 0) return {};
  const int64_t row = row_bytes / item, column = column_bytes / item;
  if (column == 1 && row >= columns) return Matrix{row, 0, false};
  if ((row == 1 || rows == 1) && column >= rows) return Matrix{column, 0, true};
  return {};
}

/// Products of equal shapes: the batch's innermost dimension goes to the library, the others are walked by the host.
struct Product {
  View out, a, b;
  Matrix out_matrix, a_matrix, b_matrix;
  int64_t m, n, k, batch;
  portable::Walk<3> outer;
};

constexpr int64_t most_calls = 1024;

View transposed(View view) {
  Layout& l = view.layout;
  std::swap(l.sizes[l.rank - 2], l.sizes[l.rank - 1]);
  std::swap(l.strides[l.rank - 2], l.strides[l.rank - 1]);
  return view;
}

/// Takes the innermost dimension out of the batch's walk; false where the strides are no whole elements.
bool split_batch(Product& p, portable::Walk<3> walk) {
  const int64_t item = itemsize(p.out.layout.dtype);
  p.batch = walk.rank == 0 ? 1 : walk.sizes[0];
  Matrix* const matrices[] = {&p.out_matrix, &p.a_matrix, &p.b_matrix};
  for (int k = 0; k < 3; ++k) {
    const int64_t bytes = walk.rank == 0 ? 0 : walk.strides[k][0];
    if (bytes % item != 0) return false;
    matrices[k]->batch_stride = bytes / item;
  }
  p.outer = {};
  p.outer.count = walk.count / p.batch;
  p.outer.rank = std::max(walk.rank - 1, 0);
  for (int d = 0; d < p.outer.rank; ++d) {
    p.outer.sizes[d] = walk.sizes[d + 1];
    for (int k = 0; k < 3; ++k) p.outer.strides[k][d] = walk.strides[k][d + 1];
  }
  return true;
}

std::optional<Product> as_product(const View& out, const View& a, const View& b) {
  const DType t = out.layout.dtype;
  if (!portable::host::is_computable_float(t) || a.layout.dtype != t || b.layout.dtype != t) return {};
  std::optional<Matrix> target = as_matrix(out);
  if (!target) return {};
  Product p = {};
  p.out = target->transposed ? transposed(out) : out;
  p.a = target->transposed ? transposed(b) : a;
  p.b = target->transposed ? transposed(a) : b;
  const std::optional<Matrix> left = as_matrix(p.a), right = as_matrix(p.b);
  if (!left || !right) return {};
  target->transposed = false;
  p.out_matrix = *target;
  p.a_matrix = *left;
  p.b_matrix = *right;
  const int rank = out.layout.rank;
  p.m = p.out.layout.sizes[rank - 2];
  p.n = p.out.layout.sizes[rank - 1];
  p.k = p.a.layout.sizes[rank - 1];
  const Layout* const layouts[] = {&p.out.layout, &p.a.layout, &p.b.layout};
  if (!split_batch(p, portable::host::walk_of(layouts, 0, rank - 2))) return {};
  if (std::max({p.m, p.n, p.k, p.batch}) > INT32_MAX || p.outer.count > most_calls) return {};
  return p;
}

// ---- the library's description
// ---------------------------------------------------------------------------------------

template <class T, auto LtApi::*destroy>
struct Destroyer {
  void operator()(T* object) const { (lt().*destroy)(object); }
};
template <class Handle, auto LtApi::*destroy>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Destroyer<std::remove_pointer_t<Handle>, destroy>>;
using OwnedHandle = Owned<cublasLtHandle_t, &LtApi::cublasLtDestroy>;
using OwnedOperation = Owned<cublasLtMatmulDesc_t, &LtApi::cublasLtMatmulDescDestroy>;
using OwnedLayout = Owned<cublasLtMatrixLayout_t, &LtApi::cublasLtMatrixLayoutDestroy>;
using OwnedPreference = Owned<cublasLtMatmulPreference_t, &LtApi::cublasLtMatmulPreferenceDestroy>;

struct Plan {
  OwnedOperation operation;
  OwnedLayout a, b, out;
  cublasLtMatmulAlgo_t algorithm;
  bool served = false;
};
using Key = std::array<int64_t, 16>;

using Matmuls = Workplace<OwnedHandle, Key, Plan>;

Matmuls& matmuls_of(int device) {
  return Matmuls::of(device, [](int index) {
    cublasLtHandle_t handle = nullptr;
    WEFT_LT(index, cublasLtCreate, &handle);
    return OwnedHandle(handle);
  });
}

cudaDataType_t data_type(DType t) {
  if (t == DType::f64) return CUDA_R_64F;
  return t == DType::f32 ? CUDA_R_32F : (t == DType::f16 ? CUDA_R_16F : CUDA_R_16BF);
}

bool in_tf32(DType t) { return t == DType::f32 && tf32_state().matmul; }

Key key_of(const Product& p, const void* out, const void* a, const void* b) {
  return {static_cast<int64_t>(p.out.layout.dtype),
          p.m,
          p.n,
          p.k,
          p.batch,
          p.a_matrix.transposed * 2 + p.b_matrix.transposed,
          p.out_matrix.pitch,
          p.a_matrix.pitch,
          p.b_matrix.pitch,
          p.out_matrix.batch_stride,
          p.a_matrix.batch_stride,
          p.b_matrix.batch_stride,
          alignment_of(out),
          alignment_of(a),
          alignment_of(b),
          in_tf32(p.out.layout.dtype)};
}

/// `rows` x `columns` with contiguous rows, or columns where `matrix` is transposed.
OwnedLayout layout_of(const Matrix& matrix, DType t, int64_t rows, int64_t columns, int64_t batch, int device) {
  cublasLtMatrixLayout_t layout = nullptr;
  const auto height = static_cast<uint64_t>(matrix.transposed ? rows : columns);
  const auto width = static_cast<uint64_t>(matrix.transposed ? columns : rows);
  WEFT_LT(device, cublasLtMatrixLayoutCreate, &layout, data_type(t), height, width, matrix.pitch);
  OwnedLayout owned(layout);
  const auto count = static_cast<int32_t>(batch);
  const auto set = [&](cublasLtMatrixLayoutAttribute_t attribute, const auto& value) {
    WEFT_LT(device, cublasLtMatrixLayoutSetAttribute, layout, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, count);
  set(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride);
  return owned;
}

OwnedOperation operation_of(const Product& p, int device) {
  const bool is_double = p.out.layout.dtype == DType::f64;
  const cublasComputeType_t single = in_tf32(p.out.layout.dtype) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
  cublasLtMatmulDesc_t operation = nullptr;
  WEFT_LT(device, cublasLtMatmulDescCreate, &operation, is_double ? CUBLAS_COMPUTE_64F : single,
          is_double ? CUDA_R_64F : CUDA_R_32F);
  OwnedOperation owned(operation);
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, bool is_transposed) {
    const cublasOperation_t value = is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    WEFT_LT(device, cublasLtMatmulDescSetAttribute, operation, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, p.b_matrix.transposed);
  set(CUBLASLT_MATMUL_DESC_TRANSB, p.a_matrix.transposed);
  return owned;
}

OwnedPreference preference_of(const Key& key, int device) {
  cublasLtMatmulPreference_t preference = nullptr;
  WEFT_LT(device, cublasLtMatmulPreferenceCreate, &preference);
  OwnedPreference owned(preference);
  const auto set = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    WEFT_LT(device, cublasLtMatmulPreferenceSetAttribute, preference, attribute, &value, sizeof(value));
  };
  set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{CudaQueue::workspace_bytes});
  // Parts of a product meet in the compute type and in a fixed order: the same bits each time.
  set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  const auto out = static_cast<uint32_t>(key[12]), a = static_cast<uint32_t>(key[13]);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<uint32_t>(key[14]));
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, out);
  set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, out);
  return owned;
}

Plan make_plan(const Product& p, const Key& key, cublasLtHandle_t handle, int device) {
  const DType t = p.out.layout.dtype;
  Plan plan;
  plan.operation = operation_of(p, device);
  plan.a = layout_of(p.a_matrix, t, p.m, p.k, p.batch, device);
  plan.b = layout_of(p.b_matrix, t, p.k, p.n, p.batch, device);
  plan.out = layout_of(p.out_matrix, t, p.m, p.n, p.batch, device);
  const OwnedPreference preference = preference_of(key, device);
  cublasLtMatmulHeuristicResult_t found = {};
  int count = 0;
  const cublasStatus_t status =
      lt().cublasLtMatmulAlgoGetHeuristic(handle, plan.operation.get(), plan.b.get(), plan.a.get(), plan.out.get(),
                                          plan.out.get(), preference.get(), 1, &found, &count);
  if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "cublasLtMatmulAlgoGetHeuristic", device);
  plan.served = status == CUBLAS_STATUS_SUCCESS && count > 0;
  plan.algorithm = found.algo;
  return plan;
}

// ---- the call -------------------------------------------------------------------------------------------------------

/// Byte offsets of out, a and b at a position of the batch's outer dimensions.
std::array<int64_t, 3> offsets_at(const portable::Walk<3>& walk, int64_t position) {
  std::array<int64_t, 3> offsets = {};
  for (int d = 0; d < walk.rank; ++d) {
    for (size_t k = 0; k < 3; ++k) offsets[k] += position % walk.sizes[d] * walk.strides[k][d];
    position /= walk.sizes[d];
  }
  return offsets;
}

/// False, with nothing done, where the library has no algorithm.
bool multiply(CudaQueue& queue, const Product& p, const std::array<int64_t, 3>& offsets, bool adds) {
  char* const out = static_cast<char*>(p.out.data) + offsets[0];
  const char* const a = static_cast<const char*>(p.a.data) + offsets[1];
  const char* const b = static_cast<const char*>(p.b.data) + offsets[2];
  CudaDevice& device = queue.cuda_device();
  const int index = device.index();
  Matmuls& known = matmuls_of(index);
  const Key key = key_of(p, out, a, b);
  const std::shared_ptr<const Plan>& plan = known.plan(key, [&] { return make_plan(p, key, known.handle(), index); });
  void* const workspace = queue.workspace();
  if (!plan->served || workspace == nullptr) return false;
  const bool is_double = p.out.layout.dtype == DType::f64;
  queue.run_library([=](cudaStream_t stream) {
    const double factors[] = {1, adds ? 1.0 : 0.0};
    const float small_factors[] = {1, adds ? 1.0f : 0.0f};
    const void* const alpha = is_double ? static_cast<const void*>(&factors[0]) : &small_factors[0];
    const void* const beta = is_double ? static_cast<const void*>(&factors[1]) : &small_factors[1];
    WEFT_LT(index, cublasLtMatmul, matmuls_of(index).handle(), plan->operation.get(), alpha, b, plan->b.get(), a,
            plan->a.get(), beta, out, plan->out.get(), out, plan->out.get(), &plan->algorithm, workspace,
            CudaQueue::workspace_bytes, stream);
  });
  return true;
}

}  // namespace

void matmul(const View& out, const View& a, const View& b, const View& bias) {
  const bool is_empty = out.layout.numel == 0 || a.layout.sizes[a.layout.rank - 1] == 0;
  std::optional<Product> product;
  if (!is_empty && find_lt() != nullptr) product = as_product(out, a, b);
  if (!product) return portable::host::matmul(out, a, b, bias);
  CudaQueue& queue = cuda_queue_of(out);
  const CurrentDevice current(queue.device().index);
  const bool adds = bias.data != nullptr;
  if (adds) portable::host::copy(out, bias);
  for (int64_t i = 0; i < product->outer.count; ++i) {
    if (multiply(queue, *product, offsets_at(product->outer, i), adds)) continue;
    return portable::host::matmul(out, a, b, bias);
  }
}

}  // namespace weft::cuda
