// The dispatch table: one row of typed kernel pointers per kind of device.
//
// Kernels see only Views: no reference counts, no autograd. Before a kernel is called, ops/ has checked every shape,
// dtype and device and has allocated every output from the record's shape rule, so kernels validate nothing again,
// except values that only they read (indices). A null pointer means the device lacks the kernel: the op's composite
// body runs instead, or NotImplementedError names the remedy.
//
// Conventions that hold for every kernel:
//   * Inputs may have any strides, zero and negative ones included. `out` may be strided, but never overlaps itself.
//   * `out` may be the same memory as an input of equal layout (in-place); partial overlap never reaches a kernel.
//   * Broadcasting is done by the caller: every operand already has the rank and sizes of `out`, with stride 0 where
//     it repeats. An operand with `layout.host_scalar` set is one element in host memory (stride 0 everywhere).
//   * A dtype that a kernel does not serve raises DTypeError through `unsupported`.
//   * 0-size outputs are legal and cheap; reductions over nothing give the identity.
//   * CPU kernels split large work over the thread pool; the result never depends on the number of threads.
//
// Pointwise families have one pointer each, which takes the op as an enumerator. The CPU's table is constant; the
// table of a device is filled when the device starts.
#pragma once

#include <cstdint>
#include <span>

#include "../tensor/atomic.hpp"
#include "../tensor/call.hpp"
#include "../tensor/config.hpp"
#include "../tensor/device.hpp"
#include "../tensor/dtype.hpp"
#include "../tensor/scalar.hpp"
#include "../tensor/view.hpp"
#include "activation.hpp"
#include "functors/optimizer_rows.hpp"

namespace weft {

// The pointwise ops; functors/lists.hpp has their enumerators. Few files need those, and every new op adds one.
enum class UnaryOp : uint8_t;
enum class BinaryOp : uint8_t;
enum class CompareOp : uint8_t;
enum class TernaryOp : uint8_t;

#define WEFT_ENUMERATOR(name, ...) name,
/// How an optimizer steps: the rows of functors/optimizer_rows.hpp.
enum class OptimizerStep : uint8_t { WEFT_OPTIMIZER_STEPS(WEFT_ENUMERATOR) count };
#undef WEFT_ENUMERATOR

enum class Reduction : uint8_t { sum, mean, prod, max, min, any, all };
enum class ArgReduction : uint8_t { max, min };

/// A draw from the counter-based generator: Philox4x32-10 with this key and the first counter (in units of 4 words).
struct PhiloxSeed {
  uint64_t key = 0;
  uint64_t subsequence = 0;
  uint64_t offset = 0;
};
enum class Distribution : uint8_t {
  uniform,    ///< [a, b)
  normal,     ///< mean a, standard deviation b
  bernoulli,  ///< 1 with probability a, else 0
  integers,   ///< integers in [a, b), from the low bits
};

/// One parameter's tensors in a fused optimizer step, dense with the same element order: parameter and gradient of one
/// dtype, the state, as much of it as the step has, f64 for f64 and f32 for others.
struct OptimizerSlot {
  View parameter, gradient, state[3];
};
using OptimizerSettings = OptimizerFactors<double>;

/// The selection of advanced indexing. It has the layout of `base` in index_get and index_put: a dimension that comes
/// from indices has stride 0 there, and index k adds its value, brought into [0, sizes[k]), times strides[k] bytes.
struct IndexPlan {
  int count = 0;
  View indices[max_rank];     ///< i32 or i64, with the selection's sizes; stride 0 where they repeat
  int64_t sizes[max_rank];    ///< of the indexed dimensions
  int64_t strides[max_rank];  ///< of the indexed dimensions, in bytes
  int dims[max_rank];         ///< which dimension of the tensor each indexes, for errors
  bool wraps = true;          ///< whether negative indices count from the end
};
/// How a scatter combines a value with the existing one.
enum class Scatter : uint8_t { replace, sum, prod, max, min };

enum class Pool : uint8_t { max, mean };
/// The windows of pooling along a plane's three dimensions: window i has the elements i * stride - padding + k *
/// dilation for k below `size`, at least one of them inside the plane.
struct PoolPlan {
  struct Line {
    int64_t size = 1, stride = 1, padding = 0, dilation = 1;
    /// Of a mean: each window's share of the divisor.
    std::span<const double> extents = {};
  };
  Line lines[3];
};

/// Parameters of attention besides its operands. Query i of a sequence sees keys i + shift - before … i + shift +
/// after.
struct AttentionPlan {
  static constexpr int64_t unlimited = INT64_MAX / 4;
  double scale = 1;
  int64_t before = unlimited, after = unlimited;
  /// The shift is the number of keys minus that of queries, so that the last query is aligned with the last key; else
  /// 0.
  bool at_end = false;
  /// [batch or sequences, heads], compute type: scores get slope * (key - query - shift). Null data where absent.
  View slopes = {};
  /// i64 [n, 4], contiguous; null data if absent. Otherwise operands have a batch of 1 with the rows of n sequences,
  /// each given by first query, number of queries, first key, number of keys. Rows between sequences are not written.
  View sequences = {};
  /// i64 [n, blocks], contiguous; null data where absent. Key j of sequence n is row
  /// blocks[n, j / block_size] * block_size + j % block_size of k and v.
  View blocks = {};
  int64_t block_size = 1;
  /// Of any sequence.
  int64_t most_queries = 0, most_keys = 0;
};

/// The products of a convolution: y = x * w, and its gradients by data, x = g * w, and by weight, w = x * g.
enum class Convolution : uint8_t { forward, by_data, by_weight };
/// By spatial dimension; `padding` is that at the low end, the sizes give the other one.
struct ConvolutionSteps {
  int64_t stride[3], padding[3], dilation[3];
  int64_t groups;
};

/// The cells of recurrent layers. Gates are concatenated: i, f, g, o for lstm, r, z, n for gru; the others have one.
enum class Cell : uint8_t { tanh, relu, lstm, gru };
/// The steps of a recurrent layer in one direction. The rows of all steps are concatenated.
struct RecurrentSteps {
  int64_t count;
  bool reverse;  ///< from the last to the first
  /// How many rows of the batch, the first ones, each step has, never more than the one before; empty: all of them.
  std::span<const int64_t> rows;
};

struct KernelTable {
  using In = const View&;
  using Out = const View&;
  using Shared = const View&;
  using SharedOut = const View&;
#define WEFT_KERNEL_ROW(result, name, devices, examples, parameters) result(*name) parameters;
#include "kernel_rows.hpp"
};

/// One row per DeviceType. The CPU's is complete at load time; a device's is filled when the device initialises.
extern KernelTable kernel_tables[device_type_count];

namespace detail {
/// The rows that calls use: those above or, while there is a kernel observer, rows that notify it.
extern constinit Atomic<const KernelTable*> active_tables[device_type_count];
}  // namespace detail

/// The kernels of a device type. Raises nothing: a kernel that the device lacks is null.
inline const KernelTable& kernels(DeviceType type) {
  return *detail::active_tables[static_cast<int>(type)].load(MemoryOrder::acquire);
}
inline const KernelTable& kernels(const View& view) { return kernels(view.layout.device_type); }

/// The CPU's row without observers: for single elements and copies that belong to no op.
inline const KernelTable& host_kernels() { return kernel_tables[static_cast<int>(DeviceType::cpu)]; }

/// For kernels: raises DTypeError naming the kernel, the dtype and the device.
[[noreturn]] void unsupported(const char* kernel, const View& view);
/// For kernels: raises IndexError for `index` outside [0, size) along `dim`, or with `wraps` outside [-size, size).
[[noreturn]] void index_out_of_range(int64_t index, int dim, int64_t size, bool wraps);
/// For losses: raises IndexError for a target outside the classes. A device reports one as an index along the axis
/// `class_axis`.
[[noreturn]] void target_out_of_range(int64_t target, int64_t classes);
constexpr int class_axis = -1;

}  // namespace weft
