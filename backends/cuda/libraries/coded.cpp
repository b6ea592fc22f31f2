// Products with codes: those of many rows are decoded once, and multiplied by cuBLASLt.
#include "converted.hpp"
#include "library.hpp"
#include "../../portable/host/coded.hpp"

namespace weft::cuda {

namespace {

using portable::host::CodedMatrix, portable::host::transposed;

/// From so many rows on, reading the codes again for each tile costs more than their numbers' memory.
constexpr int64_t many = 64;
bool by_library(const View& out) { return out.layout.sizes[0] >= many && out.layout.numel > 0 && find_lt() != nullptr; }

/// Decoded codes [n, k], for the duration of a kernel's host code.
class Decoded {
 public:
  Decoded(const CodedMatrix& from, int64_t n, int64_t k, DType type)
      : memory_(portable::host::device_of(from.codes), static_cast<size_t>(n * k * itemsize(type))),
        view_(portable::host::matrix_on(from.codes, memory_.data(), n, k, type)) {
    portable::host::decode(view_, from);
  }
  const View& view() const { return view_; }

 private:
  portable::host::ScratchMemory memory_;
  View view_;
};

}  // namespace

void quantized_matmul(const View& out, const View& x, const View& codes, const View& scale, const View& zero,
                      const View& bias, int64_t bits, int64_t group) {
  const int64_t n = out.layout.sizes[1], k = x.layout.sizes[1];
  if (!by_library(out)) {
    return portable::host::quantized_matmul(out, x, codes, scale, zero, bias, bits, group);
  }
  const DType type = x.layout.dtype == DType::bf16 ? DType::bf16 : DType::f32;  // f16 has no room for all weights
  const Converted result(out, type), rows(x, type), vector(bias, type);
  const Decoded weight(portable::host::grouped(codes, scale, zero, bits, group), n, k, type);
  rows.read();
  vector.read();
  const View start = bias.data != nullptr ? broadcast_view(vector.view(), sizes_of(out.layout)) : View();
  matmul(result.view(), rows.view(), transposed(weight.view()), start);
  result.write_back();
}

void blockwise_matmul(const View& out, const View& start, const View& a, const View& a_scale, const View& b,
                      const View& b_scale, int64_t a_rows, int64_t b_rows) {
  const int64_t m = out.layout.sizes[0], n = out.layout.sizes[1], k = a.layout.sizes[1];
  if (k == 0 || !by_library(out)) {
    return portable::host::blockwise_matmul(out, start, a, a_scale, b, b_scale, a_rows, b_rows);
  }
  const Converted result(out, DType::f32), addend(start, DType::f32);
  constexpr int64_t columns = portable::host::block_columns;
  const Decoded left(portable::host::coded(a, a_scale, a_rows, columns), m, k, DType::f32),
      right(portable::host::coded(b, b_scale, b_rows, columns), n, k, DType::f32);
  addend.read();
  matmul(result.view(), left.view(), transposed(right.view()), addend.view());
  result.write_back();
}

}  // namespace weft::cuda
