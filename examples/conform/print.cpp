#include "print.hpp"

#include <algorithm>
#include <array>
#include <ostream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace weft::conform {

namespace {

constexpr const char* marks[] = {".", "-", "+", "#", "!"};
constexpr const char* words[] = {"not one of its dtypes", "absent", "forward", "gradient", "deviates"};
constexpr size_t label_lines = 4;  // the lines of a dtype's name, from top to bottom

std::string joined(const std::vector<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : ", ") + part;
  return text;
}

void print_matrix(std::ostream& out, const DeviceResult& result) {
  if (result.ops.empty()) return;
  size_t width = 0;
  for (const OpSupport& op : result.ops) width = std::max(width, std::string_view(op.record->name).size());
  out << "# forward and gradient    + forward    . not one of its dtypes    - the device lacks the numbers    "
         "! deviates\n";
  for (size_t line = 0; line < label_lines; ++line) {
    out << std::string(width + 2, ' ');
    for (const DType dtype : op_dtypes()) {
      const std::string name = dtype == DType::boolean ? "bool" : weft::name(dtype);
      out << (line < name.size() ? name[line] : ' ');
    }
    out << '\n';
  }
  for (const OpSupport& op : result.ops) {
    out << fmt::format("{:<{}}  ", op.record->name, width);
    for (const Support s : op.by_dtype) out << marks[static_cast<int>(s)];
    if (!op.missing_kernels.empty()) out << "  a composite body, without " << joined(op.missing_kernels);
    out << '\n';
  }
  out << '\n';
}

bool is_of_an_op(const Finished& check) { return check.check.rfind("ops.", 0) == 0; }

void print_checks(std::ostream& out, const Report& report) {
  for (const Finished& check : report.finished()) {
    const size_t wrong = check.last_deviation - check.first_deviation;
    if (is_of_an_op(check)) continue;
    out << fmt::format("{:<32}{}\n", check.check, wrong == 0 ? "agrees" : "DEVIATES");
  }
}

}  // namespace

void print(std::ostream& out, const DeviceResult& result) {
  const Report& report = result.report;
  out << report.device().name() << ": " << result.description << "\n\n";
  print_matrix(out, result);
  print_checks(out, report);
  for (const Time& t : report.times()) out << fmt::format("{:<32}{:.4g} {}\n", t.name, t.value, t.unit);
  for (const std::string& note : report.notes()) out << "note: " << note << '\n';
  for (const Deviation& d : report.deviations()) out << "DEVIATION " << report.line_of(d) << '\n';
  const auto failed = std::ranges::count_if(
      report.finished(), [](const Finished& check) { return check.last_deviation > check.first_deviation; });
  out << fmt::format("{}: {} checks, {} of them deviate\n", report.device().name(), report.finished().size(), failed);
}

nlohmann::json as_json(const DeviceResult& result) {
  const Report& report = result.report;
  nlohmann::json ops = nlohmann::json::array(), checks = ops, deviations = ops, times = nlohmann::json::object();
  for (const OpSupport& op : result.ops) {
    nlohmann::json support = nlohmann::json::object();
    for (size_t i = 0; i < op.by_dtype.size(); ++i) {
      support[weft::name(op_dtypes()[i])] = words[static_cast<int>(op.by_dtype[i])];
    }
    ops.push_back({{"name", op.record->name}, {"support", support}, {"missing_kernels", op.missing_kernels}});
  }
  for (const Finished& check : report.finished()) {
    checks.push_back({{"name", check.check},
                      {"deviations", check.last_deviation - check.first_deviation},
                      {"milliseconds", check.milliseconds}});
  }
  for (const Deviation& d : report.deviations()) {
    deviations.push_back(
        {{"check", d.check}, {"expected", d.expected}, {"came", d.came}, {"again", report.command_of(d)}});
  }
  for (const Time& t : report.times()) times[t.name] = {{"value", t.value}, {"unit", t.unit}};
  return {
      {"device", report.device().name()}, {"description", result.description}, {"ops", ops},      {"checks", checks},
      {"deviations", deviations},         {"notes", report.notes()},           {"timings", times}};
}

}  // namespace weft::conform
