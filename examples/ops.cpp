// Prints the support matrix of ops by dtype and device, determined by running every op's own samples.
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <weft/autograd/engine.hpp>
#include <weft/backends/backend.hpp>
#include <weft/backends/plugin.hpp>
#include <weft/ops/library.hpp>
#include <weft/ops/record.hpp>
#include <weft/ops/reduce.hpp>

using weft::DType, weft::Device, weft::DeviceType, weft::OpRecord, weft::Tensor;

namespace {

struct Column {
  DType dtype;
  const char* label;  // for four rows of the header
};
constexpr Column columns[] = {{weft::boolean, "bool"}, {weft::u8, "u8  "},  {weft::i8, "i8  "},  {weft::i16, "i16 "},
                              {weft::i32, "i32 "},     {weft::i64, "i64 "}, {weft::f16, "f16 "}, {weft::bf16, "bf16"},
                              {weft::f32, "f32 "},     {weft::f64, "f64 "}};

enum class Support { none, forward, gradient };
constexpr const char* marks[] = {".", "+", "#"};

std::vector<Tensor> tensors_of(weft::Value value) {
  if (auto* t = std::get_if<Tensor>(&value)) return {*t};
  if (auto* list = std::get_if<std::vector<Tensor>>(&value)) return *list;
  return {};
}

void require_gradients(weft::Values& arguments) {
  for (weft::Value& argument : arguments) {
    for (const Tensor& t : tensors_of(argument)) {
      if (t.defined() && is_floating(t.dtype())) t.requires_grad_();
    }
  }
}

/// Waits for queued work and discards its errors.
void forget_queued(Device device) {
  try {
    weft::synchronize(device);
  } catch (const weft::DeviceError&) {
    throw;
  } catch (const weft::Error&) {
  }
}

/// Runs all samples of an op; returns whether all of them work. An op that rejects its own samples does not support the
/// dtype.
bool works(const OpRecord& op, DType dtype, Device device, bool backward) {
  try {
    weft::SampleMaker make(dtype, device);
    std::vector<weft::Values> samples = op.samples(make);
    if (samples.empty()) return weft::has_kernel(op.name, device.type, dtype);
    for (weft::Values& arguments : samples) {
      if (backward) require_gradients(arguments);
      std::vector<Tensor> sums;
      for (const Tensor& out : tensors_of(op.call(arguments))) {
        if (backward && out.requires_grad()) sums.push_back(out.sum());
      }
      if (!sums.empty()) weft::backward(sums);
    }
    weft::synchronize(device);
    return true;
  } catch (const weft::DeviceError&) {
    throw;
  } catch (const weft::OutOfMemoryError&) {
    throw;
  } catch (const weft::Error&) {
    forget_queued(device);
    return false;
  }
}

Support support_of(const OpRecord& op, DType dtype, Device device) {
  if (!works(op, dtype, device, false)) return Support::none;
  const bool backward = op.facts.differentiable && is_floating(dtype) && works(op, dtype, device, true);
  return backward ? Support::gradient : Support::forward;
}

using Row = std::vector<std::vector<Support>>;  // by device, by column

void print_header(const std::vector<Device>& devices, size_t width) {
  std::cout << std::string(width, ' ');
  const size_t cells = std::size(columns);
  for (Device d : devices) std::cout << "  " << d.name() << std::string(cells - std::min(cells, d.name().size()), ' ');
  std::cout << '\n';
  for (int line = 0; line < 4; ++line) {
    std::cout << std::string(width, ' ');
    for (size_t i = 0; i < devices.size(); ++i) {
      std::cout << "  ";
      for (const Column& c : columns) std::cout << c.label[line];
    }
    std::cout << '\n';
  }
}

void print_row(const char* name, const Row& row, size_t width) {
  std::cout << name << std::string(width - std::string(name).size(), ' ');
  for (const auto& cells : row) {
    std::cout << "  ";
    for (Support s : cells) std::cout << marks[static_cast<int>(s)];
  }
  std::cout << std::endl;
}

nlohmann::json as_json(const OpRecord& op, const Row& row, const std::vector<Device>& devices) {
  nlohmann::json support = nlohmann::json::object();
  for (size_t d = 0; d < devices.size(); ++d) {
    for (size_t c = 0; c < std::size(columns); ++c) {
      support[devices[d].name()][weft::name(columns[c].dtype)] = {{"forward", row[d][c] != Support::none},
                                                                  {"gradient", row[d][c] == Support::gradient}};
    }
  }
  return {{"name", op.name},
          {"schema", op.signature().text},
          {"document", op.document},
          {"differentiable", op.facts.differentiable},
          {"support", support}};
}

}  // namespace

// Escapes bars, which would end the table cell.
std::string in_cell(const std::string& text) {
  std::string out;
  for (const char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

// Prints the reference of all ops, generated from their records.
void print_markdown(const std::string& only) {
  std::cout << "# Ops\n\nWritten by `./weft ops --markdown`, from the records of the ops.\n\n| op | gradient | "
               "document |\n|---|---|---|\n";
  for (const OpRecord* record : weft::all_ops()) {
    const OpRecord& op = *record;
    if (std::string(op.name).find(only) == std::string::npos) continue;
    std::cout << "| `" << op.signature().text << "` | " << (op.facts.differentiable ? "yes" : "no") << " | "
              << in_cell(op.document) << " |\n";
  }
}

int main(int argc, char** argv) {
  CLI::App app("Prints for every op which dtypes work on which device, forward and gradient.", "weft-ops");
  std::string json_path, only;
  app.add_option("--json", json_path, "write the matrix to this file as JSON");
  app.add_option("--op", only, "only the ops with this in their name");
  std::vector<std::string> plugins;
  app.add_option("--plugin", plugins, "shared objects that bring more kinds of devices, beside those of WEFT_PLUGINS");
  bool markdown = false;
  app.add_flag("--markdown", markdown, "print the reference of the ops instead: schema, gradient, document");
  std::vector<std::string> libraries;
  app.add_option("--library", libraries, "shows the ops of this shared library, too");
  CLI11_PARSE(app, argc, argv);
  try {
    for (const std::string& path : libraries) weft::load_library(path);
  } catch (const weft::Error& error) {
    std::cerr << "weft-ops: " << error.what() << '\n';
    return 1;
  }
  if (markdown) {
    print_markdown(only);
    return 0;
  }

  size_t width = 0;
  const std::vector<const OpRecord*> all = weft::all_ops();
  for (const OpRecord* op : all) width = std::max(width, std::string(op->name).size());

  try {
    std::vector<Device> devices;
    std::string absent;
    for (const std::string& path : plugins) weft::load_device_plugin(path, weft::Location::none());
    for (const DeviceType type : weft::device_kinds()) {
      const std::string name = Device(type).name();
      if (type == DeviceType::meta) continue;
      if (weft::device_count(type) > 0) devices.emplace_back(type);
      else absent += " " + name.substr(0, name.find(':'));
    }
    nlohmann::json ops = nlohmann::json::array();
    std::cout << "# forward and gradient    + forward    . not supported\n\n";
    print_header(devices, width);
    for (const OpRecord* record : all) {
      const OpRecord& op = *record;
      if (std::string(op.name).find(only) == std::string::npos) continue;
      Row row;
      for (Device device : devices) {
        row.emplace_back();
        for (const Column& c : columns) row.back().push_back(support_of(op, c.dtype, device));
      }
      print_row(op.name, row, width);
      ops.push_back(as_json(op, row, devices));
    }
    std::cout << '\n' << ops.size() << " ops" << (absent.empty() ? "" : "; not present here:" + absent) << '\n';
    if (json_path.empty()) return 0;
    std::ofstream file(json_path);
    file << nlohmann::json{{"ops", ops}}.dump(1) << '\n';
    if (!file.flush()) {
      std::cerr << "weft-ops: cannot write " << json_path << '\n';
      return 1;
    }
  } catch (const std::exception& error) {
    std::cerr << "weft-ops: " << error.what() << '\n';
    return 1;
  }
}
