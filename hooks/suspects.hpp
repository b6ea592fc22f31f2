// What looks wrong in a run, in words.
#pragma once

#include <string>
#include <vector>

#include "history.hpp"

namespace weft {

enum class Trouble : uint8_t { non_finite, exploding, vanishing, dead, frozen, updates, broadcast, run };
WEFT_API const char* name_of(Trouble trouble);

struct Suspect {
  Trouble trouble;
  /// Index into `History::watched`; 0 where it is the run's, and nothing was watched.
  size_t which;
  /// A sentence that names it, with the figures.
  std::string text;
  /// Indices of what follows from it, `which` not among them.
  std::vector<size_t> followers = {};
};

/// Problems found in a history, by what they spoil: non-finite numbers first, then what touches most parameters. What
/// follows from a suspect is told with it.
///   non_finite  NaN or infinity in a value or a gradient;
///   exploding   on its way back a gradient grows 10⁴ times, or its rms is over 100 times its median before;
///   vanishing   on its way back it falls 10⁵ times, and nothing goes round the place; or it is tiny from the first
///               step on, everywhere;
///   dead        an activation's slope, or all of a gradient, is 0;
///   frozen      no gradient ever arrived, with the line that cuts the parameter
///               off from the loss, or the weights do not change although one
///               does;
///   updates     steps are too large or too small for the weights, for several steps, or weight decay outweighs them;
///   broadcast   both operands of an op were expanded, and a gradient flows through it;
///   run         inputs, targets, predictions or the loss say that something is wrong, or what the program does around
///               its net: modes, clipping, hooks, casts, parts that are shared.
/// Figures are those of several steps, and are compared with the net's own earlier ones.
WEFT_API std::vector<Suspect> find_suspects(const History& history);

}  // namespace weft
