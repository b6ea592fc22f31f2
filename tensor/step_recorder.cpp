#include "step_recorder.hpp"

namespace weft::detail {

StepRecorder::~StepRecorder() = default;
HeldMemory::~HeldMemory() = default;

constinit thread_local StepRecorder* step_recorder = nullptr;
constinit Atomic<HeldMemory*> held_memory = nullptr;

}  // namespace weft::detail
