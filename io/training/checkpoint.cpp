#include "../checkpoint.hpp"

#include <fmt/format.h>

#include "../file.hpp"
#include "../files/naming_file-inl.hpp"
#include "check_weights-inl.hpp"
#include "optimizer_state-inl.hpp"
#include "../../ops/random.hpp"

namespace weft::io {

namespace {

const std::string model_prefix = "model.", optimizer_prefix = "optimizer.", generator_prefix = "rng.",
                  optimizer_name = "weft.optimizer";
constexpr const char* loading = "load_checkpoint";

TensorMap with_prefix(const TensorMap& all, const std::string& prefix) {
  TensorMap out;
  for (const auto& [name, tensor] : all) {
    if (name.starts_with(prefix)) out.emplace(name.substr(prefix.size()), tensor);
  }
  return out;
}

void check_is_checkpoint(const Path& path, const TensorMap& all, const nn::Module& module, Location where) {
  const auto holds = [&](const std::string& prefix) {
    const auto first = all.lower_bound(prefix);
    return first != all.end() && first->first.starts_with(prefix);
  };
  if (holds(model_prefix) || module.state_dict().empty()) return;
  raise<ValueError>({.op = loading,
                     .problem = fmt::format(
                         "{} is no checkpoint: {}", path.string(),
                         all.empty() ? std::string("it holds no tensors")
                                     : fmt::format("it holds \"{}\", no \"{}…\"", all.begin()->first, model_prefix)),
                     .remedy = "weights alone are loaded by module.load_state_dict(io::load_file(path))"},
                    where);
}

// States by device; the suffix of the name is the device. Raises FormatError for a malformed name or state.
std::vector<std::pair<Device, Tensor>> generators_in(const TensorMap& all, Location where) {
  std::vector<std::pair<Device, Tensor>> out;
  for (const auto& [name, state] : with_prefix(all, generator_prefix)) {
    const auto refuse = [&, &name = name] {
      raise<FormatError>(
          {.op = loading, .problem = fmt::format("\"{}{}\" is no state of a generator", generator_prefix, name)},
          where);
    };
    if (state.dtype() != DType::u8 || state.dim() != 1) refuse();
    try {
      out.emplace_back(Device(std::string_view(name), where), state);
      Generator().set_state_bytes(state.to_vector<uint8_t>(where), where);
    } catch (const Error&) {
      refuse();
    }
  }
  return out;
}

}  // namespace

void save_checkpoint(const Path& path, const nn::Module& module, const optim::Optimizer* optimizer,
                     const Metadata& metadata, Location where) {
  TensorMap all;
  for (const auto& [name, tensor] : module.state_dict()) all.emplace(model_prefix + name, tensor);
  if (optimizer != nullptr) {
    for (const auto& [name, tensor] : named_state(module, *optimizer, nullptr, "checkpoint", where)) {
      all.emplace(optimizer_prefix + name, tensor);
    }
  }
  for (const Device device : devices_with_generators()) {
    all.emplace(generator_prefix + device.name(), get_rng_state(device, where));
  }
  Metadata told = metadata;
  if (optimizer != nullptr) told.emplace(optimizer_name, optimizer->name());
  save_file(all, path, told, {}, where);
}

Metadata load_checkpoint(const Path& path, nn::Module& module, optim::Optimizer* optimizer, Location where) {
  const ReadScope reading;
  const SafeFile file = SafeFile::open(path, where);
  const TensorMap all = load_file(path, {}, {}, where);
  check_is_checkpoint(path, all, module, where);
  const TensorMap weights = with_prefix(all, model_prefix), state = with_prefix(all, optimizer_prefix);
  std::vector<std::pair<Device, Tensor>> generators;
  naming_file<FormatError>(path, loading, [&] { generators = generators_in(all, where); });
  check_weights(module, weights, path, loading, "make the module as the one that was saved", where);
  if (optimizer != nullptr) {
    if (state.empty()) {
      raise<ValueError>({.op = loading,
                         .problem = fmt::format("{} holds no optimizer state", path.string()),
                         .remedy = "load the weights alone: pass no optimizer"},
                        where);
    }
    const auto saved_by = file.metadata().find(optimizer_name);
    const std::string by = saved_by == file.metadata().end() ? "" : saved_by->second;
    const StateFile told{path, loading, optimizer_prefix.c_str(), by};
    const auto values = state_in_file(told, state, module, *optimizer, nullptr, where);
    naming_file<ShapeError>(path, loading, [&] { optimizer->load_state_dict(values, where); });
  }
  module.load_state_dict(weights, true, where);
  for (const auto& [device, generator] : generators) set_rng_state(generator, device, where);
  reading.check(loading, where);
  return file.metadata();
}

Metadata checkpoint_metadata(const Path& path, Location where) { return SafeFile::open(path, where).metadata(); }

}  // namespace weft::io
