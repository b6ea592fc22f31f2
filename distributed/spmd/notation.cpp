#include "notation.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "../../tensor/error.hpp"

namespace weft::distributed {

namespace {

constexpr char never_cut = '1';

bool has(const std::string& word, char letter) { return word.find(letter) != std::string::npos; }

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    if (c == ',') words.emplace_back();
    else words.back() += c;
  }
  return words;
}

/// Letters in order of first appearance.
std::string letters_of(const std::vector<std::string>& words) {
  std::string letters;
  for (const std::string& word : words) {
    for (const char c : word) {
      if (c != never_cut && !has(letters, c)) letters += c;
    }
  }
  return letters;
}

/// Mesh dimensions that shard each letter, the outer ones first.
using Cuts = std::map<char, Dims>;

/// Placements of a tensor whose axes have the letters of `word`; `cuts_axis` returns whether an axis is sharded at all.
template <class F>
Placements placements_of(const std::string& word, const Cuts& cuts, int mesh_rank, F&& cuts_axis) {
  Placements out(static_cast<size_t>(mesh_rank));
  for (size_t axis = 0; axis < word.size(); ++axis) {
    const auto found = cuts.find(word[axis]);
    if (found == cuts.end() || !cuts_axis(static_cast<int>(axis))) continue;
    for (const int64_t d : found->second) out[static_cast<size_t>(d)] = Shard(static_cast<int>(axis));
  }
  return out;
}

bool is_sum(const Placement& p) { return p.is_partial() && (p.op == ReduceOp::sum || p.op == ReduceOp::avg); }

/// For each mesh dimension: the reduction of partial inputs that stay partial, if any.
std::vector<std::optional<ReduceOp>> passing(std::span<const SpmdMeta> inputs, const Dims& mesh, Linearity linearity) {
  std::vector<std::optional<ReduceOp>> out(static_cast<size_t>(mesh.size()));
  for (size_t d = 0; d < out.size(); ++d) {
    const auto at = [d](const SpmdMeta& meta) -> const Placement& { return meta.placements[d]; };
    const auto count = std::ranges::count_if(inputs, is_sum, at);
    const auto replicated = std::ranges::count_if(inputs, &Placement::is_replicate, at);
    const auto all = std::ssize(inputs);
    bool passes = false;
    if (linearity == Linearity::together) {
      passes = count == all && std::ranges::all_of(inputs, [&](const SpmdMeta& m) { return at(m) == at(inputs[0]); });
    } else if (linearity != Linearity::none) {
      passes = count == 1 && replicated == all - 1 && (linearity == Linearity::each || is_sum(at(inputs[0])));
    }
    if (passes) out[d] = at(*std::ranges::find_if(inputs, is_sum, at)).op;
  }
  return out;
}

/// Number of equal units along an axis with this letter, which are never split; 0 if there are none.
int64_t units_of(const NotationOptions& options, char letter) {
  const auto found = std::ranges::find(options.units, letter, &std::pair<char, int64_t>::first);
  return found == options.units.end() ? 0 : found->second;
}

/// Sizes of the letters; axes of size 1 are ignored.
std::map<char, int64_t> sizes_of(const std::vector<std::string>& words, const NotationOptions& options,
                                 std::span<const SpmdMeta> inputs, const Dims& mesh, Location where) {
  if (inputs.size() != words.size()) {
    raise<ValueError>({.op = "infer", .problem = fmt::format("{} inputs for {} words", inputs.size(), words.size())},
                      where);
  }
  std::map<char, int64_t> sizes;
  for (size_t i = 0; i < words.size(); ++i) {
    const SpmdMeta& meta = inputs[i];
    const bool has_axes = std::ranges::all_of(meta.placements, [&](const Placement& p) {
      return !p.is_shard() || (p.axis >= 0 && p.axis < meta.shape.size());
    });
    if (meta.shape.size() != std::ssize(words[i]) || std::ssize(meta.placements) != mesh.size() || !has_axes) {
      raise<ValueError>({.op = "infer",
                         .problem = fmt::format("input {} {} with {} does not fit \"{}\" on a mesh {}", i,
                                                meta.shape.text(), text(meta.placements), words[i], mesh.text())},
                        where);
    }
    for (int axis = 0; axis < meta.shape.size(); ++axis) {
      const char letter = words[i][static_cast<size_t>(axis)];
      if (letter == never_cut || meta.shape[axis] == 1) continue;
      const auto [known, is_new] = sizes.emplace(letter, meta.shape[axis]);
      if (is_new || known->second == meta.shape[axis] || units_of(options, letter) != 0) continue;
      raise<ShapeError>(
          {.op = "infer", .problem = fmt::format("'{}' is {} and {}", letter, known->second, meta.shape[axis])}, where);
    }
  }
  return sizes;
}

int64_t size_of(const std::map<char, int64_t>& sizes, char letter) {
  const auto found = sizes.find(letter);
  return found == sizes.end() ? 1 : found->second;
}

/// Whether an axis is sharded with its letter; false for an axis of size 1 that broadcasts.
bool may_be_cut(const std::string& word, const SpmdMeta& meta, int axis, const std::map<char, int64_t>& sizes) {
  return meta.shape[axis] > 1 || size_of(sizes, word[static_cast<size_t>(axis)]) == 1;
}

/// How an input shards an axis of a letter.
struct Claim {
  Dims cut;
  int64_t bytes;  // on each rank
};

int64_t local_bytes(const SpmdMeta& meta, const Dims& mesh) {
  return part_of(meta.shape, meta.placements, mesh, Dims::filled(mesh.size(), 0)).sizes.product() * meta.itemsize;
}

/// The cut that moves the fewest bytes: differently sharded inputs must be moved, whole ones are cut locally.
Dims cheapest(const std::vector<Claim>& claims) {
  const auto bytes_moved = [&](const Dims& cut) {
    int64_t bytes = 0;
    for (const Claim& claim : claims) bytes += claim.cut.empty() || claim.cut == cut ? 0 : claim.bytes;
    return bytes;
  };
  Dims best;
  for (const Claim& claim : claims) {
    if (claim.cut.empty() || claim.cut == best) continue;
    if (best.empty()) {
      best = claim.cut;
      continue;
    }
    const int64_t here = bytes_moved(claim.cut), best_bytes = bytes_moved(best);
    if (here < best_bytes || (here == best_bytes && std::ranges::lexicographical_compare(claim.cut, best)))
      best = claim.cut;
  }
  return best;
}

/// Takes the wanted mesh dimensions that are free and do not split units, from the outer one on.
void take(const Dims& wanted, const Dims& mesh, int64_t units, std::vector<bool>& is_used, Dims& kept) {
  int64_t ranks = 1;
  for (const int64_t d : wanted) {
    if (is_used[static_cast<size_t>(d)]) continue;
    ranks *= mesh[static_cast<int>(d)];
    if (units != 0 && units % ranks != 0) return;
    is_used[static_cast<size_t>(d)] = true;
    kept.push_back(d);
  }
}

}  // namespace

Notation::Notation(std::string_view text, NotationOptions options, Location where) : options_(std::move(options)) {
  const size_t arrow = text.find("->");
  const auto refuse = [&](const char* problem) {
    raise<ValueError>({.op = "Notation", .problem = fmt::format("\"{}\": {}", text, problem)}, where);
  };
  if (arrow == text.npos) refuse("there is no ->");
  inputs_ = words_of(text.substr(0, arrow));
  outputs_ = words_of(text.substr(arrow + 2));
  const std::string letters = letters_of(inputs_);
  for (const auto* words : {&inputs_, &outputs_}) {
    for (const std::string& word : *words) {
      for (const char c : word) {
        const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (c != never_cut && !is_letter) refuse("words have letters and 1");
        if (is_letter && std::ranges::count(word, c) > 1) refuse("a letter occurs once in a word");
        if (is_letter && !has(letters, c)) refuse("outputs have letters of inputs");
      }
    }
  }
}

SpmdInfo Notation::infer(std::span<const SpmdMeta> inputs, const Dims& mesh, Location where) const {
  const std::map<char, int64_t> sizes = sizes_of(inputs_, options_, inputs, mesh, where);
  const auto stays = passing(inputs, mesh, options_.linearity);
  std::vector<bool> is_used;
  for (const auto& op : stays) is_used.push_back(op.has_value());

  std::vector<std::vector<Dims>> mappings;
  for (const SpmdMeta& meta : inputs) mappings.push_back(dims_mapping(meta.placements, meta.shape.size()));
  const auto is_cut = [&](size_t i, int axis) { return may_be_cut(inputs_[i], inputs[i], axis, sizes); };
  Cuts cuts;
  for (const char letter : letters_of(inputs_)) {
    std::vector<Claim> claims;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t axis = inputs_[i].find(letter);
      if (axis == std::string::npos || !is_cut(i, static_cast<int>(axis))) continue;
      claims.push_back({mappings[i][axis], local_bytes(inputs[i], mesh)});
    }
    take(cheapest(claims), mesh, units_of(options_, letter), is_used, cuts[letter]);
  }

  SpmdInfo info;
  for (size_t i = 0; i < inputs.size(); ++i) {
    info.inputs.push_back(placements_of(inputs_[i], cuts, mesh.size(), [&](int axis) { return is_cut(i, axis); }));
    for (size_t d = 0; d < stays.size(); ++d) {
      if (stays[d] && is_sum(inputs[i].placements[d])) info.inputs.back()[d] = Partial(*stays[d]);
    }
  }
  for (const std::string& word : outputs_) {
    Placements out = placements_of(word, cuts, mesh.size(), [](int) { return true; });
    for (const auto& [letter, cut] : cuts) {
      for (const int64_t d : cut) {
        if (!has(word, letter)) out[static_cast<size_t>(d)] = Partial(options_.reduction);
      }
    }
    for (size_t d = 0; d < stays.size(); ++d) {
      if (stays[d]) out[d] = Partial(*stays[d]);
    }
    info.outputs.push_back(out);
  }
  return info;
}

SpmdInfo Notation::infer_reverse(std::span<const SpmdMeta> inputs, std::span<const Placements> outputs,
                                 const Dims& mesh, Location where) const {
  const std::map<char, int64_t> sizes = sizes_of(inputs_, options_, inputs, mesh, where);
  if (outputs.size() != outputs_.size()) {
    raise<ValueError>(
        {.op = "infer_reverse", .problem = fmt::format("{} outputs for {} words", outputs.size(), outputs_.size())},
        where);
  }
  Cuts cuts;
  std::vector<bool> is_used(static_cast<size_t>(mesh.size()));
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto mapping = dims_mapping(outputs[i], static_cast<int>(outputs_[i].size()));
    for (size_t axis = 0; axis < mapping.size(); ++axis) {
      if (outputs_[i][axis] == never_cut || !cuts[outputs_[i][axis]].empty()) continue;
      take(mapping[axis], mesh, units_of(options_, outputs_[i][axis]), is_used, cuts[outputs_[i][axis]]);
    }
  }
  SpmdInfo info;
  for (size_t i = 0; i < inputs.size(); ++i) {
    info.inputs.push_back(placements_of(inputs_[i], cuts, mesh.size(),
                                        [&](int axis) { return may_be_cut(inputs_[i], inputs[i], axis, sizes); }));
  }
  for (const std::string& word : outputs_) {
    info.outputs.push_back(placements_of(word, cuts, mesh.size(), [](int) { return true; }));
  }
  return info;
}

std::vector<Placements> Notation::infer_gradients(std::span<const SpmdMeta> inputs, const SpmdInfo& info) const {
  std::vector<Placements> gradients;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Placements out = info.inputs[i];
    for (size_t d = 0; d < out.size(); ++d) {
      if (out[d].is_shard()) continue;
      const auto is_cut = [&](const Placements& p) { return p[d].is_shard(); };
      const bool others_partial =
          options_.linearity != Linearity::together && !out[d].is_partial() &&
          std::ranges::any_of(info.inputs, [&](const Placements& p) { return p[d].is_partial(); });
      const bool sums = std::ranges::any_of(info.inputs, is_cut) || std::ranges::any_of(info.outputs, is_cut);
      out[d] = sums || others_partial ? Partial() : Replicate();
    }
    gradients.push_back(out);
  }
  return gradients;
}

Dims Notation::output_shape(std::span<const SpmdMeta> inputs, const Dims& local, size_t number) const {
  Dims out;
  for (const char letter : outputs_[number]) {
    int64_t size = letter == never_cut && out.size() < local.size() ? local[out.size()] : 1;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const size_t axis = letter == never_cut ? std::string::npos : inputs_[i].find(letter);
      if (axis == std::string::npos || inputs[i].shape[static_cast<int>(axis)] == 1) continue;
      size = inputs[i].shape[static_cast<int>(axis)];
    }
    out.push_back(size);
  }
  return out;
}

}  // namespace weft::distributed
