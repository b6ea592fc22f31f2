// How reductions are walked. The dimensions are split into kept and reduced ones, each sorted by stride and merged;
// then either the reduced dimension is innermost (lines) or a kept one is (columns). Work is cut into blocks by the
// shape alone, and the blocks' results are combined in order.
#include <algorithm>

#include "reduce_plan.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {

namespace {
int64_t magnitude(int64_t stride) { return stride < 0 ? -stride : stride; }

/// Sorts dimension numbers by falling stride of `layout`, keeping the order of equal ones.
void sort_by_stride(int* dims, int count, const Layout& layout) {
  for (int i = 1; i < count; ++i) {
    for (int j = i; j > 0 && magnitude(layout.strides[dims[j]]) > magnitude(layout.strides[dims[j - 1]]); --j) {
      const int swapped = dims[j];
      dims[j] = dims[j - 1];
      dims[j - 1] = swapped;
    }
  }
}
}  // namespace

ReducePlan::ReducePlan(const View& out_view, const View& in)
    : out(bytes(out_view)), data(bytes(in)), out_dtype(out_view.layout.dtype), dtype(in.layout.dtype) {
  int kept_dims[max_rank], reduced_dims[max_rank], kept_count = 0, reduced_count = 0;
  for (int d = 0; d < in.layout.rank; ++d) {
    if (in.layout.sizes[d] == 1) continue;
    if (out_view.layout.sizes[d] == in.layout.sizes[d]) kept_dims[kept_count++] = d;
    else reduced_dims[reduced_count++] = d;
  }
  sort_by_stride(kept_dims, kept_count, in.layout);
  sort_by_stride(reduced_dims, reduced_count, in.layout);
  for (int i = 0; i < kept_count; ++i) {
    const int d = kept_dims[i];
    kept.push(in.layout.sizes[d], {out_view.layout.strides[d], in.layout.strides[d]});
  }
  for (int i = 0; i < reduced_count; ++i) {
    const int d = reduced_dims[i];
    reduced.push(in.layout.sizes[d], {in.layout.strides[d]});
  }
  by_columns = false;
  if (kept.rank > 0 && reduced.rank > 0) {
    const int64_t kept_stride = magnitude(kept.strides[1][kept.rank - 1]);
    const int64_t reduced_stride = magnitude(reduced.strides[0][reduced.rank - 1]);
    by_columns = kept_stride < reduced_stride && kept.sizes[kept.rank - 1] >= 4;
  }
}

namespace {

/// Elements of one block of a reduction that is cut into several.
constexpr int64_t block_elements = 65536;

/// The elements of `lines` lines of n, cut into blocks: several lines, or a part of one.
class LineBlocks {
 public:
  struct Block {
    int64_t first_line, lines, first, size;
  };
  LineBlocks(int64_t lines, int64_t n)
      : lines_(lines),
        n_(n),
        part_(n > block_elements ? block_elements : n),
        parts_(n > block_elements ? (n + block_elements - 1) / block_elements : 1),
        together_(n > block_elements ? 1 : block_elements / (n > 0 ? n : 1)) {}
  /// At least 1, so that a reduction over nothing has a result.
  int64_t count() const {
    if (parts_ > 1) return lines_ > 0 ? lines_ * parts_ : 1;
    return lines_ > 0 ? (lines_ + together_ - 1) / together_ : 1;
  }
  /// In one block, at most.
  int64_t elements() const { return part_ * (lines_ < together_ ? lines_ : together_); }
  Block at(int64_t i) const {
    if (lines_ == 0) return {0, 0, 0, 0};
    if (parts_ > 1) {
      const int64_t first = i % parts_ * part_;
      return {i / parts_, 1, first, n_ - first < part_ ? n_ - first : part_};
    }
    const int64_t first_line = i * together_;
    return {first_line, lines_ - first_line < together_ ? lines_ - first_line : together_, 0, n_};
  }

 private:
  int64_t lines_, n_, part_, parts_, together_;
};

/// How the rows of a reduction by columns are cut: not at all, unless the columns alone would leave threads idle.
struct ColumnPieces {
  ColumnPieces(const ReducePlan& plan, int64_t most_columns) {
    columns = plan.kept.sizes[plan.kept.rank - 1];
    const int64_t all = plan.reduced.count > 0 ? plan.reduced.count : 1;
    const int64_t wanted = block_elements / (columns < most_columns ? columns : most_columns);
    rows = plan.kept.count <= 16 * most_columns && all >= 2 * wanted ? wanted : all;
    pieces = (all + rows - 1) / rows;
  }
  int64_t columns, rows, pieces;
};

template <class W>
void reduce_lines(const ReduceKernel<W>& kernel, const ReducePlan& plan, ReducedElements elements, W* partial) {
  Walk<1> outer = plan.reduced;
  int64_t step[1];
  const int64_t n = outer.pop(step);
  const LineBlocks blocks(outer.count, n);
  const int64_t per_output = blocks.count();
  parallel_for(plan.kept.count * per_output, rows_per_chunk(blocks.elements()), [&](int64_t begin, int64_t end) {
    std::fill(partial + begin, partial + end, kernel.identity);
    if (outer.rank == 0 && per_output == 1 && plan.kept.rank == 1) {
      const int64_t line_step = plan.kept.strides[1][0];
      return kernel.lines(partial + begin, end - begin, plan.data + begin * line_step, line_step, step[0], n, elements);
    }
    Cursor<2> kept(plan.kept, begin / per_output);
    if (outer.rank == 0 && per_output == 1) {  // one short line each: no divisions
      for (int64_t t = begin; t < end; ++t, kept.next()) {
        kernel.lines(partial + t, 1, plan.data + kept.offset[1], 0, step[0], n, elements);
      }
      return;
    }
    for (int64_t t = begin; t < end; ++t) {
      const LineBlocks::Block block = blocks.at(t % per_output);
      Cursor<1> line(outer, block.first_line);
      for (int64_t i = 0; i < block.lines; ++i, line.next()) {
        const char* x = plan.data + kept.offset[1] + line.offset[0] + block.first * step[0];
        kernel.lines(partial + t, 1, x, 0, step[0], block.size, elements);
      }
      if ((t + 1) % per_output == 0) kept.next();
    }
  });
}

/// Pieces of rows x blocks of columns x outer kept positions; partial[(outer * pieces + piece) * columns + column].
template <class W>
void reduce_columns(const ReduceKernel<W>& kernel, const ReducePlan& plan, ReducedElements elements, W* partial,
                    int64_t pieces, int64_t rows_per_piece) {
  Walk<2> outer = plan.kept;
  int64_t step[2];
  const int64_t columns = outer.pop(step), most = kernel.most_columns;
  const int64_t blocks = (columns + most - 1) / most;
  const int64_t grain = rows_per_chunk(rows_per_piece * (columns < most ? columns : most));
  parallel_for(outer.count * pieces * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t block = t % blocks, piece = t / blocks % pieces, position = t / blocks / pieces;
      const Cursor<2> at(outer, position);
      const int64_t first_row = piece * rows_per_piece, first = block * most;
      const int64_t rows =
          plan.reduced.count - first_row < rows_per_piece ? plan.reduced.count - first_row : rows_per_piece;
      const int64_t width = columns - first < most ? columns - first : most;
      kernel.columns(plan.data + at.offset[1] + first * step[1], plan.reduced, first_row, rows, step[1], width,
                     elements, partial + (position * pieces + piece) * columns + first);
    }
  });
}

/// The columns of a dense matrix with few of them: several rows are seen as one, so that registers are filled.
template <class W>
void reduce_narrow(const ReduceKernel<W>& kernel, const ReducePlan& plan, ReducedElements elements, int64_t rows_in_one,
                   double divisor) {
  const int64_t columns = plan.kept.count, rows = plan.reduced.count / rows_in_one,
                rest = plan.reduced.count % rows_in_one;
  ReducePlan wide = plan;
  wide.kept.sizes[0] = wide.kept.count = columns * rows_in_one;
  wide.reduced.sizes[0] = wide.reduced.count = rows;
  wide.reduced.strides[0][0] *= rows_in_one;
  const ColumnPieces cut(wide, kernel.most_columns);
  const Scratch memory((cut.pieces * wide.kept.count + columns) * (int64_t)sizeof(W));
  W* const partial = memory.as<W>();
  reduce_columns(kernel, wide, elements, partial, cut.pieces, cut.rows);
  kernel.columns(plan.data, plan.reduced, rows * rows_in_one, rest, plan.kept.strides[1][0], columns, elements,
                 partial + cut.pieces * wide.kept.count);
  kernel.finish(plan, partial, cut.pieces * rows_in_one + 1, columns, divisor);
}

}  // namespace

template <class W>
void reduce_by(const ReduceKernel<W>& kernel, const ReducePlan& plan, bool truth, double divisor) {
  const ReducedElements elements{plan.dtype, truth};
  if (!plan.by_columns) {
    Walk<1> outer = plan.reduced;
    int64_t step[1];
    const int64_t n = outer.pop(step);
    const int64_t pieces = LineBlocks(outer.count, n).count();
    const Scratch partial(plan.kept.count * pieces * (int64_t)sizeof(W));
    reduce_lines(kernel, plan, elements, partial.as<W>());
    return kernel.finish(plan, partial.as<W>(), pieces, 1, divisor);
  }
  const int64_t rows_in_one = kernel.merges_rows ? plan.rows_in_one() : 1;
  if (rows_in_one > 1) return reduce_narrow(kernel, plan, elements, rows_in_one, divisor);
  const ColumnPieces cut(plan, kernel.most_columns);
  const Scratch partial(plan.kept.count * cut.pieces * (int64_t)sizeof(W));
  reduce_columns(kernel, plan, elements, partial.as<W>(), cut.pieces, cut.rows);
  kernel.finish(plan, partial.as<W>(), cut.pieces, cut.columns, divisor);
}
template void reduce_by(const ReduceKernel<double>&, const ReducePlan&, bool, double);
template void reduce_by(const ReduceKernel<int64_t>&, const ReducePlan&, bool, double);
template void reduce_by(const ReduceKernel<uint64_t>&, const ReducePlan&, bool, double);
template void reduce_by(const ReduceKernel<int32_t>&, const ReducePlan&, bool, double);
template void reduce_by(const ReduceKernel<Moments>&, const ReducePlan&, bool, double);

}  // namespace weft::cpu
