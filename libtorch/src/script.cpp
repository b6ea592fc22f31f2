#include <torch/script.h>

namespace torch::jit {

namespace {

[[noreturn]] void refuse(const std::string& name) {
  throw weft::NotImplementedError("[torch::jit] " + name +
                                  ": Weft does not execute TorchScript\n"
                                  "  write the model with torch::nn; torch::load(model, file) reads the weights that "
                                  "torch.jit.save wrote (docs/libtorch.md)");
}

}  // namespace

Module load(const std::string& filename, optional<Device>) { refuse("load(\"" + filename + "\")"); }
Module load(const std::string& filename, optional<Device>, ExtraFilesMap&) { refuse("load(\"" + filename + "\")"); }
Module load(std::istream&, optional<Device>) { refuse("load"); }
Module compile(const std::string&) { refuse("compile"); }

IValue Module::operator()(std::vector<IValue>) { refuse("Module::forward"); }
IValue Module::attr(const std::string&) const { refuse("Module::attr"); }
IValue Module::run_method(const std::string&, std::vector<IValue>) { refuse("Module::run_method"); }
std::vector<Tensor> Module::parameters(bool) const { refuse("Module::parameters"); }
std::vector<Tensor> Module::buffers(bool) const { refuse("Module::buffers"); }
void Module::to(Device, ScalarType, bool) { refuse("Module::to"); }
void Module::to(ScalarType, bool) { refuse("Module::to"); }
void Module::to(Device, bool) { refuse("Module::to"); }
void Module::train(bool) { refuse("Module::train"); }
void Module::save(const std::string&, const ExtraFilesMap&) const { refuse("Module::save"); }

}  // namespace torch::jit
