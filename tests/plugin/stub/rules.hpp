// Common to all files of the stub: settings, fatal errors, and the checks of each entry.
#pragma once

#include <weft/backends/plugin/plugin.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>

#include <unistd.h>

namespace stub {

[[noreturn]] inline void violation(const char* what) {
  std::fprintf(stderr, STUB_KIND ": the host broke a rule: %s\n", what);
  std::abort();
}
inline void require(bool holds, const char* what) {
  if (!holds) violation(what);
}

inline std::string setting(const char* name, const char* otherwise = "") {
  const char* text = std::getenv(name);
  return text != nullptr ? text : otherwise;
}
inline size_t number(const char* name, size_t otherwise) {
  const std::string text = setting(name);
  return text.empty() ? otherwise : std::stoull(text);
}
inline bool in_list(const std::string& list, const std::string& word) {
  return ("," + list + ",").find("," + word + ",") != std::string::npos;
}
inline bool garbage(const char* name) { return setting("STUB_GARBAGE") == name; }

// ---- faults and the life of the plug-in -----------------------------------------------------------------------------

enum class Life { loaded, initialised, finalised };
inline std::atomic<Life> life = Life::loaded;

/// Says whether an entry shall fail now, and with which code.
inline int injected(const char* entry) {
  static std::atomic<int> calls = 0;
  for (const char* variable : {"STUB_FAIL", "STUB_THROW"}) {
    const std::string text = setting(variable);
    const size_t colon = text.find(':');
    if (colon == std::string::npos || (text.substr(0, colon) != entry && text.substr(0, colon) != "any")) continue;
    const size_t second = text.find(':', colon + 1);
    const int after = second == std::string::npos ? 0 : std::stoi(text.substr(second + 1));
    if (calls++ < after) continue;
    if (variable == std::string("STUB_THROW")) throw std::runtime_error("thrown on purpose");
    return std::stoi(text.substr(colon + 1));
  }
  return WEFT_OK;
}

/// A child of fork() has none of the threads below, and may find their mutexes locked for ever.
inline const pid_t home_process = getpid();

}  // namespace stub

/// The first line of an entry.
#define ENTER(entry)                                                                               \
  require(getpid() == home_process, #entry " was called in a child of fork()");                    \
  require(life != Life::finalised, #entry " was called after finalize");                           \
  require(life == Life::initialised || std::string(#entry) == "initialize", #entry " came first"); \
  if (const int code = injected(#entry)) return code
