#include "../pt.hpp"

#include <algorithm>
#include <cstring>
#include <memory>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/error.hpp"
#include "../file.hpp"
#include "pickle-inl.hpp"
#include "pt_read-inl.hpp"
#include "pt_storage-inl.hpp"
#include "pt_value-inl.hpp"
#include "../json/utf8-inl.hpp"
#include "zip-inl.hpp"

namespace weft::io {

using pickle::Global;
using pickle::Node;
using Part = pickle::Kind;

namespace {

constexpr int deepest = 256;
constexpr size_t longest_key = 200, key_repetitions = 64;

// Whether the bytes begin with the magic number of torch.save before 1.6.
bool is_legacy(std::span<const std::byte> bytes) {
  constexpr unsigned char magic[] = {0x80, 2, 0x8a, 10, 0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19};
  return bytes.size() >= sizeof(magic) && std::memcmp(bytes.data(), magic, sizeof(magic)) == 0;
}

// The root folder of the entries is the file's name or "archive".
std::string root_of(const ZipReader& archive, bool script) {
  constexpr std::string_view pickle = "/data.pkl";
  std::string root;
  for (const ZipEntry& entry : archive.entries()) {
    const std::string_view name = entry.name;
    if (!name.ends_with(pickle) || name.find('/') != name.size() - pickle.size()) continue;
    if (!root.empty()) archive.fail("two entries data.pkl");
    root = name.substr(0, name.size() - pickle.size());
  }
  if (root.empty()) archive.fail("no file of torch.save: the archive has no data.pkl");
  if (!script && archive.find(root + "/constants.pkl") != nullptr) {
    archive.fail("the file is a TorchScript program", "save its state_dict with torch.save");
  }
  return root;
}

}  // namespace

/// Builds values from a pickle's nodes. Shared nodes are built once.
class PtBuilder {
 public:
  PtBuilder(const pickle::Pickle& pickle, const pickle::Source& source, PtStorages& storages, size_t bytes)
      : pickle_(pickle),
        source_(source),
        storages_(storages),
        copies_left_(bytes),
        keys_left_(key_repetitions * bytes) {
    values_.resize(pickle.nodes.size());
    states_.resize(pickle.nodes.size(), State::unseen);
    for (const Node& n : pickle.nodes) {
      if (const Node* storage = storage_of(n)) storages_.expect(storage->text);
    }
  }
  PtValue build() { return value(pickle_.root); }

 private:
  enum class State : uint8_t { unseen, open, done };
  /// A step from a container to an element: a key or an index.
  struct Step {
    std::string_view text;
    int64_t index = 0;
  };
  using Contents = PtValue::Contents;

  const Node& node(uint32_t index) const { return pickle_.nodes[index]; }
  [[noreturn]] void fail(const Node& at, std::string problem) const {
    source_.fail(at.offset, path_.empty() ? std::move(problem) : fmt::format("{}: {}", key(), problem));
  }
  template <class E>
  [[noreturn]] void refuse(const std::string& problem) const {
    raise<E>({.op = source_.op, .problem = fmt::format("{} {}", key(), problem), .details = source_.path},
             source_.where);
  }
  // The path of the value, for errors.
  std::string key() const {
    std::string joined;
    for (const Step& step : path_) {
      if (step.text.data() == nullptr) joined += fmt::format("[{}]", step.index);
      else joined.append(joined.empty() ? "" : ".").append(step.text.substr(0, longest_key));
      if (joined.size() > longest_key) break;
    }
    return path_.empty() ? "the tensor" : quoted(joined);
  }
  // The storage argument of a call that rebuilds a tensor; null for other calls.
  const Node* storage_of(const Node& call) const {
    if (call.kind != Part::call || call.global < Global::rebuild_tensor || call.global > Global::rebuild_tensor_v3) {
      return nullptr;
    }
    const std::vector<uint32_t>& arguments = node(call.parts[0]).parts;
    const bool has = !arguments.empty() && node(arguments[0]).kind == Part::storage;
    return has ? &node(arguments[0]) : nullptr;
  }

  PtValue value(uint32_t index);
  PtValue typed(const Node& n);
  void fill(Contents& out, const Node& n);
  void add_items(Contents& out, const Node& n);
  void add_entries(Contents& out, const Node& n);
  PtValue child(uint32_t index, Contents& parent, Step step);
  void call(Contents& out, const Node& n);
  void add_set(Contents& out, const Node& n, const Node& argument);
  std::string latin1(const Node& n, const std::vector<uint32_t>& arguments);
  Tensor tensor(const Node& n, const std::vector<uint32_t>& arguments);
  Tensor parameter(const Node& n, const std::vector<uint32_t>& arguments);
  void check_extras(const Node& n, const std::vector<uint32_t>& arguments, size_t hooks, size_t metadata) const;
  Dims dims(const Node& call, const Node& n) const;
  void set_requires_grad(const Node& call, Tensor& t, bool on) const;
  void spend(size_t& left, const Node& n, size_t bytes) const {
    if (bytes > left) fail(n, "it repeats more than it has");
    left -= bytes;
  }
  void copy(const Node& n, size_t bytes) { spend(copies_left_, n, bytes); }

  const pickle::Pickle& pickle_;
  const pickle::Source& source_;
  PtStorages& storages_;
  /// Limits the total size of copied arguments, and of repeatedly compared keys, to that of the pickle. Otherwise a
  /// small file could use one text as the key of many dicts.
  size_t copies_left_, keys_left_;
  std::vector<PtValue> values_;
  std::vector<State> states_;
  std::vector<Step> path_;
  const PtStorages::Name name_ = [this] { return key(); };
  int depth_ = 0;
};

PtValue PtBuilder::value(uint32_t index) {
  const Node& n = node(index);
  if (states_[index] == State::done) return values_[index];
  if (states_[index] == State::open) fail(n, "a value contains itself");
  if (depth_ == deepest) fail(n, fmt::format("values are nested more than {} deep", deepest));
  states_[index] = State::open;
  ++depth_;
  if (n.kind == Part::call && n.global == Global::script_type) {
    values_[index] = typed(n);
  } else {
    auto contents = Shared<Contents>::make();
    fill(*contents, n);
    if (n.kind != Part::none) values_[index].contents_ = std::move(contents);
  }
  --depth_;
  states_[index] = State::done;
  return values_[index];
}

// A list or dict with the text of its TorchScript type.
PtValue PtBuilder::typed(const Node& n) {
  const std::vector<uint32_t>& arguments = node(n.parts[0]).parts;
  if (arguments.size() != 2 || node(arguments[1]).kind != Part::string) fail(n, "a type tag has the wrong arguments");
  PtValue out = value(arguments[0]);
  if (!out.is(PtValue::Kind::list) || !out.contents_->items.empty()) return out;
  auto contents = Shared<Contents>::make();
  contents->kind = PtValue::Kind::list;
  contents->text = node(arguments[1]).text;
  copy(n, contents->text.size());
  out.contents_ = std::move(contents);
  return out;
}

void PtBuilder::fill(Contents& out, const Node& n) {
  using Kind = PtValue::Kind;
  out.integer = n.integer;
  out.floating = n.floating;
  switch (n.kind) {
    case Part::none:
      break;
    case Part::boolean:
      out.kind = Kind::boolean;
      break;
    case Part::integer:
      out.kind = Kind::integer;
      break;
    case Part::floating:
      out.kind = Kind::floating;
      break;
    case Part::string:
    case Part::bytes:
      out.kind = n.kind == Part::string ? Kind::string : Kind::bytes;
      out.text = n.text;
      break;
    case Part::list:
    case Part::tuple:
      out.kind = n.kind == Part::list ? Kind::list : Kind::tuple;
      add_items(out, n);
      break;
    case Part::dict:
      out.kind = Kind::dict;
      add_entries(out, n);
      break;
    case Part::global:
      if (n.global != Global::dtype) fail(n, fmt::format("{} is no value", n.text));
      if (!n.dtype) refuse<DTypeError>(fmt::format("is {}, which Weft lacks", n.text));
      out.kind = Kind::dtype;
      out.dtype = *n.dtype;
      break;
    case Part::call:
      call(out, n);
      break;
    case Part::object:
      out.kind = Kind::object;
      if (n.parts.empty()) break;
      copy(n, node(n.parts[0]).parts.size());
      add_entries(out, node(n.parts[0]));
      break;
    case Part::storage:
      fail(n, "a storage without a tensor");
  }
}

PtValue PtBuilder::child(uint32_t index, Contents& parent, Step step) {
  path_.push_back(step);
  PtValue out = value(index);
  const int height = 1 + (out.contents_ ? out.contents_->height : 0);
  if (height > deepest) fail(node(index), fmt::format("values are nested more than {} deep", deepest));
  parent.height = std::max(parent.height, static_cast<uint16_t>(height));
  path_.pop_back();
  return out;
}

void PtBuilder::add_items(Contents& out, const Node& n) {
  for (size_t i = 0; i < n.parts.size(); ++i) {
    out.items.push_back(child(n.parts[i], out, {{}, static_cast<int64_t>(i)}));
  }
}

// As in Python, a repeated key keeps its position and gets the new value.
void PtBuilder::add_entries(Contents& out, const Node& n) {
  if (!n.parts.empty()) out.index = std::make_unique<Contents::Index>();
  for (size_t i = 0; i < n.parts.size(); i += 2) {
    const PtValue key = value(n.parts[i]);
    const bool text = key.is(PtValue::Kind::string), number = key.is(PtValue::Kind::integer);
    if (!text && !number && key.contents_ && (key.contents_->height != 0 || key.kind() > PtValue::Kind::bytes)) {
      fail(node(n.parts[i]), "a key of a dict is neither a text nor a number");
    }
    const Step step = {text ? std::string_view(key.contents_->text) : "…", number ? key.contents_->integer : 0};
    spend(keys_left_, n, step.text.size());
    const size_t next = out.entries.size();
    const size_t place = text     ? out.index->by_name.emplace(step.text, next).first->second
                         : number ? out.index->by_number.emplace(step.index, next).first->second
                                  : next;
    PtValue held = child(n.parts[i + 1], out, number ? Step{{}, step.index} : step);
    if (place == next) out.entries.push_back({key, std::move(held)});
    else out.entries[place].value = std::move(held);
  }
}

namespace {
const char* element_type(std::string_view builder) {
  if (builder == "build_intlist") return "List[int]";
  if (builder == "build_doublelist") return "List[float]";
  return builder == "build_boollist" ? "List[bool]" : "List[Tensor]";
}
}  // namespace

void PtBuilder::call(Contents& out, const Node& n) {
  using Kind = PtValue::Kind;
  const std::vector<uint32_t>& arguments = node(n.parts[0]).parts;
  const Node* sole_argument = arguments.size() == 1 ? &node(arguments[0]) : nullptr;
  switch (*n.global) {
    case Global::set:
      if (sole_argument == nullptr || sole_argument->kind != Part::list) fail(n, "a set is made of one list");
      return add_set(out, n, *sole_argument);
    case Global::bytes:
      if (!arguments.empty()) fail(n, "bytes are made with arguments");
      out.kind = Kind::bytes;
      return;
    case Global::encode:
      out.kind = Kind::bytes;
      out.text = latin1(n, arguments);
      return;
    case Global::script_list:
      if (sole_argument == nullptr || sole_argument->kind != Part::list) fail(n, fmt::format("{} has no list", n.text));
      copy(n, sole_argument->parts.size());
      out.kind = Kind::list;
      if (sole_argument->parts.empty()) out.text = element_type(n.text);
      return add_items(out, *sole_argument);
    case Global::size:
      if (sole_argument == nullptr || sole_argument->kind != Part::tuple) fail(n, "a torch.Size is made of one tuple");
      copy(n, sole_argument->parts.size());
      out.kind = Kind::tuple;
      return add_items(out, *sole_argument);
    case Global::device: {
      const bool indexed = arguments.size() == 2 && node(arguments[1]).kind == Part::integer;
      if ((sole_argument == nullptr && !indexed) || node(arguments[0]).kind != Part::string)
        fail(n, "a torch.device without a name");
      const std::string_view name = node(arguments[0]).text;
      copy(n, name.size());
      out.kind = Kind::device;
      out.text = indexed ? fmt::format("{}:{}", name, node(arguments[1]).integer) : std::string(name);
      return;
    }
    case Global::rebuild_tensor:
    case Global::rebuild_tensor_v2:
    case Global::rebuild_tensor_v3:
      out.kind = Kind::tensor;
      out.tensor = tensor(n, arguments);
      return;
    case Global::rebuild_parameter:
      out.kind = Kind::tensor;
      out.tensor = parameter(n, arguments);
      return;
    case Global::rebuild_quantized:
      refuse<DTypeError>("is quantised, which Weft lacks");
    default:
      fail(n, fmt::format("{} is not called", n.text));
  }
}

void PtBuilder::add_set(Contents& out, const Node& n, const Node& argument) {
  copy(n, argument.parts.size());
  for (const uint32_t part : argument.parts) {
    if (node(part).kind > Part::bytes) fail(n, fmt::format("a set holds {}", pickle::description(node(part))));
  }
  out.kind = PtValue::Kind::set;
  add_items(out, argument);
}

// Protocol 2 has no bytes: they are encoded as latin1 text.
std::string PtBuilder::latin1(const Node& n, const std::vector<uint32_t>& arguments) {
  const bool good = arguments.size() == 2 && node(arguments[0]).kind == Part::string &&
                    node(arguments[1]).kind == Part::string && node(arguments[1]).text == "latin1";
  if (!good) fail(n, "only bytes are encoded, as latin1");
  const std::string_view text = node(arguments[0]).text;
  copy(n, text.size());
  std::string out;
  for_each_character(text, [&](std::string_view c) {
    const auto byte = [&](size_t i) { return static_cast<unsigned char>(c[i]); };
    if (c.size() > 2 || (c.size() == 2 && byte(0) > 0xC3)) fail(n, "a character of bytes is above 255");
    out += static_cast<char>(c.size() == 1 ? byte(0) : (byte(0) & 3) << 6 | (byte(1) & 0x3F));
  });
  return out;
}

Dims PtBuilder::dims(const Node& call, const Node& n) const {
  if (n.kind != Part::tuple) fail(call, fmt::format("sizes and strides are {}", pickle::description(n)));
  if (n.parts.size() > static_cast<size_t>(max_rank)) {
    refuse<ShapeError>(fmt::format("has {} dimensions; at most {} are held", n.parts.size(), max_rank));
  }
  Dims out;
  for (const uint32_t part : n.parts) {
    if (node(part).kind != Part::integer)
      fail(call, fmt::format("a size or stride is {}", pickle::description(node(part))));
    out.push_back(node(part).integer);
  }
  return out;
}

// Rejects hooks, which are code, and metadata for lazy negation or conjugation.
void PtBuilder::check_extras(const Node& n, const std::vector<uint32_t>& arguments, size_t hooks,
                             size_t metadata) const {
  const auto is_empty = [&](const Node& part) {
    return part.kind == Part::none || (part.kind == Part::dict && part.parts.empty());
  };
  if (node(arguments[hooks - 1]).kind != Part::boolean) fail(n, "requires_grad is no bool");
  if (!is_empty(node(arguments[hooks]))) fail(n, "a tensor has hooks");
  if (metadata < arguments.size() && !is_empty(node(arguments[metadata])))
    fail(n, "a tensor has metadata, as negated and conjugated ones have");
}

void PtBuilder::set_requires_grad(const Node& call, Tensor& t, bool on) const {
  if (!on) return;
  if (!is_inexact(t.dtype()) || is_storage_only(t.dtype()))
    fail(call, fmt::format("requires_grad of {}", weft::name(t.dtype())));
  t.requires_grad_(true, source_.where);
}

// (storage, offset, sizes, strides), then requires_grad and hooks, then for v3 a dtype, then metadata.
Tensor PtBuilder::tensor(const Node& n, const std::vector<uint32_t>& arguments) {
  const bool plain = n.global == Global::rebuild_tensor, typed = n.global == Global::rebuild_tensor_v3;
  const size_t needed = plain ? 4 : typed ? 7 : 6, max_count = plain ? 4 : needed + 1;
  const Node* storage = storage_of(n);
  if (storage == nullptr || arguments.size() < needed || arguments.size() > max_count)
    fail(n, "a tensor has the wrong arguments");
  if (!plain) check_extras(n, arguments, 5, needed);
  const Node& type = typed ? node(arguments[6]) : *storage;
  if (typed && (type.kind != Part::global || type.global != Global::dtype)) fail(n, "a tensor has no dtype");
  if (!typed && storage->global == Global::untyped_storage) fail(n, "a tensor has no dtype");
  if (!type.dtype) {
    refuse<DTypeError>(typed ? fmt::format("is {}, which Weft lacks", type.text)
                             : fmt::format("is in a {}, which Weft lacks", node(storage->parts[0]).text));
  }
  if (node(arguments[1]).kind != Part::integer) fail(n, "an offset is no integer");
  const int64_t item = storage->dtype ? itemsize(*storage->dtype) : 1;
  const Checked bytes = Checked(storage->integer) * item;
  if (!bytes.fits()) fail(n, "a storage has more than 2^63 - 1 bytes");
  const PtWindow window{*type.dtype, node(arguments[1]).integer, dims(n, node(arguments[2])),
                        dims(n, node(arguments[3]))};
  Tensor out = storages_.view(storage->text, bytes.value(), window, name_);
  set_requires_grad(n, out, !plain && node(arguments[4]).integer != 0);
  return out;
}

Tensor PtBuilder::parameter(const Node& n, const std::vector<uint32_t>& arguments) {
  const bool good = arguments.size() == 3 && node(arguments[0]).kind == Part::call;
  if (!good) fail(n, "a parameter has the wrong arguments");
  check_extras(n, arguments, 2, 3);
  const PtValue data = value(arguments[0]);
  if (!data.is(PtValue::Kind::tensor)) fail(n, "a parameter is no tensor");
  Tensor out = data.contents_->tensor.detach(source_.where);
  set_requires_grad(n, out, node(arguments[1]).integer != 0);
  return out;
}

PtValue read_pt(const ZipReader& archive, Device device, bool script) {
  const NoGradGuard unrecorded;
  const pickle::Source source{archive.op(), archive.path(), archive.where(), script};
  const std::string root = root_of(archive, script);
  const std::string bytes = archive.read(*archive.find(root + "/data.pkl"));
  const pickle::Pickle pickle = pickle::parse(bytes, source);
  PtStorages storages(archive, root, device);
  return PtBuilder(pickle, source, storages, bytes.size()).build();
}

PtValue load_pt(const Path& path, Device device, Location where) {
  constexpr const char* op = "load_pt";
  const CallScope call(op, where);
  const ReadScope reading;
  if (is_legacy(MappedFile::open(path, op, where).bytes())) {
    raise<FormatError>({.op = op,
                        .problem = "the file was written by PyTorch before 1.6, or in its old format",
                        .details = path.string(),
                        .remedy = "in PyTorch: torch.save(torch.load(name), name)"},
                       where);
  }
  PtValue out = read_pt(ZipReader(path, op, where), device, /*script=*/false);
  reading.check(op, where);
  return out;
}

TensorMap load_pt_state_dict(const Path& path, const std::string& entry, Device device, Location where) {
  const PtValue file = load_pt(path, device, where);
  const auto refuse = [&](const std::string& problem) {
    raise<ValueError>({.op = "load_pt_state_dict", .problem = problem, .details = path.string()}, where);
  };
  const PtValue* found = &file;
  if (!entry.empty() && file.is(PtValue::Kind::dict)) found = file.find(entry, where);
  if (found == nullptr) refuse(fmt::format("there is no entry {}", quoted(entry)));
  if (!found->is(PtValue::Kind::dict)) refuse("the value is no dict of tensors");
  TensorMap tensors;
  for (const PtEntry& e : found->entries(where)) {
    const std::string key = e.key.is(PtValue::Kind::string) ? e.key.string(where) : "…";
    if (!e.key.is(PtValue::Kind::string) || !e.value.is(PtValue::Kind::tensor)) {
      refuse(fmt::format("the value under {} is no tensor; name the entry that has the state_dict", quoted(key)));
    }
    tensors.emplace(key, e.value.tensor(where));
  }
  return tensors;
}

}  // namespace weft::io
