// OutputArchive and InputArchive. The file is the one of a TorchScript module without code: a zip archive with the
// attributes in data.pkl, the class of each (nested) archive in code/, and the storages in data/.
#include <torch/serialize.h>

#include <iterator>

#include "../../io/archive/pickle_writer-inl.hpp"
#include "../../io/archive/pt_read-inl.hpp"
#include "../../io/file.hpp"
#include "values.h"

namespace torch::serialize {

struct OutputArchive::Entries {
  struct Entry {
    c10::IValue value;
    std::shared_ptr<Entries> archive;  ///< instead of the value
    bool is_buffer = false;
  };
  OrderedDict<std::string, Entry> all;
};

namespace {

constexpr const char* save_op = "torch::save";
constexpr const char* load_op = "torch::load";
constexpr const char* root = "archive";

void add_item(std::vector<weft::io::ZipItem>& items, const char* name, std::string bytes) {
  items.push_back({std::string(root) + name, std::move(bytes), {}});
}
/// Adds the entries of every archive that libtorch writes since 1.6.
void add_format(std::vector<weft::io::ZipItem>& items) {
  add_item(items, "/version", "3\n");
  add_item(items, "/byteorder", "little");
}

/// A text of Python's source.
std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    TORCH_CHECK_VALUE(static_cast<unsigned char>(c) >= ' ', "the key of an archive has a control character");
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out + '"';
}

/// Writes each archive as an object of a class of its own, since the classes declare the attributes.
class ScriptWriter {
 public:
  template <class Entries>
  std::vector<weft::io::ZipItem> items(const Entries& entries) && {
    object(entries);
    std::vector<weft::io::ZipItem> out = std::move(pickle_).items(root);
    add_item(out, "/code/__torch__.py", std::move(code_));
    add_item(out, "/constants.pkl", std::string("\x80\x02).", 4));
    add_format(out);
    return out;
  }

 private:
  template <class Entries>
  std::string object(const Entries& entries) {
    const std::string name = classes_ == 0 ? "Module" : "Module" + std::to_string(classes_);
    ++classes_;
    std::string parameters, buffers, attributes;
    pickle_.begin_object("__torch__", name);
    for (const auto& item : entries.all) {
      const std::string key = quoted(item.key());
      pickle_.string(item.key());
      std::string type;
      if (item->archive != nullptr) {
        type = "__torch__." + object(*item->archive);
      } else {
        type = detail::type_of(item->value);
        detail::write(pickle_, item->value, save_op);
        if (item->value.isTensor()) (item->is_buffer ? buffers : parameters) += key + ", ";
      }
      attributes += "  __annotations__[" + key + "] = " + type + "\n";
    }
    pickle_.end_object();
    code_ += "class " + name + "(Module):\n  __parameters__ = [" + parameters + "]\n  __buffers__ = [" + buffers +
             "]\n  __annotations__ = []\n" + attributes;
    return name;
  }

  weft::io::PickleWriter pickle_;
  std::string code_;
  int classes_ = 0;
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
void OutputArchive::write(const std::string& key, const Tensor& tensor, bool is_buffer) {
  entries_->all.insert(key, Entries::Entry{tensor, nullptr, is_buffer});
}
void OutputArchive::write(const std::string& key, OutputArchive& nested_archive) {
  entries_->all.insert(key, Entries::Entry{{}, nested_archive.entries_});
}

void OutputArchive::save_to(const std::string& filename) {
  weft::io::write_zip(filename, ScriptWriter().items(*entries_), /*compressed=*/false, save_op, {});
}
void OutputArchive::save_to(const std::function<size_t(const void*, size_t)>& func) {
  const std::string bytes = weft::io::zip_bytes(ScriptWriter().items(*entries_), /*compressed=*/false, save_op, {});
  if (func(bytes.data(), bytes.size()) != bytes.size())
    throw weft::IoError("[torch::save] the writer wrote too little");
}
void OutputArchive::save_to(std::ostream& stream) {
  save_to([&](const void* data, size_t size) {
    stream.write(static_cast<const char*>(data), static_cast<std::streamsize>(size));
    return stream ? size : 0;
  });
}

// ---- InputArchive ----
struct InputArchive::Object {
  weft::io::PtValue value;
};

InputArchive::InputArchive() = default;
InputArchive::InputArchive(InputArchive&&) noexcept = default;
InputArchive& InputArchive::operator=(InputArchive&&) noexcept = default;
InputArchive::~InputArchive() = default;

namespace {
bool is_archive(const weft::io::PtValue& value) { return value.is(weft::io::PtValue::Kind::object); }

/// Returns null in an archive that nothing was loaded into.
template <class Object>
const weft::io::PtValue* find(const std::shared_ptr<Object>& object, const std::string& key) {
  return object ? object->value.find(key) : nullptr;
}

void check_archive(const weft::io::PtValue& value, const std::string& name) {
  if (is_archive(value)) return;
  throw weft::FormatError("[torch::load] the file holds no module of torch::save: " + name +
                          "\n  read files of Python's torch.save with torch::pickle_load");
}
}  // namespace

bool InputArchive::try_read(const std::string& key, c10::IValue& value) {
  const auto* found = find(object_, key);
  if (found == nullptr || is_archive(*found)) return false;
  value = detail::value_of(*found);
  return true;
}
bool InputArchive::try_read(const std::string& key, Tensor& tensor, bool) {
  const auto* found = find(object_, key);
  if (found == nullptr || !found->is(weft::io::PtValue::Kind::tensor)) return false;
  const Tensor saved = found->tensor();
  if (!tensor.defined()) {
    tensor = saved;
    return true;
  }
  const NoGradGuard unrecorded;
  const Tensor data = saved.detach();
  if (tensor.sizes() != data.sizes() || tensor.scalar_type() != data.scalar_type()) {
    tensor.set_data(data.to(tensor.device(), data.scalar_type()));
  } else {
    tensor.copy_(data);
  }
  return true;
}
bool InputArchive::try_read(const std::string& key, InputArchive& archive) {
  const auto* found = find(object_, key);
  if (found == nullptr || !is_archive(*found)) return false;
  archive.object_ = std::make_shared<Object>(Object{*found});
  archive.path_ = path_ + key + ".";
  return true;
}
void InputArchive::read(const std::string& key, c10::IValue& value) {
  TORCH_CHECK(try_read(key, value), "The archive does not have a field with name '", path_, key, "'");
}
void InputArchive::read(const std::string& key, Tensor& tensor, bool is_buffer) {
  TORCH_CHECK(try_read(key, tensor, is_buffer), "No such serialized tensor '", path_, key, "'");
}
void InputArchive::read(const std::string& key, InputArchive& archive) {
  TORCH_CHECK(try_read(key, archive), "No such serialized submodule: '", path_, key, "'");
}
std::vector<std::string> InputArchive::keys() {
  std::vector<std::string> out;
  if (!object_) return out;
  for (const weft::io::PtEntry& entry : object_->value.entries()) out.push_back(entry.key.string());
  return out;
}

void InputArchive::load_from(const char* data, size_t size, optional<Device> device) {
  const weft::CallScope call(load_op, {});
  const weft::io::ZipReader archive({reinterpret_cast<const std::byte*>(data), size}, "bytes in memory", load_op, {});
  weft::io::PtValue value = weft::io::read_pt(archive, device.value_or(kCPU), /*script=*/true);
  check_archive(value, archive.path());
  object_ = std::make_shared<Object>(Object{std::move(value)});
}
void InputArchive::load_from(const std::string& filename, optional<Device> device) {
  const weft::CallScope call(load_op, {});
  weft::io::PtValue value = weft::io::read_checked(load_op, {}, [&] {
    return weft::io::read_pt(weft::io::ZipReader(filename, load_op, {}), device.value_or(kCPU), /*script=*/true);
  });
  check_archive(value, filename);
  object_ = std::make_shared<Object>(Object{std::move(value)});
}
void InputArchive::load_from(std::istream& stream, optional<Device> device) {
  const std::string bytes{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  load_from(bytes.data(), bytes.size(), device);
}
void InputArchive::load_from(const std::function<size_t(uint64_t, void*, size_t)>& read_func,
                             const std::function<size_t()>& size_func, optional<Device> device) {
  std::string bytes(size_func(), '\0');
  for (size_t at = 0; at < bytes.size();) {
    const size_t got = read_func(at, bytes.data() + at, bytes.size() - at);
    if (got == 0 || got > bytes.size() - at) {
      throw weft::IoError("[torch::load] the reader returned " + std::to_string(got) + " bytes at " +
                          std::to_string(at) + " of " + std::to_string(bytes.size()));
    }
    at += got;
  }
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

namespace torch {

std::vector<char> pickle_save(const c10::IValue& ivalue) {
  weft::io::PickleWriter pickle;
  serialize::detail::write(pickle, ivalue, "torch::pickle_save");
  std::vector<weft::io::ZipItem> items = std::move(pickle).items(serialize::root);
  serialize::add_format(items);
  const std::string bytes = weft::io::zip_bytes(items, /*compressed=*/false, "torch::pickle_save", {});
  return {bytes.begin(), bytes.end()};
}
c10::IValue pickle_load(const std::vector<char>& data) {
  const weft::CallScope call("torch::pickle_load", {});
  const weft::io::ZipReader archive(std::as_bytes(std::span(data)), "bytes in memory", "torch::pickle_load", {});
  return serialize::detail::value_of(weft::io::read_pt(archive, {}, /*script=*/true));
}

}  // namespace torch
