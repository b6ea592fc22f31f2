// One node moves the gradients of all inputs of an op. So ranks run the same collectives even if an op records
// nothing for an empty shard or returns no gradient for an input. The gradient of a `DTensor` is the gradient of one
// loss that all ranks compute alike, not of the sum of their losses.
#include "call.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "../../autograd/node.hpp"
#include "../../ops/create.hpp"
#include "../../ops/random.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/warning.hpp"
#include "../collectives.hpp"
#include "reshard-inl.hpp"

namespace weft::distributed {

namespace {

const Device meta(DeviceType::meta);

bool is_linear(ReduceOp op) { return op == ReduceOp::sum || op == ReduceOp::avg; }

const OpRecord& record_of(std::string_view op, Location where) {
  const std::string name(op);
  if (const OpRecord* record = find_record(name.c_str())) return *record;
  raise<KeyError>({.op = "call", .problem = fmt::format("there is no op '{}'", op)}, where);
}

/// Whether a tensor passed as argument i is read as a number.
bool is_read(const OpRecord& record, size_t i) {
  using Kind = ArgumentType::Kind;
  const std::vector<Argument>& all = record.signature().arguments;
  const Kind kind = i < all.size() ? all[i].type.kind : Kind::any;
  return kind == Kind::integer || kind == Kind::number || kind == Kind::dims;
}
bool is_written(const OpRecord& record, size_t i) {
  const std::vector<Argument>& all = record.signature().arguments;
  return i < all.size() && all[i].written;
}
bool is_random(const OpRecord& record) {
  return std::ranges::any_of(record.signature().arguments, [](const Argument& a) {
    return a.name == "generator" || a.name == "dropout_p" || a.name == "dropout";
  });
}

const DTensor& first_of(const OpRecord& record, const DValues& arguments) {
  for (const DValue& value : arguments) {
    if (const auto* x = std::get_if<DTensor>(&value)) return *x;
    const auto* list = std::get_if<std::vector<DTensor>>(&value);
    if (list != nullptr && !list->empty()) return list->front();
  }
  raise<ValueError>({.op = record.name, .problem = "no argument is in parts", .remedy = "make one by shard_tensor"});
}

/// The operands of a call: its tensors in order, and its arguments with meta tensors in their positions.
struct Operands {
  const OpRecord& record;
  const Mesh& mesh;
  std::vector<DTensor> tensors;
  std::vector<bool> written;
  Values arguments;

  Operands(const OpRecord& record_, const DValues& given) : record(record_), mesh(first_of(record_, given).mesh()) {
    for (size_t i = 0; i < given.size(); ++i) {
      arguments.push_back(std::visit([&](const auto& value) { return local_value(value, i); }, given[i]));
    }
  }

  Tensor add(const DTensor& x, size_t argument) {
    if (!(x.mesh().shape() == mesh.shape()) || !std::ranges::equal(x.mesh().ranks(), mesh.ranks())) {
      raise<ValueError>({.problem = "the inputs are on different meshes"});
    }
    tensors.push_back(x);
    written.push_back(is_written(record, argument));
    return empty(x.shape(), {x.local().defined() ? x.dtype() : default_dtype(), meta});
  }
  Value local_value(const DTensor& x, size_t i) { return is_read(record, i) ? x.full_tensor() : add(x, i); }
  Value local_value(const std::vector<DTensor>& list, size_t i) {
    std::vector<Tensor> out;
    for (const DTensor& x : list) out.push_back(is_read(record, i) ? x.full_tensor() : add(x, i));
    return out;
  }
  Value local_value(const Tensor& x, size_t i) {
    if (!x.defined() || is_read(record, i)) return x;
    return add(shard_tensor(x, mesh, Placements(static_cast<size_t>(mesh.shape().size()))), i);
  }
  template <class T>
  Value local_value(const T& other, size_t) {
    return other;
  }

  std::vector<SpmdMeta> metas() const {
    std::vector<SpmdMeta> out;
    for (const DTensor& x : tensors) {
      out.push_back({x.shape(), x.placements(), x.local().defined() ? itemsize(x.dtype()) : 4});
    }
    return out;
  }
  bool is_recorded() const {
    return std::ranges::any_of(tensors,
                               [](const DTensor& x) { return x.local().defined() && should_record(x.local()); });
  }
  /// The arguments `out`, with these tensors in their positions.
  Values filled(Values out, std::span<const Tensor> parts) const {
    size_t next = 0;
    for (size_t i = 0; i < out.size(); ++i) {
      if (is_read(record, i)) continue;
      if (auto* t = std::get_if<Tensor>(&out[i]); t != nullptr && t->defined()) *t = parts[next++];
      if (auto* list = std::get_if<std::vector<Tensor>>(&out[i])) {
        for (Tensor& t : *list) t = t.defined() ? parts[next++] : t;
      }
    }
    return out;
  }
};

/// Replaces letters that no result has by '1'.
std::string without_reduced(std::string letters) {
  const size_t arrow = letters.find("->");
  for (size_t i = 0; i < arrow; ++i) {
    if (letters[i] != ',' && letters.find(letters[i], arrow) == letters.npos) letters[i] = '1';
  }
  return letters;
}

std::string uncut_notation(const WholeCall& call) {
  std::string text;
  const auto add = [&](const std::vector<Tensor>& tensors) {
    for (size_t i = 0; i < tensors.size(); ++i) {
      text += (i == 0 ? "" : ",") + std::string(static_cast<size_t>(tensors[i].dim()), '1');
    }
  };
  add(call.inputs());
  text += "->";
  try {
    add(call.results());
  } catch (const NotImplementedError&) {  // shapes depend on values
  }
  return text;
}

Notation notation_of(const WholeCall& call, const Partition& rule, bool recorded) {
  if (rule.whole || rule.each) return Notation(uncut_notation(call));
  const bool cuts_reduced = !recorded || is_linear(rule.reduction);
  return Notation(cuts_reduced ? rule.letters : without_reduced(rule.letters),
                  {.reduction = rule.reduction, .linearity = rule.linearity, .units = rule.units});
}

/// Mesh dimensions that shard each letter.
std::map<char, std::vector<bool>> cuts_of(const Notation& notation, const SpmdInfo& info, size_t mesh_rank) {
  std::map<char, std::vector<bool>> cuts;
  for (size_t i = 0; i < info.inputs.size(); ++i) {
    for (size_t d = 0; d < mesh_rank; ++d) {
      const Placement& p = info.inputs[i][d];
      if (!p.is_shard()) continue;
      std::vector<bool>& dims = cuts[notation.inputs()[i][static_cast<size_t>(p.axis)]];
      dims.resize(mesh_rank);
      dims[d] = true;
    }
  }
  return cuts;
}

/// A seed for this rank's shard, from a generator whose state is equal on all ranks.
uint64_t seed_of_part(const SpmdInfo& info, const Mesh& mesh, Generator* given) {
  uint64_t part = 0;
  for (int d = 0; d < mesh.shape().size(); ++d) {
    const auto is_cut = [d](const Placements& p) { return p[static_cast<size_t>(d)].is_shard(); };
    const bool differs = std::ranges::any_of(info.inputs, is_cut) || std::ranges::any_of(info.outputs, is_cut);
    part = part * static_cast<uint64_t>(mesh.shape()[d]) + (differs ? static_cast<uint64_t>(mesh.coordinate()[d]) : 0);
  }
  const int64_t drawn = randint(0, int64_t{1} << 62, {1}, {.dtype = DType::i64}, given).item<int64_t>();
  return static_cast<uint64_t>(drawn) + part * 0x9e3779b97f4a7c15u;
}

bool cuts_anything(const SpmdInfo& info) {
  return std::ranges::any_of(info.inputs, [](const Placements& p) {
    return std::ranges::any_of(p, [](const Placement& one) { return one.is_shard(); });
  });
}

std::vector<Part> parts_of(const std::vector<Dims>& shapes, const std::vector<Placements>& placements,
                           const Mesh& mesh) {
  std::vector<Part> out;
  for (size_t i = 0; i < shapes.size(); ++i) {
    out.push_back(part_of(shapes[i], placements[i], mesh.shape(), mesh.coordinate()));
  }
  return out;
}

/// Inputs on this rank, resharded as the rule needs them.
detail::MovedInputs moved(const Operands& operands, const SpmdInfo& info, const std::vector<Placements>& gradients) {
  for (size_t i = 0; i < operands.tensors.size(); ++i) {
    const Placements& from = operands.tensors[i].placements();
    if (!operands.written[i] || from == info.inputs[i]) continue;
    raise<ValueError>({.problem = fmt::format("a tensor that the op writes is {}, and the op needs it as {}",
                                              text(from), text(info.inputs[i]))});
  }
  return {operands.tensors, info, gradients, weft::detail::current_call.where};
}

std::vector<Tensor> tensors_in(const Value& value) {
  if (const auto* t = std::get_if<Tensor>(&value)) return {*t};
  if (const auto* list = std::get_if<std::vector<Tensor>>(&value)) return *list;
  raise<ValueError>({.problem = "it gives no tensor", .remedy = "call it with full_tensor()"});
}

/// Empty results, for ops that refuse empty inputs.
std::vector<Tensor> empty_results(std::span<const Part> results, const std::vector<TensorMeta>& metas, Device device) {
  std::vector<Tensor> out;
  for (size_t i = 0; i < results.size(); ++i) out.push_back(zeros(results[i].sizes, {metas[i].dtype, device}));
  return out;
}

/// Whether any rank has an empty shard. The last rank's shard is the smallest.
bool has_empty_parts(const std::vector<Dims>& shapes, const std::vector<Placements>& placements, const Mesh& mesh) {
  Dims last = mesh.shape();
  for (int d = 0; d < last.size(); ++d) last[d] -= 1;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (part_of(shapes[i], placements[i], mesh.shape(), last).sizes.product() == 0) return true;
  }
  return false;
}

/// Computes this rank's shards of the results.
std::vector<Tensor> computed(const Operands& operands, const WholeCall& whole, const Partition& rule,
                             const Notation& notation, const SpmdInfo& info, const detail::MovedInputs& inputs,
                             const std::vector<TensorMeta>& results) {
  const Mesh& mesh = operands.mesh;
  std::vector<Dims> shapes, shapes_of_results;
  for (const DTensor& x : operands.tensors) shapes.push_back(x.shape());
  for (const TensorMeta& m : results) shapes_of_results.push_back(m.shape);
  const std::vector<Part> of_inputs = parts_of(shapes, info.inputs, mesh),
                          of_results = parts_of(shapes_of_results, info.outputs, mesh);
  const auto cuts = cuts_of(notation, info, static_cast<size_t>(mesh.shape().size()));
  const bool differs = has_empty_parts(shapes, info.inputs, mesh);
  std::vector<Tensor> sums;
  const Callback<Tensor(const Tensor&, std::string_view)> sum = [&](const Tensor& x, std::string_view letters) {
    Tensor total = differs ? inputs.recorded(x) : x;
    for (int d = 0; d < mesh.shape().size(); ++d) {
      const auto is_cut = [&](char letter) {
        const auto found = cuts.find(letter);
        return found != cuts.end() && found->second[static_cast<size_t>(d)];
      };
      if (std::ranges::any_of(letters, is_cut)) total = all_reduce(total, mesh.group(d));
    }
    if (total.requires_grad()) sums.push_back(total);
    return total;
  };
  PartCall call{operands.record, operands.filled(whole.arguments(), inputs.parts()), of_inputs, of_results, sum};

  std::optional<Generator> own;
  std::optional<GeneratorGuard> guard;
  if (is_random(operands.record) && cuts_anything(info)) {
    const Argument* argument = operands.record.signature().find("generator");
    Generator* const* given = argument != nullptr ? std::get_if<Generator*>(&call["generator"]) : nullptr;
    own.emplace(seed_of_part(info, mesh, given != nullptr ? *given : nullptr));
    guard.emplace(*own);
    if (given != nullptr) call["generator"] = &*own;
  }
  std::vector<Tensor> out;
  try {
    out = tensors_in(rule.on_parts ? rule.on_parts(call) : call.run());
  } catch (const DistributedError&) {
    throw;
  } catch (const Error&) {
    const auto is_empty = [](const Part& p) { return p.sizes.product() == 0; };
    if (!std::ranges::all_of(of_results, is_empty)) throw;
    out = empty_results(of_results, results, inputs.parts()[0].device());
  }
  return operands.record.facts.differentiable ? inputs.joined(std::move(out), sums) : out;
}

}  // namespace

Notation notation_of(const OpRecord& record, std::span<const Value> arguments) {
  const WholeCall call(record, arguments);
  return notation_of(call, partition_of(call), false);
}

namespace {

std::vector<DTensor> call_each(std::string_view op, const DValues& arguments, Location where) {
  std::vector<DTensor> out;
  const size_t count = std::get<std::vector<DTensor>>(arguments[0]).size();
  for (size_t i = 0; i < count; ++i) {
    DValues one = arguments;
    for (DValue& value : one) {
      if (auto* list = std::get_if<std::vector<DTensor>>(&value)) *list = std::vector<DTensor>{list->at(i)};
    }
    for (DTensor& result : call_all(op, one, where)) out.push_back(std::move(result));
  }
  return out;
}

}  // namespace

std::vector<DTensor> call_all(std::string_view op, const DValues& arguments, Location where) {
  const OpRecord& record = record_of(op, where);
  const CallScope scope(record.name, where);
  const Operands operands(record, arguments);
  const Mesh& mesh = operands.mesh;
  const WholeCall whole(record, operands.arguments);
  const Partition rule = partition_of(whole);
  if (record.partition == nullptr) {
    warn({.op = record.name, .problem = "there is no rule for parts: each rank computes with whole tensors"});
  }
  if (rule.each) return call_each(op, arguments, where);
  const Notation notation = notation_of(whole, rule, operands.is_recorded());
  const std::vector<SpmdMeta> metas = operands.metas();
  const SpmdInfo info = notation.infer(metas, mesh.shape(), where);
  std::vector<TensorMeta> shapes;
  for (size_t i = 0; i < notation.outputs().size() && !rule.whole; ++i) {
    shapes.push_back({whole.results()[i].shape(), whole.results()[i].dtype()});
  }

  std::vector<DTensor> out;
  if (mesh.coordinate().empty()) {
    for (size_t i = 0; i < shapes.size(); ++i)
      out.emplace_back(Tensor(), shapes[i].shape, mesh, info.outputs[i], where);
    return out;
  }
  const detail::MovedInputs inputs = moved(operands, info, notation.infer_gradients(metas, info));
  if (rule.whole) {
    const Placements replicated(static_cast<size_t>(mesh.shape().size()));
    for (const Tensor& t : tensors_in(record.call(operands.filled(operands.arguments, inputs.parts()))))
      out.emplace_back(t, t.shape(), mesh, replicated, where);
    return out;
  }
  const std::vector<Tensor> results = computed(operands, whole, rule, notation, info, inputs, shapes);
  for (size_t i = 0; i < results.size(); ++i)
    out.emplace_back(results[i], shapes.at(i).shape, mesh, info.outputs[i], where);
  return out;
}

DTensor call(std::string_view op, const DValues& arguments, Location where) {
  std::vector<DTensor> out = call_all(op, arguments, where);
  if (out.size() == 1) return out[0];
  const std::string name(op);
  raise<ValueError>(
      {.op = name.c_str(), .problem = fmt::format("it gives {} tensors", out.size()), .remedy = "write call_all"},
      where);
}

}  // namespace weft::distributed
