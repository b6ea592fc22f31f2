#include "optimizer_state-inl.hpp"
#include "../../tensor/expect-inl.hpp"

#include <unordered_map>

namespace weft::io {

namespace {

const std::string group_prefix = "group.";

using Names = std::unordered_map<const TensorImpl*, std::string>;

Names names_in(const nn::Module& module) {
  Names names;
  for (const auto& [name, tensor] : module.named_parameters()) names.emplace(tensor.impl(), name);
  return names;
}

// Returns the module's names of the optimizer's parameters, in the optimizer's order.
std::vector<std::string> parameter_names(const nn::Module& module, const optim::Optimizer& optimizer,
                                         const optim::MasterWeights* masters, const char* op, Location where) {
  Names names = names_in(module);
  if (masters != nullptr) {
    const std::vector<std::string> own = names_of_masters(module, *masters);
    for (size_t i = 0; i < own.size(); ++i) {
      if (!own[i].empty()) names.emplace(masters->parameters()[i].impl(), own[i]);
    }
  }
  std::vector<std::string> out;
  for (const Tensor& p : optimizer.parameters()) {
    const auto found = names.find(p.impl());
    if (found == names.end()) {
      raise<ValueError>(
          {.op = op,
           .problem = fmt::format("parameter {} of the optimizer is not the module's", out.size()),
           .remedy = masters == nullptr ? "where it is one of optim::MasterWeights, give these as .masters"
                                        : "nor is it one of the masters given"},
          where);
    }
    out.push_back(found->second);
  }
  return out;
}

// Replaces the parameter index of "3.exp_avg" by its name; "group.0.lr" is unchanged.
std::string named_key(const std::string& key, const std::vector<std::string>& names) {
  if (key.starts_with(group_prefix)) return key;
  const size_t dot = key.find('.');
  return names[std::stoul(key.substr(0, dot))] + key.substr(dot);
}

class StateInFile {
 public:
  StateInFile(const StateFile& file, const TensorMap& state, const optim::Optimizer& optimizer,
              const std::vector<std::string>& names, Location where)
      : file_(file), optimizer_(optimizer), where_(where) {
    std::unordered_map<std::string, size_t> numbers;
    for (size_t i = 0; i < names.size(); ++i) numbers.emplace(names[i], i);
    for (const auto& [key, tensor] : state) {
      const size_t dot = key.rfind('.');
      const auto found = dot == std::string::npos ? numbers.end() : numbers.find(key.substr(0, dot));
      if (found != numbers.end()) add(key, key.substr(dot + 1), found->second, tensor);
      else if (key.starts_with(group_prefix)) values.emplace(key, tensor);
      else
        refuse(fmt::format("holds \"{}\", which is of none of the optimizer's parameters",
                           std::string(file_.prefix) + key));
    }
    check_complete(names);
    // SGD without momentum has only options, with names that fit any optimizer. So compare the optimizer's name.
    const bool has_options_alone =
        std::ranges::all_of(values, [](const auto& value) { return value.first.starts_with(group_prefix); });
    if (has_options_alone && !file.saved_by.empty() && file.saved_by != optimizer.name()) {
      refuse("is of another optimizer: " + mismatch_text("", optimizer.name(), file.saved_by));
    }
  }

  optim::Optimizer::StateDict values;

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    raise<ValueError>({.op = file_.op,
                       .problem = fmt::format("{} {}", file_.path.string(), problem),
                       .remedy = "use the optimizer and the groups that saved it, or load the weights alone: pass no "
                                 "optimizer"},
                      where_);
  }
  void add(const std::string& key, const std::string& field, size_t number, const Tensor& tensor) {
    if (!optimizer_.keeps(field)) {
      refuse(fmt::format("is of another optimizer: it holds \"{}\", which {} does not keep",
                         std::string(file_.prefix) + key, optimizer_.name()));
    }
    values.emplace(fmt::format("{}.{}", number, field), tensor);
  }
  void check_complete(const std::vector<std::string>& names) const {
    for (size_t i = 0; i < names.size(); ++i) {
      if (!values.contains(fmt::format("{}.step", i))) continue;
      for (const std::string& field : optimizer_.needed_states(i, values)) {
        if (values.contains(fmt::format("{}.{}", i, field))) continue;
        refuse(fmt::format("lacks \"{}{}.{}\", which {} needs", std::string(file_.prefix), names[i], field,
                           optimizer_.name()));
      }
    }
    const auto of_group = [](size_t group, const char* name) {
      return fmt::format("{}{}.{}", group_prefix, group, name);
    };
    const size_t groups = optimizer_.groups().size();
    size_t found = 0;
    while (values.contains(of_group(found, "lr"))) ++found;
    if (found != groups) refuse(fmt::format("has {} groups of parameters, the optimizer {}", found, groups));
    for (size_t g = 0; g < groups; ++g) {
      const auto saved = values.find(of_group(g, "params"));
      if (saved == values.end()) continue;
      const int64_t size = saved->second.item<int64_t>(where_), own = std::ssize(optimizer_.groups()[g].parameters);
      if (size != own) refuse(fmt::format("has {} parameters in group {}, the optimizer {}", size, g, own));
    }
  }

  const StateFile& file_;
  const optim::Optimizer& optimizer_;
  Location where_;
};

}  // namespace

std::vector<std::string> names_of_masters(const nn::Module& module, const optim::MasterWeights& masters) {
  const Names names = names_in(module);
  std::vector<std::string> out;
  for (const Tensor& p : masters.model_parameters()) {
    const auto found = names.find(p.impl());
    out.push_back(found == names.end() ? "" : found->second);
  }
  return out;
}

TensorMap named_state(const nn::Module& module, const optim::Optimizer& optimizer, const optim::MasterWeights* masters,
                      const char* op, Location where) {
  TensorMap out;
  const std::vector<std::string> names = parameter_names(module, optimizer, masters, op, where);
  for (const auto& [key, tensor] : optimizer.state_dict()) out.emplace(named_key(key, names), tensor);
  return out;
}

optim::Optimizer::StateDict state_in_file(const StateFile& file, const TensorMap& state, const nn::Module& module,
                                          const optim::Optimizer& optimizer, const optim::MasterWeights* masters,
                                          Location where) {
  const std::vector<std::string> names = parameter_names(module, optimizer, masters, file.op, where);
  return StateInFile(file, state, optimizer, names, where).values;
}

}  // namespace weft::io
