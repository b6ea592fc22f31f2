#include "../model.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "../files/atomic_folder-inl.hpp"
#include "../json/document-inl.hpp"
#include "../file.hpp"
#include "../files/naming_file-inl.hpp"
#include "../files/folder-inl.hpp"
#include "../../nn/least_elements-inl.hpp"
#include "../../nn/memory_budget-inl.hpp"
#include "../../nn/path-inl.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/shortened.hpp"

namespace weft::io {

namespace {

using nn::detail::joined;

constexpr const char *saving = "save_model", *loading = "load_model";
constexpr std::string_view tree_file = "model.json", own_files[] = {tree_file};

/// Collects the stored name of each tensor of the tree; empty for a tensor that is not stored.
void collect_names(const nn::ModuleDescription& d, const std::string& path, std::map<std::string, std::string>& names) {
  for (const auto* list : {&d.parameters, &d.buffers}) {
    for (const nn::TensorDescription& t : *list) {
      if (t.saved && t.tied_to.empty()) names.emplace(joined(path, t.name), t.stored_as);
    }
  }
  for (const nn::ModuleDescription& child : d.children) collect_names(child, joined(path, child.name), names);
}

std::map<std::string, std::string> stored_names(const nn::ModuleDescription& d) {
  std::map<std::string, std::string> names;
  collect_names(d, "", names);
  return names;
}

/// Returns the weights under the names of the migrated tree, without weights that a migration dropped.
nn::StateDict renamed(TensorMap weights, const std::map<std::string, std::string>& before,
                      const std::map<std::string, std::string>& now) {
  nn::StateDict out;
  for (const auto& [name, stored] : now) {
    const auto found = weights.find(stored);
    if (found != weights.end()) out.emplace(name, found->second);
  }
  for (const auto& [name, stored] : before) weights.erase(stored);
  for (const auto& [name, stored] : now) weights.erase(stored);
  out.merge(weights);  // unknown tensors are reported under their stored names
  return out;
}

/// Loads all stored tensors; others keep their initial values.
void load_weights(const nn::AnyModule& module, const nn::StateDict& values,
                  const std::map<std::string, std::string>& names, Location where) {
  const nn::LoadReport report = module.check_state_dict(values, false, where);
  const auto is_new = [&](const std::string& name) {
    const auto found = names.find(name);
    return found != names.end() && found->second.empty();
  };
  const bool fits = report.unexpected.empty() && std::ranges::all_of(report.missing, is_new);
  nn::Module(module).load_state_dict(values, !fits, where);
}

/// Sizes of the stored tensors, and of buffers that a file claims without storing them.
struct Sizes {
  Checked elements = 0, unsaved = 0;
  int64_t tensors = 0;

  Sizes(const nn::ModuleDescription& tree, const TensorMap& weights) {
    for (const auto& [name, tensor] : weights) elements += tensor.numel();
    tensors = std::ssize(weights);
    add(tree);
  }
  void add(const nn::ModuleDescription& d) {
    for (const nn::TensorDescription& buffer : d.buffers) {
      if (buffer.saved) continue;
      Checked count = 1;
      for (const int64_t size : buffer.shape) count *= size;
      unsaved += count;
      ++tensors;
    }
    for (const nn::ModuleDescription& child : d.children) add(child);
  }
  /// For a MemoryBudget. Nothing bounds the buffers that are not stored but this limit.
  int64_t to_build() const {
    constexpr int64_t most_unsaved = int64_t{1} << 26;
    return elements.value() + (unsaved.fits() ? std::min(unsaved.value(), most_unsaved) : most_unsaved);
  }
};

/// Raises ShapeError for a tensor that has another shape in the tree than in the files.
void check_shapes(const nn::ModuleDescription& d, const TensorMap& weights, const std::string& file, Location where) {
  for (const auto* list : {&d.parameters, &d.buffers}) {
    for (const nn::TensorDescription& t : *list) {
      const auto stored = weights.find(t.stored_as);
      if (!t.saved || !t.tied_to.empty() || stored == weights.end() || stored->second.shape() == t.shape) continue;
      raise<ShapeError>(
          {.op = loading,
           .problem = fmt::format("{} describes \"{}\" as {}, and the weights have {}", file,
                                  shortened(t.stored_as, 100), t.shape.text(), stored->second.shape().text())},
          where);
    }
  }
  for (const nn::ModuleDescription& child : d.children) check_shapes(child, weights, file, where);
}

}  // namespace

void save_model(const Path& folder, const nn::Module& module, const SaveModelOptions& options, Location where) {
  options.registry.check_types(module, where);
  save_model(folder, options.registry.describe(module, where), module.state_dict(), options, where);
}

void save_model(const Path& folder, const nn::ModuleDescription& tree, const TensorMap& weights,
                const SaveModelOptions& options, Location where) {
  const std::string text = to_json(tree, where);
  for (const auto& [name, document] : options.documents) check_document(name, document, own_files, saving, where);
  if (exists(folder) && !is_empty_folder(folder, saving, where) && !exists(folder / tree_file)) {
    raise<ValueError>({.op = saving,
                       .problem = fmt::format("{} is there and is no model", folder.string()),
                       .remedy = "a model's folder is replaced whole: name a new one"},
                      where);
  }
  AtomicFolder whole(folder, saving, where);
  const Path& inside = whole.temporary();
  save_sharded(weights, inside, {.max_shard_size = options.max_shard_size}, where);
  for (const auto& [name, document] : options.documents) {
    write_file(inside / document_file(name), document, saving, where);
  }
  write_file(inside / tree_file, text, saving, where);
  whole.commit();
}

nn::AnyModule load_model(const Path& folder, const LoadModelOptions& options, Location where) {
  const Path path = folder / tree_file;
  const auto naming = [&](auto&& read) {
    return naming_file<FormatError>(path, loading, [&] { return naming_file<VersionError>(path, loading, read); });
  };
  const nn::ModuleDescription written = naming([&] { return read_model(read_file(path, loading, where), where); });
  const nn::ModuleDescription tree =
      naming([&] { return options.registry.migrated(written, options.allow_unreleased, where); });
  TensorMap weights = load_sharded(folder, {}, where);
  check_shapes(tree, weights, path.string(), where);
  const Sizes sizes(tree, weights);
  nn::AnyModule module = naming([&] {
    const auto is_weft = [&](const std::string& type) { return nn::detail::is_wefts_own(options.registry, type); };
    nn::detail::check_claims(tree, sizes.elements.value(), is_weft, loading, where);
    const nn::detail::MemoryBudget budget(sizes.to_build(), sizes.tensors, loading, path.string(), where);
    return options.registry.build(tree, where);
  });
  const auto names = stored_names(tree);
  load_weights(module, renamed(std::move(weights), stored_names(written), names), names, where);
  if (options.dtype) module.to(*options.dtype, where);
  if (!(options.device == Device())) module.to(options.device, where);
  return module;
}

}  // namespace weft::io
