#include "type_id.hpp"

namespace weft {

// "static const char* weft::TypeId::signature() [with T = weft::nn::Linear]" by GCC, "[T = weft::nn::Linear]" by Clang.
// GCC adds "; NAME = TYPE" for aliases in the signature, of which there are none.
std::string_view TypeId::name() const {
  const std::string_view text = signature_;
  const size_t first = text.find("T = ") + 4;
  return text.substr(first, text.size() - first - 1);
}

// Names of types in functions, of lambdas and of types in anonymous namespaces have a parenthesis or a brace.
bool TypeId::has_name_of(TypeId other) const {
  const std::string_view own = name();
  const bool is_ambiguous = own.find_first_of("({") != own.npos || own.find("<unnamed") != own.npos;
  return !is_ambiguous && own == other.name();
}

}  // namespace weft
