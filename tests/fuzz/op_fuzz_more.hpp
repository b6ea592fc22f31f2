// Functions without a record: views and factories with records made here, and in-place forms of recorded ops.
#pragma once

#include <span>

#include <weft/ops/record.hpp>

namespace weft::fuzz {

std::span<const OpRecord> more_records();

/// The in-place form of an op that is not pointwise; the target is the first argument. Null where there is none.
const BoxedFunction* find_in_place(const char* name);

}  // namespace weft::fuzz
