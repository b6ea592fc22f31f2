// Nonzero elements: counting, coordinates, compressing and expanding: bodies. Teams count chunks; the sums of the
// counts give every chunk its offset in the list of selected elements.
#pragma once

#include "move.hpp"
#include "team.hpp"

namespace weft::portable {

/// The positions of this lane of the team that has chunk `team.number`.
WEFT_DEVICE LanePart mask_part(const Team& team, const Mask& plan) {
  const int64_t begin = team.number * plan.chunk, rest = plan.walk.count - begin;
  LanePart part = lane_part(team, rest < 0 ? 0 : (rest < plan.chunk ? rest : plan.chunk));
  part.begin += begin;
  part.end += begin;
  return part;
}
WEFT_DEVICE bool holds_at(In mask, const Mask& plan, int64_t offset) {
  return ((bits_at(mask + offset, plan.mask_item) | plan.always) & plan.truth) != 0;
}
WEFT_DEVICE int64_t count_part(In mask, const Mask& plan, const LanePart& part) {
  int64_t count = 0, offset[1];
  for (int64_t i = part.begin; i < part.end; ++i) {
    offsets_at(plan.walk, i, offset, 1);
    count += holds_at(mask, plan, offset[0]);
  }
  return count;
}

WEFT_DEVICE void count_team(Out counts, In mask, const Mask& plan, int64_t chunks, WEFT_LOCAL int64_t* shared) {
  const Team team = team_here(false);
  const int64_t count = combine_team<Plus>(team, shared, count_part(mask, plan, mask_part(team, plan)));
  if (team.lane == 0 && team.number < chunks) poke<int64_t>(counts + team.number * 8, count);
}

/// take(rank, position, offset of the data) for every place where the mask holds, which is the rank-th.
template <class Take>
WEFT_DEVICE void take_team(In before, In mask, const Mask& plan, WEFT_LOCAL int64_t* shared, const Take& take) {
  const Team team = team_here(false);
  const LanePart part = mask_part(team, plan);
  const int64_t mine = team.lanes > 1 ? count_part(mask, plan, part) : 0;
  int64_t rank = combine_before<Plus>(team, shared, mine, (int64_t)0), offset[2];
  if (part.begin == part.end) return;
  rank += peek<int64_t>(before + team.number * 8);
  for (int64_t i = part.begin; i < part.end; ++i) {
    offsets_at(plan.walk, i, offset);
    if (holds_at(mask, plan, offset[0])) take(rank++, i, offset[1]);
  }
}

struct TakeCoordinates {
  Out out;
  Coordinates plan;
  WEFT_DEVICE void operator()(int64_t rank, int64_t position, int64_t) const {
    for (int d = plan.rank - 1; d >= 0; --d) {
      const int64_t rest = position / plan.sizes[d];
      poke<int64_t>(out + rank * plan.row + d * plan.column, position - rest * plan.sizes[d]);
      position = rest;
    }
  }
};
struct TakeElement {
  Out out;
  In x;
  int item;
  WEFT_DEVICE void operator()(int64_t rank, int64_t, int64_t offset) const {
    move_element(out + rank * item, x + offset, item);
  }
};
struct PutElement {
  Out out;
  In source;
  int item;
  WEFT_DEVICE void operator()(int64_t rank, int64_t, int64_t offset) const {
    move_element(out + offset, source + rank * item, item);
  }
};

}  // namespace weft::portable
