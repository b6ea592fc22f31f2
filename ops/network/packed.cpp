#include "../packed.hpp"

#include <algorithm>

#include "../../tensor/checked.hpp"
#include "../create.hpp"
#include "../detail/records.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../detail/common.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

void refuse_meta(const Tensor& lengths) {
  if (!is_meta(lengths)) return;
  raise<NotImplementedError>({.problem = "the result's shape follows from values, which meta tensors lack"});
}

}  // namespace

std::vector<int64_t> detail::rows_of_steps(const Tensor& sizes, int64_t rows) {
  if (checked(sizes).dtype() != DType::i64) {
    raise_dtype("batch_sizes", DType::i64, sizes.dtype());
  }
  if (sizes.dim() != 1) {
    raise_rank("batch_sizes", "1 dimension", sizes);
  }
  refuse_meta(sizes);
  std::vector<int64_t> numbers = sizes.to_vector<int64_t>();
  int64_t left = rows;
  for (size_t i = 0; i < numbers.size(); ++i) {
    const int64_t n = numbers[i];
    if (n < 1 || n > left || (i > 0 && n > numbers[i - 1])) {
      raise<ValueError>(
          {.problem = fmt::format("step {} of batch_sizes has {} sequences of {} rows that are left", i, n, left),
           .remedy = "each step has at least one, and never more than the one before"});
    }
    left -= n;
  }
  if (left != 0) raise<ValueError>({.problem = fmt::format("batch_sizes leave {} of {} rows", left, rows)});
  return numbers;
}

namespace {

Tensor list_of(const std::vector<int64_t>& numbers) {
  return tensor(std::span<const int64_t>(numbers), Dims(static_cast<int64_t>(numbers.size())));
}

// The first two dimensions as one.
Tensor joined(const Tensor& t) { return t.flatten(0, 1); }

// [rows, ...] as [first, second, ...]
Tensor parted(const Tensor& t, int64_t first, int64_t second) {
  Dims sizes = t.shape();
  sizes[0] = second;
  sizes.insert(0, first);
  return t.reshape(sizes);
}

std::vector<int64_t> checked_lengths(const Tensor& lengths, int64_t batch, int64_t steps) {
  expect_integers("lengths", checked(lengths));
  if (lengths.dim() != 1 || lengths.numel() != batch) {
    raise<ShapeError>({.problem = fmt::format("lengths of shape {} for {} sequences", lengths.shape().text(), batch)});
  }
  refuse_meta(lengths);
  std::vector<int64_t> numbers = lengths.to(DType::i64).to_vector<int64_t>();
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 1 || numbers[i] > steps) {
      raise_value("lengths", fmt::format("numbers in [1, {}]", steps), numbers[i]);
    }
    if (i > 0 && numbers[i] > numbers[i - 1]) {
      raise<ValueError>({.problem = "lengths rise", .remedy = "sort the sequences, or pass enforce_sorted = false"});
    }
  }
  return numbers;
}

}  // namespace

PackedRows pack_padded_sequence(const Tensor& x, const Tensor& lengths, bool batch_first, Location where) {
  const CallScope call("pack_padded_sequence", where);
  expect_shape("x", x, checked(x).dim() >= 2, "[steps, batch, ...]");
  const Tensor steps_first = batch_first ? x.transpose(0, 1) : x;
  const int64_t batch = steps_first.size(1);
  const std::vector<int64_t> numbers = checked_lengths(lengths, batch, steps_first.size(0));
  if (batch == 0) raise<ValueError>({.problem = "there are no sequences"});
  std::vector<int64_t> sizes, from;
  int64_t count = batch;
  for (int64_t t = 0; t < numbers[0]; ++t) {
    while (numbers[static_cast<size_t>(count - 1)] <= t) --count;
    sizes.push_back(count);
    for (int64_t b = 0; b < count; ++b) from.push_back(t * batch + b);
  }
  return {index_select(joined(steps_first), 0, list_of(from).to(x.device())), list_of(sizes)};
}

std::pair<Tensor, Tensor> pad_packed_sequence(const Tensor& data, const Tensor& batch_sizes, bool batch_first,
                                              double padding_value, std::optional<int64_t> total_length,
                                              Location where) {
  const CallScope call("pad_packed_sequence", where);
  if (checked(data).dim() < 1) raise<ShapeError>({.problem = "data has no dimension"});
  const int64_t rows = data.size(0);
  const std::vector<int64_t> sizes = detail::rows_of_steps(batch_sizes, rows);
  if (sizes.empty()) raise<ValueError>({.problem = "there are no steps"});
  const auto count = static_cast<int64_t>(sizes.size());
  const int64_t batch = sizes[0], steps = total_length.value_or(count);
  if (steps < count) {
    raise<ValueError>({.problem = fmt::format("total_length {} is less than the {} steps there are", steps, count)});
  }
  check_room(Dims{steps, batch}, DType::i64, Device());
  std::vector<int64_t> from(static_cast<size_t>(steps * batch), rows), lengths(static_cast<size_t>(batch), 0);
  int64_t row = 0;
  for (int64_t t = 0; t < count; ++t) {
    for (int64_t b = 0; b < sizes[static_cast<size_t>(t)]; ++b) {
      from[static_cast<size_t>(t * batch + b)] = row++;
      ++lengths[static_cast<size_t>(b)];
    }
  }
  const Tensor padding = full_like(data.narrow(0, 0, 1).detach(), padding_value);
  const Tensor all = index_select(cat({data, padding}, 0), 0, list_of(from).to(data.device()));
  const Tensor padded = parted(all, steps, batch);
  return {batch_first ? padded.transpose(0, 1) : padded, list_of(lengths)};
}

Tensor pad_sequence(std::span<const Tensor> sequences, bool batch_first, double padding_value,
                    std::string_view padding_side, Location where) {
  const CallScope call("pad_sequence", where);
  if (sequences.empty()) raise<ValueError>({.problem = "there are no sequences"});
  if (padding_side != "right" && padding_side != "left") {
    raise_value("padding_side", "'right' or 'left'", in_quotes(padding_side));
  }
  int64_t longest = 0;
  for (const Tensor& t : sequences) {
    if (checked(t).dim() < 1) raise<ShapeError>({.problem = "a sequence has no dimension"});
    longest = std::max(longest, t.size(0));
  }
  std::vector<Tensor> padded;
  for (const Tensor& t : sequences) {
    Dims rest = t.shape();
    rest[0] = longest - t.size(0);
    const Tensor filler = full(rest, padding_value, {t.dtype(), t.device()});
    padded.push_back(rest[0] == 0 ? t : padding_side == "right" ? cat({t, filler}, 0) : cat({filler, t}, 0));
  }
  return stack(padded, batch_first ? 0 : 1);
}

namespace {

std::vector<Tensor> call_pack(const Tensor& x, const Tensor& lengths, bool batch_first) {
  const PackedRows rows = pack_padded_sequence(x, lengths, batch_first);
  return {rows.data, rows.batch_sizes};
}
std::vector<Tensor> call_pad(const Tensor& data, const Tensor& batch_sizes, bool batch_first, double padding_value,
                             std::optional<int64_t> total_length) {
  const auto [padded, lengths] = pad_packed_sequence(data, batch_sizes, batch_first, padding_value, total_length);
  return {padded, lengths};
}
Tensor call_pad_sequence(std::span<const Tensor> sequences, bool batch_first, double padding_value,
                         const std::string& padding_side) {
  return pad_sequence(sequences, batch_first, padding_value, padding_side);
}

std::vector<Values> pack_samples(SampleMaker& make) {
  const Tensor lengths = tensor(std::vector<int64_t>{4, 2, 1});
  return {{make.tensor({4, 3, 2}), lengths}, {make.tensor({3, 5}), lengths, true}};
}
std::vector<Values> pad_samples(SampleMaker& make) {
  const Tensor sizes = tensor(std::vector<int64_t>{3, 2, 1});
  return {{make.tensor({6, 2}), sizes}, {make.tensor({6}), sizes, true, 2.0, int64_t{5}}};
}
std::vector<Values> sequence_samples(SampleMaker& make) {
  const std::vector<Tensor> all = {make.tensor({3, 2}), make.tensor({1, 2}), make.tensor({0, 2})};
  return {{all}, {all, true, 1.0, std::string("left")}};
}

constexpr OpRecord records[] = {
    {"pack_padded_sequence", "pack_padded_sequence(x, lengths, batch_first=False) -> (data, batch_sizes)",
     "The rows of x [steps, batch, ...] that belong to sequences of these lengths, which must not rise, one step after "
     "the other, and how many each step has.",
     OpFacts(true, OpFacts::reads_values), OpRecord::Domain::any, pack_samples, parts::whole, detail::boxed<call_pack>},
    {"pad_packed_sequence",
     "pad_packed_sequence(data, batch_sizes, batch_first=False, padding_value=0.0, total_length=None) -> (padded, "
     "lengths)",
     "Packed rows as [steps, batch, ...], with padding behind the end of each sequence, and the lengths.",
     OpFacts(true, OpFacts::reads_values), OpRecord::Domain::any, pad_samples, parts::whole, detail::boxed<call_pad>},
    {"pad_sequence", "pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side='right')",
     "Tensors [length, ...] side by side as [longest, count, ...], with padding behind or before each.", true,
     OpRecord::Domain::any, sequence_samples, parts::whole, detail::boxed<call_pad_sequence>},
};

}  // namespace

std::span<const OpRecord> packed_records() { return records; }

}  // namespace weft
