#include "pickle_writer-inl.hpp"

#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/error.hpp"
#include "pickle_names-inl.hpp"

namespace weft::io {

namespace {

// Little-endian.
template <class T>
void append(std::string& bytes, T value) {
  bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

bool has_negative_stride(const Tensor& tensor) {
  for (const int64_t stride : tensor.strides()) {
    if (stride < 0) return true;
  }
  return false;
}

}  // namespace

void PickleWriter::integer(int64_t value) {
  if (value >= 0 && value <= UINT8_MAX) {
    bytes_ += 'K';
    append(bytes_, static_cast<uint8_t>(value));
  } else if (value >= INT32_MIN && value <= INT32_MAX) {
    bytes_ += 'J';
    append(bytes_, static_cast<int32_t>(value));
  } else {
    bytes_ += "\x8a\x08";
    append(bytes_, value);
  }
}
void PickleWriter::floating(double value) {
  bytes_ += 'G';
  append(bytes_, __builtin_bswap64(std::bit_cast<uint64_t>(value)));
}
void PickleWriter::string(std::string_view value) {
  bytes_ += 'X';
  append(bytes_, static_cast<uint32_t>(value.size()));
  bytes_ += value;
}
void PickleWriter::global(std::string_view module, std::string_view name) {
  bytes_ += fmt::format("c{}\n{}\n", module, name);
}
void PickleWriter::begin_object(std::string_view module, std::string_view name) {
  global(module, name);
  bytes_ += ")\x81}(";
}
void PickleWriter::begin_call(std::string_view module, std::string_view name) {
  global(module, name);
  bytes_ += '(';
}

// Returns the number of the whole storage of the tensor among the storages.
size_t PickleWriter::storage_of(const Tensor& tensor, Location where) {
  for (size_t i = 0; i < storages_.size(); ++i) {
    if (storages_[i].dtype() == tensor.dtype() && storages_[i].shares_storage(tensor)) return i;
  }
  const auto elements = static_cast<int64_t>(tensor.impl()->storage->bytes) / tensor.itemsize();
  storages_.push_back(tensor.as_strided({elements}, {1}, 0, where));
  return storages_.size() - 1;
}

void PickleWriter::tensor(const Tensor& tensor, const char* op, Location where) {
  const NoGradGuard unrecorded;
  const std::string_view type = pickle::storage_class(tensor.dtype());
  if (type.empty()) {
    raise<DTypeError>({.op = op, .problem = fmt::format("PyTorch has no storage class for {}", name(tensor.dtype()))},
                      where);
  }
  const Tensor data = has_negative_stride(tensor) ? tensor.clone(where).detach(where) : tensor.detach(where);
  const size_t storage = storage_of(data, where);
  const auto dims = [&](const auto& values) {
    begin_tuple();
    for (const int64_t value : values) integer(value);
    end_tuple();
  };
  begin_call("torch._utils", "_rebuild_tensor_v2");
  begin_tuple();
  string("storage");
  global("torch", type);
  string(std::to_string(storage));
  string("cpu");
  integer(storages_[storage].numel());
  end_tuple();
  bytes_ += 'Q';
  integer(data.storage_offset(where));
  dims(data.sizes());
  dims(data.strides());
  boolean(tensor.requires_grad());
  begin_call("collections", "OrderedDict");
  end_call();
  end_call();
}

std::vector<ZipItem> PickleWriter::items(const std::string& root) && {
  std::vector<ZipItem> out;
  out.push_back({root + "/data.pkl", std::move(bytes_) + '.', {}});
  for (size_t i = 0; i < storages_.size(); ++i) {
    out.push_back({fmt::format("{}/data/{}", root, i), {}, std::move(storages_[i])});
  }
  return out;
}

}  // namespace weft::io
