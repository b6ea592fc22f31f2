// Normalization of a text before it is split. Internal to data/.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../../io/json/json_tree-inl.hpp"
#include "pieces-inl.hpp"
#include "unicode-inl.hpp"

namespace weft::data {

/// A text and, if requested, for each of its bytes the source range [begin, end) in the original text.
struct Aligned {
  using Span = std::pair<int64_t, int64_t>;
  std::string text;
  std::vector<Span> origin = {};
  bool with_origin = false;

  Aligned() = default;
  /// A piece of the original text that begins at `at`.
  Aligned(std::string_view part, int64_t at, bool with_origin);
};

/// One normalizer. Bytes that are not UTF-8 are not changed.
struct Normalizer {
  enum class Kind : uint8_t { form, lowercase, strip_accents, strip, prepend, replace };
  Kind kind;
  NormalForm form = NormalForm::nfc;
  bool left = false, right = false;  ///< of strip
  std::string content = {};          ///< of prepend and replace
  Pattern pattern = {};              ///< of replace

  void apply(Aligned& text, Location where) const;
};

/// Raises NotImplementedError, with its name, for an unsupported normalizer. Null means none.
std::vector<Normalizer> read_normalizers(const io::JsonNode& place, const char* op, Location where);

}  // namespace weft::data
