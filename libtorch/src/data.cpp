// The parts of torch::data that are not templates.
#include <torch/data.h>

#include <condition_variable>
#include <mutex>
#include <thread>

#include <weft/data/mnist.hpp>

namespace torch::data {

// ---- threads ----
namespace detail {

struct Monitor::State {
  std::mutex mutex;
  std::condition_variable changed;
};
Monitor::Monitor() : state_(std::make_unique<State>()) {}
Monitor::~Monitor() = default;
Monitor::Lock::Lock(const Monitor& monitor) : monitor_(monitor) { monitor.state_->mutex.lock(); }
Monitor::Lock::~Lock() { monitor_.state_->mutex.unlock(); }
void Monitor::notify() const { state_->changed.notify_all(); }

namespace {
// The caller holds the mutex before and after.
template <class F>
auto with_lock(std::mutex& mutex, const F& wait) {
  std::unique_lock<std::mutex> lock(mutex, std::adopt_lock);
  struct Release {
    std::unique_lock<std::mutex>& lock;
    ~Release() { lock.release(); }
  } release{lock};
  return wait(lock);
}
}  // namespace

void Monitor::wait_once() const {
  with_lock(state_->mutex, [&](auto& lock) { state_->changed.wait(lock); });
}
bool Monitor::wait_once_until(std::chrono::steady_clock::time_point deadline) const {
  return with_lock(state_->mutex, [&](auto& lock) {
    return state_->changed.wait_until(lock, deadline) == std::cv_status::no_timeout;
  });
}

struct Threads::State {
  std::vector<std::thread> threads;
};
Threads::Threads() : state_(std::make_unique<State>()) {}
Threads::~Threads() { join(); }
void Threads::start(std::function<void()> work) { state_->threads.emplace_back(std::move(work)); }
void Threads::join() {
  for (std::thread& thread : state_->threads) thread.join();
  state_->threads.clear();
}
size_t Threads::size() const { return state_->threads.size(); }

}  // namespace detail

// ---- transforms ----
namespace transforms {

Example<> Stack<Example<>>::apply_batch(std::vector<Example<>> examples) {
  std::vector<Tensor> data, targets;
  for (Example<>& example : examples) {
    data.push_back(std::move(example.data));
    targets.push_back(std::move(example.target));
  }
  return {torch::stack(data), torch::stack(targets)};
}
TensorExample Stack<TensorExample>::apply_batch(std::vector<TensorExample> examples) {
  std::vector<Tensor> data;
  for (TensorExample& example : examples) data.push_back(std::move(example.data));
  return torch::stack(data);
}

namespace detail {
Tensor channels(ArrayRef<double> values) { return torch::tensor(values, kFloat32).unsqueeze(1).unsqueeze(2); }
}  // namespace detail

}  // namespace transforms

// ---- datasets ----
namespace datasets {

TensorDataset::TensorDataset(const std::vector<Tensor>& tensors) : tensor(torch::stack(tensors)) {}

MNIST::MNIST(const std::string& root, Mode mode) : mode_(mode) {
  const weft::data::LabelledImages files = weft::data::load_mnist(root, is_train());
  images_ = Tensor(files.images).to(kFloat32).div(255);
  targets_ = files.labels;
}
Example<> MNIST::get(size_t index) {
  const auto i = static_cast<int64_t>(index);
  return {images_[i], targets_[i]};
}

}  // namespace datasets

}  // namespace torch::data
