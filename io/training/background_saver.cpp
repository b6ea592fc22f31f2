#include <exception>
#include <thread>

#include <fmt/format.h>

#include "../files/folder-inl.hpp"
#include "../file.hpp"
#include "training_snapshot-inl.hpp"
#include "../../autograd/mode.hpp"
#include "../../tensor/warning.hpp"

namespace weft::io {

struct BackgroundSaver::Impl {
  Path folder, last;
  SaveStateOptions options;
  std::thread writer;
  std::exception_ptr failure;

  void join() {
    if (writer.joinable()) writer.join();
  }
  void raise_failure() {
    if (failure != nullptr) std::rethrow_exception(std::exchange(failure, nullptr));
  }
};

namespace {

// Copies in the host's memory, since the run changes its own.
void take(TensorMap& tensors) {
  const NoGradGuard unrecorded;
  for (auto& [name, tensor] : tensors) {
    const Tensor host = tensor.detach().to(Device());
    tensor = host.shares_storage(tensor) ? host.clone() : host;
  }
}

}  // namespace

BackgroundSaver::BackgroundSaver(Path folder, SaveStateOptions options, Location where)
    : impl_(new Impl{std::move(folder), {}, options, {}, {}}) {
  make_folder(impl_->folder, "save_training_state", where);
  check_writable(impl_->folder / "state", "save_training_state", where);
}

BackgroundSaver::~BackgroundSaver() {
  impl_->join();
  try {
    impl_->raise_failure();
  } catch (const std::exception& error) {
    warn({.op = "BackgroundSaver", .problem = fmt::format("the last state was not saved: {}", error.what())});
  }
}

void BackgroundSaver::save(const TrainingRun& run, const RunState& state, Location where) {
  impl_->join();
  impl_->raise_failure();
  TrainingSnapshot snapshot = snapshot_of(run, state, where);
  for (TensorMap* tensors :
       {&snapshot.weights, &snapshot.optimizer, &snapshot.masters, &snapshot.gradients, &snapshot.tensors})
    take(*tensors);
  impl_->writer = std::thread([impl = impl_.get(), snapshot = std::move(snapshot), where] {
    try {
      impl->last = write_snapshot(impl->folder, snapshot, impl->options, where);
    } catch (...) {
      impl->failure = std::current_exception();
    }
  });
}

Path BackgroundSaver::wait() {
  impl_->join();
  impl_->raise_failure();
  return impl_->last;
}

}  // namespace weft::io
