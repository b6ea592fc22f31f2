#include "wrong.h"

#include <cstring>
#include <utility>
#include <vector>

namespace weft::testing::ze {
namespace {

constexpr std::pair<const char*, Wrong> names[] = {
    {"kernel", Wrong::kernel}, {"copy", Wrong::copy},       {"peer", Wrong::peer},     {"order", Wrong::order},
    {"late", Wrong::late},     {"serial", Wrong::serial},   {"query", Wrong::query},   {"clock", Wrong::clock},
    {"memory", Wrong::memory}, {"reports", Wrong::reports}, {"refuse", Wrong::refuse}, {"endless", Wrong::endless}};

Wrong chosen() {
  const std::string& text = config().wrong;
  for (const auto& [name, wrong] : names) {
    if (text.substr(0, text.find('=')) == name) return wrong;
  }
  if (!text.empty()) report("WEFT_ZE_WRONG=%s is not known", text.c_str());
  return Wrong::nothing;
}

std::string wrong_kernel() {
  const size_t equals = config().wrong.find('=');
  return equals == std::string::npos ? "" : config().wrong.substr(equals + 1);
}

std::vector<void*> pointers_of(const Launch& launch) {
  std::vector<void*> found;
  ArgumentBlock arguments = launch.arguments;
  for (const KernelParameter& parameter : launch.kernel->parameters) {
    if (parameter.kind != KernelParameter::Kind::global_pointer) continue;
    void* pointer = nullptr;
    std::memcpy(&pointer, arguments.at(parameter.offset), sizeof pointer);
    if (pointer) found.push_back(pointer);
  }
  return found;
}

void spoil_first_element(const Launch& launch) {
  constexpr size_t bytes = 4;
  constexpr unsigned char bit = 0x10;
  const std::vector<void*> pointers = pointers_of(launch);
  if (pointers.empty()) return;
  auto* first = static_cast<unsigned char*>(pointers[0]);
  const auto around = find_allocation(first);
  for (size_t i = 0; i < bytes && around && around->contains(first + i, 1); ++i) first[i] ^= bit;
}

// Restores the previous contents afterwards.
class LostReports {
 public:
  explicit LostReports(const Launch& launch) {
    constexpr size_t small = 256;
    for (void* pointer : pointers_of(launch)) {
      const auto around = find_allocation(pointer);
      if (!around || around->type != ZE_MEMORY_TYPE_HOST || around->size > small) continue;
      const auto* bytes = static_cast<const unsigned char*>(around->base);
      kept_.push_back({around->base, {bytes, bytes + around->size}});
    }
  }
  ~LostReports() {
    for (const auto& [base, bytes] : kept_) std::memcpy(base, bytes.data(), bytes.size());
  }

 private:
  std::vector<std::pair<void*, std::vector<unsigned char>>> kept_;
};

}  // namespace

bool does_wrong(Wrong what) {
  static const Wrong wrong = chosen();
  return wrong == what;
}

void run_launch_wrongly(const Launch& launch) {
  static const std::string name = wrong_kernel();
  if (does_wrong(Wrong::reports)) {
    const LostReports lost(launch);
    return run_launch(launch);
  }
  run_launch(launch);
  if (does_wrong(Wrong::kernel) && launch.kernel->name.find(name) != std::string::npos) spoil_first_element(launch);
}

}  // namespace weft::testing::ze
