#include "../signals.hpp"

#include <csignal>
#include <iterator>

namespace weft::train {

namespace {

volatile std::sig_atomic_t received_signal = 0;
bool is_watched = false;
constexpr int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

}  // namespace

struct EndBySignal::Handlers {
  struct sigaction of[std::size(signals)];
};

EndBySignal::EndBySignal() {
  if (is_watched) return;
  before_ = weft::detail::Pimpl(new Handlers);
  is_watched = true;
  received_signal = 0;
  for (size_t i = 0; i < std::size(signals); ++i) {
    sigaction(signals[i], nullptr, &before_->of[i]);
    struct sigaction action {};
    action.sa_handler = [](int signal) { received_signal = signal; };
    action.sa_flags = signals[i] == SIGINT ? SA_RESTART | static_cast<int>(SA_RESETHAND) : SA_RESTART;
    if (before_->of[i].sa_handler != SIG_IGN) sigaction(signals[i], &action, nullptr);
  }
}

EndBySignal::~EndBySignal() {
  if (!before_) return;
  for (size_t i = 0; i < std::size(signals); ++i) sigaction(signals[i], &before_->of[i], nullptr);
  is_watched = false;
}

int EndBySignal::received() { return received_signal; }

}  // namespace weft::train
