#include "../freeze.hpp"

#include "../pattern-inl.hpp"

namespace weft::nn {

namespace {

std::vector<std::string> switched(const char* op, const Module& module, std::string_view pattern, bool on,
                                  Location where) {
  const detail::Pattern wanted(op, pattern, where);
  std::vector<NamedTensor> found;
  for (NamedTensor& p : module.named_parameters()) {
    if (p.tensor.requires_grad() != on && wanted.finds(p.name)) found.push_back(std::move(p));
  }
  std::vector<std::string> names;
  for (NamedTensor& p : found) {
    names.push_back(p.name);
    p.tensor.requires_grad_(on, where);
  }
  return names;
}

}  // namespace

std::vector<std::string> freeze(const Module& module, std::string_view pattern, Location where) {
  return switched("nn::freeze", module, pattern, false, where);
}

std::vector<std::string> unfreeze(const Module& module, std::string_view pattern, Location where) {
  return switched("nn::unfreeze", module, pattern, true, where);
}

}  // namespace weft::nn
