#pragma once

#include <memory>

namespace weft::faults {
class Scenario;
/// Whether the next ones can be made.
bool has_device();
std::unique_ptr<Scenario> device_step();
std::unique_ptr<Scenario> device_streams();
std::unique_ptr<Scenario> device_replays();
}  // namespace weft::faults
