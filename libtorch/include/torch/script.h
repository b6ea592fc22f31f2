// TorchScript is not part of Weft. Programs that load scripted models compile, and torch::jit::load raises an error.
#pragma once

#include <istream>

#include <torch/torch.h>

namespace torch::jit {

using c10::IValue;
using Stack = std::vector<IValue>;
using ExtraFilesMap = std::unordered_map<std::string, std::string>;

/// A scripted model. No object exists, since `load` raises an error.
class Module {
 public:
  IValue forward(std::vector<IValue> inputs) { return operator()(std::move(inputs)); }
  IValue operator()(std::vector<IValue> inputs);
  IValue attr(const std::string& name) const;
  IValue run_method(const std::string& name, std::vector<IValue> inputs = {});
  std::vector<Tensor> parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  void to(Device device, ScalarType dtype, bool non_blocking = false);
  void to(ScalarType dtype, bool non_blocking = false);
  void to(Device device, bool non_blocking = false);
  void train(bool on = true);
  void eval() { train(false); }
  void save(const std::string& filename, const ExtraFilesMap& extra_files = {}) const;
};

namespace script {
using jit::ExtraFilesMap;
using jit::Module;
}  // namespace script

// Each raises NotImplementedError, which names the ways to export a model.
[[noreturn]] Module load(const std::string& filename, optional<Device> device = nullopt);
[[noreturn]] Module load(const std::string& filename, optional<Device> device, ExtraFilesMap& extra_files);
[[noreturn]] Module load(std::istream& in, optional<Device> device = nullopt);
[[noreturn]] Module compile(const std::string& source);

}  // namespace torch::jit
