#include "state_folder-inl.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "../file.hpp"
#include "../files/atomic_folder-inl.hpp"
#include "../files/folder-inl.hpp"
#include "../files/naming_file-inl.hpp"
#include "../json/document-inl.hpp"
#include "../json/hex-inl.hpp"
#include "../safetensors.hpp"
#include "../../ops/random.hpp"

namespace weft::io {

namespace {

constexpr const char *saving = "save_training_state", *loading = "load_training_state", *marker = "COMPLETE",
                     *tensors_file = "tensors.safetensors";
const std::string step_prefix = "step-", json_suffix = ".json", generators_prefix = "rng-";
constexpr int format_version = 1;

std::string state_text(const std::vector<uint8_t>& bytes) {
  return hex_of({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

std::optional<std::vector<uint8_t>> state_in(const std::string& text) {
  const auto bytes = bytes_of_hex(text);
  return bytes ? std::optional(std::vector<uint8_t>(bytes->begin(), bytes->end())) : std::nullopt;
}

JsonTree with_version() {
  JsonTree json;
  json["format_version"] = JsonTree::of(int64_t{format_version});
  return json;
}

// JSON files that are not documents of the user, apart from the generators' files.
constexpr std::string_view own_files[] = {numbers_file, tree_file};

bool is_of_generators(const std::string& file) {
  const std::string rank =
      file.starts_with(generators_prefix) && file.ends_with(json_suffix)
          ? file.substr(generators_prefix.size(), file.size() - generators_prefix.size() - json_suffix.size())
          : "";
  return !rank.empty() && rank.find_first_not_of("0123456789") == rank.npos;
}

std::optional<int64_t> step_in(const std::string& name) {
  int64_t step = 0;
  if (!name.starts_with(step_prefix) || name.size() < step_prefix.size() + 8) return {};
  const char *from = name.data() + step_prefix.size(), *to = name.data() + name.size();
  if (const auto [end, error] = std::from_chars(from, to, step); end != to || error != std::errc() || *from == '-') {
    return {};
  }
  return step;
}

bool is_complete(const Path& state) { return size_of_file(state / marker) >= 0; }

// "NAME" or "PART/NAME".
bool is_inside(const std::string& name) {
  const size_t slash = name.find('/');
  const std::string part = slash == name.npos ? name : name.substr(0, slash);
  const std::string rest = slash == name.npos ? name : name.substr(slash + 1);
  const auto is_plain = [](const std::string& s) {
    return !s.empty() && s != "." && s != ".." && s.find('/') == s.npos;
  };
  return is_plain(part) && is_plain(rest);
}

}  // namespace

std::string state_name(int64_t step) { return fmt::format("{}{:08}", step_prefix, step); }
std::string generators_file(int rank) { return fmt::format("{}{}{}", generators_prefix, rank, json_suffix); }

// ---- saving ---------------------------------------------------------------------------------------------------------

std::string text_of(const JsonTree& json) { return json_text(json, saving, Location::none()); }

JsonTree numbers_of(const RunState& state) {
  JsonTree json = with_version();
  json["step"] = JsonTree::of(state.step);
  json["epoch"] = JsonTree::of(state.epoch);
  json["samples"] = JsonTree::of(state.samples);
  json["accumulated"] = JsonTree::of(state.accumulated);
  if (state.best_metric) json["best_metric"] = JsonTree::of(*state.best_metric);
  return json;
}

void check_state(const RunState& state, Location where) {
  const auto refuse = [&](const std::string& problem) { raise<ValueError>({.op = saving, .problem = problem}, where); };
  for (const int64_t n : {state.step, state.epoch, state.samples, state.accumulated}) {
    if (n < 0) refuse("steps, epochs and samples are not negative");
  }
  for (const auto& [name, text] : state.documents) {
    check_document(name, text, own_files, saving, where);
    if (is_of_generators(document_file(name)))
      refuse(fmt::format("\"{}\" is a file of Weft's own", name + json_suffix));
  }
}

std::string generators_text(const std::map<std::string, Generator*>& named, Location where) {
  JsonTree json = with_version();
  JsonTree& devices = json["devices"] = JsonTree::object();
  for (const Device device : devices_with_generators()) {
    devices[device.name()] = JsonTree::of(state_text(get_rng_state(device, where).to_vector<uint8_t>(where)));
  }
  JsonTree& states = json["named"] = JsonTree::object();
  for (const auto& [name, generator] : named) states[name] = JsonTree::of(state_text(generator->state_bytes()));
  return text_of(json);
}

void write_marker(const Path& inside, const std::vector<std::string>& files, Location where) {
  JsonTree complete = with_version();
  JsonTree& sizes = complete["files"] = JsonTree::object();
  for (const std::string& name : files) sizes[name] = JsonTree::of(size_of_file(inside / name));
  write_file(inside / marker, text_of(complete), saving, where);
}

void remove_older_states(const Path& folder, int64_t step, int64_t keep) {
  std::vector<Path> older;
  for (const Path& state : training_states(folder)) {
    const std::string& path = state.string();
    if (step_in(path.substr(path.rfind('/') + 1)).value_or(step) < step) older.push_back(state);
  }
  const int64_t surplus = std::ssize(older) + 1 - keep;
  for (int64_t i = 0; i < surplus && i < std::ssize(older); ++i) remove_folder(older[static_cast<size_t>(i)]);
}

// ---- loading --------------------------------------------------------------------------------------------------------

void read_json(const Path& path, const Callback<void(const JsonNode&)>& f, Location where) {
  naming_file<FormatError>(path, loading, [&] {
    const JsonTree json = parse_json(read_file(path, loading, where), loading, where);
    f(JsonNode(json, loading, where));
  });
}
std::vector<Path> training_states(const Path& folder) {
  std::vector<std::pair<int64_t, Path>> found;
  for (const std::string& name : names_in(folder.string())) {
    const std::optional<int64_t> step = step_in(name);
    if (step && is_complete(folder / name)) found.emplace_back(*step, folder / name);
  }
  std::ranges::sort(found, {}, [](const auto& state) { return state.first; });
  std::vector<Path> paths;
  for (auto& [step, path] : found) paths.push_back(std::move(path));
  return paths;
}

void raise_damaged(const std::string& problem, Location where) {
  raise<FormatError>({.op = loading, .problem = problem}, where);
}

namespace {

bool is_whole(const Path& state) {
  try {
    const JsonTree json = parse_json(read_file(state / marker, loading, Location::none()), loading, Location::none());
    bool whole = true;
    JsonNode(json, loading, Location::none()).at("files").each_field([&](const std::string& name, const JsonNode& n) {
      whole = whole && name.find('/') == name.npos && size_of_file(state / name) == n.integer();
    });
    return whole;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

void with_way_around(const Path& folder, const Callback<void()>& f) {
  try {
    f();
  } catch (const FormatError& error) {
    const std::vector<Path> states = training_states(folder);
    if (is_complete(folder) || states.empty()) throw;
    std::string advice = "; no other state in the folder is whole";
    for (auto state = states.rbegin() + 1; state != states.rend(); ++state) {
      if (!is_whole(*state)) continue;
      advice = fmt::format("; {} is whole: load that folder, or remove {}", state->string(), states.back().string());
      break;
    }
    std::string text = error.what();
    text.insert(std::min(text.find('\n'), text.size()), advice);
    throw FormatError(text);
  }
}

OpenedFolder::OpenedFolder(const Path& folder, Location where) : path(folder) {
  if (!is_complete(folder)) {
    const std::vector<Path> states = training_states(folder);
    if (states.empty()) {
      raise<IoError>({.op = loading, .problem = fmt::format("{} holds no complete state", folder.string())}, where);
    }
    path = states.back();
  }
  read_json(
      path / marker,
      [&](const JsonNode& json) {
        if (const int64_t version = json.at("format_version").integer(); version > format_version) {
          raise<VersionError>({.op = loading,
                               .problem = fmt::format("{} is of version {}, newer than this program's {}",
                                                      path.string(), version, format_version)},
                              where);
        }
        json.at("files").each_field([&](const std::string& name, const JsonNode& size) {
          if (!is_inside(name)) raise_damaged(fmt::format("\"{}\" is no file's name", name), where);
          const int64_t found = size_of_file(path / name), wanted = size.integer();
          if (found < 0) raise_damaged(fmt::format("{} is missing", (path / name).string()), where);
          if (found != wanted) {
            raise_damaged(fmt::format("{} has {} bytes of {}", (path / name).string(), found, wanted), where);
          }
          files.push_back(name);
        });
      },
      where);
}

bool OpenedFolder::has(const std::string& name) const { return std::ranges::find(files, name) != files.end(); }
int OpenedFolder::ranks() const { return static_cast<int>(std::ranges::count_if(files, is_of_generators)); }
bool OpenedFolder::is_in_parts() const { return has(fmt::format("{}/{}.metadata.json", model_parts, parts_id)); }

RunState run_state_in(const OpenedFolder& opened, Location where) {
  RunState state;
  read_json(
      opened.path / numbers_file,
      [&](const JsonNode& json) {
        state.step = json.at("step").integer();
        state.epoch = json.at("epoch").integer();
        state.samples = json.at("samples").integer();
        state.accumulated = json.at("accumulated").integer();
        if (json.has("best_metric")) state.best_metric = json.at("best_metric").number();
      },
      where);
  for (const std::string& name : opened.files) {
    const bool is_own = std::ranges::find(own_files, name) != std::end(own_files) || is_of_generators(name);
    if (!name.ends_with(json_suffix) || is_own || name.find('/') != name.npos) continue;
    state.documents.emplace(name.substr(0, name.size() - json_suffix.size()),
                            read_file(opened.path / name, loading, where));
  }
  if (opened.has(tensors_file)) state.tensors = load_file(opened.path / tensors_file, {}, {}, where);
  return state;
}

SavedGenerators::SavedGenerators(const Path& path, const std::map<std::string, Generator*>& wanted, Location where) {
  const auto state_of = [&](const std::string& name, const JsonNode& text) {
    const auto bytes = state_in(text.text());
    if (!bytes) raise_damaged(fmt::format("{}: \"{}\" is no state of a generator", path.string(), name), where);
    naming_file<FormatError>(path, loading, [&] { Generator().set_state_bytes(*bytes, where); });
    return *bytes;
  };
  read_json(
      path,
      [&](const JsonNode& json) {
        json.at("devices").each_field([&](const std::string& name, const JsonNode& text) {
          devices.emplace_back(Device(std::string_view(name), where), state_of(name, text));
        });
        for (const auto& [name, generator] : wanted) {
          if (!json.at("named").has(name)) {
            raise_damaged(fmt::format("{} has no generator \"{}\"", path.string(), name), where);
          }
          named.emplace_back(generator, state_of(name, json.at("named").at(name)));
        }
      },
      where);
}

void SavedGenerators::set(Location where) const {
  for (const auto& [device, bytes] : devices) default_generator(device).set_state_bytes(bytes, where);
  for (const auto& [generator, bytes] : named) generator->set_state_bytes(bytes, where);
}

}  // namespace weft::io
