// Finds problems in a run and describes them.
#pragma once

#include <string>
#include <vector>

#include "history.hpp"

namespace weft {

enum class Trouble : uint8_t { non_finite, exploding, vanishing, dead, frozen, updates, broadcast, run };
/// "non-finite", "exploding", …
WEFT_API const char* name_of(Trouble trouble);

struct Suspect {
  Trouble trouble;
  /// Index into `History::watched`; 0 if the suspect is the whole run and nothing was watched.
  size_t index;
  /// A sentence that names the problem, with the figures.
  std::string text;
  /// Indices of further tensors affected by it, without `index`.
  std::vector<size_t> followers = {};
};

/// Returns the problems found in a history, ordered by impact: non-finite values first, then by the number of affected
/// parameters. Consequences of a suspect are reported with it.
///   non_finite  NaN or infinity in a value or a gradient;
///   exploding   in backward a gradient grows 10⁴ times, or its rms is over 100 times its earlier median;
///   vanishing   in backward it shrinks 10⁵ times and no other path bypasses the place, or it is tiny from the first
///               step on, everywhere;
///   dead        an activation's slope, or a whole gradient, is 0;
///   frozen      no gradient ever arrived (the line that cuts the parameter off from the loss is named), or the
///               weights do not change although a gradient arrives;
///   updates     steps are too large or too small for the weights, for several steps, or weight decay outweighs them;
///   broadcast   both operands of an op were expanded, and a gradient flows through it;
///   run         inputs, targets, predictions, the loss or the program around the net look wrong: modes, clipping,
///               hooks, casts, shared modules.
/// Figures cover several steps, and are compared with the net's own earlier ones.
WEFT_API std::vector<Suspect> find_suspects(const History& history);

}  // namespace weft
