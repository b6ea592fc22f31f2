// Storage: the memory of one or more tensors, with its version counter and last writer.
#pragma once

#include <cstdint>

#include "atomic.hpp"
#include "device.hpp"
#include "location.hpp"
#include "ref_count.hpp"

namespace weft {

class Allocator;

/// Frees external memory: called once, with `Storage::deleter_context`.
using Deleter = void (*)(void* data, void* context);

struct Storage {
  RefCount refs;
  Atomic<uint32_t> version{0};
  Device device;
  /// Memory that code outside of Weft also uses (`from_blob`, DLPack, a mapping): never reused as scratch.
  bool external = false;
  /// Queued work of a device may still read or write the bytes; backends defer their release.
  void* data = nullptr;
  size_t bytes = 0;
  /// Exactly one of these frees `data`; if both are null, the data are stored in the head's own block.
  Allocator* allocator = nullptr;
  Deleter deleter = nullptr;
  void* deleter_context = nullptr;
  const char* last_writer = nullptr;
  Location last_write = Location::none();

  /// Called once by every in-place write, before autograd reads the version again.
  void note_write(const char* op, Location where) {
    version.store(version.load(MemoryOrder::relaxed) + 1, MemoryOrder::relaxed);
    last_writer = op;
    last_write = where;
  }
};

}  // namespace weft
