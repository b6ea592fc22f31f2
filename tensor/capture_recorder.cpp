#include "capture_recorder.hpp"

namespace weft::detail {

CaptureRecorder::~CaptureRecorder() = default;
HeldMemory::~HeldMemory() = default;

constinit thread_local CaptureRecorder* capture_recorder = nullptr;
constinit Atomic<HeldMemory*> held_memory = nullptr;

}  // namespace weft::detail
