#include "../detail/table_rows.hpp"

#include "../index.hpp"
#include "../masked.hpp"
#include "../create.hpp"
#include "../pointwise.hpp"

namespace weft {

void give_table_rows(Node& self, int edge, const Tensor& ids, Tensor&& values, int64_t padding) {
  const Tensor wide = ids.to(DType::i64);
  const Tensor at = wide.shares_storage(ids) ? wide.clone() : wide;  // the ids may be written before they are read
  if (padding < 0) return detail::give_rows(self, edge, at, std::move(values));
  const Tensor counted = nonzero(at != padding).select(1, 0);
  detail::give_rows(self, edge, index_select(at, 0, counted), index_select(values, 0, counted));
}

}  // namespace weft
