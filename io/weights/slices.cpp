#include "slices-inl.hpp"

#include "../../ops/create.hpp"

namespace weft::io {

namespace {

Dims reordered(const Dims& dims, const Dims& order) {
  Dims out;
  for (const int64_t d : order) out.push_back(dims[static_cast<int>(d)]);
  return out;
}

// Restricts a slice to a box within it.
Slice cut(const Slice& slice, const Box& common) {
  Slice out = slice;
  out.box = common;
  for (int d = 0; d < common.rank(); ++d) {
    out.from[static_cast<int>(slice.axes[d])] += common.starts[d] - slice.box.starts[d];
  }
  return out;
}

Tensor elements_of(const Slice& slice, const TensorStore& source, Location where) {
  Dims ends = slice.from;
  for (int d = 0; d < slice.box.rank(); ++d) ends[static_cast<int>(slice.axes[d])] += slice.box.size(d);
  Tensor out = source.get_slice(*slice.source, slice.from, ends, {}, where);
  if (!std::ranges::is_sorted(slice.axes)) out = out.permute(slice.axes, where);
  for (const DType dtype : slice.casts) out = out.to(dtype, where);
  return out.contiguous(where);
}

}  // namespace

SlicedTensor whole_of(const std::string& name, const TensorStore::Info& info) {
  SlicedTensor out{info, {}};
  Slice all{.box = Box::whole(info.shape), .source = &name, .from = Dims::filled(info.shape.size(), 0), .axes = {}};
  for (int d = 0; d < info.shape.size(); ++d) all.axes.push_back(d);
  if (!all.box.empty()) out.slices.push_back(all);
  return out;
}

SlicedTensor permuted(const SlicedTensor& t, const Dims& permutation) {
  SlicedTensor out = t;
  out.info.shape = reordered(t.info.shape, permutation);
  for (Slice& s : out.slices) {
    s.box = {reordered(s.box.starts, permutation), reordered(s.box.ends, permutation)};
    s.axes = reordered(s.axes, permutation);
  }
  return out;
}

SlicedTensor converted(const SlicedTensor& t, DType dtype) {
  SlicedTensor out = t;
  out.info.dtype = dtype;
  for (Slice& s : out.slices) s.casts.push_back(dtype);
  return out;
}

SlicedTensor boxed(const SlicedTensor& t, const Box& box) {
  SlicedTensor out{{t.info.dtype, box.shape()}, {}};
  for (const Slice& s : t.slices) {
    const Box common = intersection(s.box, box);
    if (common.empty()) continue;
    out.slices.push_back(cut(s, common));
    out.slices.back().box = common.from(box.starts);
  }
  return out;
}

SlicedTensor joined(std::span<const Shared<const SlicedTensor>> parts, int axis, const Dims& shape) {
  SlicedTensor out{{parts.front()->info.dtype, shape}, {}};
  Dims before = Dims::filled(shape.size(), 0);
  for (const auto& part : parts) {
    for (Slice s : part->slices) {
      s.box.starts[axis] -= before[axis], s.box.ends[axis] -= before[axis];
      out.slices.push_back(std::move(s));
    }
    before[axis] -= part->info.shape[axis];
  }
  return out;
}

Tensor elements_of(const SlicedTensor& t, const Box& box, const TensorStore& source, Location where) {
  const SlicedTensor wanted = boxed(t, box);
  if (wanted.slices.size() == 1) return elements_of(wanted.slices.front(), source, where);
  Tensor out = empty(wanted.info.shape, wanted.info.dtype, where);
  for (const Slice& s : wanted.slices) part_of(out, s.box, where).copy_(elements_of(s, source, where), where);
  return out;
}

}  // namespace weft::io
