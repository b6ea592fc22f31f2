// Repeats a case that AnomalyGuard or BreakOn saved, or describes a step that a StepRecorder saved: ./weft replay
// FOLDER
#include <cstdio>
#include <string>

#include <weft/weft.hpp>
#include <weft/io/replay.hpp>
#include <weft/io/step_recorder.hpp>

int main(int argc, char** argv) {
  if (argc < 2) return std::fputs("usage: weft-replay FOLDER [DEVICE...]\n", stderr), 2;
  int status = 0;
  try {
    if (weft::io::holds_step(argv[1])) {
      std::printf("%s\n", weft::io::step_text(argv[1]).c_str());
      return 0;
    }
    for (int i = 2; i < argc || i == 2; ++i) {
      std::optional<weft::Device> device;
      if (i < argc) device = weft::Device(argv[i]);
      const weft::io::Replayed call = weft::io::replay(argv[1], device);
      std::printf("%s\n", call.text.c_str());
      if (call.happens) status = 1;
    }
  } catch (const weft::Error& error) {
    return std::fprintf(stderr, "%s\n", error.what()), 2;
  }
  return status;
}
