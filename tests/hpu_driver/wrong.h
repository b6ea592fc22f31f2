// A device with one fault, chosen by WEFT_ZE_WRONG, that a conformance test must find.
#pragma once

#include "kernel.h"

namespace weft::testing::ze {

enum class Wrong : uint8_t {
  nothing,
  kernel,   // kernel=NAME: kernels whose name contains NAME spoil the first element of their first argument
  copy,     // copies spoil their last byte
  peer,     // copies between two devices do
  order,    // lists do not wait for events
  late,     // a kernel runs behind the next one that is queued, if there is one before the next event
  serial,   // lists wait for each other as if they were one
  query,    // who asks for an event is told that it is signalled; who waits for it waits
  clock,    // time runs backwards
  memory,   // all memory is said to be free
  reports,  // what kernels write into small memory of the host is lost
  refuse,   // every allocation beyond 1 MiB fails
  endless,  // none fails for its size
};
bool does_wrong(Wrong what);

// Runs all work-groups, and does wrong to their results.
void run_launch_wrongly(const Launch& launch);

}  // namespace weft::testing::ze
