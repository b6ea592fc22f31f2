// Where a loader stands, as a JSON text. Internal to data/.
#pragma once

#include <cstdint>
#include <string>

#include "../../tensor/location.hpp"

namespace weft::data::detail {

/// The epoch, and how many batches of it were given out.
struct LoopPosition {
  int64_t epoch = 0, batch = 0;
};

/// With what an order depends on.
struct SavedPosition {
  LoopPosition position;
  uint64_t seed = 0;
  /// -1 of a stream.
  int64_t samples = 0;
  /// 0 where a batch sampler makes batches.
  int64_t batch_size = 0;
  bool drop_last = false;
  int64_t world = 1;
  std::string sampler;
};

std::string to_json(const SavedPosition& saved);
/// FormatError where the text is none of these, VersionError where a newer program wrote it.
SavedPosition position_from_json(const std::string& text, Location where);
/// ValueError, with the name of the field, where `found` is of another loader than `own`.
void check_same(const SavedPosition& found, const SavedPosition& own, bool seed_matters, Location where);

}  // namespace weft::data::detail
