// Which queues use which memory, noted while there are streams besides the default ones.
//
// Uses are noted automatically, so programs need no `record_stream`. A block used by another queue rests after its
// release until events report completion.
#pragma once

#include "../queue.hpp"
#include "../../tensor/atomic.hpp"
#include "../../tensor/view.hpp"

namespace weft::detail {

/// Whether a Stream was made since the program's start.
extern constinit Atomic<bool> streams_in_use;

/// `queue` works on the memory of `view`, which is not reused before that is done.
void note_use(const View& view, Queue& queue);
/// The same of the calling thread's queue; nothing where `view` is on no device with queues.
void note_use(const View& view);

/// Puts functions in front of a device's kernels that note which memory the thread's queue was given work on.
void note_uses_of(DeviceType type);

}  // namespace weft::detail
