// The folders of training states, and what those of one process and of ranks have alike. Internal to io/ and
// distributed/.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../json/json_tree-inl.hpp"
#include "../training_state.hpp"

namespace weft::io {

/// "step-00001000"
std::string state_name(int64_t step);
/// "rng-3.json"
std::string generators_file(int rank);
inline constexpr const char *numbers_file = "trainer.json", *tree_file = "model.json";
/// Folders in that of a state in parts, each a state of one id (../sharded_state.hpp).
inline constexpr const char *model_parts = "model", *optimizer_parts = "optimizer", *tensor_parts = "tensors";
inline constexpr int64_t parts_id = 1;

// ---- saving ---------------------------------------------------------------------------------------------------------

/// ValueError for negative numbers, and documents without a plain name or that are no JSON.
void check_state(const RunState& state, Location where);
JsonTree numbers_of(const RunState& state);
std::string text_of(const JsonTree& json);
/// Those of devices, and those named.
std::string generators_text(const std::map<std::string, Generator*>& named, Location where);
/// Writes the marker, which tells the sizes of the files in the folder, "NAME" and "PART/NAME".
void write_marker(const Path& inside, const std::vector<std::string>& files, Location where);
/// Removes complete states beyond the newest `keep`, older than the one of this step.
void remove_older_states(const Path& folder, int64_t step, int64_t keep);

// ---- loading --------------------------------------------------------------------------------------------------------

[[noreturn]] void raise_damaged(const std::string& problem, Location where);

/// A state's folder, and the files it is made of, each there and whole: the newest complete state of `folder`, or
/// `folder` itself. Errors as load_training_state.
struct OpenedFolder {
  Path path;
  std::vector<std::string> files;

  OpenedFolder(const Path& folder, Location where);
  bool has(const std::string& name) const;
  /// How many ranks' generators it has.
  int ranks() const;
  /// Whether ranks saved it together.
  bool is_in_parts() const;
};

RunState run_state_in(const OpenedFolder& opened, Location where);
/// Runs `f` on a file of JSON.
void read_json(const Path& path, const Callback<void(const JsonPlace&)>& f, Location where);
/// Runs `f` on the newest state of a folder; where that is damaged the error names the last one that is whole.
void with_way_around(const Path& folder, const Callback<void()>& f);

/// Where generators stood; they are set once all of it was found fit.
struct SavedGenerators {
  std::vector<std::pair<Device, std::vector<uint8_t>>> devices;
  std::vector<std::pair<Generator*, std::vector<uint8_t>>> named;

  SavedGenerators(const Path& file, const std::map<std::string, Generator*>& wanted, Location where);
  void set(Location where) const;
};

}  // namespace weft::io
