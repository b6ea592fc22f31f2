// Usage: launch LIB CASE N prog args... Runs the program N times, discards its stdout, and prints wall time from exec
// to exit and peak RSS as JSON.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>
int main(int argc, char** argv) {
  if (argc < 5) {
    std::fprintf(stderr, "usage: launch LIB CASE N prog args...\n");
    return 2;
  }
  int n = std::atoi(argv[3]);
  std::vector<double> ns;
  long rss = 0;
  for (int i = 0; i < n + 1; ++i) {
    auto t0 = std::chrono::steady_clock::now();
    pid_t p = fork();
    if (p == 0) {
      int fd = open("/dev/null", O_WRONLY);
      dup2(fd, 1);
      execvp(argv[4], argv + 4);
      _exit(127);
    }
    int st = 0;
    rusage u{};
    wait4(p, &st, 0, &u);
    double t = std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - t0).count();
    if (st != 0) {
      std::fprintf(stderr, "launch: %s failed, status %d\n", argv[4], st);
      return 1;
    }
    if (i > 0) ns.push_back(t);  // the first run only warms the page cache
    rss = std::max(rss, u.ru_maxrss);
  }
  std::sort(ns.begin(), ns.end());
  std::printf(
      "{\"lib\":\"%s\",\"case\":\"%s\",\"threads\":1,\"ns\":%.0f,\"min_ns\":%.0f,\"reps\":%zu,\"unit\":\"ns/"
      "process\",\"peak_rss_mb\":%.1f}\n",
      argv[1], argv[2], ns[ns.size() / 2], ns.front(), ns.size(), rss / 1024.0);
}
