// Folders of training states; code shared by states of a single process and of several ranks. Internal to io/ and
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
/// Subfolders of a sharded training state, each a sharded state with one id (../sharded_state.hpp).
inline constexpr const char *model_parts = "model", *optimizer_parts = "optimizer", *tensor_parts = "tensors";
inline constexpr int64_t parts_id = 1;

// ---- saving ---------------------------------------------------------------------------------------------------------

/// Raises ValueError for negative counters, and for documents that have no plain name or are not JSON.
void check_state(const RunState& state, Location where);
JsonTree numbers_of(const RunState& state);
std::string text_of(const JsonTree& json);
/// Generators of the devices and the named ones.
std::string generators_text(const std::map<std::string, Generator*>& named, Location where);
/// Writes the marker with the sizes of the files in the folder, "NAME" and "PART/NAME".
void write_marker(const Path& inside, const std::vector<std::string>& files, Location where);
/// Removes complete states older than `step`, except the newest `keep` states.
void remove_older_states(const Path& folder, int64_t step, int64_t keep);

// ---- loading --------------------------------------------------------------------------------------------------------

[[noreturn]] void raise_damaged(const std::string& problem, Location where);

/// A state's folder and its files, which all exist with the recorded size: the newest complete state in `folder`, or
/// `folder` itself. Errors as load_training_state.
struct OpenedFolder {
  Path path;
  std::vector<std::string> files;

  OpenedFolder(const Path& folder, Location where);
  bool has(const std::string& name) const;
  /// Number of ranks with saved generators.
  int ranks() const;
  /// Whether several ranks saved it together.
  bool is_in_parts() const;
};

RunState run_state_in(const OpenedFolder& opened, Location where);
/// Runs `f` on the root of a JSON file.
void read_json(const Path& path, const Callback<void(const JsonNode&)>& f, Location where);
/// Runs `f`, which reads the newest state of a folder. If that state is damaged, the error names the last intact one.
void with_way_around(const Path& folder, const Callback<void()>& f);

/// Saved states of generators; `set` is called after all files have been validated.
struct SavedGenerators {
  std::vector<std::pair<Device, std::vector<uint8_t>>> devices;
  std::vector<std::pair<Generator*, std::vector<uint8_t>>> named;

  SavedGenerators(const Path& file, const std::map<std::string, Generator*>& wanted, Location where);
  void set(Location where) const;
};

}  // namespace weft::io
