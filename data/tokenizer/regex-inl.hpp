// Regular expressions of tokenizers' files, which Oniguruma finds as it does for the library `tokenizers`. Internal to
// data/.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "../../tensor/location.hpp"

namespace weft::data {

class Regex {
 public:
  /// Whether this build knows Oniguruma, and its library is here.
  static bool is_there();
  /// FormatError for an expression that is none.
  Regex(std::string_view expression, const char* op, Location where);

  /// The next place [begin, end) from `from` on in a text of well-formed UTF-8. ValueError where looking for it takes
  /// too many steps.
  bool find(std::string_view text, size_t from, size_t& begin, size_t& end, Location where) const;

 private:
  std::shared_ptr<void> held_;
};

}  // namespace weft::data
