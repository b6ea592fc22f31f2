// The peak memory of this process.
#pragma once

#include <cstdio>

/// Prints "peak_kb N" from /proc/self/status. Unlike rusage, it excludes the time before exec.
inline void print_peak() {
  std::FILE* status = std::fopen("/proc/self/status", "r");
  if (status == nullptr) return;
  char line[256];
  long kilobytes = 0;
  while (std::fgets(line, sizeof line, status) != nullptr) {
    if (std::sscanf(line, "VmHWM: %ld", &kilobytes) == 1) std::printf("peak_kb %ld\n", kilobytes);
  }
  std::fclose(status);
}
