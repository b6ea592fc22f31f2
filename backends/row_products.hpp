// Products with rows that do not depend on the other rows of the operand.
//
// The code for a product depends on the number of rows, and so does the last bit of a row. Within the scope one code
// serves any number of rows, eight at a time.
#pragma once

#include <cstdint>

namespace weft::detail {

/// Whether this thread's matrix products on the CPU add up each row of the left operand in one order, however many rows
/// there are. They are slower for many rows. f32 and 16-bit floats, codes of 8 and 4 bits, and blocks of FP8.
extern constinit thread_local bool products_by_rows;
/// False by WEFT_BATCH_INVARIANT=0.
bool wants_row_products();
/// More tokens of a sequence are not read by rows.
inline constexpr int64_t most_row_tokens = 32;

class RowProducts {
 public:
  explicit RowProducts(bool on) : before_(products_by_rows) {
    products_by_rows = before_ || (on && wants_row_products());
  }
  ~RowProducts() { products_by_rows = before_; }
  RowProducts(const RowProducts&) = delete;
  RowProducts& operator=(const RowProducts&) = delete;

 private:
  const bool before_;
};

}  // namespace weft::detail
