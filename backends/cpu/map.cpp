#include "map.hpp"

#include <algorithm>
#include <bit>

#include "simd/simd_targets.hpp"
#include <hwy/highway.h>
#include "pointwise/loops.hpp"
#include "pointwise/loops_walk.hpp"
#include "thread_pool.hpp"
#include "../../tensor/dtype.hpp"

namespace weft::cpu {
namespace {

constexpr int64_t grain = 32768;
/// A stack buffer for gathered or converted elements of an operand.
constexpr int64_t block = 512;

/// The operands' common dimensions, merged where all of them allow it; strides count bytes.
struct Plan {
  int count, outputs, rank = 0;
  int64_t numel;
  int64_t sizes[max_rank];
  int64_t strides[max_map_operands][max_rank];

  Plan(std::span<const MapOperand> operands, int outputs_)
      : count(static_cast<int>(operands.size())), outputs(outputs_), numel(operands[0].view.layout.numel) {
    const Layout& shape = operands[0].view.layout;
    for (int d = 0; d < shape.rank; ++d) {
      if (shape.sizes[d] == 1) continue;
      bool joins = rank > 0;
      for (int k = 0; k < count && joins; ++k) {
        joins = strides[k][rank - 1] == operands[static_cast<size_t>(k)].view.layout.strides[d] * shape.sizes[d];
      }
      if (!joins) ++rank;
      sizes[rank - 1] = joins ? sizes[rank - 1] * shape.sizes[d] : shape.sizes[d];
      for (int k = 0; k < count; ++k) {
        strides[k][rank - 1] = operands[static_cast<size_t>(k)].view.layout.strides[d];
      }
    }
  }
  bool one_element(int k) const {
    return std::all_of(strides[k], strides[k] + rank, [](int64_t stride) { return stride == 0; });
  }
};

UnaryLoop conversion(DType to, DType from) {
  return to == from ? nullptr : convert_loops.loop[static_cast<int>(to)][static_cast<int>(from)];
}
void fill(void* out, const void* element, int64_t item, int64_t n) {
  convert_loops.fill[std::countr_zero(static_cast<uint64_t>(item))](out, element, n);
}

/// How an operand reaches the loop: `convert` is null where its dtype is the loop's.
struct Access {
  char* data;
  int64_t item, loop_item;
  UnaryLoop convert;
  bool contiguous, one_element;

  Access(const MapOperand& operand, const Plan& plan, int k)
      : data(static_cast<char*>(operand.view.data)),
        item(itemsize(operand.view.layout.dtype)),
        loop_item(itemsize(operand.type)),
        convert(k < plan.outputs ? conversion(operand.view.layout.dtype, operand.type)
                                 : conversion(operand.type, operand.view.layout.dtype)),
        contiguous(operand.view.layout.contiguous != 0 && operand.view.layout.host_scalar == 0),
        one_element(k >= plan.outputs && plan.one_element(k)) {}
  bool direct() const { return data != nullptr && contiguous && convert == nullptr; }
};

void run_blocks(const Plan& plan, const Access* access, MapLoop loop, const void* function, int64_t begin,
                int64_t end) {
  alignas(64) char scratch[max_map_operands][block * 8];
  alignas(64) char raw[block * 8];
  void* p[max_map_operands];
  for (int k = 0; k < plan.count; ++k) {
    p[k] = scratch[k];
    if (!access[k].one_element) continue;
    const void* element = access[k].data;
    if (access[k].convert != nullptr) access[k].convert(raw, access[k].data, 1), element = raw;
    fill(scratch[k], element, access[k].loop_item, std::min(block, end - begin));
  }
  for (int64_t i = begin; i < end; i += block) {
    const int64_t n = std::min(block, end - i);
    for (int k = 0; k < plan.count; ++k) {
      const Access& a = access[k];
      if (a.one_element) continue;
      if (a.direct()) {
        p[k] = a.data + i * a.item;
      } else if (k >= plan.outputs) {
        const char* from = a.data + i * a.item;
        if (!a.contiguous) {
          from = a.convert == nullptr ? scratch[k] : raw;
          gather_block({plan.rank, plan.sizes, plan.strides[k], a.data, a.item}, i, n,
                       a.convert == nullptr ? scratch[k] : raw);
        }
        if (a.convert != nullptr) a.convert(scratch[k], from, n);
      }
    }
    loop(function, p, n);
    for (int k = 0; k < plan.outputs; ++k) {
      if (access[k].data != nullptr && access[k].convert != nullptr) {
        access[k].convert(access[k].data + i * access[k].item, scratch[k], n);
      }
    }
  }
}

}  // namespace

void run_map(MapLoop loop, const void* function, std::span<const MapOperand> operands, int outputs) {
  const Plan plan(operands, outputs);
  if (plan.numel == 0) return;
  alignas(Access) char memory[max_map_operands * sizeof(Access)];
  auto* access = reinterpret_cast<Access*>(memory);
  bool direct = true;
  for (int k = 0; k < plan.count; ++k) {
    new (access + k) Access(operands[static_cast<size_t>(k)], plan, k);
    direct &= access[k].direct();
  }
  parallel_for(plan.numel, grain, [&](int64_t begin, int64_t end) {
    if (!direct) return run_blocks(plan, access, loop, function, begin, end);
    void* p[max_map_operands];
    for (int k = 0; k < plan.count; ++k) p[k] = access[k].data + begin * access[k].item;
    loop(function, p, end - begin);
  });
}

int map_level() {
#if defined(__x86_64__)
  const int64_t targets = hwy::SupportedTargets();
  return (targets & HWY_AVX3) != 0 ? 2 : (targets & HWY_AVX2) != 0 ? 1 : 0;
#else
  return 0;
#endif
}

}  // namespace weft::cpu
