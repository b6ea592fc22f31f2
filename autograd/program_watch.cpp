#include "program_watch.hpp"

namespace weft::detail {

ProgramWatch::~ProgramWatch() = default;

constinit thread_local ProgramWatch* program_watch = nullptr;
constinit thread_local int unwatched_scopes = 0;

void tell_of_reading(const Tensor& x, const char* op, Location where) {
  if (WEFT_LIKELY(program_watch == nullptr)) return;
  const CallScope call(op, where);
  program_watch->on_detach(x, {});
}

}  // namespace weft::detail
