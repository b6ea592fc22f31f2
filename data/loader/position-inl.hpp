// The position of a loader, as JSON. Internal to data/.
//
// The order of an epoch is a function of seed and epoch, so a position is two numbers. A saved position names
// everything that the order depends on. Every loop advances the generator by one draw, also after a resume.
#pragma once

#include <cstdint>
#include <string>

#include "../../tensor/location.hpp"

namespace weft::data::detail {

/// The epoch, and the number of its batches that were returned.
struct LoopPosition {
  int64_t epoch = 0, batch = 0;
};

/// A position, with everything that affects the order.
struct SavedPosition {
  LoopPosition position;
  uint64_t seed = 0;
  /// -1 for a stream.
  int64_t samples = 0;
  /// 0 with a batch sampler.
  int64_t batch_size = 0;
  bool drop_last = false;
  int64_t world = 1;
  std::string sampler;
};

std::string to_json(const SavedPosition& saved);
/// Raises FormatError for a malformed text, and VersionError if a newer version wrote it.
SavedPosition position_from_json(const std::string& text, Location where);
/// Raises ValueError, with the name of the field, if `found` belongs to another loader than `own`.
void check_same(const SavedPosition& found, const SavedPosition& own, bool seed_matters, Location where);

}  // namespace weft::data::detail
