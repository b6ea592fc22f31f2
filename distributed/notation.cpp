#include "notation.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <fmt/format.h>

#include "../tensor/error.hpp"

namespace weft::distributed {

namespace {

constexpr char unsharded = '1';

struct Notation {
  std::vector<std::string> inputs;
  std::string output;
};

Notation parse(std::string_view text) {
  const auto refuse = [&](const char* why) {
    raise<ValueError>({.problem = fmt::format("'{}' is no notation: {}", text, why)});
  };
  const size_t arrow = text.find("->");
  if (arrow == text.npos) refuse("it has no ->");
  Notation notation;
  notation.output = text.substr(arrow + 2);
  std::string_view rest = text.substr(0, arrow);
  for (;;) {
    const size_t comma = rest.find(',');
    notation.inputs.emplace_back(rest.substr(0, comma));
    if (comma == rest.npos) break;
    rest.remove_prefix(comma + 1);
  }
  std::vector<std::string> all = notation.inputs;
  all.push_back(notation.output);
  for (const std::string& axes : all) {
    for (const char c : axes) {
      if (c != unsharded && (c < 'a' || c > 'z')) refuse("axes are lower-case letters and 1");
      if (c != unsharded && std::count(axes.begin(), axes.end(), c) > 1) refuse("a letter stands twice in a tensor");
    }
  }
  return notation;
}

void check_fits(const Notation& notation, std::span<const TensorMeta> inputs, int mesh_dims) {
  if (notation.inputs.size() != inputs.size()) {
    raise<ValueError>(
        {.problem = fmt::format("a notation of {} operands for {}", notation.inputs.size(), inputs.size())});
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (static_cast<int>(notation.inputs[i].size()) != inputs[i].shape.size()) {
      raise<ValueError>({.problem = fmt::format("operand {} of shape {} has not the axes '{}'", i,
                                                inputs[i].shape.text(), notation.inputs[i])});
    }
    if (static_cast<int>(inputs[i].placements.size()) != mesh_dims) {
      raise<ValueError>({.problem = fmt::format("operand {} has {} placements on a mesh of {} dimensions", i,
                                                inputs[i].placements.size(), mesh_dims)});
    }
  }
}

/// A letter, and the dimensions of the mesh that shard its axis.
struct Letter {
  char name;
  std::vector<int> dims;
};

/// What has to move where the axis called `name` comes to lie on `dims`: the operands that lie otherwise.
int64_t bytes_moved(char name, const std::vector<int>& dims, const Notation& notation,
                    std::span<const TensorMeta> inputs, std::span<const AxisMapping> mappings) {
  int64_t bytes = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const size_t axis = notation.inputs[i].find(name);
    if (axis == std::string::npos || mappings[i][axis] == dims || mappings[i][axis].empty()) continue;
    bytes += inputs[i].shape.product() * inputs[i].itemsize;
  }
  return bytes;
}

/// The letters in the order in which operands name them, each with the mapping that its operands agree on.
std::vector<Letter> merged_letters(const Notation& notation, std::span<const TensorMeta> inputs,
                                   std::span<const AxisMapping> mappings) {
  std::vector<Letter> letters;
  for (size_t i = 0; i < inputs.size(); ++i) {
    for (size_t axis = 0; axis < notation.inputs[i].size(); ++axis) {
      const char name = notation.inputs[i][axis];
      const std::vector<int>& dims = mappings[i][axis];
      if (name == unsharded) continue;
      const auto known = std::find_if(letters.begin(), letters.end(), [&](const Letter& l) { return l.name == name; });
      if (known == letters.end()) {
        letters.push_back({name, dims});
        continue;
      }
      if (dims.empty() || dims == known->dims) continue;
      const int64_t keep = bytes_moved(name, known->dims, notation, inputs, mappings);
      const int64_t change = bytes_moved(name, dims, notation, inputs, mappings);
      if (known->dims.empty() || change < keep || (change == keep && dims < known->dims)) known->dims = dims;
    }
  }
  std::vector<int> claimed;
  for (Letter& letter : letters) {
    std::erase_if(letter.dims, [&](int d) { return std::find(claimed.begin(), claimed.end(), d) != claimed.end(); });
    claimed.insert(claimed.end(), letter.dims.begin(), letter.dims.end());
  }
  return letters;
}

Placements placed(const std::string& axes, const std::vector<Letter>& letters, int mesh_dims) {
  Placements placements(static_cast<size_t>(mesh_dims));
  for (const Letter& letter : letters) {
    const size_t axis = axes.find(letter.name);
    if (axis == std::string::npos) continue;
    for (const int d : letter.dims) placements[static_cast<size_t>(d)] = Shard(static_cast<int>(axis));
  }
  return placements;
}

bool is_linear(const Placement& p) { return p.is_partial() && (p.op == ReduceOp::sum || p.op == ReduceOp::avg); }

/// The partial value that goes through the op along dimension d of the mesh, and into which operands.
std::optional<Placement> passing(std::span<const TensorMeta> inputs, size_t d, PartialRule rule) {
  size_t partial = 0;
  Placement found;
  for (const TensorMeta& input : inputs) {
    const Placement& p = input.placements[d];
    if (!p.is_partial()) continue;
    if (!is_linear(p) || (partial != 0 && !(p == found))) return {};
    found = p;
    ++partial;
  }
  const bool passes = rule == PartialRule::one ? partial == 1 : rule == PartialRule::all && partial == inputs.size();
  return passes && partial != 0 ? std::optional(found) : std::nullopt;
}

}  // namespace

Spmd infer_notation(std::string_view text, std::span<const TensorMeta> inputs, int mesh_dims,
                    const NotationOptions& options, Location where) {
  const CallScope call("infer_notation", where);
  const Notation notation = parse(text);
  check_fits(notation, inputs, mesh_dims);
  std::vector<AxisMapping> mappings;
  for (const TensorMeta& input : inputs) mappings.push_back(axis_mapping(input.placements, input.shape.size()));

  const std::vector<Letter> letters = merged_letters(notation, inputs, mappings);
  Spmd spmd;
  for (const std::string& axes : notation.inputs) spmd.inputs.push_back(placed(axes, letters, mesh_dims));
  spmd.output = placed(notation.output, letters, mesh_dims);
  std::vector<bool> claimed(static_cast<size_t>(mesh_dims));
  for (const Letter& letter : letters) {
    for (const int d : letter.dims) {
      claimed[static_cast<size_t>(d)] = true;
      if (notation.output.find(letter.name) == std::string::npos) {
        spmd.output[static_cast<size_t>(d)] = Partial(options.reduction);
      }
    }
  }
  for (size_t d = 0; d < claimed.size(); ++d) {
    const std::optional<Placement> partial = claimed[d] ? std::nullopt : passing(inputs, d, options.partial);
    if (!partial) continue;
    spmd.output[d] = *partial;
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (inputs[i].placements[d].is_partial()) spmd.inputs[i][d] = *partial;
    }
  }
  return spmd;
}

std::string broadcast_notation(std::span<const Dims> shapes, Location where) {
  const CallScope call("broadcast_notation", where);
  int rank = 0;
  for (const Dims& shape : shapes) rank = std::max(rank, shape.size());
  std::vector<bool> stretched(static_cast<size_t>(rank));
  std::string text, output;
  for (int axis = 0; axis < rank; ++axis) output += static_cast<char>('a' + axis);
  for (size_t i = 0; i < shapes.size(); ++i) {
    text += i == 0 ? "" : ",";
    const int first = rank - shapes[i].size();
    for (int axis = first; axis < rank; ++axis) {
      const auto is_wide = [&](const Dims& other) {
        const int at = axis - (rank - other.size());
        return at >= 0 && other[at] != 1;
      };
      const bool is_one = shapes[i][axis - first] == 1 && std::any_of(shapes.begin(), shapes.end(), is_wide);
      text += is_one ? unsharded : output[static_cast<size_t>(axis)];
    }
  }
  return text + "->" + output;
}

std::string matmul_notation(const Dims& a, const Dims& b, bool transpose_a, bool transpose_b, Location where) {
  const CallScope call("matmul_notation", where);
  if (a.size() < 2 || b.size() < 2) {
    raise<ShapeError>({.problem = fmt::format("matrices have two axes, not {} and {}", a.size(), b.size())});
  }
  const auto batch = [](const Dims& shape) {
    return Dims(std::span(shape.data(), static_cast<size_t>(shape.size() - 2)));
  };
  const Dims batches[] = {batch(a), batch(b)};
  const std::string text = broadcast_notation(batches, where);
  const size_t comma = text.find(','), arrow = text.find("->");
  return text.substr(0, comma) + (transpose_a ? "km" : "mk") + text.substr(comma, arrow - comma) +
         (transpose_b ? "nk" : "kn") + text.substr(arrow) + "mn";
}

}  // namespace weft::distributed
