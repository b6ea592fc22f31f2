// x[…]: what stands between the brackets as views, gathers and writes.
#include <weft/ops/detail/common.hpp>

namespace weft {

Index::Index(std::span<const int64_t>) : kind(Kind::tensor) {}
Index::Index(const std::vector<bool>&) : kind(Kind::tensor) {}
Operand::Operand(Indexed&& part, Location here)
    : where(here), temporary(true), number_(part.read()), tensor_(&number_) {}

}  // namespace weft
