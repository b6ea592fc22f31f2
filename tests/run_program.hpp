// Example programs, run as a user runs them.
#pragma once

#include <cstdlib>
#include <string>

#include <sys/wait.h>

#include "temporary_folder.hpp"

namespace weft {

inline const std::string examples = WEFT_BINARY_DIR "/examples/";

struct Outcome {
  int code;
  std::string words;
};

inline Outcome run(const TemporaryFolder& folder, const std::string& command) {
  const std::string log = folder / "words";
  const int status =
      std::system(("cd " + folder.path().string() + " && " + examples + command + " >" + log + " 2>&1").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, read_bytes(log)};
}

}  // namespace weft
