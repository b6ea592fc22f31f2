// Dimensions moved, split, added and broadcast.
#include "../axes.hpp"

#include <algorithm>

#include "../detail/common.hpp"
#include "../detail/records.hpp"
#include "../../tensor/checked.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// The dimensions that are named, from 0 on; a 0-d tensor has one.
Dims named_dims(const Dims& dims, int rank) {
  Dims named;
  uint32_t seen = 0;
  for (const int64_t dim : dims) {
    const int d = wrap_dim(dim, rank);
    if ((seen >> d & 1) != 0) raise<ValueError>({.problem = fmt::format("dimension {} is named twice", d)});
    seen |= 1u << d;
    named.push_back(d);
  }
  return named;
}

bool contains(const Dims& dims, int64_t dim) { return std::ranges::find(dims, dim) != dims.end(); }

Tensor moved(const Tensor& x, const Dims& source, const Dims& destination) {
  checked(x);
  if (source.size() != destination.size()) {
    raise<ValueError>(
        {.problem = fmt::format("{} dimensions to move to {} places", source.size(), destination.size())});
  }
  const Dims from = named_dims(source, x.dim()), to = named_dims(destination, x.dim());
  if (x.dim() == 0) return x.permute({});
  Dims order = Dims::filled(x.dim(), -1);
  for (int i = 0; i < from.size(); ++i) order[static_cast<int>(to[i])] = from[i];
  int next = 0;
  for (int i = 0; i < x.dim(); ++i) {
    if (order[i] >= 0) continue;
    while (contains(from, next)) ++next;
    order[i] = next++;
  }
  return x.permute(order);
}

// `sizes` with its -1, if there is one, such that they make n elements.
Dims resolved(const Dims& sizes, int64_t n, int dim) {
  Dims made = sizes;
  Checked known = 1;
  int open = -1;
  bool fits = !sizes.empty();
  for (int i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == -1 && open < 0) open = i;
    else known *= sizes[i];
    fits = fits && sizes[i] >= -1 && (sizes[i] != -1 || open == i);
  }
  fits = fits && known.fits();
  if (fits && open >= 0) {
    fits = known.value() != 0 && n % known.value() == 0;
    if (fits) made[open] = n / known.value();
  } else {
    fits = fits && known.value() == n;
  }
  if (fits) return made;
  raise<ShapeError>({.problem = fmt::format("sizes {} do not make dimension {} of size {}", sizes.text(), dim, n),
                     .remedy = "one size may be -1"});
}

// Puts dimensions of size 1 where a tensor of rank up to `rank` lacks them.
Tensor at_least(int rank, const Tensor& x) {
  Dims shape = checked(x).shape();
  if (shape.size() >= rank) return x;
  if (rank > 1 && shape.size() == 1) shape.insert(0, 1);
  while (shape.size() < rank) shape.push_back(1);
  return x.reshape(shape);
}

template <auto function>
std::vector<Tensor> of_each(std::span<const Tensor> tensors) {
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(function(t, {}));
  return out;
}

// One tensor is given alone, several as a list.
using Widened = Tensor (*)(const Tensor&, Location);
template <Widened function>
Value call_at_least(const Value& x, const Value& more) {
  const auto* rest = std::get_if<std::vector<Tensor>>(&more);
  if (const auto* several = std::get_if<std::vector<Tensor>>(&x); several != nullptr && rest == nullptr) {
    return of_each<function>(*several);
  }
  const auto* first = std::get_if<Tensor>(&x);
  if (first == nullptr) throw BadArgument(0);
  const auto* none = std::get_if<Dims>(&more);
  if (rest == nullptr && (none == nullptr || !none->empty())) throw BadArgument(1);
  if (rest == nullptr) return function(*first, {});
  std::vector<Tensor> all{*first};
  all.insert(all.end(), rest->begin(), rest->end());
  return of_each<function>(all);
}

std::vector<Tensor> call_meshgrid(std::span<const Tensor> tensors, const std::string& indexing) {
  if (indexing != "ij" && indexing != "xy") {
    raise_value("indexing", "'ij' or 'xy'", in_quotes(indexing));
  }
  return meshgrid(tensors, indexing == "ij" ? GridIndexing::ij : GridIndexing::xy);
}

}  // namespace

Tensor movedim(const Tensor& x, const Dims& source, const Dims& destination, Location where) {
  const CallScope call("movedim", where);
  return moved(x, source, destination);
}

Tensor moveaxis(const Tensor& x, const Dims& source, const Dims& destination, Location where) {
  const CallScope call("moveaxis", where);
  return moved(x, source, destination);
}

Tensor swapaxes(const Tensor& x, int dim0, int dim1, Location where) {
  const CallScope call("swapaxes", where);
  return checked(x).transpose(dim0, dim1);
}

Tensor swapdims(const Tensor& x, int dim0, int dim1, Location where) {
  const CallScope call("swapdims", where);
  return checked(x).transpose(dim0, dim1);
}

Tensor unflatten(const Tensor& x, int dim, const Dims& sizes, Location where) {
  const CallScope call("unflatten", where);
  const int d = wrap_dim(dim, checked(x).dim());
  if (x.dim() == 0) raise<IndexError>({.problem = "a 0-d tensor has no dimension to split"});
  const Dims made = resolved(sizes, x.sizes()[static_cast<size_t>(d)], d);
  Dims shape = x.shape();
  shape.erase(d);
  for (int i = 0; i < made.size(); ++i) shape.insert(d + i, made[i]);
  return x.reshape(shape);
}

Tensor ravel(const Tensor& x, Location where) {
  const CallScope call("ravel", where);
  return checked(x).reshape({-1});
}

Tensor atleast_1d(const Tensor& x, Location where) {
  const CallScope call("atleast_1d", where);
  return at_least(1, x);
}

Tensor atleast_2d(const Tensor& x, Location where) {
  const CallScope call("atleast_2d", where);
  return at_least(2, x);
}

Tensor atleast_3d(const Tensor& x, Location where) {
  const CallScope call("atleast_3d", where);
  return at_least(3, x);
}

std::vector<Tensor> atleast_1d(std::span<const Tensor> tensors, Location where) {
  const CallScope call("atleast_1d", where);
  return of_each<static_cast<Widened>(&weft::atleast_1d)>(tensors);
}

std::vector<Tensor> atleast_2d(std::span<const Tensor> tensors, Location where) {
  const CallScope call("atleast_2d", where);
  return of_each<static_cast<Widened>(&weft::atleast_2d)>(tensors);
}

std::vector<Tensor> atleast_3d(std::span<const Tensor> tensors, Location where) {
  const CallScope call("atleast_3d", where);
  return of_each<static_cast<Widened>(&weft::atleast_3d)>(tensors);
}

Tensor broadcast_to(const Tensor& x, const Dims& shape, Location where) {
  const CallScope call("broadcast_to", where);
  return checked(x).expand(shape);
}

std::vector<Tensor> broadcast_tensors(std::span<const Tensor> tensors, Location where) {
  const CallScope call("broadcast_tensors", where);
  Dims shape;
  for (const Tensor& t : tensors) {
    const std::optional<Dims> wider = broadcast(shape, checked(t).sizes());
    if (!wider) {
      raise<ShapeError>({.problem = fmt::format("shapes {} and {} do not broadcast", shape.text(), t.shape().text())});
    }
    shape = *wider;
  }
  std::vector<Tensor> out;
  for (const Tensor& t : tensors) out.push_back(t.shape() == shape ? t : t.expand(shape));
  return out;
}

std::vector<Tensor> meshgrid(std::span<const Tensor> tensors, GridIndexing indexing, Location where) {
  const CallScope call("meshgrid", where);
  if (tensors.empty()) raise<ValueError>({.problem = "there is no grid of no tensors"});
  const bool swaps = indexing == GridIndexing::xy && tensors.size() > 1;
  const int rank = static_cast<int>(std::min<size_t>(tensors.size(), max_rank + 1));
  Dims shape;
  for (const Tensor& t : tensors) {
    if (checked(t).dim() > 1) raise_rank("tensors", "at most 1 dimension", t);
    expect_one_dtype("tensors", tensors[0], t);
    check_same_device({tensors.data(), &t});
    shape.push_back(t.numel());
  }
  if (swaps) std::swap(shape[0], shape[1]);
  std::vector<Tensor> grids;
  for (int i = 0; i < rank; ++i) {
    Dims line = Dims::filled(rank, 1);
    const int along = swaps && i < 2 ? 1 - i : i;
    line[along] = shape[along];
    grids.push_back(tensors[static_cast<size_t>(i)].reshape(line).expand(shape));
  }
  return grids;
}

namespace {

using List = std::vector<Tensor>;

std::vector<Values> move_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 4}), Dims{0}, Dims{-1}},
          {make.tensor({2, 3, 4}), Dims{-1, 0}, Dims{0, 1}},
          {make.tensor({}), Dims(), Dims()},
          {make.tensor({0, 2}), Dims{1}, Dims{0}}};
}
std::vector<Values> swap_samples(SampleMaker& make) {
  return {{make.tensor({2, 3, 4}), int64_t{0}, int64_t{1} - 2}, {make.tensor({0, 2}), int64_t{1}, int64_t{0}}};
}
std::vector<Values> unflatten_samples(SampleMaker& make) {
  return {{make.tensor({2, 6}), int64_t{1}, Dims{3, -1}},
          {make.tensor({4, 2}), int64_t{0} - 2, Dims{2, 1, 2}},
          {make.tensor({0, 2}), int64_t{0}, Dims{2, 0}}};
}
std::vector<Values> any_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})}, {make.tensor({3})}, {make.tensor({})}, {make.tensor({0, 2})}};
}
std::vector<Values> at_least_samples(SampleMaker& make) {
  std::vector<Values> samples = any_samples(make);
  samples.push_back({List{make.tensor({3}), make.tensor({})}});
  samples.push_back({make.tensor({}), List{make.tensor({2}), make.tensor({1, 2, 1, 2})}});
  return samples;
}
std::vector<Values> broadcast_samples(SampleMaker& make) {
  return {{make.tensor({2, 1}), Dims{4, 2, 3}}, {make.tensor({}), Dims{2}}, {make.tensor({0, 1}), Dims{0, 2}}};
}
std::vector<Values> together_samples(SampleMaker& make) {
  return {{List{make.tensor({2, 1}), make.tensor({3}), make.tensor({})}},
          {List{make.tensor({2})}},
          {List{make.tensor({0, 1}), make.tensor({1, 3})}}};
}
std::vector<Values> grid_samples(SampleMaker& make) {
  return {{List{make.tensor({2}), make.tensor({3}), make.tensor({})}},
          {List{make.tensor({2}), make.tensor({3})}, std::string("xy")},
          {List{make.tensor({4})}},
          {List{make.tensor({0}), make.tensor({2})}}};
}

Partition gridded(const WholeCall& call) {
  const std::vector<Tensor>& inputs = call.inputs();
  std::vector<std::string> in;
  std::string grid;
  for (size_t i = 0; i < inputs.size(); ++i) {
    in.emplace_back(inputs[i].dim() == 0 ? "" : std::string(1, static_cast<char>('a' + i)));
    grid += inputs[i].dim() == 0 ? '1' : static_cast<char>('a' + i);
  }
  if (std::get<std::string>(call["indexing"]) == "xy" && grid.size() > 1) std::swap(grid[0], grid[1]);
  return {.letters = parts::notation(in, std::vector(inputs.size(), grid))};
}

#define WEFT_VIEW " The result is a view: it shares the elements."
constexpr auto any = OpRecord::Domain::any;
constexpr OpRecord axes_op_records[] = {
    {"movedim", "movedim(x, source, destination)",
     "Dimension source[i] becomes dimension destination[i], the others keep their order." WEFT_VIEW, true, any,
     move_samples, parts::reordered, detail::boxed<&weft::movedim>},
    {"moveaxis", "moveaxis(x, source, destination)", "As movedim." WEFT_VIEW, true, any, move_samples, parts::reordered,
     detail::boxed<&weft::moveaxis>},
    {"swapaxes", "swapaxes(x, dim0|axis0, dim1|axis1)", "x with two dimensions exchanged." WEFT_VIEW, true, any,
     swap_samples, parts::reordered, detail::boxed<&weft::swapaxes>},
    {"swapdims", "swapdims(x, dim0, dim1)", "x with two dimensions exchanged." WEFT_VIEW, true, any, swap_samples,
     parts::reordered, detail::boxed<&weft::swapdims>},
    {"unflatten", "unflatten(x, dim, sizes)", "Dimension dim as several, one of whose sizes may be -1." WEFT_VIEW, true,
     any, unflatten_samples, parts::reshaped, detail::boxed<&weft::unflatten>},
    {"ravel", "ravel(x)", "All elements as one dimension: a view where the strides allow it.", true, any, any_samples,
     parts::reshaped, detail::boxed<&weft::ravel>},
    {"atleast_1d", "atleast_1d(x|input|tensors, *more=())",
     "0-d tensors as [1], others as they are: one tensor, or a tuple where several or a list are given.", true, any,
     at_least_samples, parts::reordered, detail::boxed<call_at_least<static_cast<Widened>(&weft::atleast_1d)>>},
    {"atleast_2d", "atleast_2d(x|input|tensors, *more=())",
     "[n] as [1, n] and a 0-d tensor as [1, 1]: one tensor, or a tuple where several or a list are given.", true, any,
     at_least_samples, parts::reordered, detail::boxed<call_at_least<static_cast<Widened>(&weft::atleast_2d)>>},
    {"atleast_3d", "atleast_3d(x|input|tensors, *more=())",
     "[m, n] as [m, n, 1], [n] as [1, n, 1] and a 0-d tensor as [1, 1, 1]: one tensor, or a tuple where several or a "
     "list are given.",
     true, any, at_least_samples, parts::reordered,
     detail::boxed<call_at_least<static_cast<Widened>(&weft::atleast_3d)>>},
    {"broadcast_to", "broadcast_to(x, *shape|size)", "x expanded to a shape." WEFT_VIEW, true, any, broadcast_samples,
     parts::expanded, detail::boxed<&weft::broadcast_to>},
    {"broadcast_tensors", "broadcast_tensors(*tensors)",
     "Each tensor expanded to the shape that all broadcast to. The results are views.", true, any, together_samples,
     parts::pointwise, detail::boxed<&weft::broadcast_tensors>},
    {"meshgrid", "meshgrid(*tensors, indexing='ij')",
     "Each 1-d tensor expanded to a grid with a dimension for each of them; with indexing='xy' the first two run along "
     "dimensions 1 and 0. The results are views.",
     true, any, grid_samples, gridded, detail::boxed<call_meshgrid>},
};
#undef WEFT_VIEW

}  // namespace

std::span<const OpRecord> axes_records() { return axes_op_records; }

}  // namespace weft
