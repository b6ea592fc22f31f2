#include "../sharded.hpp"

#include <algorithm>
#include <deque>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "../../tensor/checked.hpp"
#include "../../tensor/shortened.hpp"
#include "../file.hpp"
#include "../files/folder-inl.hpp"
#include "safetensors_save-inl.hpp"
#include "shard_index-inl.hpp"

namespace weft::io {

namespace {

constexpr const char *saver = "save_sharded", *loader = "load_sharded";
constexpr std::string_view extension = ".safetensors";

std::string single_name(const std::string& prefix) { return prefix + std::string(extension); }
std::string index_name(const std::string& prefix) { return single_name(prefix) + ".index.json"; }
std::string shard_name(const std::string& prefix, size_t number, size_t count) {
  return fmt::format("{}-{:05}-of-{:05}{}", prefix, number, count, extension);
}

// ---- saving ---------------------------------------------------------------------------------------------------------

using Shard = std::vector<TensorEntry>;

int64_t bytes_of(const TensorEntry& e) { return contiguous_layout(e.shape, e.dtype).numel * itemsize(e.dtype); }

std::vector<Shard> shards_of(const std::vector<TensorEntry>& entries, int64_t byte_limit) {
  std::vector<Shard> shards(1);
  Checked size = 0;
  for (const TensorEntry& e : entries) {
    const Checked with = size + bytes_of(e);
    const bool fits = with.fits() && with.value() <= byte_limit;
    if (!fits && !shards.back().empty()) shards.emplace_back(), size = 0;
    size += bytes_of(e);
    shards.back().push_back(e);
  }
  return shards;
}

void check_prefix(const std::string& prefix, Location where) {
  if (prefix.empty() || prefix.find('/') != prefix.npos || prefix.find('\0') != prefix.npos) {
    raise<ValueError>({.op = saver, .problem = fmt::format("\"{}\" cannot begin the name of a file", prefix)}, where);
  }
}

[[noreturn]] void refuse_twice(const std::string& name, Location where) {
  raise<ValueError>({.op = saver, .problem = fmt::format("\"{}\" occurs twice", name)}, where);
}

Aliases aliases_in(const Shard& shard, const Aliases& all) {
  std::unordered_set<std::string_view> names;
  for (const TensorEntry& e : shard) names.insert(e.name);
  Aliases out;
  for (const auto& [alias, kept] : all) {
    if (names.contains(kept)) out.emplace(alias, kept);
  }
  return out;
}

std::vector<std::string> file_names(const std::string& prefix, size_t count) {
  std::vector<std::string> names;
  if (count == 1) names.push_back(single_name(prefix));
  for (size_t i = 1; count > 1 && i <= count; ++i) names.push_back(shard_name(prefix, i, count));
  return names;
}

ShardIndex index_of(const std::vector<Shard>& shards, const std::vector<std::string>& names) {
  ShardIndex index{.total_size = 0, .weight_map = {}};
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const TensorEntry& e : shards[i]) {
      *index.total_size += static_cast<uint64_t>(bytes_of(e));
      index.weight_map.emplace(e.name, names[i]);
    }
  }
  return index;
}

// "-00001-of-00003.safetensors" with five digits or more.
bool is_shard_ending(std::string_view text) {
  const auto number = [&] {
    const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(digits);
    return digits >= 5;
  };
  const auto accept = [&](std::string_view word) {
    if (!text.starts_with(word)) return false;
    text.remove_prefix(word.size());
    return true;
  };
  return accept("-") && number() && accept("-of-") && number() && text == extension;
}

void remove_stale(const Path& folder, const std::string& prefix, const std::vector<std::string>& written,
                  Location where) {
  std::vector<std::string> stale;
  for (const std::string& name : checked_names_in(folder, saver, where)) {
    const bool ours = name == single_name(prefix) ||
                      (name.starts_with(prefix) && is_shard_ending(std::string_view(name).substr(prefix.size())));
    if (ours && std::ranges::find(written, name) == written.end()) stale.push_back(name);
  }
  for (const std::string& name : stale) remove_file(folder / name, saver, where);
}

// The entries must have no aliases and no duplicate names.
std::vector<std::string> save(const std::vector<TensorEntry>& entries, const Aliases& aliases,
                              const TensorSource& source, const Path& folder, const ShardOptions& options,
                              Location where) {
  const std::vector<Shard> shards = shards_of(entries, options.max_shard_size.value());
  const std::vector<std::string> names = file_names(options.prefix, shards.size());
  const std::string index = index_text(index_of(shards, names), saver, where);
  std::vector<SavePlan> plans;
  for (const Shard& shard : shards)
    plans.emplace_back(shard, options.metadata, aliases_in(shard, aliases), saver, where);

  make_folder(folder, saver, where);
  std::deque<AtomicFile> files;
  for (size_t i = 0; i < plans.size(); ++i) {
    plans[i].write(source, options.buffer_bytes, files.emplace_back(folder / names[i], saver, where), where);
  }
  // Without an index, an interruption from here on leaves a folder that cannot be loaded, never a mixture of two saves.
  remove_file(folder / index_name(options.prefix), saver, where);
  for (AtomicFile& file : files) file.commit();
  if (shards.size() > 1) write_file(folder / index_name(options.prefix), index, saver, where);
  remove_stale(folder, options.prefix, names, where);
  return names;
}

}  // namespace

ByteCount::ByteCount(const std::string& text, Location where) {
  constexpr std::pair<std::string_view, int64_t> units[] = {{"", 1},
                                                            {"B", 1},
                                                            {"KB", 1000},
                                                            {"MB", 1000'000},
                                                            {"GB", 1000'000'000},
                                                            {"TB", 1000'000'000'000},
                                                            {"KiB", 1LL << 10},
                                                            {"MiB", 1LL << 20},
                                                            {"GiB", 1LL << 30},
                                                            {"TiB", 1LL << 40}};
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string_view unit = std::string_view(text).substr(digits);
  if (unit.starts_with(' ')) unit.remove_prefix(1);
  const auto found = std::ranges::find(units, unit, [](const auto& u) { return u.first; });
  Checked value = 0;
  for (const char c : text.substr(0, digits)) value = value * 10 + (c - '0');
  if (found != std::end(units)) value *= found->second;
  if (digits == 0 || found == std::end(units) || !value.fits() || value.value() == 0) {
    raise<ValueError>({.op = "ByteCount",
                       .problem = fmt::format("\"{}\" is no number of bytes", shortened(text, 80)),
                       .remedy = "write for example 5GB, 500MB, 2GiB or 1000000"},
                      where);
  }
  value_ = value.value();
}

std::vector<std::string> save_sharded(const TensorList& tensors, const Path& folder, const ShardOptions& options,
                                      Location where) {
  check_prefix(options.prefix, where);
  std::unordered_map<std::string_view, const Tensor*> by_name;
  for (const auto& [name, t] : tensors) {
    if (!by_name.emplace(name, &t).second) refuse_twice(name, where);
  }
  const Aliases aliases = checked_aliases(tensors, options.tie, saver, where);
  std::vector<TensorEntry> entries;
  for (const auto& [name, t] : tensors) {
    if (!aliases.contains(name)) entries.push_back({name, t.dtype(), t.shape()});
  }
  const auto source = [&](const std::string& name) { return *by_name.at(name); };
  return save(entries, aliases, source, folder, options, where);
}

std::vector<std::string> save_sharded(const std::vector<TensorEntry>& entries, const TensorSource& source,
                                      const Path& folder, const ShardOptions& options, Location where) {
  check_prefix(options.prefix, where);
  std::unordered_set<std::string_view> names;
  for (const TensorEntry& e : entries) {
    if (!names.insert(e.name).second) refuse_twice(e.name, where);
  }
  return save(entries, {}, source, folder, options, where);
}

// ---- loading --------------------------------------------------------------------------------------------------------

namespace {

bool stands_for(const std::string& key, const std::string& name) {
  return key.empty() || (name.starts_with(key) && (name.size() == key.size() || name[key.size()] == '.'));
}

class ShardLoader {
 public:
  ShardLoader(const Path& folder, const LoadShardedOptions& options, Location where)
      : folder_(folder), options_(options), where_(where), index_(folder / index_name(options.prefix)) {
    const std::string single = single_name(options.prefix);
    if (!exists(index_)) {
      files_[single] = {};
      return;
    }
    if (exists(folder / single) && !options.prefer_index) {
      raise<ValueError>({.op = loader,
                         .problem = fmt::format("{} has both an index and {}", folder.string(), single),
                         .remedy = "remove one of them, or set prefer_index"},
                        where);
    }
    has_index_ = true;
    ShardIndex index = parse_index(read_file(index_, loader, where), index_, where);
    total_size_ = index.total_size;
    for (const auto& [name, file] : index.weight_map) files_[file].insert(name);
  }

  TensorMap load() {
    if (options_.mapping) return load_mapped();
    check([](const auto&...) {});
    check_device_map();
    for (const auto& [name, listed] : files_) load_file(name);
    return std::move(out_);
  }
  TensorStore store() {
    TensorStore::Entries entries;
    std::unordered_map<std::string, SafeFile> homes;
    check([&](const SafeFile& file, const std::vector<std::string>& keys) {
      for (const std::string& key : keys) {
        entries.emplace(key, TensorStore::Info{file.info(key).dtype, file.info(key).shape});
        homes.emplace(key, file);
      }
    });
    const auto read = [homes = std::move(homes)](const std::string& name, const Dims& starts, const Dims& ends,
                                                 Location at) {
      return homes.at(name).get_slice(name, starts, ends, {}, at);
    };
    return TensorStore(std::move(entries), read, where_);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    raise<FormatError>({.op = loader, .problem = problem, .details = index_.string()}, where_);
  }

  // Opens the files one by one and calls `see` with each file and its names.
  void check(auto&& see) {
    uint64_t bytes = 0;
    for (const auto& [name, listed] : files_) {
      if (has_index_ && !exists(folder_ / name))
        refuse(fmt::format("the file \"{}\" is missing", shortened(name, 200)));
      const SafeFile file = SafeFile::open(folder_ / name, where_);
      bytes += file.data_bytes();
      const std::vector<std::string> keys = file.keys();
      if (has_index_) check_listed(name, listed, file, keys);
      for (const std::string& key : keys) {
        if (!names_.insert(key).second) refuse(fmt::format("\"{}\" is in two files", shortened(key, 80)));
      }
      see(file, keys);
    }
    if (total_size_ && *total_size_ != bytes) {
      refuse(fmt::format("metadata.total_size is {}, the tensors have {} bytes", *total_size_, bytes));
    }
  }
  void check_listed(const std::string& name, const std::unordered_set<std::string>& listed, const SafeFile& file,
                    const std::vector<std::string>& keys) const {
    const std::unordered_set<std::string> found(keys.begin(), keys.end());
    for (const std::string& key : listed) {
      if (found.contains(key)) continue;
      refuse(
          fmt::format("weight_map.{} names \"{}\", which has no such tensor", shortened(key, 80), shortened(name, 80)));
    }
    for (const std::string& key : keys) {
      if (listed.contains(key) || file.aliases().contains(key)) continue;
      refuse(fmt::format("\"{}\" holds \"{}\", which weight_map has not", shortened(name, 80), shortened(key, 80)));
    }
  }
  void check_device_map() const {
    for (const auto& [key, device] : options_.device_map) {
      if (std::ranges::any_of(names_, [&](const std::string& name) { return stands_for(key, name); })) continue;
      raise<KeyError>({.op = loader, .problem = fmt::format("device_map has \"{}\", which fits no tensor", key)},
                      where_);
    }
  }

  Device device_of(const std::string& name) const {
    const std::pair<const std::string, Device>* best = nullptr;
    for (const auto& entry : options_.device_map) {
      if (stands_for(entry.first, name) && (best == nullptr || entry.first.size() > best->first.size())) best = &entry;
    }
    return best != nullptr ? best->second : options_.device;
  }

  void load_file(const std::string& name) {
    const SafeFile file = SafeFile::open(folder_ / name, where_);
    for (const std::string& key : file.keys()) {
      if (!file.aliases().contains(key)) out_.emplace(key, loaded(file, key));
    }
    for (const auto& [alias, kept] : file.aliases()) out_.emplace(alias, out_.at(kept));
  }
  TensorMap load_mapped() {
    const TensorStore mapped = options_.mapping->apply(store(), where_);
    names_.clear();
    for (const auto& entry : mapped.entries()) names_.insert(entry.first);
    check_device_map();
    for (const std::string& key : names_) {
      const bool copied = options_.offload == Offload::cpu;
      out_.emplace(key, placed(copied ? mapped.copy(key, {}, where_) : mapped.get(key, {}, where_), key));
    }
    return std::move(out_);
  }
  Tensor loaded(const SafeFile& file, const std::string& key) const {
    const Tensor mapped = file.get(key, {}, where_), out = placed(mapped, key);
    const bool held = options_.offload == Offload::cpu && out.shares_storage(mapped);
    return held ? out.clone(where_) : out;
  }
  Tensor placed(const Tensor& tensor, const std::string& key) const {
    const bool cast = options_.dtype && is_floating(tensor.dtype());
    return (cast ? tensor.to(*options_.dtype, where_) : tensor).to(device_of(key), where_);
  }

  const Path& folder_;
  const LoadShardedOptions& options_;
  Location where_;
  Path index_;
  bool has_index_ = false;
  std::optional<uint64_t> total_size_;
  std::map<std::string, std::unordered_set<std::string>> files_;
  std::unordered_set<std::string> names_;
  TensorMap out_;
};

}  // namespace

TensorMap load_sharded(const Path& folder, const LoadShardedOptions& options, Location where) {
  if (options.dtype && !is_floating(*options.dtype)) {
    raise<DTypeError>({.op = loader, .problem = fmt::format("{} is no floating dtype", name(*options.dtype))}, where);
  }
  return read_checked(loader, where, [&] { return ShardLoader(folder, options, where).load(); });
}

TensorStore open_sharded(const Path& folder, const std::string& prefix, bool prefer_index, Location where) {
  const LoadShardedOptions options = {.prefix = prefix, .prefer_index = prefer_index};
  return read_checked(loader, where, [&] { return ShardLoader(folder, options, where).store(); });
}

}  // namespace weft::io
