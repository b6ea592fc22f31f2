#include <cstdio>
#include <ctime>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include <sys/utsname.h>
#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "../../backends/backend.hpp"
#include "../../hooks/detail/text.hpp"
#include "../../tensor/config.hpp"
#include "../../tensor/threads.hpp"
#include "../run_folder.hpp"

namespace weft::train {

namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// The value after "key :" in a system file.
std::string field_of(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == line.npos || !line.starts_with(key)) continue;
    const size_t from = line.find_first_not_of(" \t", colon + 1);
    return from == line.npos ? "" : line.substr(from);
  }
  return "";
}

std::string vectors() {
  const std::string flags = " " + field_of("/proc/cpuinfo", "flags") + " ";
  for (const char* name : {"amx_bf16", "avx512_bf16", "avx512f", "avx2", "sse4_2"}) {
    if (flags.find(fmt::format(" {} ", name)) != flags.npos) return name;
  }
  return "";
}

std::string command_line() {
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\0') text.pop_back();
  for (char& c : text) {
    if (c == '\0') c = ' ';
  }
  return text;
}

// The commit of the git repository around the working folder; supports packed references.
std::string git_commit() {
  std::string folder = ".";
  for (int up = 0; up < 20; ++up, folder += "/..") {
    const std::string git = folder + "/.git", head = first_line(git + "/HEAD");
    if (head.empty()) continue;
    if (!head.starts_with("ref: ")) return head;
    const std::string reference = head.substr(5), commit = first_line(git + "/" + reference);
    if (!commit.empty()) return commit;
    std::ifstream packed(git + "/packed-refs");
    for (std::string line; std::getline(packed, line);) {
      if (line.ends_with(" " + reference)) return line.substr(0, line.find(' '));
    }
    return "";
  }
  return "";
}

std::string devices() {
  std::string out;
  for (int type = 0; type < device_type_count; ++type) {
    const auto kind = static_cast<DeviceType>(type);
    if (!is_numbered(kind)) continue;
    if (const int count = device_count(kind); count > 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, Device(kind).name());
  }
  return out;
}

}  // namespace

std::string machine_json() {
  utsname system{};
  uname(&system);
  const std::string memory = field_of("/proc/meminfo", "MemTotal");
  const double gigabytes = memory.empty() ? 0 : std::strtod(memory.c_str(), nullptr) / (1 << 20);
  const std::vector<std::pair<const char*, std::string>> facts = {
      {"processor", field_of("/proc/cpuinfo", "model name")},
      {"vectors", vectors()},
      {"cores", std::to_string(std::thread::hardware_concurrency())},
      {"threads", std::to_string(num_threads())},
      {"memory", gigabytes > 0 ? fmt::format("{:.1f} GiB", gigabytes) : ""},
      {"devices", devices()},
      {"system", fmt::format("{} {}", system.sysname, system.release)},
      {"weft", version()},
      {"command", command_line()},
      {"started", fmt::format("{:%Y-%m-%d %H:%M:%S}", fmt::localtime(std::time(nullptr)))},
      {"commit", git_commit()},
  };
  std::string out = "{";
  for (const auto& [name, text] : facts) {
    if (!text.empty()) out += fmt::format("{}\"{}\": {}", out.size() > 1 ? ", " : "", name, detail::json_text(text));
  }
  return out + "}";
}

}  // namespace weft::train
