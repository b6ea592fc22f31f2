#include "program_watch.hpp"

namespace weft::detail {

ProgramWatch::~ProgramWatch() = default;

constinit thread_local ProgramWatch* program_watch = nullptr;
constinit thread_local int unwatched_scopes = 0;

}  // namespace weft::detail
