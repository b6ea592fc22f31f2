#include <algorithm>
#include <array>
#include <numeric>
#include <ostream>
#include <tuple>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/index.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/memory_range.hpp"
#include "safetensors_save-inl.hpp"

namespace weft::io {

namespace {

void check_tensors(std::span<const NamedTensor> tensors, const char* op, Location where) {
  for (const auto& [name, t] : tensors) {
    const char* problem = nullptr;
    if (!t.defined()) problem = "is undefined";
    else if (t.device().type == DeviceType::meta) problem = "is on the meta device and has no elements";
    if (problem != nullptr) raise<ValueError>({.op = op, .problem = fmt::format("\"{}\" {}", name, problem)}, where);
  }
}

struct Range {
  Device device;
  const char *begin, *end;
  const NamedTensor* named;
};

/// Calls f(address) for each element; broadcast dimensions are visited once.
template <class F>
void each_element(const Layout& layout, int dim, const char* at, const F& f) {
  if (dim == layout.rank) return f(at);
  const int64_t step = layout.strides[dim], count = step == 0 ? 1 : layout.sizes[dim];
  for (int64_t i = 0; i < count; ++i) each_element(layout, dim + 1, at + i * step, f);
}

/// Returns the first tensor, of a group with overlapping address ranges, that shares an element with an earlier one.
/// Interleaved views share none.
std::optional<size_t> first_shared(std::span<const Range> ranges) {
  const char *begin = ranges[0].begin, *end = begin;
  int64_t granule = 0;  // all elements start and end at multiples of it
  for (const Range& r : ranges) {
    const View& view = r.named->second.raw_view();
    const int64_t item = itemsize(view.layout.dtype);
    granule = std::gcd(std::gcd(granule, item), static_cast<const char*>(view.data) - begin);
    end = std::max(end, r.end);
  }
  std::vector<bool> is_written(static_cast<size_t>((end - begin) / granule));
  for (size_t i = 0; i < ranges.size(); ++i) {
    const View& view = ranges[i].named->second.raw_view();
    const int64_t count = itemsize(view.layout.dtype) / granule;
    const auto each = [&](const auto& f) {
      each_element(view.layout, 0, static_cast<const char*>(view.data), [&](const char* at) {
        for (int64_t n = 0; n < count; ++n) f(static_cast<size_t>((at - begin) / granule + n));
      });
    };
    bool is_shared = false;
    each([&](size_t place) { is_shared |= is_written[place]; });
    if (is_shared) return i;
    each([&](size_t place) { is_written[place] = true; });
  }
  return {};
}

/// For two tensors at one address.
bool are_one(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && a.strides() == b.strides();
}

// Shared elements would be saved twice, and the sharing would be lost on loading.
void check_unshared(std::span<const NamedTensor> tensors, const Aliases& aliases, const char* op, Location where) {
  std::vector<Range> ranges;
  for (const NamedTensor& named : tensors) {
    if (aliases.contains(named.first)) continue;
    const detail::MemoryRange range = detail::range_of(named.second.raw_view());
    if (range.begin != nullptr) ranges.push_back({named.second.device(), range.begin, range.end, &named});
  }
  std::ranges::stable_sort(ranges, {},
                           [](const Range& r) { return std::tuple(r.device.type, r.device.index, r.begin); });
  const auto refuse = [&](const Range& a, const Range& b) {
    const bool is_tie =
        a.named->second.data_ptr() == b.named->second.data_ptr() && are_one(a.named->second, b.named->second);
    raise<ValueError>({.op = op,
                       .problem = fmt::format("\"{}\" and \"{}\" share memory", a.named->first, b.named->first),
                       .remedy = is_tie ? "one tensor under two names is written with tie = io::Tie::alias (in Python "
                                          "tie=\"alias\", or weft.save); members of a module are tied by assigning one "
                                          "to the other"
                                        : "they overlap in part: save one of them, or a clone()"},
                      where);
  };
  const auto is_dense = [](const Range& r) { return r.end - r.begin == r.named->second.nbytes(); };
  for (size_t i = 0, next = 0; i < ranges.size(); i = next) {
    const char* end = ranges[i].end;
    for (next = i + 1; next < ranges.size() && ranges[next].device == ranges[i].device && ranges[next].begin < end;
         ++next) {
      if (is_dense(ranges[next - 1]) && is_dense(ranges[next]) && ranges[next].begin < ranges[next - 1].end) {
        refuse(ranges[next - 1], ranges[next]);
      }
      end = std::max(end, ranges[next].end);
    }
    const auto overlapping = std::span<const Range>(ranges).subspan(i, next - i);
    const auto shared = overlapping.size() > 1 ? first_shared(overlapping) : std::nullopt;
    if (!shared) continue;
    size_t with = 0;
    while (!first_shared(std::array{overlapping[with], overlapping[*shared]})) ++with;
    refuse(overlapping[with], overlapping[*shared]);
  }
}

Aliases aliases_among(std::span<const NamedTensor> tensors) {
  std::map<std::tuple<DeviceType, int, const void*>, const NamedTensor*> firsts;
  Aliases out;
  for (const NamedTensor& named : tensors) {
    const auto& [name, t] = named;
    if (t.numel() == 0) continue;
    const auto [first, added] = firsts.try_emplace({t.device().type, t.device().index, t.data_ptr()}, &named);
    if (!added && are_one(first->second->second, t)) out.emplace(name, first->second->first);
  }
  return out;
}

// Passes the elements to `put` in row-major order, packing at most `byte_limit` bytes at a time.
void put_elements(const Tensor& t, size_t byte_limit, const Callback<void(const void*, size_t)>& put) {
  const auto bytes = static_cast<size_t>(t.nbytes());
  if (bytes == 0) return;
  if (bytes <= byte_limit || (t.device().is_cpu() && t.is_contiguous())) {
    const Tensor dense = t.contiguous().to(Device());
    put(dense.data_ptr(), bytes);
    return;
  }
  const int64_t rows = t.size(0);
  const size_t row_bytes = bytes / static_cast<size_t>(rows);
  if (row_bytes > byte_limit) {
    for (int64_t i = 0; i < rows; ++i) put_elements(t.select(0, i), byte_limit, put);
    return;
  }
  const auto step = static_cast<int64_t>(byte_limit / row_bytes);
  for (int64_t i = 0; i < rows; i += step) put_elements(t.narrow(0, i, std::min(step, rows - i)), byte_limit, put);
}

std::vector<TensorEntry> entries_of(const TensorMap& tensors, const Aliases& aliases) {
  std::vector<TensorEntry> out;
  for (const auto& [name, t] : tensors) {
    if (!aliases.contains(name)) out.push_back({name, t.dtype(), t.shape()});
  }
  return out;
}

SavePlan plan_of(const TensorMap& tensors, const Metadata& metadata, const SaveOptions& options, const char* op,
                 Location where) {
  const std::vector<NamedTensor> named(tensors.begin(), tensors.end());
  const Aliases aliases = checked_aliases(named, options.tie, op, where);
  return SavePlan(entries_of(tensors, aliases), metadata, aliases, op, where);
}

TensorSource source_of(const TensorMap& tensors) {
  return [&tensors](const std::string& name) { return tensors.at(name); };
}

}  // namespace

Aliases checked_aliases(std::span<const NamedTensor> tensors, Tie tie, const char* op, Location where) {
  check_tensors(tensors, op, where);
  Aliases aliases;
  if (tie == Tie::alias) aliases = aliases_among(tensors);
  check_unshared(tensors, aliases, op, where);
  return aliases;
}

SavePlan::SavePlan(const std::vector<TensorEntry>& entries, const Metadata& metadata, const Aliases& aliases,
                   const char* op, Location where)
    : op_(op) {
  const auto refuse = [&](const std::string& name, const char* problem) {
    raise<ValueError>({.op = op, .problem = fmt::format("\"{}\" {}", name, problem)}, where);
  };
  Metadata told = metadata;
  for (const auto& [key, value] : metadata) {
    if (key.starts_with(alias_prefix)) refuse(key, "is metadata that the aliases are recorded in");
  }
  for (const auto& [alias, kept] : aliases) told.emplace(std::string(alias_prefix) + alias, kept);
  for (const TensorEntry& e : entries) entries_.push_back({e.name, {e.dtype, e.shape, 0, 0}});
  std::ranges::sort(entries_, {}, [](const HeaderEntry& e) {
    return std::tuple<int64_t, const std::string&>(-itemsize(e.info.dtype), e.name);
  });
  Checked at = 0;
  for (HeaderEntry& e : entries_) {
    if (e.name == "__metadata__") refuse(e.name, "is a name that the format keeps for itself");
    e.info.begin = static_cast<size_t>(at.value());
    at += contiguous_layout(e.info.shape, e.info.dtype).numel * itemsize(e.info.dtype);
    if (!at.fits()) raise<ShapeError>({.op = op, .problem = "the tensors have more than 2^63 - 1 bytes"}, where);
    e.info.end = static_cast<size_t>(at.value());
  }
  std::vector<const std::string*> names;
  for (const HeaderEntry& e : entries_) names.push_back(&e.name);
  const auto text = [](const std::string* name) -> const std::string& { return *name; };
  std::ranges::sort(names, {}, text);
  const auto twice = std::ranges::adjacent_find(names, {}, text);
  if (twice != names.end()) refuse(**twice, "occurs twice");
  header_ = header_text(entries_, told, op, where);
}

Tensor SavePlan::checked(const HeaderEntry& entry, Tensor tensor, Location where) const {
  check_tensors(std::vector<NamedTensor>{{entry.name, tensor}}, op_, where);
  if (tensor.dtype() != entry.info.dtype) {
    raise<DTypeError>({.op = op_,
                       .problem = fmt::format("\"{}\" is {}, {} was announced", entry.name, name(tensor.dtype()),
                                              name(entry.info.dtype))},
                      where);
  }
  if (tensor.shape() != entry.info.shape) {
    raise<ShapeError>({.op = op_,
                       .problem = fmt::format("\"{}\" has the shape {}, {} was announced", entry.name,
                                              tensor.shape().text(), entry.info.shape.text())},
                      where);
  }
  return tensor;
}

std::string SavePlan::place_of(size_t byte) const {
  const size_t start = sizeof(uint64_t) + header_.size();
  if (byte < start) return "in the header";
  const auto found =
      std::ranges::upper_bound(entries_, byte - start, {}, [](const HeaderEntry& e) { return e.info.end; });
  return found == entries_.end() ? "at the end" : fmt::format("in tensor \"{}\"", found->name);
}

void SavePlan::write(const TensorSource& source, size_t buffer_bytes, const Callback<void(const void*, size_t)>& put,
                     Location where) const {
  constexpr size_t least = 4096;
  const NoGradGuard unrecorded;
  const uint64_t length = header_.size();
  put(&length, sizeof(length));
  put(header_.data(), header_.size());
  for (const HeaderEntry& e : entries_) {
    put_elements(checked(e, source(e.name), where), std::max(buffer_bytes, least), put);
  }
}

void SavePlan::write(const TensorSource& source, size_t buffer_bytes, AtomicFile& file, Location where) const {
  file.tell_places([this](size_t byte) { return place_of(byte); });
  write(
      source, buffer_bytes, [&](const void* data, size_t bytes) { file.write(data, bytes); }, where);
  file.flush();
  file.tell_places({});
}

// ---- streams --------------------------------------------------------------------------------------------------------

class StreamWriter {
 public:
  StreamWriter(std::ostream& out, const SavePlan& plan, Location where) : out_(out), plan_(plan), where_(where) {}

  void write(const TensorSource& source, size_t buffer_bytes) {
    plan_.write(
        source, buffer_bytes, [this](const void* data, size_t bytes) { put(data, bytes); }, where_);
    bool flushed = false;
    try {
      flushed = static_cast<bool>(out_.flush());
    } catch (const std::ios_base::failure&) {
    }
    if (!flushed) fail();
  }

 private:
  void put(const void* data, size_t bytes) {
    std::streamsize done = 0;
    const auto wanted = static_cast<std::streamsize>(bytes);
    try {
      if (out_.good()) done = out_.rdbuf()->sputn(static_cast<const char*>(data), wanted);
    } catch (const std::ios_base::failure&) {
    }
    written_ += static_cast<size_t>(std::max<std::streamsize>(done, 0));
    if (done != wanted) fail();
  }
  [[noreturn]] void fail() {
    try {
      out_.setstate(std::ios_base::badbit);
    } catch (const std::ios_base::failure&) {
    }
    raise<IoError>({.op = plan_.op_,
                    .problem = fmt::format("the stream failed at byte {}, {}", written_, plan_.place_of(written_))},
                   where_);
  }

  std::ostream& out_;
  const SavePlan& plan_;
  Location where_;
  size_t written_ = 0;
};

void save_stream(std::ostream& out, const TensorMap& tensors, const Metadata& metadata, const SaveOptions& options,
                 Location where) {
  const SavePlan plan = plan_of(tensors, metadata, options, "save_stream", where);
  StreamWriter(out, plan, where).write(source_of(tensors), options.buffer_bytes);
}

void save_stream(std::ostream& out, const std::vector<TensorEntry>& entries, const TensorSource& source,
                 const Metadata& metadata, const SaveOptions& options, Location where) {
  const SavePlan plan(entries, metadata, {}, "save_stream", where);
  StreamWriter(out, plan, where).write(source, options.buffer_bytes);
}

// ---- files ----------------------------------------------------------------------------------------------------------

void save_file(const TensorMap& tensors, const Path& path, const Metadata& metadata, const SaveOptions& options,
               Location where) {
  const SavePlan plan = plan_of(tensors, metadata, options, "save_file", where);
  AtomicFile file(path, "save_file", where);
  plan.write(source_of(tensors), options.buffer_bytes, file, where);
  file.commit();
}

void save_file(const std::vector<TensorEntry>& entries, const TensorSource& source, const Path& path,
               const Metadata& metadata, const SaveOptions& options, Location where) {
  const SavePlan plan(entries, metadata, {}, "save_file", where);
  AtomicFile file(path, "save_file", where);
  plan.write(source, options.buffer_bytes, file, where);
  file.commit();
}

}  // namespace weft::io
