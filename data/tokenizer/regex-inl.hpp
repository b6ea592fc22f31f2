// Regular expressions in tokenizer files, by Oniguruma, as in the library `tokenizers`. Internal to data/.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "../../tensor/location.hpp"

namespace weft::data {

class Regex {
 public:
  /// Whether Oniguruma is available, in this build and at run time.
  static bool is_there();
  /// Raises FormatError for a malformed expression.
  Regex(std::string_view expression, const char* op, Location where);

  /// Finds the next match [begin, end) at or after `from` in well-formed UTF-8. Raises ValueError if the search takes
  /// too many steps.
  bool find(std::string_view text, size_t from, size_t& begin, size_t& end, Location where) const;

 private:
  std::shared_ptr<void> held_;
};

}  // namespace weft::data
