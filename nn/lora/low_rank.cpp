#include "low_rank-inl.hpp"

#include <cmath>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/random.hpp"
#include "../../ops/index.hpp"
#include "../../ops/join.hpp"
#include "../../ops/matmul.hpp"
#include "../../ops/pieces.hpp"
#include "../../ops/pointwise.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::nn::detail {

AdapterSlot::AdapterSlot(const AdapterSlot& other) : held(other.held) {
  Shared<void>* slot = held == nullptr ? nullptr : clone_slot(other.held.get());
  if (slot == nullptr) return;
  const Shared<LowRank> copy = *slot == nullptr ? Shared<LowRank>::make(*other.held)
                                                : Shared<LowRank>(*slot, static_cast<LowRank*>(slot->get()));
  *clone_slot(other.held.get()) = copy;
  held = copy;
}

namespace {

void check(bool holds, const char* problem, Location where) {
  if (!holds) raise<ValueError>({.op = "LoRA", .problem = problem}, where);
}
template <class T>
void check(bool holds, const char* name, const char* expected, T value, Location where) {
  if (!holds) raise<ValueError>({.op = "LoRA", .problem = mismatch_text(name, expected, value)}, where);
}

int64_t count_of(const std::vector<bool>& enable) { return std::ranges::count(enable, true); }

void check_options(const LoraOptions& o, int64_t out, Location where) {
  check(o.r >= 1, "r", "at least 1", o.r, where);
  check(std::isfinite(o.alpha.value_or(1)), "alpha", "a finite number", o.alpha.value_or(1), where);
  check(o.dropout >= 0 && o.dropout < 1, "dropout", "a number in [0, 1)", o.dropout, where);
  check(o.lora_plus_scale > 0 && std::isfinite(o.lora_plus_scale), "lora_plus_scale", "a finite number above 0",
        o.lora_plus_scale, where);
  const bool splits = o.enable.empty() || (count_of(o.enable) > 0 && out % std::ssize(o.enable) == 0);
  check(splits, "enable must name one part at least, and as many as divide the outputs", where);
  const bool trains = !o.dtype || (is_floating(*o.dtype) && !is_storage_only(*o.dtype));
  check(trains, "dtype", "float16, bfloat16, float32 or float64", o.dtype.value_or(DType::f32), where);
}

Linear factor(int64_t in, int64_t out, bool zero, const BaseWeight& base, const LoraOptions& options, Location where) {
  Linear made(in, out, false, where);
  if (zero) {
    const NoGradGuard unrecorded;
    made.weight.zero_();
  }
  made.to(options.dtype.value_or(compute_type(base.dtype)), where);
  made.to(base.device, where);
  return made;
}

int64_t part_count(const LoraOptions& o) { return o.enable.empty() ? 1 : count_of(o.enable); }
/// A or B of a sharded layer: drawn as a whole, so that all processes draw equally, then sharded if needed.
Linear sharded_factor(const char* name, int64_t in, int64_t out, const BaseWeight& base, const LoraOptions& options,
                      const ShardedLayer* parts, Location where) {
  const bool zero = name == std::string_view("lora_B.weight");
  std::optional<int> dim;
  if (parts != nullptr) dim = parts->shard_dim(name);
  if (!dim) return factor(in, out, zero, base, options, where);
  Linear whole =
      factor(*dim == 1 ? in * parts->count : in, *dim == 0 ? out * parts->count : out, zero, base, options, where);
  // B is 0, so its blocks need no special treatment.
  replace_memory(whole.weight, parts->shard_of(whole.weight.detach(), *dim).clone(), where);
  return whole;
}

int64_t block_count(const LoraOptions& o) { return o.enable.empty() ? 1 : std::ssize(o.enable); }

// ---- bits -----------------------------------------------------------------------------------------------------------

/// Whether two floats are equal or adjacent, given their bits.
template <class Whole>
bool are_adjacent(Whole a, Whole b) {
  constexpr Whole sign = Whole(1) << (8 * sizeof(Whole) - 1);
  const auto ordered = [](Whole v) { return static_cast<Whole>((v & sign) != 0 ? sign - (v & ~sign) : sign + v); };
  const Whole x = ordered(a), y = ordered(b);
  return (x > y ? x - y : y - x) <= 1;
}

template <class Whole>
std::vector<int64_t> distant_positions(const Tensor& a, const Tensor& b) {
  std::vector<int64_t> places;
  const auto* x = static_cast<const Whole*>(a.raw_view().data);
  const auto* y = static_cast<const Whole*>(b.raw_view().data);
  for (int64_t i = 0; i < a.numel(); ++i) {
    if (!are_adjacent(x[i], y[i])) places.push_back(i);
  }
  return places;
}

Tensor on_cpu(const Tensor& t) { return t.detach().to(Device()).contiguous(); }

}  // namespace

SavedBits::SavedBits(LoraBase base, const Tensor& weight, const Tensor& recomputed)
    : base_(base), dtype_(weight.dtype()), shape_(weight.shape()) {
  const Tensor bits = on_cpu(weight);
  if (base == LoraBase::cpu) {
    values_ = bits.shares_storage(weight) ? bits.clone() : bits;
  } else if (base == LoraBase::recompute) {
    const Tensor again = on_cpu(recomputed);
    const int64_t width = itemsize(weight.dtype());
    positions_ = width == 2   ? distant_positions<uint16_t>(bits, again)
                 : width == 4 ? distant_positions<uint32_t>(bits, again)
                              : distant_positions<uint64_t>(bits, again);
    if (!positions_.empty()) values_ = bits.flatten().index_select(0, tensor(positions_));
  } else {
    file_ = Shared<std::unique_ptr<std::FILE, int (*)(std::FILE*)>>::make(std::tmpfile(), &std::fclose);
    const size_t size = bits.nbytes();
    const bool written = *file_ != nullptr && std::fwrite(bits.raw_view().data, 1, size, file_->get()) == size &&
                         std::fflush(file_->get()) == 0;
    if (!written) raise<IoError>({.problem = "the weight's bits cannot be written into a temporary file"});
  }
}

Tensor SavedBits::restored(const Tensor& recomputed) const {
  if (base_ == LoraBase::cpu) return values_;
  if (base_ == LoraBase::recompute) {
    Tensor out = on_cpu(recomputed);
    if (positions_.empty()) return out;
    if (out.shares_storage(recomputed)) out = out.clone();
    out.flatten().index_copy_(0, tensor(positions_), values_.to(out.dtype()));
    return out;
  }
  Tensor out = empty(shape_, dtype_);
  const size_t size = out.nbytes();
  std::rewind(file_->get());
  if (std::fread(out.raw_view().data, 1, size, file_->get()) != size) {
    raise<IoError>({.problem = "the weight's bits cannot be read from their temporary file"});
  }
  return out;
}

// ---- the adapter ----------------------------------------------------------------------------------------------------

Tensor BaseProduct::operator()(const Tensor& x, const Tensor& bias) const {
  return format == nullptr ? weft::linear(x, weight, bias, where) : format->linear(layer, x, weight, bias, where);
}

Tensor BaseProduct::merged(const Tensor& x, const Tensor& sum, const Tensor& bias) const {
  return format == nullptr ? weft::linear(x, sum, bias, where) : format->linear_merged(x, sum, bias, where);
}

LowRank::LowRank(const BaseWeight& base, const LoraOptions& options_, bool of_embedding_, const ShardedLayer* parts,
                 Location where)
    : options((check_options(options_, base.shape[0], where), options_)),
      a(sharded_factor("lora_A.weight", base.shape[1], options.r * part_count(options), base, options, parts, where)),
      b(sharded_factor("lora_B.weight", options.r, base.shape[0] / block_count(options) * part_count(options), base,
                       options, parts, where)),
      of_embedding(of_embedding_) {
  weight = base.stored;
  merged_flag = Buffer(zeros({}, {DType::boolean, base.device}, where), where);
}

int64_t LowRank::outputs() const { return b.weight.size(0) / part_count(options) * block_count(options); }

double LowRank::scale() const {
  const auto rank = static_cast<double>(options.r);
  return options.alpha.value_or(rank) / (options.rslora ? std::sqrt(rank) : rank);
}

/// `count` rows of W starting at `first`, and the starts of the rows of A and B that adapt them.
struct LowRank::Part {
  int64_t first, count, a_first, b_first;
};

std::vector<LowRank::Part> LowRank::parts() const {
  const int64_t rows = outputs() / block_count(options);
  if (options.enable.empty()) return {{0, rows, 0, 0}};
  std::vector<Part> out;
  for (size_t i = 0; i < options.enable.size(); ++i) {
    const auto k = std::ssize(out);
    if (options.enable[i]) out.push_back({static_cast<int64_t>(i) * rows, rows, k * options.r, k * rows});
  }
  return out;
}

void LowRank::check_not_training(bool training, Location where) const {
  if (!training || !recording()) return;
  raise<ValueError>({.op = "LoRA",
                     .problem = "a merged layer is called in training: its adapter would get no gradient",
                     .remedy = "unmerge_lora(model) first, or model.eval()"},
                    where);
}

Tensor LowRank::linear(const BaseProduct& base, const Tensor& x, const Tensor& bias, bool training, Location where,
                       const ShardedLayer* parts) const {
  if (merged) check_not_training(training, where);
  const CallScope call("LoRA", where);
  if (merged) {
    const auto product = [&](const Tensor& in, const Tensor& added) {
      return own_sum.defined() ? base.merged(in, own_sum, added) : base(in, added);
    };
    return parts != nullptr ? parts->linear(x, bias, product) : product(x, bias);
  }
  const Tensor own = parts != nullptr ? parts->input(x) : x;
  const bool sums = parts != nullptr && parts->sums();
  const Tensor y = base(own, sums ? Tensor() : bias);
  const bool may_write = base.format == nullptr;
  Tensor in = own;
  if (training && options.dropout > 0) {
    std::optional<ShardRngScope> draws;
    if (sums) draws.emplace(parts->index, own.device());
    in = dropout(own, options.dropout, true);
  }
  if (in.dtype() != a.weight.dtype()) in = in.to(a.weight.dtype());
  if (parts == nullptr) return adapted(y, weft::linear(in, a.weight) * scale(), b.weight, may_write);
  if (!sums) {
    return parts->output(adapted(y, weft::linear(in, parts->shared(a.weight)) * scale(), b.weight, may_write));
  }
  const Tensor u = parts->output(weft::linear(in, a.weight)) * scale();
  const Tensor sum = adapted(parts->output(y), u, parts->shared(b.weight), may_write);
  return bias.defined() ? sum + parts->shared(bias) : sum;
}

Tensor LowRank::adapted(const Tensor& y, const Tensor& u, const Tensor& b_weight, bool may_write) const {
  if (options.enable.empty()) {
    const Tensor delta = weft::linear(u, b_weight);
    if (may_write && delta.dtype() == y.dtype() && y.requires_grad() == delta.requires_grad()) return y.add_(delta);
    return (y + delta).to(y.dtype());
  }
  std::vector<Tensor> pieces;
  int64_t done = 0;
  const auto pass_to = [&](int64_t row) {
    if (row > done) pieces.push_back(y.narrow(-1, done, row - done));
  };
  for (const Part& p : parts()) {
    pass_to(p.first);
    const Tensor delta = weft::linear(u.narrow(-1, p.a_first, options.r), b_weight.narrow(0, p.b_first, p.count));
    pieces.push_back((y.narrow(-1, p.first, p.count) + delta).to(y.dtype()));
    done = p.first + p.count;
  }
  pass_to(outputs());
  return cat(pieces, -1);
}

Tensor LowRank::embedding(const Tensor& w, const Tensor& indices, int64_t padding, bool training, Location where,
                          const ShardedLayer* parts) const {
  if (merged) check_not_training(training, where);
  const CallScope call("LoRA", where);
  const auto rows_of = [&](const Tensor& table) {
    return parts != nullptr ? parts->embedding(table, indices, padding) : weft::embedding(table, indices, padding);
  };
  const Tensor rows = rows_of(own_sum.defined() ? Tensor(own_sum) : w);
  if (merged) return rows;
  const Tensor u = rows_of(b.weight) * scale(), factor = parts != nullptr ? parts->shared(a.weight) : Tensor(a.weight);
  return (rows + weft::linear(u, factor.t())).to(rows.dtype());
}

Tensor LowRank::shifted(const Tensor& from, double by) const {
  const DType wide = compute_type(from.dtype());
  Tensor out = from.detach().to(wide);
  if (out.shares_storage(from)) out = out.clone();
  const Tensor a_wide = a.weight.detach().to(wide), b_wide = b.weight.detach().to(wide);
  for (const Part& p : parts()) {
    const Tensor delta = matmul(b_wide.narrow(0, p.b_first, p.count), a_wide.narrow(0, p.a_first, options.r));
    out.narrow(0, p.first, p.count).add_(delta.mul_(by));
  }
  return out.to(from.dtype());
}

void LowRank::merge(const Module& layer, Location where) {
  if (merged) return;
  const CallScope call("merge_lora", where);
  const NoGradGuard unrecorded;
  const Tensor base = base_weight(layer, where), sum = shifted(base, scale());
  if (has_others || !weight.defined()) {
    own_sum = Buffer(sum, where);
  } else {
    saved_bits_ =
        SavedBits(options.base, base, options.base == LoraBase::recompute ? shifted(sum, -scale()) : Tensor());
    weight.copy_(sum);
  }
  merged = true;
  merged_flag.fill_(true);
}

Tensor LowRank::unmerged() const {
  const NoGradGuard unrecorded;
  return saved_bits_.restored(options.base == LoraBase::recompute ? shifted(weight, -scale()) : Tensor());
}

void LowRank::unmerge(Location where) {
  if (!merged) return;
  const CallScope call("unmerge_lora", where);
  const NoGradGuard unrecorded;
  if (replaces_weight()) weight.copy_(unmerged());
  merged = false;
  saved_bits_ = {};
  own_sum = {};
  merged_flag.fill_(false);
}

LowRank* adapter_of(const Module& layer) {
  WeightForms* const forms = forms_of(layer);
  return forms == nullptr ? nullptr : forms->adapter.held.get();
}

void follow_mode(const Module& layer) {
  LowRank* const adapter = adapter_of(layer);
  if (adapter == nullptr || !adapter->options.merge_on_eval) return;
  if (layer.is_training()) adapter->unmerge(Location::none());
  else adapter->merge(layer, Location::none());
}

}  // namespace weft::nn::detail

namespace weft::nn {

LoRALinear::LoRALinear(int64_t in, int64_t out, const LoraOptions& options, Location where)
    : Linear(in, out, options.bias, where) {
  detail::attach(*this, {{"", *this, options}}, where);
}

}  // namespace weft::nn
