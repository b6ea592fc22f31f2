// Takes the warnings while it lives.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include <weft/tensor/warning.hpp>

namespace weft {

class CollectedWarnings {
 public:
  CollectedWarnings() : before_(set_warning_handler([this](const Warning& w) { texts.push_back(w.text); })) {}
  ~CollectedWarnings() { set_warning_handler(std::move(before_)); }
  CollectedWarnings(const CollectedWarnings&) = delete;

  std::vector<std::string> texts;

 private:
  WarningHandler before_;
};

}  // namespace weft
