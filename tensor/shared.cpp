#include "shared.hpp"

namespace weft::detail {

void SharedBlock::drop_owner() {
  if (!owners.decrement_shared()) return;
  destroy_value(this);
  drop_holder();
}

void SharedBlock::drop_holder() {
  if (holders.decrement_shared()) free_block(this);
}

}  // namespace weft::detail
