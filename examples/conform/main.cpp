// Checks that a device computes the same as the CPU, for authors of devices. docs/devices.md lists the checks.
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <weft/backends/backend.hpp>
#include <weft/backends/plugin.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/tensor/error.hpp>
#include <weft/tensor/warning.hpp>

#include "checks.hpp"
#include "print.hpp"

namespace weft::conform {

namespace {

using Clock = std::chrono::steady_clock;

double milliseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::milli>(Clock::now() - start).count();
}

std::vector<Device> all_devices() {
  std::vector<Device> all;
  for (const DeviceType type : device_kinds()) {
    for (int i = 0; type != DeviceType::cpu && i < device_count(type); ++i) all.emplace_back(type, i);
  }
  return all;
}

std::string description_of(Device device) {
  Backend* const backend = find_backend(device.type);
  return backend == nullptr ? "shapes and dtypes without elements" : backend->describe(device.index);
}

void check_device_of(DeviceResult& result) {
  Report& report = result.report;
  for (const OpRecord& record : op_records()) {
    const size_t before = report.finished().size();
    OpSupport support = check_op(report, record);
    if (report.finished().size() > before) result.ops.push_back(std::move(support));
  }
  if (!is_numbered(report.device().type)) return check_meta(report);
  check_copies(report);
  check_memory(report);
  check_streams(report);
  check_errors(report);
  check_random(report);
  check_training(report);
  measure(report);
}

DeviceResult result_of(Device device, const std::string& only, Clock::time_point start) {
  DeviceResult result{{device, only, isatty(STDERR_FILENO) == 1}, description_of(device)};
  result.report.run("first_op", [&] {
    const Tensor first = ones({4}, {f32, device}) + 1.0;
    synchronize(device);
    result.report.time("first_op", milliseconds_since(start), "ms");
  });
  check_device_of(result);
  if (isatty(STDERR_FILENO) == 1) std::cerr << "\r\033[K";
  return result;
}

struct Options {
  std::vector<std::string> devices, plugins;
  std::string only, json_path;
};

/// The devices given by name, else those of the given plug-ins, else all.
std::vector<Device> devices_of(const Options& options) {
  std::vector<Device> devices, brought;
  for (const std::string& path : options.plugins) {
    const DeviceType kind = load_device_plugin(path, Location::none());
    for (int i = 0; i < device_count(kind); ++i) brought.emplace_back(kind, i);
  }
  for (const std::string& name : options.devices) devices.emplace_back(std::string_view(name), Location::none());
  if (!devices.empty()) return devices;
  return options.plugins.empty() ? all_devices() : brought;
}

int run(const Options& options) {
  const Clock::time_point start = Clock::now();
  const std::string &only = options.only, &json_path = options.json_path;
  const std::vector<Device> devices = devices_of(options);
  nlohmann::json all = nlohmann::json::array();
  bool agrees = true;
  size_t checks = 0;
  for (const Device device : devices) {
    check_device(device, "conform");
    const DeviceResult result = result_of(device, only, device == devices[0] ? start : Clock::now());
    print(std::cout, result);
    agrees = agrees && result.report.deviations().empty();
    checks += result.report.finished().size();
    all.push_back(as_json(result));
  }
  if (checks == 0) throw ValueError("no check has \"" + only + "\" in its name");
  if (!json_path.empty()) {
    std::ofstream file(json_path);
    file << nlohmann::json{{"devices", all}}.dump(1) << '\n';
    if (!file.flush()) throw IoError("cannot write " + json_path);
  }
  return agrees ? 0 : 1;
}

}  // namespace

}  // namespace weft::conform

int main(int argc, char** argv) {
  CLI::App app(
      "Checks that a device computes as the CPU does. Status 0: nothing deviates; 1: something does; 2: it could "
      "not be checked.",
      "weft-conform");
  weft::conform::Options options;
  app.add_option("--device", options.devices,
                 "hpu, cuda:1, meta, …; all that are here but the CPU where none is named");
  app.add_option("--plugin", options.plugins, "shared objects that bring devices, which then are those to check");
  app.add_option("--only", options.only, "only the checks with this in their name, such as ops.add.float32 or streams");
  app.add_option("--json", options.json_path, "write all results to this file as JSON");
  CLI11_PARSE(app, argc, argv);
  weft::set_warning_handler([](const weft::Warning&) {});  // samples may cause warnings, which do not matter here
  try {
    return weft::conform::run(options);
  } catch (const std::exception& error) {
    std::cerr << "weft-conform: " << error.what() << '\n';
    return 2;
  }
}
