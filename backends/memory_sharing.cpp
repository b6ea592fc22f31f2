#include "memory_sharing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include <fmt/format.h>

#include "backend.hpp"
#include "../tensor/atomic.hpp"
#include "../tensor/error.hpp"

namespace weft {

namespace {

/// Files in memory, each mapped once by the process that made it and by those that opened it.
class HostSharing final : public MemorySharing {
 public:
  void* make(size_t bytes) {
    const int descriptor = memfd_create("weft", MFD_CLOEXEC);
    void* base = MAP_FAILED;
    if (descriptor >= 0 && ftruncate(descriptor, static_cast<off_t>(bytes)) == 0) base = map(descriptor, bytes);
    if (base == MAP_FAILED) {
      const std::string reason = std::strerror(errno);
      if (descriptor >= 0) ::close(descriptor);
      throw OutOfMemoryError(
          format_error({.problem = fmt::format("no {} bytes that processes share: {}", bytes, reason)}), {}, bytes, 0,
          0, 0, 0);
    }
    const std::lock_guard lock(mutex_);
    blocks_[static_cast<char*>(base)] = {bytes, descriptor};
    return base;
  }
  void free(void* base) noexcept {
    const std::lock_guard lock(mutex_);
    const auto block = blocks_.find(static_cast<char*>(base));
    munmap(base, block->second.bytes);
    ::close(block->second.descriptor);
    blocks_.erase(block);
  }

  Exported share(int, const void* data) override {
    const std::lock_guard lock(mutex_);
    auto* const address = static_cast<char*>(const_cast<void*>(data));
    auto block = blocks_.upper_bound(address);
    if (block == blocks_.begin()) return {};
    --block;
    if (address >= block->first + block->second.bytes) return {};
    return named(block->first, block->second.bytes, block->second.descriptor);
  }
  void* open(int, const SharedName& name, size_t bytes) override {
    int descriptor = -1;
    std::memcpy(&descriptor, name.data(), sizeof descriptor);
    struct stat status;
    // Beyond a file's end a mapping would end the process.
    const bool whole = fstat(descriptor, &status) == 0 && static_cast<uint64_t>(status.st_size) >= bytes;
    void* const base = whole ? map(descriptor, bytes) : MAP_FAILED;
    if (base != MAP_FAILED) return base;
    raise<DeviceError>({.problem = fmt::format("{} shared bytes cannot be mapped: {}", bytes, std::strerror(errno))});
  }
  void close(int, void* base, size_t bytes) noexcept override { munmap(base, bytes); }

 private:
  struct Block {
    size_t bytes;
    int descriptor;
  };
  static void* map(int descriptor, size_t bytes) {
    return mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  }
  static Exported named(void* base, size_t bytes, int descriptor) {
    Exported out{base, bytes, descriptor, {}};
    std::memcpy(out.name.data(), &descriptor, sizeof descriptor);
    return out;
  }

  std::mutex mutex_;
  std::map<char*, Block> blocks_;
};

HostSharing& host_sharing() {
  static auto* sharing = new HostSharing;  // static tensors may die after any static of ours
  return *sharing;
}

constinit Atomic<MemorySharing*> sharings[device_type_count] = {};

}  // namespace

MemorySharing* find_memory_sharing(DeviceType type) {
  if (type == DeviceType::cpu) return &host_sharing();
  find_backend(type);
  return sharings[static_cast<int>(type)].load(MemoryOrder::acquire);
}

void register_memory_sharing(DeviceType type, MemorySharing& sharing) {
  sharings[static_cast<int>(type)].store(&sharing, MemoryOrder::release);
}

void* make_shared_memory(size_t bytes) { return host_sharing().make(bytes); }
void free_shared_memory(void* base) noexcept { host_sharing().free(base); }

int take_descriptor(int64_t process, int descriptor) {
  if (process == getpid()) return fcntl(descriptor, F_DUPFD_CLOEXEC, 0);
  const auto handle = static_cast<int>(syscall(SYS_pidfd_open, static_cast<pid_t>(process), 0));
  if (handle >= 0) {
    const auto mine = static_cast<int>(syscall(SYS_pidfd_getfd, handle, descriptor, 0));
    close(handle);
    if (mine >= 0) return mine;
  }
  // Handles that cannot be received from a process that is not a child can still be opened if they are memory files,
  // not handles of a driver.
  return open(fmt::format("/proc/{}/fd/{}", process, descriptor).c_str(), O_RDWR | O_CLOEXEC);
}

}  // namespace weft
