#include "../work.hpp"

#include "../detail/member.hpp"

namespace weft::distributed {

bool Work::is_done() const { return state_->is_done(); }
Tensor Work::wait() const { return state_->wait(); }

}  // namespace weft::distributed
