// Archives. The file is "weft-torch-archive 1\n" and the entries of the outermost archive: their number, and for each
// its name, the kind of its value and the value. Numbers are little-endian and of 64 bits.
#include <torch/serialize.h>
#include <torch/serialize/archive.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace torch::serialize {

namespace {
constexpr std::string_view magic = "weft-torch-archive 1\n";
enum class Kind : char { tensor = 't', undefined = 'u', value = 'v', archive = 'a' };
enum class Type : char {
  none = 'n',
  real = 'd',
  whole = 'i',
  boolean = 'b',
  text = 's',
  wholes = 'I',
  reals = 'D',
  tensor = 't'
};
}  // namespace

struct OutputArchive::Entries {
  struct Entry {
    c10::IValue value;
    std::shared_ptr<Entries> archive;  ///< instead of the value
  };
  OrderedDict<std::string, Entry> all;
};

namespace {

// ---- bytes ----
class Writer {
 public:
  std::string bytes{magic};
  template <class T>
  void number(T value) {
    bytes.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  void text(const std::string& value) {
    number(static_cast<int64_t>(value.size()));
    bytes += value;
  }
  void tensor(const Tensor& tensor) {
    const Tensor host = tensor.detach().cpu().contiguous();
    number(static_cast<int64_t>(host.scalar_type().value));
    number(host.dim());
    for (int64_t n : host.sizes()) number(n);
    number(static_cast<int64_t>(tensor.requires_grad()));
    bytes.append(static_cast<const char*>(host.data_ptr()), host.nbytes());
  }
  void value(const c10::IValue& value) {
    const auto put = [&](Type type) { bytes += static_cast<char>(type); };
    if (value.isNone()) return put(Type::none);
    if (value.isDouble()) return put(Type::real), number(value.toDouble());
    if (value.isInt()) return put(Type::whole), number(value.toInt());
    if (value.isBool()) return put(Type::boolean), number(static_cast<int64_t>(value.toBool()));
    if (value.isString()) return put(Type::text), text(value.toStringRef());
    if (value.isTensor()) return put(Type::tensor), tensor(value.toTensor());
    if (value.isIntList()) {
      put(Type::wholes);
      list(value.toIntVector());
      return;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(value.isDoubleList(), "archives cannot hold a value of type ", value.tagKind());
    put(Type::reals);
    list(value.toDoubleVector());
  }

 private:
  template <class T>
  void list(const std::vector<T>& values) {
    number(static_cast<int64_t>(values.size()));
    for (T v : values) number(v);
  }
};

[[noreturn]] void raise_format(const char* problem) {
  throw weft::FormatError(std::string("[InputArchive] ") + problem +
                          "\n  TorchScript archives are not read: save the weights with torch.save and read them with "
                          "weft::io (docs/from_pytorch.md)");
}

class Reader {
 public:
  Reader(const char* data, size_t size, optional<Device> device) : data_(data), left_(size), device_(device) {
    if (size < magic.size() || std::string_view(data, magic.size()) != magic) raise_format("not an archive of Weft");
    skip(magic.size());
  }
  template <class T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof(T)), sizeof(T));
    return value;
  }
  std::string text() {
    const size_t n = count();
    return std::string(take(n), n);
  }
  char letter() { return *take(1); }
  Tensor tensor() {
    const auto dtype = number<int64_t>();
    if (dtype < 0 || dtype >= weft::dtype_count) raise_format("unknown dtype");
    const size_t rank = count();
    if (rank > static_cast<size_t>(weft::max_rank)) raise_format("too many dimensions");
    weft::Dims shape;
    for (size_t i = 0; i < rank; ++i) shape.push_back(static_cast<int64_t>(count()));
    const bool trains = number<int64_t>() != 0;
    const auto type = static_cast<weft::DType>(dtype);
    const int64_t elements = shape.product();
    if (elements > static_cast<int64_t>(left_) / weft::itemsize(type)) raise_format("truncated tensor");
    const weft::NoGradGuard unrecorded;
    Tensor result = at::empty(shape, ScalarType(type));
    const size_t bytes = result.nbytes();
    if (bytes > 0) std::memcpy(result.data_ptr(), take(bytes), bytes);
    if (device_) result = result.to(*device_);
    return result.set_requires_grad(trains);
  }
  c10::IValue value() {
    switch (static_cast<Type>(letter())) {
      case Type::none:
        return {};
      case Type::real:
        return number<double>();
      case Type::whole:
        return number<int64_t>();
      case Type::boolean:
        return number<int64_t>() != 0;
      case Type::text:
        return text();
      case Type::tensor:
        return tensor();
      case Type::wholes:
        return list<int64_t>();
      case Type::reals:
        return list<double>();
    }
    raise_format("unknown type of a value");
  }

 private:
  template <class T>
  std::vector<T> list() {
    std::vector<T> values(std::min(count(), left_ / sizeof(T) + 1));
    for (T& v : values) v = number<T>();
    return values;
  }
  size_t count() {
    const auto n = number<int64_t>();
    if (n < 0) raise_format("negative size");
    return static_cast<size_t>(n);
  }
  const char* take(size_t n) {
    if (n > left_) raise_format("truncated archive");
    const char* at = data_;
    skip(n);
    return at;
  }
  void skip(size_t n) {
    data_ += n;
    left_ -= n;
  }

  const char* data_;
  size_t left_;
  optional<Device> device_;
};

}  // namespace

// ---- OutputArchive ----
OutputArchive::OutputArchive() : entries_(std::make_shared<Entries>()) {}
OutputArchive::OutputArchive(OutputArchive&&) noexcept = default;
OutputArchive& OutputArchive::operator=(OutputArchive&&) noexcept = default;
OutputArchive::~OutputArchive() = default;

void OutputArchive::write(const std::string& key, const c10::IValue& value) {
  entries_->all.insert(key, Entries::Entry{value, nullptr});
}
void OutputArchive::write(const std::string& key, const Tensor& tensor, bool) { write(key, c10::IValue(tensor)); }
void OutputArchive::write(const std::string& key, OutputArchive& nested_archive) {
  entries_->all.insert(key, Entries::Entry{{}, nested_archive.entries_});
}

namespace {

template <class Entries>
void write_entries(Writer& out, const Entries& entries) {
  out.number(static_cast<int64_t>(entries.all.size()));
  for (const auto& item : entries.all) {
    out.text(item.key());
    if (item->archive != nullptr) {
      out.bytes += static_cast<char>(Kind::archive);
      write_entries(out, *item->archive);
    } else if (item->value.isTensor() && !item->value.toTensor().defined()) {
      out.bytes += static_cast<char>(Kind::undefined);
    } else {
      out.bytes += static_cast<char>(Kind::value);
      out.value(item->value);
    }
  }
}

template <class Entries>
void read_entries(Reader& in, Entries& entries, int depth) {
  if (depth > 1000) raise_format("archives are nested too deeply");
  const auto count = in.number<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    const std::string name = in.text();
    typename Entries::Entry entry;
    switch (static_cast<Kind>(in.letter())) {
      case Kind::archive:
        entry.archive = std::make_shared<Entries>();
        read_entries(in, *entry.archive, depth + 1);
        break;
      case Kind::undefined:
        entry.value = Tensor();
        break;
      case Kind::value:
        entry.value = in.value();
        break;
      default:
        raise_format("unknown kind of an entry");
    }
    entries.all.insert(name, std::move(entry));
  }
}

}  // namespace

void OutputArchive::save_to(const std::function<size_t(const void*, size_t)>& func) {
  Writer out;
  write_entries(out, *entries_);
  func(out.bytes.data(), out.bytes.size());
}
void OutputArchive::save_to(std::ostream& stream) {
  save_to([&](const void* data, size_t size) {
    stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    if (!stream) throw weft::IoError("[OutputArchive] the stream rejected the bytes");
    return size;
  });
}
void OutputArchive::save_to(const std::string& filename) {
  std::ofstream file(filename, std::ios::binary);
  if (!file) throw weft::IoError("[OutputArchive] cannot write " + filename);
  save_to(file);
  file.close();
  if (!file) throw weft::IoError("[OutputArchive] cannot write " + filename);
}

// ---- InputArchive ----
InputArchive::InputArchive() : entries_(std::make_shared<OutputArchive::Entries>()) {}
InputArchive::InputArchive(InputArchive&&) noexcept = default;
InputArchive& InputArchive::operator=(InputArchive&&) noexcept = default;
InputArchive::~InputArchive() = default;

bool InputArchive::try_read(const std::string& key, c10::IValue& value) {
  const auto* entry = entries_->all.find(key);
  if (entry == nullptr || entry->archive != nullptr) return false;
  value = entry->value;
  return true;
}
bool InputArchive::try_read(const std::string& key, Tensor& tensor, bool) {
  c10::IValue value;
  if (!try_read(key, value) || !value.isTensor()) return false;
  const Tensor& found = value.toTensor();
  if (!tensor.defined() || !found.defined()) {
    tensor = found;
    return true;
  }
  const NoGradGuard unrecorded;
  const Tensor data = found.detach();
  if (tensor.sizes() != data.sizes() || tensor.scalar_type() != data.scalar_type()) {
    tensor.set_data(data.to(tensor.device(), data.scalar_type()));
  } else {
    tensor.copy_(data);
  }
  return true;
}
bool InputArchive::try_read(const std::string& key, InputArchive& archive) {
  const auto* entry = entries_->all.find(key);
  if (entry == nullptr || entry->archive == nullptr) return false;
  archive.entries_ = entry->archive;
  archive.path_ = path_ + key + ".";
  return true;
}
void InputArchive::read(const std::string& key, c10::IValue& value) {
  TORCH_CHECK(try_read(key, value), "No such serialized IValue '", path_, key, "'");
}
void InputArchive::read(const std::string& key, Tensor& tensor, bool is_buffer) {
  TORCH_CHECK(try_read(key, tensor, is_buffer), "No such serialized tensor '", path_, key, "'");
}
void InputArchive::read(const std::string& key, InputArchive& archive) {
  TORCH_CHECK(try_read(key, archive), "No such serialized submodule: '", path_, key, "'");
}
std::vector<std::string> InputArchive::keys() { return entries_->all.keys(); }

void InputArchive::load_from(const char* data, size_t size, optional<Device> device) {
  Reader in(data, size, device);
  entries_ = std::make_shared<OutputArchive::Entries>();
  read_entries(in, *entries_, 0);
}
void InputArchive::load_from(std::istream& stream, optional<Device> device) {
  const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  load_from(bytes.data(), bytes.size(), device);
}
void InputArchive::load_from(const std::string& filename, optional<Device> device) {
  std::ifstream file(filename, std::ios::binary);
  if (!file) throw weft::IoError("[InputArchive] cannot read " + filename);
  load_from(file, device);
}
void InputArchive::load_from(const std::function<size_t(uint64_t, void*, size_t)>& read_func,
                             const std::function<size_t()>& size_func, optional<Device> device) {
  std::string bytes(size_func(), '\0');
  read_func(0, bytes.data(), bytes.size());
  load_from(bytes.data(), bytes.size(), device);
}

namespace detail {
OutputArchive& write_tensor(OutputArchive& archive, const Tensor& tensor) {
  archive.write("0", tensor);
  return archive;
}
InputArchive& read_tensor(InputArchive& archive, Tensor& tensor) {
  archive.read("0", tensor);
  return archive;
}
}  // namespace detail

}  // namespace torch::serialize
