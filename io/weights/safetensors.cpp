#include "../safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "../file.hpp"
#include "box-inl.hpp"
#include "safetensors_header-inl.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/create.hpp"

namespace weft::io {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

namespace {

constexpr uint64_t header_limit = 100'000'000;

// A box of a tensor's elements, as runs of consecutive bytes in the row-major tensor.
class Region {
 public:
  Region(const std::string& name, const SafeFile::Info& info, const Dims& starts, const Dims& ends, Location where) {
    check_box(name, info.shape, starts, ends, where);
    shape = Box{starts, ends}.shape();
    set_runs(info, starts);
  }

  size_t first_byte() const { return first_; }
  size_t runs() const { return runs_; }
  // Calls f(offset, bytes) for each run in row-major order.
  void for_each_run(auto&& f) const {
    Dims at = Dims::filled(outer_, 0);
    size_t offset = first_;
    for (size_t i = 0; i < runs_; ++i) {
      f(offset, run_bytes_);
      for (int d = outer_ - 1; d >= 0; --d) {
        offset += strides_[d];
        if (++at[d] < shape[d]) break;
        offset -= strides_[d] * static_cast<size_t>(shape[d]);
        at[d] = 0;
      }
    }
  }

  Dims shape;

 private:
  void set_runs(const SafeFile::Info& info, const Dims& starts) {
    run_bytes_ = static_cast<size_t>(itemsize(info.dtype));
    if (shape.product() == 0) return;
    size_t stride = run_bytes_;
    bool whole = true;
    outer_ = shape.size();
    for (int d = shape.size() - 1; d >= 0; --d) {
      strides_[d] = stride;
      first_ += stride * static_cast<size_t>(starts[d]);
      stride *= static_cast<size_t>(info.shape[d]);
      if (!whole) continue;
      run_bytes_ *= static_cast<size_t>(shape[d]);
      outer_ = d;
      whole = shape[d] == info.shape[d];
    }
    runs_ = 1;
    for (int d = 0; d < outer_; ++d) runs_ *= static_cast<size_t>(shape[d]);
  }

  size_t first_ = 0, run_bytes_ = 0, runs_ = 0;
  size_t strides_[max_rank] = {};
  // Number of outer dimensions over which runs are iterated.
  int outer_ = 0;
};

void check_bools(const std::string& name, const SafeFile::Info& info, const Region& region, const std::byte* data,
                 const std::string& path, Location where) {
  region.for_each_run([&](size_t offset, size_t bytes) {
    const std::byte* from = data + info.begin + offset;
    const std::byte* bad = std::find_if(from, from + bytes, [](std::byte b) { return b > std::byte{1}; });
    if (bad == from + bytes) return;
    raise<FormatError>(
        {.op = "load_file",
         .problem =
             fmt::format("\"{}\" holds bools other than 0 and 1, the first at byte {} of the data", name, bad - data),
         .details = path},
        where);
  });
}

}  // namespace

struct SafeFile::Contents {
  std::string path;
  MappedFile file;
  std::byte* data = nullptr;
  size_t data_bytes = 0;
  SafeHeader header;
};

SafeFile SafeFile::open(const Path& path, const OpenOptions& options, Location where) {
  const ReadScope reading;
  auto contents = Shared<Contents>::make();
  contents->path = path.string();
  contents->file =
      options.mmap ? MappedFile::open(path, "load_file", where) : MappedFile::read(path, "load_file", where);
  const std::span<std::byte> bytes = contents->file.bytes();
  uint64_t length = 0;
  if (bytes.size() < sizeof(length))
    malformed(fmt::format("it ends at byte {}, within its length", bytes.size()), path, where);
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (std::memcmp(bytes.data(), "PK\3\4", 4) == 0) {
    raise<FormatError>({.op = "load_file",
                        .problem = "not a valid safetensors file: it is a zip archive",
                        .details = path.string(),
                        .remedy = "load_pt reads files of PyTorch, load_npz those of NumPy"},
                       where);
  }
  if (length < 2 || length > header_limit)
    malformed(fmt::format("a header of {} bytes, says byte 0", length), path, where);
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
  contents->data_bytes = bytes.size() - start;
  reading.check("load_file", where);
  SafeFile out;
  out.contents_ = std::move(contents);
  return out;
}

std::vector<std::string> SafeFile::keys() const {
  const SafeHeader& header = contents_->header;
  std::vector<std::string> out;
  for (const auto& entry : header.entries) out.push_back(entry.first);
  for (const auto& entry : header.aliases) out.push_back(entry.first);
  std::ranges::sort(out);
  return out;
}

const Metadata& SafeFile::metadata() const { return contents_->header.metadata; }
const std::map<std::string, std::string>& SafeFile::aliases() const { return contents_->header.aliases; }
size_t SafeFile::data_bytes() const { return contents_->data_bytes; }

const SafeFile::Info& SafeFile::info(const std::string& name, Location where) const {
  const SafeHeader& header = contents_->header;
  const auto alias = header.aliases.find(name);
  const auto found = header.entries.find(alias != header.aliases.end() ? alias->second : name);
  if (found != header.entries.end()) return found->second;
  raise<KeyError>({.op = "load_file", .problem = fmt::format("no tensor \"{}\" in {}", name, contents_->path)}, where);
}

Tensor SafeFile::get(const std::string& name, Device device, Location where) const {
  const Dims& shape = info(name, where).shape;
  return get_slice(name, Dims::filled(shape.size(), 0), shape, device, where);
}

Tensor SafeFile::get_slice(const std::string& name, const Dims& starts, const Dims& ends, Device device,
                           Location where) const {
  const Info& info = this->info(name, where);
  const Region region(name, info, starts, ends, where);
  const ReadScope reading;
  if (info.dtype == DType::boolean) check_bools(name, info, region, contents_->data, contents_->path, where);
  std::byte* first = contents_->data + info.begin + region.first_byte();
  const bool aligned = std::bit_cast<uintptr_t>(first) % static_cast<uintptr_t>(itemsize(info.dtype)) == 0;
  Tensor out;
  if (aligned && region.runs() == 1) {
    out = weft::detail::wrap_memory(first, region.shape, {}, {.dtype = info.dtype}, contents_, where);
  } else {
    out = empty(region.shape, info.dtype, where);
    auto* to = static_cast<std::byte*>(out.data_ptr());
    region.for_each_run([&](size_t offset, size_t bytes) {
      std::memcpy(to, contents_->data + info.begin + offset, bytes);
      to += bytes;
    });
  }
  if (!device.is_cpu()) out = out.to(device, where);
  reading.check("load_file", where);
  return out;
}

TensorMap load_file(const Path& path, Device device, const std::optional<std::vector<std::string>>& names,
                    Location where) {
  return load_file(path, device, names, {}, where);
}

TensorMap load_file(const Path& path, Device device, const std::optional<std::vector<std::string>>& names,
                    const OpenOptions& options, Location where) {
  const SafeFile file = SafeFile::open(path, options, where);
  TensorMap out;
  TensorMap shared;
  const auto load = [&](const std::string& name) {
    const auto alias = file.aliases().find(name);
    const std::string& kept = alias != file.aliases().end() ? alias->second : name;
    Tensor& tensor = shared[kept];
    if (!tensor.defined()) tensor = file.get(kept, device, where);
    out.emplace(name, tensor);
  };
  if (names) std::ranges::for_each(*names, load);
  else std::ranges::for_each(file.keys(), load);
  return out;
}

}  // namespace weft::io
