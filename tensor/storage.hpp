// Storage: the bytes behind one or more tensors, their version counter and the last writer.
#pragma once

#include <cstdint>

#include "atomic.hpp"
#include "device.hpp"
#include "location.hpp"
#include "ref_count.hpp"

namespace weft {

class Allocator;

/// Frees memory that came from outside: called once, with `Storage::deleter_context`.
using Deleter = void (*)(void* data, void* context);

struct Storage {
  RefCount refs;
  Atomic<uint32_t> version{0};
  Device device;
  /// Memory that code outside Weft also sees (`from_blob`, DLPack, a mapping): never reused as scratch.
  bool external = false;
  /// A device's queued work may still read or write the bytes; backends defer the release.
  void* data = nullptr;
  size_t bytes = 0;
  /// Exactly one of these frees `data`; both null means the bytes live inside the head's own block.
  Allocator* allocator = nullptr;
  Deleter deleter = nullptr;
  void* deleter_context = nullptr;
  const char* last_writer = nullptr;
  Location last_write = Location::none();

  /// Every in-place write calls this once, before autograd looks at the version again.
  void note_write(const char* op, Location where) {
    version.store(version.load(MemoryOrder::relaxed) + 1, MemoryOrder::relaxed);
    last_writer = op;
    last_write = where;
  }
};

}  // namespace weft
