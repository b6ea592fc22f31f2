// What snapshots and histories of memory share. Not public.
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
/// Of the parameters and of the gradients that they have now.
std::map<const Storage*, NamedStorage> named_storages(const NamedTensors& parameters);
MemorySnapshot snapshot_of(Device device, std::vector<LiveMemory> tensors, Location where = Location::none());

/// "1.5 MiB: activation of relu at net.cpp:12, 3 tensors": those that hold most.
std::vector<std::string> lines_of(const MemorySnapshot& snapshot, size_t most);
/// Adds a step's; of many every second one goes.
void keep_total(MemoryRecord::Total total, MemoryRecord& record);
/// Adds the step that the living history ended last to a recorder's records, as its step `step`: totals, and its course
/// where that is wanted or clearly higher. `seen` is the number of that history's steps then, and that of the call
/// before comes in; nothing is added where it ended none since.
void note_memory(std::vector<MemoryRecord>& records, int64_t step, bool closely, int64_t& seen);
/// "matmul at net.cpp:12"
std::string made_by(const std::string& op, Location where);

}  // namespace weft::detail
