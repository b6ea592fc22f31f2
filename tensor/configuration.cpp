#include "configuration.hpp"

#include "atomic.hpp"
#include "capture_recorder.hpp"

namespace weft::detail {

namespace {

constinit Atomic<uint64_t> settings = 0;
constinit Atomic<uint64_t> last_setting = 0;

// Spreads a number over all bits (splitmix64), so that settings toggled together do not cancel.
uint64_t spread(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

}  // namespace

uint64_t configuration() { return settings.load(MemoryOrder::acquire); }

void toggle_configuration(uint64_t setting) {
  uint64_t before = settings.load(MemoryOrder::relaxed);
  while (!settings.compare_exchange_strong(before, before ^ spread(setting), MemoryOrder::acq_rel)) {
  }
}

void change_configuration() {
  if (capture_recorder == nullptr) toggle_configuration(new_setting());
}

Changes::~Changes() {
  if (number_ != 0) toggle_configuration(number_);
}

void Changes::note() {
  if (capture_recorder != nullptr) return;
  if (number_ != 0) toggle_configuration(number_);
  toggle_configuration(number_ = new_setting());
}

uint64_t new_setting() { return last_setting.fetch_add(1, MemoryOrder::relaxed) + 1; }

}  // namespace weft::detail
