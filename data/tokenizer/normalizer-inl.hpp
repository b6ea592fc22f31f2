// What becomes of a text before it is cut. Internal to data/.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "../../io/json/json_tree-inl.hpp"
#include "pieces-inl.hpp"
#include "unicode-inl.hpp"

namespace weft::data {

/// A text and, where they are asked for, the bytes [begin, end) of the first text that each of its bytes comes from.
struct Aligned {
  using Span = std::pair<int64_t, int64_t>;
  std::string text;
  std::vector<Span> origin = {};
  bool with_origin = false;

  Aligned() = default;
  /// A part of the first text that begins at `at`.
  Aligned(std::string_view part, int64_t at, bool with_origin);
};

/// One step. Bytes that are no UTF-8 stay as they are.
struct Normalizer {
  enum class Kind : uint8_t { form, lowercase, strip_accents, strip, prepend, replace };
  Kind kind;
  NormalForm form = NormalForm::nfc;
  bool left = false, right = false;  ///< of strip
  std::string content = {};          ///< of prepend and replace
  Pattern pattern = {};              ///< of replace

  void apply(Aligned& text, Location where) const;
};

/// NotImplementedError, with its name, for a normalizer that there is not. Null is none.
std::vector<Normalizer> read_normalizers(const io::JsonPlace& place, const char* op, Location where);

}  // namespace weft::data
