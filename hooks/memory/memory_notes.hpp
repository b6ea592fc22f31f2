// Shared by snapshots and histories of memory. Not public.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "../history.hpp"
#include "../memory_history.hpp"
#include "../../tensor/impl.hpp"
#include "../../tensor/large_storage.hpp"

namespace weft::detail {

struct NamedStorage {
  std::string name;
  MemoryKind kind = MemoryKind::parameter;
  Tensor tensor;  ///< keeps the storage
  bool noted = false;
};
/// Returns the storages of the parameters and of their current gradients.
std::map<const Storage*, NamedStorage> named_storages(const NamedTensors& parameters);
MemorySnapshot snapshot_of(Device device, std::vector<LiveMemory> tensors, Location where = Location::none());

/// "1.5 MiB: activation of relu at net.cpp:12, 3 tensors": the largest groups.
std::vector<std::string> lines_of(const MemorySnapshot& snapshot, size_t max_lines);
/// Adds a step's total. If there are too many, every second one is dropped.
void keep_total(DeviceMemory::Total total, DeviceMemory& record);
/// Adds the last completed step of the existing history to a recorder's records, as its step `step`: totals, and the
/// curve if `closely` or if the peak is clearly higher. Adds nothing if the history completed no step since the last
/// call. `seen` is the history's step count at the last call, and is updated.
void note_memory(std::vector<DeviceMemory>& records, int64_t step, bool closely, int64_t& seen);
/// "matmul at net.cpp:12"
std::string made_by(const std::string& op, Location where);

}  // namespace weft::detail
