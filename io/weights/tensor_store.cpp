#include "../tensor_store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/shortened.hpp"
#include "../file.hpp"
#include "box-inl.hpp"

namespace weft::io {

void check_box(const std::string& name, const Dims& shape, const Dims& starts, const Dims& ends, Location where) {
  const int rank = shape.size();
  if (starts.size() != rank || ends.size() != rank) {
    raise<ShapeError>({.op = "get_slice",
                       .problem = fmt::format("{} starts and {} ends for \"{}\" of shape {}", starts.size(),
                                              ends.size(), name, shape.text())},
                      where);
  }
  for (int d = 0; d < rank; ++d) {
    if (starts[d] >= 0 && starts[d] <= ends[d] && ends[d] <= shape[d]) continue;
    raise<IndexError>({.op = "get_slice",
                       .problem = fmt::format("[{}, {}) is no part of dimension {} of \"{}\", whose shape is {}",
                                              starts[d], ends[d], d, name, shape.text())},
                      where);
  }
}

Tensor part_of(Tensor tensor, const Box& box, Location where) {
  for (int d = 0; d < box.rank(); ++d) {
    if (box.size(d) != tensor.size(d)) tensor = tensor.narrow(d, box.starts[d], box.size(d), where);
  }
  return tensor;
}

struct TensorStore::Contents {
  Entries entries;
  Reader read;
};

TensorStore::TensorStore() : TensorStore(Entries(), Reader()) {}

TensorStore::TensorStore(Entries entries, Reader read, Location where) {
  for (const auto& [name, info] : entries) {
    Layout layout;
    if (set_contiguous(layout, info.shape, itemsize(info.dtype))) continue;
    raise<ShapeError>(
        {.op = "TensorStore", .problem = fmt::format("\"{}\" cannot have the shape {}", name, info.shape.text())},
        where);
  }
  contents_ = Shared<Contents>::make(std::move(entries), std::move(read));
}

namespace {

TensorStore::Entries entries_of(const SafeFile& file) {
  TensorStore::Entries out;
  for (const std::string& name : file.keys())
    out.emplace(name, TensorStore::Info{file.info(name).dtype, file.info(name).shape});
  return out;
}

TensorStore::Entries entries_of(const TensorMap& tensors, Location where) {
  TensorStore::Entries out;
  for (const auto& [name, t] : tensors) {
    const char* problem = !t.defined() ? "is undefined" : t.device().type == DeviceType::meta ? "is on meta" : nullptr;
    if (problem != nullptr) {
      raise<ValueError>({.op = "TensorStore", .problem = fmt::format("\"{}\" {}", name, problem)}, where);
    }
    out.emplace(name, TensorStore::Info{t.dtype(), t.shape()});
  }
  return out;
}

}  // namespace

TensorStore::TensorStore(const SafeFile& file, Location where)
    : TensorStore(
          entries_of(file),
          [file](const std::string& name, const Dims& starts, const Dims& ends, Location at) {
            return file.get_slice(name, starts, ends, {}, at);
          },
          where) {}

TensorStore::TensorStore(const TensorMap& tensors, Location where)
    : TensorStore(
          entries_of(tensors, where),
          [tensors](const std::string& name, const Dims& starts, const Dims& ends, Location at) {
            return part_of(tensors.at(name).detach(at), {starts, ends}, at);
          },
          where) {}

const TensorStore::Entries& TensorStore::entries() const { return contents_->entries; }

const TensorStore::Info& TensorStore::info(const std::string& name, Location where) const {
  const auto found = entries().find(name);
  if (found != entries().end()) return found->second;
  raise<KeyError>({.op = "TensorStore", .problem = fmt::format("no tensor \"{}\"", shortened(name, 200))}, where);
}

Tensor TensorStore::get(const std::string& name, Device device, Location where) const {
  const Dims& shape = info(name, where).shape;
  return get_slice(name, Dims::filled(shape.size(), 0), shape, device, where);
}

Tensor TensorStore::get_slice(const std::string& name, const Dims& starts, const Dims& ends, Device device,
                              Location where) const {
  const Info& info = this->info(name, where);
  check_box(name, info.shape, starts, ends, where);
  const NoGradGuard unrecorded;
  const Box box{starts, ends};
  const Tensor out = box.empty() ? empty(box.shape(), info.dtype, where) : contents_->read(name, starts, ends, where);
  return out.to(device, where);
}

Tensor TensorStore::copy(const std::string& name, Device device, Location where) const {
  return read_checked("TensorStore", where, [&] {
    const Tensor out = get(name, device, where);
    const bool alone = out.is_contiguous() && exclusively_owned(out.impl());
    const NoGradGuard unrecorded;
    return alone ? out : out.clone(where);
  });
}

TensorMap TensorStore::tensors(Device device, Location where) const {
  TensorMap out;
  for (const auto& [name, info] : entries()) out.emplace(name, copy(name, device, where));
  return out;
}

TensorStore TensorStore::only(const Callback<bool(const std::string& name)>& wanted) const {
  Entries kept;
  for (const auto& entry : entries()) {
    if (wanted(entry.first)) kept.insert(entry);
  }
  return TensorStore(std::move(kept), contents_->read);
}

std::vector<TensorEntry> TensorStore::list() const {
  std::vector<TensorEntry> out;
  for (const auto& [name, info] : entries()) out.push_back({name, info.dtype, info.shape});
  return out;
}

TensorSource TensorStore::source() const {
  return [store = *this](const std::string& name) { return store.get(name); };
}

// ---- loading into existing tensors ----------------------------------------------------------------------------------

namespace {

constexpr const char* loader = "load_into";

[[noreturn]] void refuse_names(const char* problem, const std::vector<std::string>& names, Location where) {
  raise<KeyError>(
      {.op = loader, .problem = fmt::format("{}: {}", problem, shortened(fmt::format("{}", fmt::join(names, ", "))))},
      where);
}

}  // namespace

void load_into(const TensorMap& destinations, const TensorStore& store, bool strict, Location where) {
  std::vector<std::string> missing, unexpected;
  for (const auto& [name, t] : destinations) {
    if (!t.defined()) raise<ValueError>({.op = loader, .problem = fmt::format("\"{}\" is undefined", name)}, where);
    const auto found = store.entries().find(name);
    if (found == store.entries().end()) {
      missing.push_back(name);
    } else if (!(found->second.shape == t.shape())) {
      raise<ShapeError>({.op = loader,
                         .problem = fmt::format("\"{}\" has the shape {}, what is loaded {}", name, t.shape().text(),
                                                found->second.shape.text())},
                        where);
    }
  }
  for (const auto& entry : store.entries()) {
    if (!destinations.contains(entry.first)) unexpected.push_back(entry.first);
  }
  if (!missing.empty()) refuse_names("nothing is loaded into", missing, where);
  if (strict && !unexpected.empty()) refuse_names("no destination has the name", unexpected, where);
  const NoGradGuard unrecorded;
  const ReadScope reading;
  for (const auto& [name, t] : destinations) t.copy_(store.get(name, t.device(), where), where);
  reading.check(loader, where);
}

}  // namespace weft::io
