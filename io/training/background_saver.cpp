#include <fmt/format.h>

#include "../files/background-inl.hpp"
#include "../files/folder-inl.hpp"
#include "../file.hpp"
#include "training_snapshot-inl.hpp"
#include "../../tensor/warning.hpp"

namespace weft::io {

struct BackgroundSaver::Impl {
  Path folder, last;
  SaveStateOptions options;
  BackgroundCall writing;
};

BackgroundSaver::BackgroundSaver(Path folder, SaveStateOptions options, Location where)
    : impl_(new Impl{std::move(folder), {}, options, {}}) {
  make_folder(impl_->folder, "save_training_state", where);
  check_writable(impl_->folder / "state", "save_training_state", where);
}

BackgroundSaver::~BackgroundSaver() {
  try {
    impl_->writing.wait();
  } catch (const std::exception& error) {
    warn({.op = "BackgroundSaver", .problem = fmt::format("the last state was not saved: {}", error.what())});
  }
}

void BackgroundSaver::save(const TrainingRun& run, const RunState& state, Location where) {
  impl_->writing.wait();
  TrainingSnapshot snapshot = snapshot_of(run, state, where);
  for (TensorMap* tensors :
       {&snapshot.weights, &snapshot.optimizer, &snapshot.masters, &snapshot.gradients, &snapshot.tensors}) {
    for (auto& [name, tensor] : *tensors) tensor = host_copy(tensor);
  }
  impl_->writing.start([impl = impl_.get(), snapshot = std::move(snapshot), where] {
    impl->last = write_snapshot(impl->folder, snapshot, impl->options, where);
  });
}

Path BackgroundSaver::wait() {
  impl_->writing.wait();
  return impl_->last;
}

}  // namespace weft::io
