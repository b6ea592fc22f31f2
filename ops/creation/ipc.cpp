#include "../ipc.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../../backends/backend.hpp"
#include "../../backends/memory_sharing.hpp"
#include "../../backends/stream.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/error.hpp"
#include "../create.hpp"
#include "../detail/common.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

constexpr char magic[8] = {'W', 'E', 'F', 'T', 'I', 'P', 'C', '1'};

/// A handle's bytes.
struct Record {
  char start[8];
  uint64_t check;  ///< of all that follows
  int64_t process;
  uint64_t inode, filesystem;  ///< of the descriptor, which may since be another file's
  uint64_t memory_bytes;
  int64_t offset;  ///< of the first element, in bytes
  int64_t sizes[max_rank], strides[max_rank];
  SharedName name;
  int32_t descriptor;
  uint8_t device_type, device_index, dtype, rank;
};

uint64_t check_of(const Record& record) {
  uint64_t sum = 14695981039346656037u;
  const auto* bytes = reinterpret_cast<const unsigned char*>(&record.process);
  const auto* end = reinterpret_cast<const unsigned char*>(&record) + sizeof record;
  for (; bytes != end; ++bytes) sum = (sum ^ *bytes) * 1099511628211u;
  return sum;
}

/// The mapping that an opened tensor owns.
struct Opened {
  Opened(MemorySharing& s, int i, const SharedName& name, size_t b)
      : sharing(s), index(i), bytes(b), base(s.open(i, name, b)) {}
  ~Opened() { sharing.close(index, base, bytes); }
  Opened(const Opened&) = delete;
  MemorySharing& sharing;
  const int index;
  const size_t bytes;
  void* const base;
};

struct HostBlock {
  explicit HostBlock(size_t bytes) : base(make_shared_memory(bytes)) {}
  ~HostBlock() { free_shared_memory(base); }
  HostBlock(const HostBlock&) = delete;
  void* const base;
};

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  ~Descriptor() {
    if (number_ >= 0) close(number_);
  }
  Descriptor(const Descriptor&) = delete;
  int number() const { return number_; }

 private:
  const int number_;
};

MemorySharing& sharing_of(Device device) {
  if (MemorySharing* sharing = find_memory_sharing(device.type)) return *sharing;
  raise<ValueError>({.problem = device.name() + " has no memory that processes can share"});
}

Record read_record(const std::string& bytes) {
  Record record;
  if (bytes.size() != sizeof record) {
    raise_mismatch<FormatError>("handle", fmt::format("{} bytes", sizeof record), bytes.size());
  }
  std::memcpy(&record, bytes.data(), sizeof record);
  if (std::memcmp(record.start, magic, sizeof magic) != 0 || record.check != check_of(record)) {
    raise<FormatError>({.problem = "these bytes are no handle, or were damaged"});
  }
  const bool known = record.rank <= max_rank && record.dtype < dtype_count && record.device_type < device_type_count;
  if (!known) raise<FormatError>({.problem = "a handle of a tensor of another version"});
  return record;
}

/// The layout is within the memory.
void check_inside(const Record& record, const Layout& layout) {
  const ByteSpan span = byte_span(layout);
  const Checked first = Checked(record.offset) + span.low, end = Checked(record.offset) + span.high;
  const bool fits = first.fits() && end.fits() && first.value() >= 0 && record.memory_bytes <= uint64_t(INT64_MAX) &&
                    end.value() <= static_cast<int64_t>(record.memory_bytes);
  if (!fits) raise<FormatError>({.problem = "a handle of a tensor that leaves its memory"});
}

/// The name as this process opens it: with a file of its own.
SharedName name_here(const Record& record, const Descriptor& mine) {
  SharedName name = record.name;
  if (record.descriptor < 0) return name;
  struct stat status;
  const bool same = mine.number() >= 0 && fstat(mine.number(), &status) == 0 && status.st_ino == record.inode &&
                    status.st_dev == record.filesystem;
  if (!same) {
    raise<DeviceError>({.problem = fmt::format("the memory that process {} shared is not there", record.process),
                        .remedy = "keep its tensor until it is opened, and open it as the same user"});
  }
  const int number = mine.number();
  std::memcpy(name.data(), &number, sizeof number);
  return name;
}

}  // namespace

std::string IpcHandle::hex() const {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

Tensor share_memory(const Tensor& x, Location where) {
  const CallScope call("share_memory", where);
  MemorySharing& sharing = sharing_of(checked(x).device());
  if (!x.device().is_cpu() || x.numel() == 0 || sharing.share(0, x.data_ptr()).base != nullptr) return x;
  const auto block = Shared<HostBlock>::make(static_cast<size_t>(x.numel() * itemsize(x.dtype())));
  Tensor out = detail::wrap_memory(block->base, x.shape(), {}, {.dtype = x.dtype()}, Owner(block), where);
  const NoGradGuard unrecorded;
  out.copy_(x);
  return out;
}

IpcHandle share(const Tensor& x, Location where) {
  const CallScope call("share", where);
  const Device device = checked(x).device();
  MemorySharing& sharing = sharing_of(device);
  if (!device.is_cpu()) current_stream(device).synchronize();
  Record record;
  std::memset(&record, 0, sizeof record);
  std::memcpy(record.start, magic, sizeof magic);
  record.descriptor = -1;
  record.process = getpid();
  record.device_type = static_cast<uint8_t>(device.type), record.device_index = static_cast<uint8_t>(device.index);
  record.dtype = static_cast<uint8_t>(x.dtype()), record.rank = static_cast<uint8_t>(x.dim());
  for (int d = 0; d < x.dim(); ++d) record.sizes[d] = x.size(d), record.strides[d] = x.stride(d);
  if (x.numel() != 0) {
    const MemorySharing::Exported memory = sharing.share(device.index, x.data_ptr());
    if (memory.base == nullptr) {
      raise<ValueError>({.problem = "x's memory is not shared", .remedy = "share the result of share_memory(x)"});
    }
    record.memory_bytes = memory.bytes, record.name = memory.name, record.descriptor = memory.descriptor;
    record.offset = static_cast<char*>(x.data_ptr()) - static_cast<char*>(memory.base);
    struct stat status;
    if (memory.descriptor >= 0 && fstat(memory.descriptor, &status) == 0) {
      record.inode = status.st_ino, record.filesystem = status.st_dev;
    }
  }
  record.check = check_of(record);
  return {std::string(reinterpret_cast<const char*>(&record), sizeof record)};
}

Tensor open_shared(const IpcHandle& handle, Location where) {
  const CallScope call("open_shared", where);
  const Record record = read_record(handle.bytes);
  const Device device(static_cast<DeviceType>(record.device_type), record.device_index);
  check_device(device, "open_shared", where);
  const auto dtype = static_cast<DType>(record.dtype);
  const std::span<const int64_t> sizes(record.sizes, record.rank), strides(record.strides, record.rank);
  const Layout layout = strided_layout(sizes, strides, dtype);
  if (layout.numel == 0) return empty(sizes, {dtype, device});
  check_inside(record, layout);
  MemorySharing& sharing = sharing_of(device);
  const Descriptor mine(record.descriptor < 0 ? -1 : take_descriptor(record.process, record.descriptor));
  const auto opened =
      Shared<Opened>::make(sharing, int{device.index}, name_here(record, mine), size_t{record.memory_bytes});
  return detail::wrap_memory(static_cast<char*>(opened->base) + record.offset, sizes, strides, {dtype, device},
                             Owner(opened), where);
}

}  // namespace weft
