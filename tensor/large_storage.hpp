// Which large storages live and where in the program each was made, and the error that says so.
#pragma once

#include <cstddef>
#include <string>

#include "device.hpp"

namespace weft {
struct Storage;
}

namespace weft::detail {

/// Smaller ones are not known: to note them would cost small ops more than it tells.
inline constexpr size_t large_storage_bytes = size_t{1} << 20;

/// `storage` was given memory by the op that runs. Where the host's memory is short, it stays unknown.
void note_large_storage(const Storage* storage) noexcept;
void forget_large_storage(const Storage* storage) noexcept;
/// OutOfMemoryError: what was asked, what is free, allocated and reserved, and what fills the memory. `purpose` follows
/// "no 4096 bytes".
[[noreturn]] void raise_out_of_memory(Device device, size_t bytes, const char* purpose = "");
/// "the largest: 8388608 of matmul at net.cpp:12, 4194304 of zeros at net.cpp:7": at most three, of one device. Empty
/// where there is none.
std::string largest_storages(Device device);

}  // namespace weft::detail
