#include "../distance.hpp"

#include <cmath>

#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../linalg/common.hpp"
#include "../masked.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../../tensor/layout.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// Both in the type that they are computed in, and the type of the result.
struct Vectors {
  Tensor a, b;
  DType dtype;
};
Vectors vectors(const Tensor& a, const Tensor& b) {
  const DType dtype = result_type(checked(a), checked(b));
  if (!is_floating(dtype)) check_floating(a);
  const DType wide = compute_type(dtype);
  // A number goes where the other operand is.
  const auto beside = [wide](const Tensor& t, const Tensor& other) {
    return (t.impl()->wrapped_number ? t.to(other.device()) : t).to(wide);
  };
  return {beside(a, b), beside(b, a), dtype};
}

// ---- cdist: rows of a [batch, n, k] and of b [batch, m, k] ----------------------------------------------------------

constexpr int64_t most_differences = int64_t{1} << 22;
constexpr int64_t most_rows_without_product = 25;
constexpr double least_share = 0.25;  // of |a|² + |b|² that |a - b|² has where the product tells it well

struct Block {
  int64_t first, count;
};
// Rows of a, so many at a time that all their differences fit into little memory.
template <class F>
void each_block(const Tensor& a, const Tensor& b, F&& f) {
  const int64_t n = a.sizes()[1];
  const int64_t of_row = std::max<int64_t>(1, b.numel());
  const bool meta = is_meta(a);
  const int64_t step = meta ? std::max<int64_t>(n, 1) : std::max<int64_t>(1, most_differences / of_row);
  for (int64_t i = 0; i < n || i == 0; i += step) f(Block{i, std::min(step, n - i)});
}

Tensor differences(const Tensor& a, const Tensor& b, Block block) {
  return a.narrow(1, block.first, block.count).unsqueeze(2) - b.unsqueeze(1);
}

// The gradient of each difference; 0 where the distance or the difference is.
Tensor of_differences(const Tensor& d, const Tensor& distance, const Tensor& g, double p) {
  const Tensor whole = distance.unsqueeze(-1), share = g.unsqueeze(-1);
  if (p == 1) return sign(d) * share;
  if (std::isinf(p)) return sign(d) * weft::where(abs(d) == whole, share, 0.0);
  const Tensor none = whole == 0;
  const Tensor safe = masked_fill(whole, none, 1), wanted = masked_fill(share, none, 0);
  if (p == 2) return d * (wanted / safe);
  const Tensor zero = d == 0;
  const Tensor ratio = masked_fill(abs(d), zero, 1) / safe;
  return masked_fill(sign(d) * pow(ratio, p - 1) * wanted, zero, 0);
}

struct CdistBackward {
  Saved a, b;
  SavedOutput distance;
  double p;

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor &g = incoming[0], &x = a.get(self), &y = b.get(self), whole = distance.get(self);
    if (p == 0) {
      if (self.wants(0)) outgoing[0] = zeros_like(x);
      if (self.wants(1)) outgoing[1] = zeros_like(y);
      return;
    }
    std::vector<Tensor> parts;
    each_block(x, y, [&](Block block) {
      const auto part = [&](const Tensor& t) { return t.narrow(1, block.first, block.count); };
      const Tensor each = of_differences(differences(x, y, block), part(whole), part(g), p);
      if (self.wants(0)) parts.push_back(sum(each, 2));
      if (!self.wants(1)) return;
      const Tensor of_block = sum(each, 1);
      outgoing[1] = outgoing[1].defined() ? outgoing[1] - of_block : -of_block;
    });
    if (self.wants(0)) outgoing[0] = cat(parts, 1);
  }
};

Tensor by_difference(const Tensor& a, const Tensor& b, double p) {
  if (a.sizes()[2] == 0) p = 2;
  Tensor out;
  {
    const NoGradGuard unrecorded;
    std::vector<Tensor> parts;
    each_block(a, b, [&](Block block) { parts.push_back(vector_norm(differences(a, b, block), p, {-1})); });
    out = parts.size() == 1 ? parts[0] : cat(parts, 1);
  }
  if (should_record(a, b)) record(out, CdistBackward{Saved(a), Saved(b), SavedOutput(out), p}, a, b);
  return out;
}

// |a - b|² = |a|² + |b|² - 2 a b as one product of longer rows, where all digits may cancel if a and b are close: such
// pairs are computed from their difference.
Tensor by_product(const Tensor& a, const Tensor& b) {
  const int64_t n = a.sizes()[1], m = b.sizes()[1], k = a.sizes()[2];
  const Tensor centre = mean(a.detach(), {1}, true);
  const Tensor u = a - centre, v = b - centre, uu = sum(square(u), {2}, true), vv = sum(square(v), {2}, true);
  const Tensor squares = bmm(cat({u * -2, uu, ones_like(uu)}, 2), cat({v, ones_like(vv), vv}, 2).transpose(1, 2));
  const Tensor least = uu.detach() * least_share + vv.detach().transpose(1, 2) * least_share;
  const Tensor far = squares.detach() > least;
  const int64_t count = is_meta(a) ? 0 : far.numel() - sum(far).item<int64_t>();
  if (count == 0) return sqrt(squares);
  if (count > far.numel() / 16) return by_difference(a, b, 2);
  const Tensor is_near = logical_not(far), whole = sqrt(masked_fill(squares, is_near, 1));
  const Tensor places = nonzero(is_near.reshape({-1})).reshape({-1});
  const Tensor left = floor_divide(places, m);
  const Tensor right = floor_divide(places, n * m) * m + remainder(places, m);
  const Tensor rows = index_select(a.reshape({-1, k}), 0, left) - index_select(b.reshape({-1, k}), 0, right);
  return put(whole, places, vector_norm(rows, 2, {-1}));
}

Dims batch_of(const Tensor& t) {
  Dims batch = t.shape();
  batch.erase(batch.size() - 1);
  batch.erase(batch.size() - 1);
  return batch;
}

Tensor in_batch(const Tensor& t, const Dims& batch) {
  const auto rank = static_cast<size_t>(t.dim());
  const int64_t rows = t.sizes()[rank - 2], width = t.sizes()[rank - 1];
  Dims shape = batch;
  shape.push_back(rows);
  shape.push_back(width);
  return t.expand(shape).reshape({batch.product(), rows, width});
}

void check_order(double p) { expect_at_least("p", p, 0); }

}  // namespace

Tensor normalize(const Tensor& x, const NormalizeOptions& options, Location where) {
  const CallScope call("normalize", where);
  WEFT_IN_FULL(normalize, x, options, where);
  linalg::check_numbers(x);
  const Tensor wide = to_compute_type(x);
  const Tensor length = vector_norm(wide, options.p, options.dims, true);
  return (wide / clip(length, options.eps, std::nullopt)).to(x.dtype());
}

Tensor cosine_similarity(const Operand& a, const Operand& b, int dim, double eps, Location where) {
  const CallScope call("cosine_similarity", where);
  WEFT_IN_FULL(cosine_similarity, a, b, dim, eps, where);
  const auto [left, right, dtype] = vectors(a.tensor(), b.tensor());
  const auto shape = broadcast(left.sizes(), right.sizes());
  if (!shape) {
    raise<ShapeError>(
        {.problem = fmt::format("shapes {} and {} do not broadcast", left.shape().text(), right.shape().text())});
  }
  const int along = wrap_dim(dim, shape->size());
  const auto unit = [&](const Tensor& t) {
    const Tensor whole = t.expand(*shape), length = vector_norm(whole, 2, {along}, true);
    return whole / weft::where(length < eps, (length - length.detach()) + eps, length);
  };
  return sum(unit(left) * unit(right), along).to(dtype);
}

Tensor pairwise_distance(const Operand& a, const Operand& b, double p, double eps, bool keepdim, Location where) {
  const CallScope call("pairwise_distance", where);
  WEFT_IN_FULL(pairwise_distance, a, b, p, eps, keepdim, where);
  const auto [left, right, dtype] = vectors(a.tensor(), b.tensor());
  return vector_norm(left - right + eps, p, {-1}, keepdim).to(dtype);
}

Tensor cdist(const Tensor& a, const Tensor& b, double p, DistanceMode mode, Location where) {
  const CallScope call("cdist", where);
  WEFT_IN_FULL(cdist, a, b, p, mode, where);
  check_floating(checked(a));
  check_same_device({&a, &checked(b)});
  check_order(p);
  expect_one_dtype("a and b", a, b);
  const auto shapes = [&] { return fmt::format("rows {} and {}", a.shape().text(), b.shape().text()); };
  if (a.dim() < 2 || b.dim() < 2 || a.size(-1) != b.size(-1)) {
    raise<ShapeError>({.problem = shapes() + " do not fit", .remedy = "they are [..., n, k] and [..., m, k]"});
  }
  const auto batch = broadcast(batch_of(a), batch_of(b));
  if (!batch) raise<ShapeError>({.problem = shapes() + " have batches that do not broadcast"});
  Dims shape = *batch;
  shape.push_back(a.size(-2));
  shape.push_back(b.size(-2));
  check_room(shape, a.dtype(), a.device());
  const Tensor left = in_batch(to_compute_type(a), *batch), right = in_batch(to_compute_type(b), *batch);
  const bool large = a.size(-2) > most_rows_without_product || b.size(-2) > most_rows_without_product;
  const bool product = p == 2 && left.numel() != 0 && right.numel() != 0 &&
                       (mode == DistanceMode::automatic ? large : mode == DistanceMode::product);
  const Tensor out = product ? by_product(left, right) : by_difference(left, right, p);
  return out.reshape(shape).to(a.dtype());
}

Tensor pdist(const Tensor& x, double p, Location where) {
  const CallScope call("pdist", where);
  WEFT_IN_FULL(pdist, x, p, where);
  check_floating(checked(x));
  check_order(p);
  expect_matrix("x", x);
  const int64_t n = x.sizes()[0];
  const Tensor all = cdist(x, x, p, DistanceMode::difference);
  const int64_t count = n == 0 ? 0 : n % 2 == 0 ? n / 2 * (n - 1) : (n - 1) / 2 * n;
  Tensor places;
  if (is_meta(x)) {
    places = empty(count, {DType::i64, x.device()});
  } else {
    std::vector<int64_t> above;
    above.reserve(static_cast<size_t>(count));
    for (int64_t i = 0; i < n; ++i) {
      for (int64_t j = i + 1; j < n; ++j) above.push_back(i * n + j);
    }
    places = tensor(std::span<const int64_t>(above), Dims(count)).to(x.device());
  }
  return index_select(all.reshape({-1}), 0, places);
}

namespace {

DistanceMode mode_named(const std::string& name) {
  if (name == "use_mm_for_euclid_dist_if_necessary") return DistanceMode::automatic;
  if (name == "use_mm_for_euclid_dist") return DistanceMode::product;
  if (name == "donot_use_mm_for_euclid_dist") return DistanceMode::difference;
  raise<ValueError>({.problem = fmt::format("there is no mode '{}'", name),
                     .remedy = "use 'use_mm_for_euclid_dist_if_necessary', 'use_mm_for_euclid_dist' or "
                               "'donot_use_mm_for_euclid_dist'"});
}

Tensor call_normalize(const Tensor& x, double p, const Dims& dims, double eps) {
  return normalize(x, {.p = p, .dims = dims, .eps = eps});
}
Tensor call_cdist(const Tensor& a, const Tensor& b, double p, const std::string& mode) {
  return cdist(a, b, p, mode_named(mode));
}

std::vector<Values> normalize_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})},
          {make.tensor({2, 3, 2}), 3.0, Dims(-1)},
          {make.tensor({2, 3}), 1.0, Dims{0, 1}},
          {make.tensor({}), 2.0, Dims(0)},
          {make.tensor({0, 2})}};
}
std::vector<Values> similarity_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3})},
          {make.tensor({2, 3}), make.tensor({3}), int64_t{0}},
          {make.tensor({2, 3, 2}), make.tensor({3, 1}), int64_t{-1}, 1e-6},
          {make.tensor({}), make.tensor({}), int64_t{0}},
          {make.tensor({0, 2}), make.tensor({0, 2})}};
}
std::vector<Values> pair_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3}, 3, 5)},
          {make.tensor({2, 3}), make.tensor({3}, 3, 5), 3.0, 1e-3, true},
          {make.tensor({2, 3}), make.tensor({2, 3}, 3, 5), 1.0},
          {make.tensor({}), make.tensor({}, 3, 5)},
          {make.tensor({0, 2}), make.tensor({0, 2})}};
}
std::vector<Values> cdist_samples(SampleMaker& make) {
  const double infinite = HUGE_VAL;
  const char* product = "use_mm_for_euclid_dist";
  return {{make.tensor({3, 2}), make.tensor({4, 2}, 3, 6)},
          {make.tensor({2, 3, 2}), make.tensor({4, 2}, 3, 6), 1.0},
          {make.tensor({3, 2}), make.tensor({2, 4, 2}, 3, 6), 3.0},
          {make.tensor({3, 2}), make.tensor({2, 2}, 3, 9), infinite},
          {make.tensor({3, 2}), make.tensor({2, 2}, 3, 6), 0.5},
          {make.tensor({3, 2}), make.tensor({2, 2}, 3, 6), 0.0},
          {make.tensor({2, 3, 2}), make.tensor({2, 4, 2}, -3, 3), 2.0, product},
          {make.tensor({3, 0}), make.tensor({2, 0})},
          {make.tensor({0, 2}), make.tensor({2, 2})}};
}
std::vector<Values> pdist_samples(SampleMaker& make) {
  return {{make.tensor({4, 3})}, {make.tensor({3, 2}), 3.0}, {make.tensor({1, 2}), 1.0}, {make.tensor({0, 2})}};
}

/// Of tensors that broadcast, along `dim` or the last dimension.
template <bool has_dim>
Partition compared(const WholeCall& call) {
  const std::vector<Tensor>& inputs = call.inputs();
  const int rank = std::max(inputs[0].dim(), inputs[1].dim());
  if (rank == 0) return parts::whole(call);
  int dim = rank - 1;
  if constexpr (has_dim) dim = wrap_dim(detail::integer_in(call["dim"]), rank);
  const Dims shapes[] = {inputs[0].shape(), inputs[1].shape()};
  std::string text = broadcast_notation(shapes);
  const size_t arrow = text.find("->"), comma = text.find(',');
  std::string result = text.substr(arrow + 2);
  const char letter = result[static_cast<size_t>(dim)];
  std::vector<std::string> in{text.substr(0, comma), text.substr(comma + 1, arrow - comma - 1)};
  for (std::string& word : in) std::ranges::replace(word, letter, '1');
  std::ranges::replace(result, letter, '1');
  if (call.results().at(0).dim() < rank) result.erase(static_cast<size_t>(dim), 1);
  return {.letters = parts::notation(in, std::vector{result})};
}

Partition compared_rows(const WholeCall& call) {
  std::string text = matmul_notation(call.inputs()[0].shape(), call.inputs()[1].shape(), false, true);
  std::ranges::replace(text, 'k', '1');
  return {.letters = text};
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"normalize", "normalize(x, p=2.0, dim|dims=1, eps=1e-12)",
     "x over its p-norm along dim, or eps where that is larger.", OpFacts(true, Autocast::full), floating,
     normalize_samples, parts::along, detail::boxed<call_normalize>},
    {"cosine_similarity", "cosine_similarity(x1, x2, dim=1, eps=1e-8)",
     "The cosine of the angle between x1 and x2 along dim, where norms are at least eps; both broadcast.",
     OpFacts(true, Autocast::full), floating, similarity_samples, compared<1>, detail::boxed<weft::cosine_similarity>},
    {"pairwise_distance", "pairwise_distance(x1, x2, p=2.0, eps=1e-6, keepdim=False)",
     "The p-norm of x1 - x2 + eps along the last dimension; both broadcast.", OpFacts(true, Autocast::full), floating,
     pair_samples, compared<0>, detail::boxed<weft::pairwise_distance>},
    {"cdist", "cdist(x1, x2, p=2.0, compute_mode='use_mm_for_euclid_dist_if_necessary')",
     "The p-distances of the rows of x1 [..., n, k] to those of x2 [..., m, k]: [..., n, m]. Pairs of which a matrix "
     "product tells too few digits are computed from their difference.",
     OpFacts(true, Autocast::full, OpFacts::reads_values), floating, cdist_samples, compared_rows,
     detail::boxed<call_cdist>},
    {"pdist", "pdist(x, p=2.0)", "The p-distances of all pairs of rows of x [n, k]: [n * (n - 1) / 2].",
     OpFacts(true, Autocast::full), floating, pdist_samples, parts::whole, detail::boxed<weft::pdist>},
};

}  // namespace

std::span<const OpRecord> distance_records() { return records; }

}  // namespace weft
