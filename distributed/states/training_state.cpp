#include "../training_state.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../../io/file.hpp"
#include "../../io/files/atomic_folder-inl.hpp"
#include "../../io/files/folder-inl.hpp"
#include "../../io/training/state_folder-inl.hpp"
#include "../../tensor/error.hpp"
#include "../collectives.hpp"
#include "../detail/run_state.hpp"
#include "../detail/together.hpp"
#include "saving-inl.hpp"

namespace weft::distributed {

namespace {

using detail::together;

std::string metadata_of(const char* part) { return fmt::format("{}/{}.metadata.json", part, io::parts_id); }

void check_run(const ShardedRun& run) {
  if (run.optimizer == nullptr || run.sharded_optimizer == nullptr) return;
  raise<ValueError>({.problem = "a run has one optimizer: of .optimizer and .sharded_optimizer give one"});
}

bool has_optimizer(const ShardedRun& run) { return run.optimizer != nullptr || run.sharded_optimizer != nullptr; }

/// Files of the folder and its subfolders, as listed in the marker.
std::vector<std::string> files_in(const io::Path& inside) {
  std::vector<std::string> out;
  for (const std::string& name : io::names_in(inside.string())) {
    if (!io::is_folder(inside / name)) out.push_back(name);
    else
      for (const std::string& file : io::names_in((inside / name).string())) out.push_back(name + '/' + file);
  }
  return out;
}

}  // namespace

namespace detail {

PlannedRun planned_run(const ShardedRun& run, const io::RunState& state, const Group& group, Location where) {
  PlannedRun out{.states = {}, .generators = {}, .numbers = state};
  io::ShardedState optimizer;
  together(group, "save", [&] {
    check_run(run);
    io::check_state(state, where);
    if (state.accumulated > 0) {
      raise<ValueError>({.problem = "gradients that are being accumulated are not saved in parts",
                         .remedy = "save behind a step of the optimizer"});
    }
    if (has_optimizer(run)) optimizer = optimizer_parts(run);
    out.generators = io::generators_text(run.generators, where);
  });
  const auto add = [&](const char* name, const io::ShardedState& parts) {
    out.states.emplace_back(name, planned(parts, {}, group, {.id = io::parts_id}, where));
  };
  add(io::model_parts, run.model);
  if (has_optimizer(run)) add(io::optimizer_parts, optimizer);
  if (!state.tensors.empty()) add(io::tensor_parts, io::unsharded(state.tensors));
  return out;
}

io::Path write_run(const PlannedRun& run, const io::Path& folder, const Group& group,
                   const io::SaveStateOptions& options, Location where) {
  constexpr const char* op = "save_training_state";
  const bool is_first = group.rank() == 0;
  const io::Path path = folder / io::state_name(run.numbers.step);
  std::optional<io::AtomicFolder> whole;
  together(group, "save", [&] {
    if (!is_first) return;
    io::make_folder(folder, op, where);
    whole.emplace(path, op, where);
  });
  const io::Path inside = told_by_first(is_first ? whole->temporary().string() : "", group);
  for (const auto& [name, state] : run.states) write(state, inside / name, group, where);
  together(group, "save",
           [&] { io::write_file(inside / io::generators_file(group.rank()), run.generators, op, where); });
  together(group, "save", [&] {
    if (!is_first) return;
    const auto add = [&](const std::string& name, const std::string& text) {
      io::write_file(inside / name, text, op, where);
    };
    add(io::numbers_file, io::text_of(io::numbers_of(run.numbers)));
    for (const auto& [name, text] : run.numbers.documents) add(name + ".json", text);
    io::write_marker(inside, files_in(inside), where);
    whole->commit();
    if (options.keep_last > 0) io::remove_older_states(folder, run.numbers.step, options.keep_last);
  });
  return path;
}

}  // namespace detail

io::Path save_training_state(const io::Path& folder, const ShardedRun& run, const io::RunState& state,
                             const Group& group, const io::SaveStateOptions& options, Location where) {
  const CallScope call("save_training_state", where);
  return detail::write_run(detail::planned_run(run, state, group, where), folder, group, options, where);
}

namespace {

/// Raises unless the state has every shard of the model, with its shape.
void check_model(const ShardedRun& run, const io::Path& model, Location where) {
  const io::TensorStore store = io::open_state_dict(model, io::parts_id, where);
  for (const auto& [key, part] : run.model) {
    const auto found = store.entries().find(key);
    if (found == store.entries().end()) {
      raise<KeyError>({.problem = fmt::format("{} has no \"{}\"", model.string(), key)});
    }
    if (found->second.shape == part.global_shape) continue;
    raise<ShapeError>({.problem = fmt::format("\"{}\" is of {}, what is loaded of {}", key, part.global_shape.text(),
                                              found->second.shape.text())});
  }
}

}  // namespace

io::RunState load_training_state(const io::Path& folder, const ShardedRun& run, const Group& group,
                                 const LoadShardedRunOptions& options, Location where) {
  const CallScope call("load_training_state", where);
  std::string newest;
  together(group, "load", [&] {
    check_run(run);
    if (group.rank() != 0) return;
    io::with_way_around(folder, [&] { newest = io::OpenedFolder(folder, where).path.string(); });
  });
  const io::Path path = detail::told_by_first(newest, group);
  const bool with_optimizer = has_optimizer(run) && !options.weights_only;
  io::RunState state;
  detail::RankGenerators generators;
  optim::Optimizer::StateDict values, before;
  together(group, "load", [&] {
    const io::OpenedFolder opened(path, where);
    if (!opened.is_in_parts()) {
      raise<ValueError>({.problem = fmt::format("{} was saved by one process", path.string()),
                         .remedy = "io::load_training_state loads it"});
    }
    state = io::run_state_in(opened, where);
    if (opened.has(metadata_of(io::tensor_parts))) {
      state.tensors = io::open_state_dict(path / io::tensor_parts, io::parts_id, where).tensors({}, where);
    }
    check_model(run, path / io::model_parts, where);
    if (options.weights_only) return;
    if (with_optimizer && !opened.has(metadata_of(io::optimizer_parts))) {
      raise<ValueError>({.problem = fmt::format("{} holds no optimizer's state", path.string()),
                         .remedy = "load the weights alone: {.weights_only = true}"});
    }
    generators = detail::RankGenerators(opened, run.generators, group, where);
    if (with_optimizer) detail::check_optimizer(run, path / io::optimizer_parts, where);
    if (run.optimizer == nullptr) return;
    values = detail::optimizer_values(run, path / io::optimizer_parts, where);
    before = run.optimizer->state_dict();
  });
  if (with_optimizer && run.optimizer != nullptr) {
    try {
      together(group, "load", [&] { run.optimizer->load_state_dict(values, where); });
    } catch (const std::exception&) {
      run.optimizer->load_state_dict(before, Location::none());
      throw;
    }
  } else if (with_optimizer) {
    run.sharded_optimizer->load_sharded_state(path / io::optimizer_parts, run.parameters, {.id = io::parts_id},
                                              run.model, where);
  }
  together(group, "load", [&] {
    io::load_state_dict(run.model, path / io::model_parts, {.id = io::parts_id}, where);
    if (run.sharded_optimizer == nullptr) return;
    detail::fill_masters(run, path, options.weights_only, where);
    run.sharded_optimizer->drop_whole();
  });
  if (!options.weights_only) generators.set();
  return state;
}

}  // namespace weft::distributed
