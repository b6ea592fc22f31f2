#include "pickle-inl.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "pickle_names-inl.hpp"
#include "../json/utf8-inl.hpp"

namespace weft::io::pickle {

void Source::fail(size_t offset, std::string problem, std::string remedy) const {
  raise<FormatError>({.op = op,
                      .problem = fmt::format("data.pkl, byte {}: {}", offset, problem),
                      .details = path,
                      .remedy = std::move(remedy)},
                     where);
}

std::string description(const Node& node) {
  constexpr const char* names[] = {"None",    "a bool", "an int", "a float",    "a string",  "bytes",        "a list",
                                   "a tuple", "a dict", "",       "a call of ", "a storage", "an object of "};
  const bool named = node.kind == Kind::global || node.kind == Kind::call || node.kind == Kind::object;
  return names[static_cast<int>(node.kind)] + (named ? std::string(node.text) : "");
}

namespace {

class Machine {
 public:
  Machine(std::string_view bytes, const Source& source) : bytes_(bytes), source_(source) {}

  Pickle run() {
    // Nodes and memo entries have 32-bit indices; each takes at least one byte.
    if (bytes_.size() >= no_node) fail("it is longer than 4 GB");
    while (step()) {
    }
    if (stack_.size() != 1 || !marks_.empty()) fail("it ends with more than one value");
    pickle_.root = stack_.back();
    return std::move(pickle_);
  }

 private:
  static constexpr uint32_t no_node = UINT32_MAX;

  // ---- bytes ----
  [[noreturn]] void fail(std::string problem, std::string remedy = {}) const {
    source_.fail(offset_, std::move(problem), std::move(remedy));
  }
  std::string_view take(uint64_t count) {
    if (count > bytes_.size() - at_) fail("it is cut off");
    const std::string_view result = bytes_.substr(at_, count);
    at_ += count;
    return result;
  }
  // Little-endian.
  template <class T>
  T number() {
    const std::string_view digits = take(sizeof(T));
    T value = 0;
    std::memcpy(&value, digits.data(), sizeof(T));
    return value;
  }
  std::string_view line() {
    const size_t end = bytes_.find('\n', at_);
    if (end == bytes_.npos) fail("it is cut off");
    const std::string_view result = take(end - at_);
    at_ = end + 1;
    return result;
  }

  // ---- stack ----
  size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  uint32_t top() const {
    if (stack_.size() == floor()) fail("the stack is empty");
    return stack_.back();
  }
  uint32_t pop() {
    const uint32_t value = top();
    stack_.pop_back();
    return value;
  }
  // Pops the values above the last mark, and the mark.
  std::vector<uint32_t> pop_mark() {
    if (marks_.empty()) fail("there is no mark on the stack");
    const auto first = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<uint32_t> values(first, stack_.end());
    stack_.erase(first, stack_.end());
    marks_.pop_back();
    return values;
  }
  void push(Node node) {
    node.offset = offset_;
    pickle_.nodes.push_back(std::move(node));
    stack_.push_back(static_cast<uint32_t>(pickle_.nodes.size() - 1));
  }
  Node& node(uint32_t index) { return pickle_.nodes[index]; }

  void tuple(size_t count) {
    if (stack_.size() - floor() < count) fail("the stack is empty");
    std::vector<uint32_t> parts(stack_.end() - static_cast<std::ptrdiff_t>(count), stack_.end());
    stack_.resize(stack_.size() - count);
    push({.kind = Kind::tuple, .parts = std::move(parts)});
  }
  void append(const std::vector<uint32_t>& values) {
    Node& list = node(top());
    if (list.kind != Kind::list) fail(fmt::format("elements for {}", description(list)));
    list.parts.insert(list.parts.end(), values.begin(), values.end());
  }
  void set_items(const std::vector<uint32_t>& values) {
    Node& dict = node(top());
    if (dict.kind != Kind::dict) fail(fmt::format("entries for {}", description(dict)));
    if (values.size() % 2 != 0) fail("a key without a value");
    dict.parts.insert(dict.parts.end(), values.begin(), values.end());
  }
  void put(uint32_t key) {
    if (key >= bytes_.size()) fail(fmt::format("the memo has no place {}", key));
    if (key >= memo_.size()) memo_.resize(key + size_t{1}, no_node);
    memo_[key] = top();
  }
  void get(uint32_t key) {
    if (key >= memo_.size() || memo_[key] == no_node) fail(fmt::format("place {} of the memo is empty", key));
    stack_.push_back(memo_[key]);
  }

  // ---- opcodes ----
  bool step();
  bool push_value(unsigned char code);
  bool change_container(unsigned char code);
  void push_string(uint64_t length);
  void push_long();
  void push_global();
  void reduce();
  void new_object();
  void build();
  void persistent();

  std::string_view bytes_;
  const Source& source_;
  Pickle pickle_;
  std::vector<uint32_t> stack_, memo_;
  std::vector<size_t> marks_;
  size_t at_ = 0, offset_ = 0;
};

void Machine::push_string(uint64_t length) {
  const std::string_view text = take(length);
  if (!is_utf8(text)) fail("a string is not UTF-8");
  push({.kind = Kind::string, .text = text});
}

void Machine::push_long() {
  const std::string_view digits = take(number<uint8_t>());
  const bool negative = !digits.empty() && static_cast<signed char>(digits.back()) < 0;
  uint64_t value = negative ? ~uint64_t{0} : 0;
  std::memcpy(&value, digits.data(), std::min(digits.size(), sizeof(value)));
  const auto sign = static_cast<char>(negative ? 0xFF : 0);
  const std::string_view above = digits.substr(std::min(digits.size(), sizeof(value)));
  const bool fits = above.find_first_not_of(sign) == above.npos && (static_cast<int64_t>(value) < 0) == negative;
  if (!fits) fail("an integer needs more than 64 bits");
  push({.kind = Kind::integer, .integer = static_cast<int64_t>(value)});
}

// Parses "module\nname\n". Unsupported globals are rejected even if they would not be called.
void Machine::push_global() {
  const std::string_view module = line(), name = line();
  const std::string full = fmt::format("{}.{}", module, name);
  const auto known = source_.script ? known_script_global(full) : known_global(full);
  if (!known) {
    const bool legacy = full == "torch.storage._load_from_bytes";
    fail(fmt::format("the global {} is refused", quoted(full)),
         legacy ? "a storage was saved by pickle: save tensors with torch.save"
                : "save tensors, containers and numbers alone");
  }
  push({.kind = Kind::global, .global = known->global, .dtype = known->dtype, .text = name});
}

void Machine::reduce() {
  const uint32_t arguments = pop(), function = pop();
  const Node& callee = node(function);
  if (callee.kind != Kind::global || callee.global == Global::dtype || callee.global == Global::quantizer ||
      callee.global == Global::storage || callee.global == Global::untyped_storage ||
      callee.global == Global::script_class) {
    fail(fmt::format("REDUCE calls {}", callee.kind == Kind::global ? callee.text : description(callee)));
  }
  if (node(arguments).kind != Kind::tuple) fail("REDUCE has no tuple of arguments");
  if (callee.global == Global::ordered_dict) {
    if (!node(arguments).parts.empty()) fail("an OrderedDict is made with arguments");
    push({.kind = Kind::dict, .global = Global::ordered_dict});
    return;
  }
  push({.kind = Kind::call, .global = callee.global, .text = callee.text, .parts = {arguments}});
}

// Constructs an object of TorchScript, whose attributes follow in BUILD.
void Machine::new_object() {
  const uint32_t arguments = pop();
  const Node& type = node(pop());
  if (type.kind != Kind::global || type.global != Global::script_class) {
    fail(fmt::format("NEWOBJ of {}", description(type)));
  }
  if (node(arguments).kind != Kind::tuple || !node(arguments).parts.empty()) fail("an object is made with arguments");
  push({.kind = Kind::object, .text = type.text});
}

// Ignores attributes of an OrderedDict, such as a state_dict's _metadata.
void Machine::build() {
  const uint32_t state = pop();
  Node& target = node(top());
  if (target.kind == Kind::object) {
    if (node(state).kind != Kind::dict)
      fail(fmt::format("the attributes of an object are {}", description(node(state))));
    if (!target.parts.empty()) fail("an object gets attributes twice");
    target.parts = {state};
    return;
  }
  if (target.global != Global::ordered_dict || target.kind != Kind::dict) {
    fail(fmt::format("BUILD of {} is refused", description(target)));
  }
}

// Reads ("storage", class, key, location, number of elements). The saved location is ignored.
void Machine::persistent() {
  const Node& id = node(pop());
  const auto part = [&](size_t i) -> const Node& { return node(id.parts[i]); };
  const bool good = id.kind == Kind::tuple && id.parts.size() == 5 && part(0).kind == Kind::string &&
                    part(0).text == "storage" && part(1).kind == Kind::global && part(2).kind == Kind::string &&
                    part(2).text.size() <= 255 && part(4).kind == Kind::integer;
  if (!good) fail("BINPERSID names no storage");
  const Node& type = part(1);
  if (type.global != Global::storage && type.global != Global::untyped_storage) {
    fail(fmt::format("{} is no class of storages", type.text));
  }
  if (part(4).integer < 0) fail(fmt::format("a storage of {} elements", part(4).integer));
  Node storage{.kind = Kind::storage, .global = type.global, .dtype = type.dtype};
  storage.integer = part(4).integer;
  storage.text = part(2).text;
  storage.parts = {id.parts[1]};
  push(std::move(storage));
}

bool Machine::push_value(unsigned char code) {
  switch (code) {
    case 'N':
      push({.kind = Kind::none});
      break;
    case 0x88:
    case 0x89:
      push({.kind = Kind::boolean, .integer = code == 0x88});
      break;
    case 'J':
      push({.kind = Kind::integer, .integer = number<int32_t>()});
      break;
    case 'K':
      push({.kind = Kind::integer, .integer = number<uint8_t>()});
      break;
    case 'M':
      push({.kind = Kind::integer, .integer = number<uint16_t>()});
      break;
    case 0x8a:
      push_long();
      break;
    case 'G':  // the only big-endian number
      push({.kind = Kind::floating, .floating = std::bit_cast<double>(__builtin_bswap64(number<uint64_t>()))});
      break;
    case 'X':
      push_string(number<uint32_t>());
      break;
    case 'B':
      push({.kind = Kind::bytes, .text = take(number<uint32_t>())});
      break;
    case 'C':
      push({.kind = Kind::bytes, .text = take(number<uint8_t>())});
      break;
    default:
      return false;
  }
  return true;
}

bool Machine::change_container(unsigned char code) {
  switch (code) {
    case ')':
      tuple(0);
      break;
    case 0x85:
    case 0x86:
    case 0x87:
      tuple(code - size_t{0x84});
      break;
    case 't':
      push({.kind = Kind::tuple, .parts = pop_mark()});
      break;
    case ']':
      push({.kind = Kind::list});
      break;
    case 'a':
      append({pop()});
      break;
    case 'e':
      append(pop_mark());
      break;
    case '}':
      push({.kind = Kind::dict});
      break;
    case 's': {
      const uint32_t value = pop(), key = pop();
      set_items({key, value});
      break;
    }
    case 'u':
      set_items(pop_mark());
      break;
    default:
      return false;
  }
  return true;
}

bool Machine::step() {
  offset_ = at_;
  const auto code = static_cast<unsigned char>(take(1).front());
  switch (code) {
    case 0x80:  // PROTO
      if (const int version = number<uint8_t>(); version != 2 && version != 3) {
        fail(fmt::format("protocol {} is refused", version), "save with torch.save's own pickle_protocol, which is 2");
      }
      break;
    case '.':
      return false;
    case '(':
      marks_.push_back(stack_.size());
      break;
    case 'q':
      put(number<uint8_t>());
      break;
    case 'r':
      put(number<uint32_t>());
      break;
    case 'h':
      get(number<uint8_t>());
      break;
    case 'j':
      get(number<uint32_t>());
      break;
    case 'c':
      push_global();
      break;
    case 'R':
      reduce();
      break;
    case 0x81:
      if (!source_.script) fail("the opcode NEWOBJ is refused");
      new_object();
      break;
    case 'b':
      build();
      break;
    case 'Q':
      persistent();
      break;
    default:
      if (push_value(code) || change_container(code)) break;
      fail(fmt::format("the opcode {} is refused", opcode_name(code)));
  }
  return true;
}

}  // namespace

Pickle parse(std::string_view bytes, const Source& source) { return Machine(bytes, source).run(); }

}  // namespace weft::io::pickle
