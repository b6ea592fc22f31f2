// The cases that cases/make_cases.py recorded from PyTorch.
#pragma once

#include <fstream>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <weft/optim/optim.hpp>

namespace weft::test {

using nlohmann::json;

inline std::vector<json> recorded(const std::string& file) {
  std::ifstream in(WEFT_SOURCE_DIR "/tests/optim/cases/" + file);
  std::vector<json> out;
  for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
  return out;
}

/// PyTorch's keywords as Weft's options by name.
inline optim::NamedOptions options_in(const json& keywords, std::span<const optim::OptionInfo> infos) {
  optim::NamedOptions out;
  size_t used = 0;
  for (const optim::OptionInfo& info : infos) {
    const auto found = keywords.find(info.tuple != nullptr ? info.tuple : info.name);
    if (found == keywords.end()) continue;
    const json& value = info.tuple != nullptr ? (*found)[static_cast<size_t>(info.part)] : *found;
    used += info.tuple == nullptr || info.part == 0 ? 1 : 0;
    if (value.is_string()) {
      for (size_t k = 0; k < info.choices.size(); ++k) {
        if (info.choices[k] != nullptr && value == info.choices[k]) out[info.name] = static_cast<double>(k);
      }
    } else {
      out[info.name] =
          value.is_null() ? std::nan("") : (value.is_boolean() ? (value ? 1.0 : 0.0) : value.get<double>());
    }
  }
  if (used != keywords.size()) throw std::runtime_error("a keyword is no option: " + keywords.dump());
  return out;
}

/// An optimizer by its name, over these parameters.
inline std::unique_ptr<optim::Optimizer> make_optimizer(const std::string& name, std::vector<Tensor> parameters,
                                                        const json& keywords) {
#define WEFT_MAKE(O)                                                                                         \
  if (name == #O) {                                                                                          \
    const auto infos = optim::O::option_list();                                                              \
    return std::make_unique<optim::O>(std::move(parameters),                                                 \
                                      optim::options_named<optim::O::Options>(options_in(keywords, infos))); \
  }
  WEFT_OPTIMIZERS_BY_NAME(WEFT_MAKE)
#undef WEFT_MAKE
  throw std::runtime_error("no optimizer " + name);
}

}  // namespace weft::test
