#include "partition.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../tensor/error.hpp"
#include "../tensor/layout.hpp"
#include "detail/common.hpp"
#include "detail/parts.hpp"
#include "random.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft {

namespace {

int index_of(const OpRecord& record, std::string_view argument) {
  const std::vector<Argument>& all = record.signature().arguments;
  const auto found = std::ranges::find(all, argument, &Argument::name);
  if (found != all.end()) return static_cast<int>(found - all.begin());
  raise<KeyError>({.op = record.name, .problem = fmt::format("there is no argument '{}'", argument)});
}

/// Whether an argument of this kind is read on the host, so that a tensor in its place is no operand.
bool is_read(const OpRecord& record, size_t i) {
  using Kind = ArgumentType::Kind;
  const std::vector<Argument>& all = record.signature().arguments;
  const Kind kind = i < all.size() ? all[i].type.kind : Kind::any;
  return kind == Kind::integer || kind == Kind::number || kind == Kind::dims;
}

void add_tensors(const Value& value, std::vector<Tensor>& to) {
  if (const auto* t = std::get_if<Tensor>(&value); t != nullptr && t->defined()) to.push_back(*t);
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) {
    std::ranges::copy_if(*list, std::back_inserter(to), &Tensor::defined);
  }
}

}  // namespace

const char* name(ReduceOp op) {
  constexpr const char* names[] = {"sum", "avg", "max", "min", "prod", "any", "all"};
  return names[static_cast<size_t>(op)];
}

WholeCall::WholeCall(const OpRecord& record, std::span<const Value> arguments)
    : record_(record), arguments_(arguments.begin(), arguments.end()) {
  const std::vector<Argument>& all = record.signature().arguments;
  arguments_.resize(std::max(arguments_.size(), all.size()));
  for (size_t i = 0; i < arguments_.size(); ++i) {
    Value& value = arguments_[i];
    if (i < all.size() && std::holds_alternative<std::monostate>(value)) {
      if (all[i].required) throw BadArgument(static_cast<int>(i));
      value = all[i].default_value;
    }
    if (is_read(record, i)) continue;
    if (auto* t = std::get_if<Tensor>(&value)) *t = on_meta(*t);
    if (auto* list = std::get_if<std::vector<Tensor>>(&value)) std::ranges::transform(*list, list->begin(), on_meta);
    add_tensors(value, inputs_);
  }
}

const Value& WholeCall::operator[](std::string_view argument) const {
  return arguments_[static_cast<size_t>(index_of(record_, argument))];
}
Tensor WholeCall::tensor(std::string_view argument) const {
  const auto* t = std::get_if<Tensor>(&(*this)[argument]);
  return t != nullptr ? *t : Tensor();
}
bool WholeCall::flag(std::string_view argument) const {
  const auto* b = std::get_if<bool>(&(*this)[argument]);
  return b != nullptr && *b;
}

const std::vector<Tensor>& WholeCall::results() const {
  if (!has_results_) {
    const RngForkGuard unchanged({Device(DeviceType::meta)});
    const NoGradGuard unrecorded;
    add_tensors(record_.call(arguments_), results_);
    has_results_ = true;
  }
  return results_;
}

Value& PartCall::operator[](std::string_view argument) {
  return arguments[static_cast<size_t>(index_of(record, argument))];
}
Tensor PartCall::tensor(std::string_view argument) const {
  const auto* t = std::get_if<Tensor>(&arguments[static_cast<size_t>(index_of(record, argument))]);
  return t != nullptr ? *t : Tensor();
}

Partition partition_of(const WholeCall& call) {
  if (call.record().partition == nullptr) return parts::whole(call);
  try {
    return call.record().partition(call);
  } catch (const NotImplementedError&) {
    return parts::whole(call);
  }
}

std::string broadcast_notation(std::span<const Dims> shapes) {
  int rank = 0;
  for (const Dims& shape : shapes) rank = std::max(rank, shape.size());
  const std::string output = parts::letters(rank);
  std::string text;
  for (size_t i = 0; i < shapes.size(); ++i) {
    text += i == 0 ? "" : ",";
    const int first = rank - shapes[i].size();
    for (int axis = first; axis < rank; ++axis) {
      const auto is_wide = [&](const Dims& other) {
        const int at = axis - (rank - other.size());
        return at >= 0 && other[at] != 1;
      };
      const bool is_stretched = shapes[i][axis - first] == 1 && std::any_of(shapes.begin(), shapes.end(), is_wide);
      text += is_stretched ? '1' : output[static_cast<size_t>(axis)];
    }
  }
  return text + "->" + output;
}

std::string matmul_notation(const Dims& a, const Dims& b, bool transpose_a, bool transpose_b, Location where) {
  if (a.size() < 2 || b.size() < 2) {
    raise<ShapeError>(
        {.op = "matmul_notation",
         .problem = mismatch_text("a and b", "at least 2 dimensions", fmt::format("{} and {}", a.size(), b.size()))},
        where);
  }
  const auto batch = [](const Dims& shape) {
    return Dims(std::span(shape.data(), static_cast<size_t>(shape.size() - 2)));
  };
  const Dims batches[] = {batch(a), batch(b)};
  const std::string text = broadcast_notation(batches);
  const size_t comma = text.find(','), arrow = text.find("->");
  return text.substr(0, comma) + (transpose_a ? "km" : "mk") + text.substr(comma, arrow - comma) +
         (transpose_b ? "nk" : "kn") + text.substr(arrow) + "mn";
}

}  // namespace weft
