#include "../freeze.hpp"

#include <regex>

#include <fmt/format.h>

namespace weft::nn {

namespace {

std::vector<std::string> switched(const char* op, const Module& module, std::string_view pattern, bool on,
                                  Location where) {
  std::regex wanted;
  try {
    wanted.assign(pattern.begin(), pattern.end());
  } catch (const std::regex_error& error) {
    raise<ValueError>({.op = op, .problem = fmt::format("\"{}\" is no regular expression: {}", pattern, error.what())},
                      where);
  }
  std::vector<NamedTensor> found;
  for (NamedTensor& p : module.named_parameters()) {
    if (p.tensor.requires_grad() != on && std::regex_search(p.name, wanted)) found.push_back(std::move(p));
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
