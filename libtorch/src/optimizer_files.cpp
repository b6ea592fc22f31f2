#include "optimizer_files.h"

#include "values.h"

namespace torch::optim {

namespace {

// The address of a parameter is its key in the file.
std::string key_of(const Tensor& parameter) {
  return std::to_string(reinterpret_cast<uintptr_t>(parameter.unsafeGetTensorImpl()));
}
Tensor count(size_t value) { return torch::tensor(static_cast<int64_t>(value), kInt64); }

std::string numbered(const char* name, size_t i) { return name + std::to_string(i); }

void save_group(serialize::OutputArchive& archive, const OptimizerParamGroup& group) {
  archive.write("params/size", count(group.params().size()));
  for (size_t i = 0; i < group.params().size(); ++i) {
    archive.write(numbered("params/", i), c10::IValue(key_of(group.params()[i])));
  }
  serialize::OutputArchive options;
  group.options().serialize(options);
  archive.write("options", options);
}

/// Replaces the states of the parameters of a group by those of the file.
void load_states(Optimizer& optimizer, const OptimizerParamGroup& group, serialize::InputArchive& saved,
                 serialize::InputArchive& states, detail::NewState new_state) {
  TORCH_CHECK(serialize::detail::read_integer(saved, "params/size") == static_cast<int64_t>(group.params().size()),
              "loaded state dict contains a parameter group that has a different size than the optimizer's parameter "
              "group");
  for (size_t i = 0; i < group.params().size(); ++i) {
    c10::IValue key;
    saved.read(numbered("params/", i), key);
    serialize::InputArchive archive;
    if (!states.try_read(key.toStringRef(), archive)) continue;
    auto& state = optimizer.state()[group.params()[i].unsafeGetTensorImpl()];
    if (new_state != nullptr) state = new_state();
    TORCH_CHECK(state != nullptr, "the optimizer keeps no state for parameter ", i, ", and the file has one");
    state->serialize(archive);
  }
}

}  // namespace

void Optimizer::save(serialize::OutputArchive& archive) const {
  archive.write("pytorch_version", c10::IValue("1.5.0"));
  serialize::OutputArchive states, groups;
  for (const OptimizerParamGroup& group : param_groups_) {
    for (const Tensor& parameter : group.params()) {
      const auto found = state_.find(parameter.unsafeGetTensorImpl());
      if (found == state_.end() || found->second == nullptr) continue;
      serialize::OutputArchive state;
      found->second->serialize(state);
      states.write(key_of(parameter), state);
    }
  }
  archive.write("state", states);
  groups.write("param_groups/size", count(param_groups_.size()));
  for (size_t i = 0; i < param_groups_.size(); ++i) {
    serialize::OutputArchive group;
    save_group(group, param_groups_[i]);
    groups.write(numbered("param_groups/", i), group);
  }
  archive.write("param_groups", groups);
}
void Optimizer::load(serialize::InputArchive& archive) { detail::load(*this, archive, nullptr); }

namespace detail {

void load(Optimizer& optimizer, serialize::InputArchive& archive, NewState new_state) {
  serialize::InputArchive states, groups;
  archive.read("state", states);
  archive.read("param_groups", groups);
  TORCH_CHECK(serialize::detail::read_integer(groups, "param_groups/size") ==
                  static_cast<int64_t>(optimizer.param_groups().size()),
              "loaded state dict has a different number of parameter groups");
  for (size_t i = 0; i < optimizer.param_groups().size(); ++i) {
    OptimizerParamGroup& group = optimizer.param_groups()[i];
    serialize::InputArchive saved, options;
    groups.read(numbered("param_groups/", i), saved);
    load_states(optimizer, group, saved, states, new_state);
    saved.read("options", options);
    group.options().serialize(options);
  }
}

bool is_old(serialize::InputArchive& archive) {
  c10::IValue version;
  if (archive.try_read("pytorch_version", version)) return false;
  TORCH_WARN("the optimizer's file is in the old serialization format, of libtorch before 1.5. Save it again.");
  return true;
}

std::vector<Tensor> old_list(serialize::InputArchive& archive, const std::string& key) {
  const int64_t size = serialize::detail::read_integer(archive, key + "/size");
  std::vector<Tensor> out;
  for (int64_t i = 0; i < size; ++i) archive.read(key + "/" + std::to_string(i), out.emplace_back(), true);
  return out;
}

}  // namespace detail

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const Optimizer& optimizer) {
  optimizer.save(archive);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, Optimizer& optimizer) {
  optimizer.load(archive);
  return archive;
}

}  // namespace torch::optim
