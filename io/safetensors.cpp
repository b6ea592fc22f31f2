#include "safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "file.hpp"
#include "safetensors_header-inl.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/create.hpp"

namespace weft::io {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

namespace {

constexpr uint64_t header_limit = 100'000'000;

// Two tensors that overlap would be loaded as two: the sharing would be lost.
void check_unshared(const TensorMap& tensors, Location where) {
  struct Range {
    Device device;
    const char *begin, *end;
    const std::string* name;
  };
  std::vector<Range> ranges;
  for (const auto& [name, t] : tensors) {
    const ByteSpan span = byte_span(t.raw_view().layout);
    const char* data = static_cast<const char*>(t.data_ptr());
    if (span.low < span.high) ranges.push_back({t.device(), data + span.low, data + span.high, &name});
  }
  std::ranges::sort(ranges, {}, [](const Range& r) { return std::tuple(r.device.type, r.device.index, r.begin); });
  for (size_t i = 1; i < ranges.size(); ++i) {
    if (ranges[i].begin >= ranges[i - 1].end || ranges[i].device != ranges[i - 1].device) continue;
    raise<ValueError>({.op = "save_file",
                       .problem = fmt::format("\"{}\" and \"{}\" share memory", *ranges[i - 1].name, *ranges[i].name),
                       .remedy = "save one of them, or a clone()"},
                      where);
  }
}

void check_tensors(const TensorMap& tensors, Location where) {
  for (const auto& [name, t] : tensors) {
    const char* problem = nullptr;
    if (!t.defined()) problem = "is undefined";
    else if (t.device().type == DeviceType::meta) problem = "is on the meta device and has no elements";
    else if (name == "__metadata__") problem = "is a name that the format keeps for itself";
    if (problem != nullptr) {
      raise<ValueError>({.op = "save_file", .problem = fmt::format("\"{}\" {}", name, problem)}, where);
    }
  }
  check_unshared(tensors, where);
}

}  // namespace

void save_file(const TensorMap& tensors, const Path& path, const Metadata& metadata, Location where) {
  check_tensors(tensors, where);
  NoGradGuard unrecorded;
  std::vector<HeaderEntry> entries;
  for (const auto& [name, t] : tensors) entries.push_back({name, {t.dtype(), t.shape(), 0, 0}});
  std::ranges::stable_sort(entries, std::ranges::greater{},
                           [](const HeaderEntry& e) { return itemsize(e.info.dtype); });
  size_t at = 0;
  for (HeaderEntry& e : entries) {
    e.info.begin = at;
    e.info.end = at += static_cast<size_t>(tensors.at(e.name).nbytes());
  }
  const std::string header = header_text(entries, metadata, where);
  const uint64_t length = header.size();
  AtomicFile file(path, "save_file", where);
  file.write(&length, sizeof(length));
  file.write(header.data(), header.size());
  for (const HeaderEntry& e : entries) {
    const Tensor dense = tensors.at(e.name).to(Device(), where).contiguous(where);
    file.write(dense.data_ptr(), static_cast<size_t>(dense.nbytes()));
  }
  file.commit();
}

struct SafeFile::Contents {
  std::string path;
  MappedFile file;
  std::byte* data = nullptr;
  SafeHeader header;
};

SafeFile SafeFile::open(const Path& path, Location where) {
  const auto malformed = [&](std::string problem, std::string remedy = {}) {
    raise<FormatError>({.op = "load_file",
                        .problem = "not a valid safetensors file: " + std::move(problem),
                        .details = path.string(),
                        .remedy = std::move(remedy)},
                       where);
  };
  auto contents = Shared<Contents>::make();
  contents->path = path.string();
  contents->file = MappedFile::open(path, "load_file", where);
  const std::span<std::byte> bytes = contents->file.bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) malformed(fmt::format("{} bytes are too few", bytes.size()));
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (std::memcmp(bytes.data(), "PK\3\4", 4) == 0) {
    malformed("it is a zip archive", "load_pt reads files of PyTorch, load_npz those of NumPy");
  }
  if (length < 2 || length > header_limit) malformed(fmt::format("a header of {} bytes", length));
  if (length > bytes.size() - sizeof(length)) {
    raise<FormatError>({.op = "load_file",
                        .problem = fmt::format("the file is cut off: it has {} bytes, its header alone {}",
                                               bytes.size(), sizeof(length) + length),
                        .details = path.string(),
                        .remedy = "copy or save it again"},
                       where);
  }
  const size_t start = sizeof(length) + length;
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + sizeof(length), length);
  contents->header = parse_header(text, bytes.size() - start, path, where);
  contents->data = bytes.data() + start;
  SafeFile out;
  out.contents_ = std::move(contents);
  return out;
}

std::vector<std::string> SafeFile::keys() const {
  std::vector<std::string> out;
  for (const auto& entry : contents_->header.entries) out.push_back(entry.first);
  return out;
}

const Metadata& SafeFile::metadata() const { return contents_->header.metadata; }

const SafeFile::Info& SafeFile::info(const std::string& name, Location where) const {
  const auto found = contents_->header.entries.find(name);
  if (found != contents_->header.entries.end()) return found->second;
  raise<ValueError>({.op = "load_file", .problem = fmt::format("no tensor \"{}\" in {}", name, contents_->path)},
                    where);
}

Tensor SafeFile::get(const std::string& name, Device device, Location where) const {
  const Info& info = this->info(name, where);
  std::byte* data = contents_->data + info.begin;
  const size_t bytes = info.end - info.begin;
  if (info.dtype == DType::boolean && std::any_of(data, data + bytes, [](std::byte b) { return b > std::byte{1}; })) {
    raise<FormatError>({.op = "load_file",
                        .problem = fmt::format("\"{}\" holds bools other than 0 and 1", name),
                        .details = contents_->path},
                       where);
  }
  const bool aligned = std::bit_cast<uintptr_t>(data) % static_cast<uintptr_t>(itemsize(info.dtype)) == 0;
  Tensor out;
  if (aligned && bytes != 0) {
    out = weft::detail::wrap_memory(data, info.shape, {}, {.dtype = info.dtype}, contents_, where);
  } else {
    out = empty(info.shape, info.dtype, where);
    if (bytes != 0) std::memcpy(out.data_ptr(), data, bytes);
  }
  return device.is_cpu() ? out : out.to(device, where);
}

TensorMap load_file(const Path& path, Device device, const std::optional<std::vector<std::string>>& names,
                    Location where) {
  const SafeFile file = SafeFile::open(path, where);
  TensorMap out;
  const auto load = [&](const std::string& name) { out.emplace(name, file.get(name, device, where)); };
  if (names) std::ranges::for_each(*names, load);
  else std::ranges::for_each(file.keys(), load);
  return out;
}

}  // namespace weft::io
