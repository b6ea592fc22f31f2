// A folder for one test, removed at its end.
#pragma once

#include <filesystem>
#include <fstream>
#include <cstdlib>
#include <iterator>
#include <string>

#include <gtest/gtest.h>
#include <unistd.h>

namespace weft {

class TemporaryFolder {
 public:
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "weft-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path_); }
  TemporaryFolder(const TemporaryFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline void write_bytes(const std::filesystem::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

inline std::string read_bytes(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// A Python that can import `module`, first that of `./weft setup`, or an empty string.
inline std::string python_with(const std::string& module) {
  for (const char* python : {WEFT_SOURCE_DIR "/build/venv/bin/python", "python3", "/usr/bin/python3"}) {
    const std::string probe = std::string(python) + " -c 'import " + module + "' >/dev/null 2>&1";
    if (std::system(probe.c_str()) == 0) return python;
  }
  return "";
}

/// Runs a script kept in the folder; its words go to the test's output.
inline int run_python(const std::string& python, const TemporaryFolder& folder, const std::string& script) {
  write_bytes(folder / "script.py", script);
  return std::system(("cd " + folder.path().string() + " && " + python + " script.py").c_str());
}

}  // namespace weft
