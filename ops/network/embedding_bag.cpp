// The kernel `bag_sum` also computes grid_sample (a bag is the corners of a cell) and sparse matrix products.
#include "../embedding_bag.hpp"

#include <limits>

#include "../create.hpp"
#include "../detail/bags.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../detail/table_rows.hpp"
#include "../index.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../scatter.hpp"
#include "../search.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

Tensor Bags::of_indices(int64_t n) const {
  const TensorOptions like{DType::i64, begins.device()};
  if (each >= 0) return arange(0, count, 1, like).unsqueeze(1).expand({count, each}).reshape({-1});
  const Tensor places = arange(0, n, 1, like);
  if (count == 0) return places;
  return searchsorted(begins.narrow(0, 1, count - 1).contiguous(), places, {.right = true});
}

namespace {

[[noreturn]] void refuse(const std::string& problem) { raise<ValueError>({.problem = problem}); }

TensorOptions counting(const Tensor& like) { return {DType::i64, like.device()}; }

void check_bags(const Tensor& indices, const Tensor& weight, const EmbeddingBagOptions& o) {
  check_floating(checked(weight));
  check_same_device({&checked(indices), &weight, &o.offsets, &o.per_sample_weights});
  for (const Tensor* t : {&indices, &o.offsets}) {
    if (WEFT_UNLIKELY(t->defined() && !is_integer(t->dtype()))) {
      raise_dtype(t == &indices ? "indices" : "offsets", "integers", t->dtype());
    }
  }
  expect_shape("weight", weight, weight.dim() == 2, "[count, width]");
  const bool list = indices.dim() == 1 && o.offsets.defined() && o.offsets.dim() == 1;
  if (WEFT_UNLIKELY(!list && !(indices.dim() == 2 && !o.offsets.defined()))) {
    raise<ShapeError>({.problem = "needs indices [bags, n], or a list of indices and one of offsets",
                       .remedy = fmt::format("the indices have shape {}", indices.shape().text())});
  }
  if (list && o.include_last_offset && o.offsets.numel() == 0) refuse("include_last_offset needs an offset");
  if (o.max_norm && !(*o.max_norm >= 0)) refuse(fmt::format("max_norm = {} is no length", *o.max_norm));
  const Tensor& factors = o.per_sample_weights;
  if (!factors.defined()) return;
  if (o.mode != BagMode::sum) refuse("per_sample_weights are for sums");
  if (!(factors.shape() == indices.shape())) {
    raise_shape("per_sample_weights", indices.shape(), factors);
  }
  expect_one_dtype("weight and per_sample_weights", weight, factors);
}

int64_t padding_row(const Tensor& weight, std::optional<int64_t> padding_idx) {
  if (!padding_idx) return -1;
  const int64_t rows = weight.size(0);
  if (WEFT_UNLIKELY(*padding_idx < -rows || *padding_idx >= rows)) {
    raise_mismatch<IndexError>("padding_idx", fmt::format("one of {} rows", rows), *padding_idx);
  }
  return *padding_idx < 0 ? *padding_idx + rows : *padding_idx;
}

void check_offsets(const Tensor& offsets, int64_t count) {
  if (offsets.numel() == 0 || is_meta(offsets)) return;
  check_elements([offsets, count] {
    const int64_t n = offsets.numel(), first = offsets.select(0, 0).item<int64_t>();
    const bool ascend = all(offsets.narrow(0, 1, n - 1) >= offsets.narrow(0, 0, n - 1)).item<bool>();
    if (WEFT_UNLIKELY(first != 0 || !ascend || offsets.select(0, n - 1).item<int64_t>() > count)) {
      refuse(fmt::format("offsets must ascend from 0 to at most {}, the number of indices", count));
    }
  });
}

Bags bags_of(const Tensor& indices, const EmbeddingBagOptions& o) {
  if (indices.dim() == 2) {
    const int64_t bags = indices.size(0), each = indices.size(1);
    return {bags, arange(0, bags, 1, counting(indices)) * each, each};
  }
  const Tensor offsets = o.offsets.to(DType::i64).contiguous();
  check_offsets(offsets, indices.numel());
  const int64_t bags = offsets.numel() - (o.include_last_offset ? 1 : 0);
  return {bags, offsets.narrow(0, 0, bags)};
}

void shorten_rows(const Tensor& weight, const Tensor& at, double max_norm, double order) {
  const NoGradGuard unrecorded;
  const Tensor rows = index_select(weight, 0, at), norms = vector_norm(rows, order, 1, true);
  index_copy_(weight, 0, at, where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows).to(weight.dtype()));
}

// Of [indices, width], the sum over each bag: [bags, width].
Tensor sums(const Tensor& rows, const Bags& bags) {
  const int64_t n = rows.size(0), width = rows.size(1);
  if (bags.each >= 0) return sum(rows.reshape({bags.count, bags.each, width}), 1);
  return index_add(zeros({bags.count, width}, {rows.dtype(), rows.device()}), 0, bags.of_indices(n), rows);
}

// The first of the largest of each bag is chosen, then taken, so that it alone gets the gradient.
Tensor largest(const Tensor& rows, const Tensor& counts, const Bags& bags) {
  const int64_t n = rows.size(0), width = rows.size(1);
  if (n == 0) return zeros({bags.count, width}, {rows.dtype(), rows.device()});
  Tensor first;
  {
    const NoGradGuard unrecorded;
    const Tensor bag = bags.of_indices(n).unsqueeze(1).expand(rows.shape());
    const Tensor lowest =
        full({bags.count, width}, -std::numeric_limits<double>::infinity(), {rows.dtype(), rows.device()});
    const Tensor best = gather(scatter_reduce(lowest, 0, bag, rows, ScatterReduction::amax), 0, bag);
    const Tensor hit = logical_or(rows == best, logical_and(isnan(rows), isnan(best)));
    const Tensor place = arange(0, n, 1, counting(rows)).unsqueeze(1);
    const Tensor last = full({bags.count, width}, n - 1, counting(rows));
    first = scatter_reduce(last, 0, bag, where(hit, place, n - 1), ScatterReduction::amin);
  }
  return where(counts > 0, gather(rows, 0, first), 0);
}

bool has_kernels(const Tensor& weight) {
  return kernels(weight.raw_view()).bag_sum != nullptr && compute_type(weight.dtype()) == weight.dtype();
}

// Which indices count.
Tensor is_counted(const Tensor& at, int64_t padding) { return at != padding; }

// The indices that count, and 0 for the others; `rows` of the others become `filler`.
Tensor counted_rows(const Tensor& weight, const Tensor& at, int64_t padding, double filler) {
  if (padding < 0) return to_compute_type(index_select(weight, 0, at));
  const Tensor counted = is_counted(at, padding);
  return where(counted.unsqueeze(1), to_compute_type(index_select(weight, 0, where(counted, at, 0))), filler);
}

/// Every index gets its bag's gradient, times its factor or divided by the bag's count.
struct BagBackward {
  Saved weight, factors;
  Tensor at, counts;
  Bags bags;
  Dims shape;
  int64_t padding;
  bool mean, sparse;

  Tensor scaled(Node& self, const Tensor& rows) const {
    return factors.defined() ? rows * factors.get(self).unsqueeze(1) : rows;
  }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor g = mean ? incoming[0] / maximum(counts, 1) : incoming[0];
    Tensor rows = index_select(g, 0, bags.of_indices(at.numel())), places = at;
    const bool as_rows = sparse && self.wants(0) && detail::takes_rows(self, 0, shape);
    if (as_rows) give_table_rows(self, 0, at, scaled(self, rows), padding);
    if (padding >= 0) {
      const Tensor counted = is_counted(at, padding);
      rows = where(counted.unsqueeze(1), rows, 0);
      places = where(counted, at, 0);
    }
    if (self.wants(0) && !as_rows) {
      outgoing[0] = index_add(zeros(shape, {g.dtype(), g.device()}), 0, places, scaled(self, rows));
    }
    if (self.edge_count > 1 && self.wants(1)) {
      outgoing[1] = sum(rows * counted_rows(weight.get(self), at, padding, 0), 1);
    }
  }
};

Tensor fused_sums(const Tensor& operand, const Tensor& at, const Tensor& given, const Bags& bags, int64_t padding,
                  bool mean, bool sparse) {
  const Tensor weight = operand.contiguous(), factors = given.defined() ? given.contiguous() : given;
  const Tensor out = make(Dims{bags.count, weight.size(1)}, weight.dtype(), weight.device());
  const Tensor counts = make(Dims{bags.count, 1}, weight.dtype(), weight.device());
  WEFT_KERNEL(bag_sum, weight)
  (out.raw_view(), counts.raw_view(), weight.raw_view(), at.raw_view(), bags.begins.raw_view(),
   factors.defined() ? factors.raw_view() : View(), padding, mean);
  if (!should_record(operand, given)) return out;
  const bool keeps_weight = given.defined() && needs_gradient(given.impl());
  BagBackward backward{keeps_weight ? Saved(weight) : Saved(),
                       given.defined() ? Saved(factors) : Saved(),
                       at,
                       counts,
                       bags,
                       weight.shape(),
                       padding,
                       mean,
                       sparse};
  if (given.defined()) record(out, std::move(backward), operand, given);
  else record(out, std::move(backward), operand);
  return out;
}

/// The row that was largest gets the gradient, element by element.
struct LargestBackward {
  Tensor at, place;
  Dims shape;

  Tensor operator()(Tensor&& g) {
    if (at.numel() == 0) return zeros(shape, {g.dtype(), g.device()});
    const Tensor found = place >= 0, chosen = where(found, place, 0);
    const Tensor rows = index_select(at, 0, chosen.reshape({-1})).reshape(place.shape());
    return scatter_add(zeros(shape, {g.dtype(), g.device()}), 0, rows, where(found, g, 0));
  }
};

Tensor fused_largest(const Tensor& operand, const Tensor& at, const Bags& bags, int64_t padding) {
  const Tensor weight = operand.contiguous();
  const Dims shape{bags.count, weight.size(1)};
  const Tensor out = make(shape, weight.dtype(), weight.device()), place = make(shape, DType::i64, weight.device());
  WEFT_KERNEL(bag_max, weight)
  (out.raw_view(), place.raw_view(), weight.raw_view(), at.raw_view(), bags.begins.raw_view(), padding);
  if (!should_record(operand)) return out;
  record(out, LargestBackward{at, place, weight.shape()}, operand);
  return out;
}

Tensor sums_by_ops(const Tensor& weight, const Tensor& at, const Tensor& factors, const Bags& bags, int64_t padding,
                   BagMode mode) {
  const bool is_max = mode == BagMode::max;
  Tensor rows = counted_rows(weight, at, padding, is_max ? -std::numeric_limits<double>::infinity() : 0);
  if (factors.defined()) rows = rows * to_compute_type(factors).unsqueeze(1);
  Tensor counts;
  if (mode != BagMode::sum) {
    const TensorOptions like{rows.dtype(), rows.device()};
    const Tensor each = padding >= 0 ? is_counted(at, padding).to(like.dtype.value()) : ones(at.numel(), like);
    counts = sums(each.unsqueeze(1), bags);
  }
  Tensor out = is_max ? largest(rows, counts, bags) : sums(rows, bags);
  if (mode == BagMode::mean) out = out / maximum(counts, 1);
  return out.to(weight.dtype());
}

}  // namespace

Tensor bag_sums(const Tensor& weight, const Tensor& at, const Tensor& factors, const Bags& bags, int64_t padding,
                bool mean, bool sparse) {
  if (has_kernels(weight)) {
    return fused_sums(weight, at, factors, bags, padding, mean, sparse);
  }
  return sums_by_ops(weight, at, factors, bags, padding, mean ? BagMode::mean : BagMode::sum);
}

Tensor embedding_bag(const Tensor& indices, const Tensor& weight, const EmbeddingBagOptions& o, Location where) {
  const CallScope call("embedding_bag", where);
  check_bags(indices, weight, o);
  const int64_t padding = padding_row(weight, o.padding_idx);
  const Bags bags = bags_of(indices, o);
  const Tensor at = indices.to(DType::i64).reshape({-1}).contiguous();
  if (o.max_norm) shorten_rows(weight, at, *o.max_norm, o.norm_type);
  if (bags.count == 0 && at.numel() != 0) return zeros({0, weight.size(1)}, {weight.dtype(), weight.device()});
  const Tensor& factors = o.per_sample_weights;
  const Tensor flat_factors = factors.defined() ? factors.reshape({-1}) : factors;
  if (o.mode == BagMode::max) {
    const bool fused = has_kernels(weight) && at.numel() <= std::numeric_limits<int32_t>::max();
    return fused ? fused_largest(weight, at, bags, padding) : sums_by_ops(weight, at, {}, bags, padding, o.mode);
  }
  return bag_sums(weight, at, flat_factors, bags, padding, o.mode == BagMode::mean, o.sparse);
}

namespace {

Tensor call_embedding_bag(const Tensor& indices, const Tensor& weight, const Tensor& offsets,
                          std::optional<double> max_norm, double norm_type, const std::string& mode,
                          const Tensor& factors, bool include_last_offset, std::optional<int64_t> padding_idx,
                          bool sparse) {
  if (mode != "sum" && mode != "mean" && mode != "max") {
    raise_value("mode", "'sum', 'mean' or 'max'", in_quotes(mode));
  }
  const BagMode of_bag = mode == "sum" ? BagMode::sum : mode == "mean" ? BagMode::mean : BagMode::max;
  return embedding_bag(indices, weight,
                       {offsets, of_bag, factors, include_last_offset, padding_idx, max_norm, norm_type, sparse});
}

Tensor begins(SampleMaker& make, const std::vector<int64_t>& places) { return tensor(places).to(make.device()); }

std::vector<Values> bag_samples(SampleMaker& make) {
  const std::monostate none;
  return {{make.indices({2, 3}, 4), make.tensor({4, 2})},
          {make.indices({5}, 4), make.tensor({4, 2}), begins(make, {0, 2, 2}), none, 2.0, "sum", make.tensor({5})},
          {make.indices({5}, 4), make.tensor({4, 2}), begins(make, {0, 2, 5}), none, 2.0, "max", none, true},
          {make.indices({3, 2}, 4), make.tensor({4, 2}), none, none, 2.0, "mean", none, false, int64_t{-1}},
          {make.indices({3, 2}, 4), make.tensor({4, 3}), none, none, 2.0, "max", none, false, int64_t{1}},
          {make.indices({0}, 4), make.tensor({4, 2}), begins(make, {0, 0})}};
}

/// Columns of the table, and bags where each is a row of indices.
Partition summed_up(const WholeCall& call) {
  if (!std::holds_alternative<std::monostate>(call["max_norm"])) return parts::whole(call);
  const bool rows = call.tensor("indices").dim() == 2;
  const std::string bags = rows ? "n1" : "1";
  std::vector<std::string> in{bags, "1h"};
  if (call.tensor("offsets").defined()) in.emplace_back("1");
  if (call.tensor("per_sample_weights").defined()) in.push_back(bags);
  return {.letters = parts::notation(in, std::vector<std::string>{rows ? "nh" : "1h"})};
}

constexpr OpRecord records[] = {
    {"embedding_bag",
     "embedding_bag(indices|input, &weight, offsets=None, max_norm=None, norm_type=2.0, *, mode='mean', "
     "per_sample_weights=None, include_last_offset=False, padding_idx=None, sparse=False)",
     "The sum, mean or maximum of the rows of weight at each bag of indices: [bags, n], or a list that offsets cut "
     "into "
     "bags. max_norm first shortens the rows that are used, in weight itself.",
     true, OpRecord::Domain::floating, bag_samples, summed_up, detail::boxed<call_embedding_bag>},
};

}  // namespace

std::span<const OpRecord> bag_records() { return records; }

}  // namespace weft
