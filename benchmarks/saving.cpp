// What saving in the background costs the training: ten steps, and ten steps that begin with a save, by turns.
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>

#include <weft/io/training_state.hpp>

#include "models.hpp"
#include "pair.hpp"

namespace weft::bench {

namespace {

/// A folder on the disk where the program was started, removed at the end.
struct Runs {
  Runs() : path(std::filesystem::current_path() / ("weft-bench-" + std::to_string(::getpid()))) {}
  ~Runs() {
    std::error_code ignored;
    std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

void add_step_case(const std::string& name, int64_t width) {
  const auto training = std::make_shared<std::unique_ptr<GptTraining>>();
  const auto runs = std::make_shared<Runs>();
  const auto saver = std::make_shared<std::unique_ptr<io::BackgroundSaver>>();
  const auto step = [=] {
    if (*training == nullptr) *training = std::make_unique<GptTraining>(width);
    (*training)->step();
  };
  add_pair(name, 10, step, [=, count = 0]() mutable {
    if (*saver == nullptr)
      *saver = std::make_unique<io::BackgroundSaver>(runs->path, io::SaveStateOptions{.keep_last = 2});
    if (count++ % 10 == 0) {
      (*saver)->save({(*training)->model, &(*training)->optimizer}, {.step = count});
    }
    step();
    if (count % 10 == 0) (*saver)->wait();
  });
}

}  // namespace

void add_saving_cases() {
  add_step_case("save.beside_10_steps.chargpt", 128);
  add_step_case("save.beside_10_steps.width512", 512);
}

}  // namespace weft::bench
