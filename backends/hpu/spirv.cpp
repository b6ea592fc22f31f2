// Layout and instructions: SPIR-V Specification 1.2, §2.3, §2.4 and §3.32.
//
// The driver receives one kernel at a time, cut out of its module at the first call. So the first op waits for one
// kernel only, and a device without doubles never receives the double kernels.
#include "spirv.hpp"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

namespace weft::spirv {

namespace {

enum Opcode : uint32_t {
  op_name = 5,
  op_member_name = 6,
  op_line = 8,
  op_entry_point = 15,
  op_execution_mode = 16,
  op_first_type = 19,
  op_last_type = 38,
  op_forward_pointer = 39,
  op_first_constant = 41,
  op_last_constant = 52,
  op_function = 54,
  op_function_end = 56,
  op_function_call = 57,
  op_variable = 59,
  op_decorate = 71,
  op_member_decorate = 72,
  op_decoration_group = 73,
  op_group_decorate = 74,
  op_selection_merge = 247,
  op_label = 248,
  op_lifetime_start = 256,
  op_lifetime_stop = 257,
};

constexpr size_t header_words = 5;

using Instruction = Words;
uint32_t opcode(Instruction i) { return i[0] & 0xffff; }

/// The instructions after the header.
std::vector<Instruction> instructions_of(Words module) {
  std::vector<Instruction> out;
  for (size_t at = header_words; at < module.size();) {
    const size_t count = module[at] >> 16;
    if (count == 0 || count > module.size() - at) break;
    out.push_back(module.subspan(at, count));
    at += count;
  }
  return out;
}

// The text ends with a zero byte inside the instruction.
std::string_view name_of(Instruction entry_point) { return reinterpret_cast<const char*>(&entry_point[3]); }

/// The id that an instruction defines; for one that defines none, 0 or an id that another one beside it defines.
uint32_t result_of(Instruction i) {
  const uint32_t op = opcode(i);
  if ((op >= op_first_type && op <= op_last_type) || op == op_label) return i[1];
  const bool second_is_literal =
      op == op_selection_merge || op == op_lifetime_start || op == op_lifetime_stop || op == op_line;
  return second_is_literal || i.size() < 3 ? 0 : i[2];
}

/// Types, constants and variables of the module, removed if nothing refers to them.
bool is_shared(Instruction i) {
  const uint32_t op = opcode(i);
  return (op >= op_first_type && op <= op_last_type) || (op >= op_first_constant && op <= op_last_constant) ||
         op == op_variable;
}

/// Instructions that say something of the id in their first word.
bool is_about(Instruction i) {
  const uint32_t op = opcode(i);
  return op == op_name || op == op_member_name || op == op_execution_mode || op == op_decorate ||
         op == op_member_decorate;
}

class Cut {
 public:
  Cut(Words module, std::vector<Instruction> all) : module_(module), all_(std::move(all)) {
    first_function_ = all_.size();
    for (size_t i = all_.size(); i-- > 0;) {
      if (opcode(all_[i]) == op_decoration_group) defined_.insert(all_[i][1]);
      if (opcode(all_[i]) != op_function) continue;
      first_function_ = i;
      starts_[all_[i][2]] = i;
    }
  }

  std::vector<uint32_t> run(Instruction entry_point) {
    use(entry_point);
    keep_function(entry_point[2]);
    for (size_t i = first_function_; i-- > 0;) {
      if (opcode(all_[i]) == op_forward_pointer || (is_shared(all_[i]) && used_.contains(result_of(all_[i])))) {
        use(all_[i]);
        defined_.insert(result_of(all_[i]));
      }
    }
    out_.assign(module_.begin(), module_.begin() + header_words);
    for (size_t i = 0; i < first_function_; ++i) write_before_functions(all_[i], entry_point);
    for (size_t i = first_function_, end; i < all_.size(); i = end) {
      end = end_of(i);
      if (!kept_.contains(all_[i][2])) continue;
      for (size_t k = i; k < end; ++k) write(all_[k]);
    }
    return std::move(out_);
  }

 private:
  // Literals among the words keep a little more than is needed, never less.
  void use(Instruction i) { used_.insert(i.begin() + 1, i.end()); }
  void write(Instruction i) { out_.insert(out_.end(), i.begin(), i.end()); }

  size_t end_of(size_t function) const {
    size_t end = function;
    while (end < all_.size() && opcode(all_[end]) != op_function_end) ++end;
    return std::min(end + 1, all_.size());
  }

  /// A function and those that it calls.
  void keep_function(uint32_t id) {
    std::vector<uint32_t> waiting = {id};
    while (!waiting.empty()) {
      const auto start = starts_.find(waiting.back());
      waiting.pop_back();
      if (start == starts_.end() || !kept_.insert(start->first).second) continue;
      for (size_t i = start->second, end = end_of(i); i < end; ++i) {
        use(all_[i]);
        defined_.insert(result_of(all_[i]));
        if (opcode(all_[i]) == op_function_call) waiting.push_back(all_[i][3]);
      }
    }
  }

  void write_before_functions(Instruction i, Instruction entry_point) {
    if (opcode(i) == op_entry_point) {
      if (i.data() == entry_point.data()) write(i);
    } else if (opcode(i) == op_group_decorate) {
      write_group(i);
    } else if (is_about(i) ? defined_.contains(i[1]) : !is_shared(i) || defined_.contains(result_of(i))) {
      write(i);
    }
  }

  void write_group(Instruction i) {
    std::vector<uint32_t> words = {0, i[1]};
    for (const uint32_t target : i.subspan(2)) {
      if (defined_.contains(target)) words.push_back(target);
    }
    words[0] = static_cast<uint32_t>(words.size() << 16) | op_group_decorate;
    if (words.size() > 2) write(words);
  }

  const Words module_;
  const std::vector<Instruction> all_;
  size_t first_function_;
  std::unordered_map<uint32_t, size_t> starts_;  ///< a function's id and where it begins
  std::unordered_set<uint32_t> kept_, used_, defined_;
  std::vector<uint32_t> out_;
};

}  // namespace

std::vector<std::string> kernel_names(Words module) {
  std::vector<std::string> names;
  for (const Instruction i : instructions_of(module)) {
    if (opcode(i) == op_entry_point) names.emplace_back(name_of(i));
  }
  return names;
}

std::vector<uint32_t> only_kernel(Words module, std::string_view name) {
  std::vector<Instruction> all = instructions_of(module);
  for (const Instruction i : all) {
    if (opcode(i) == op_entry_point && name_of(i) == name) return Cut(module, std::move(all)).run(i);
  }
  return {};
}

}  // namespace weft::spirv
