// Checkpointed calls record the streams that are used inside them, so recomputation restores exactly those.
#include "rng_tracker.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "../hooks/checkpoint.hpp"
#include "../tensor/error.hpp"
#include "detail/member.hpp"

namespace weft::distributed {

namespace {

struct Stream {
  uint64_t seed = 0;
  Shared<Generator> generator;
  /// The device whose generator currently draws from this stream.
  std::optional<Device> lent_to = {};
};

}  // namespace

struct RngTracker::Streams {
  std::optional<uint64_t> default_seed;
  std::map<std::string, Stream> by_name;

  Stream& named(const std::string& name) {
    const auto found = by_name.find(name);
    if (found != by_name.end()) return found->second;
    raise<KeyError>({.problem = fmt::format("no stream is named '{}'", name), .remedy = "add it first"});
  }
};

/// On the CPU, replaces the thread's generator; on a device, exchanges the state of its generator.
struct RngTracker::Guard::Swap {
  Swap(Shared<Streams> streams_, Stream& stream_, Device device_)
      : streams(std::move(streams_)), stream(stream_), device(device_) {
    if (device.is_cpu()) {
      on_cpu.emplace(stream.generator);
      return;
    }
    weft::detail::note_stream(stream.generator);
    Generator& target = default_generator(device);
    outer = target.state();
    target.set_state(stream.generator->state());
    stream.lent_to = device;
  }
  ~Swap() {
    if (device.is_cpu()) return;
    Generator& target = default_generator(device);
    stream.generator->set_state(target.state());
    target.set_state(outer);
    stream.lent_to.reset();
  }
  Swap(const Swap&) = delete;

  const Shared<Streams> streams;
  Stream& stream;
  const Device device;
  GeneratorState outer;
  std::optional<weft::detail::StreamGuard> on_cpu;
};

RngTracker::Guard::Guard(std::unique_ptr<Swap> swap) : swap_(std::move(swap)) {}
RngTracker::Guard::~Guard() = default;

RngTracker::RngTracker(std::optional<uint64_t> default_seed) : streams_(Shared<Streams>::make()) {
  streams_->default_seed = default_seed;
}

void RngTracker::add(const std::string& name, uint64_t seed, Location where) const {
  const CallScope call("RngTracker::add", where);
  std::map<std::string, Stream>& streams = streams_->by_name;
  if (streams.contains(name)) raise<ValueError>({.problem = fmt::format("a stream is named '{}' already", name)});
  const auto same = std::ranges::find_if(streams, [&](const auto& entry) { return entry.second.seed == seed; });
  if (same != streams.end() || streams_->default_seed == seed) {
    const std::string whose = same != streams.end() ? fmt::format("stream '{}' has", same->first)
                                                    : std::string("the default generators have");
    raise<ValueError>({.problem = fmt::format("{} the seed {} already", whose, seed),
                       .remedy = "streams of one seed draw the same numbers"});
  }
  streams.emplace(name, Stream{seed, Shared<Generator>::make(seed)});
}

RngTracker::Guard RngTracker::use(const std::string& name, Device device, Location where) const {
  const CallScope call("RngTracker::use", where);
  Stream& stream = streams_->named(name);
  if (stream.lent_to) {
    raise<ValueError>({.problem = fmt::format("stream '{}' is in use on {}", name, stream.lent_to->name())});
  }
  return Guard(std::make_unique<Guard::Swap>(streams_, stream, device));
}

RngTracker::State RngTracker::state() const {
  State out;
  for (const auto& [name, stream] : streams_->by_name) {
    out[name] = (stream.lent_to ? default_generator(*stream.lent_to) : *stream.generator).state();
  }
  return out;
}

void RngTracker::set_state(const State& state, Location where) const {
  const CallScope call("RngTracker::set_state", where);
  for (const auto& [name, numbers] : state) streams_->named(name);
  for (auto& [name, stream] : streams_->by_name) {
    if (!state.contains(name)) {
      raise<KeyError>({.problem = fmt::format("the state has no stream '{}'", name)});
    }
  }
  for (const auto& [name, numbers] : state) {
    const Stream& stream = streams_->named(name);
    (stream.lent_to ? default_generator(*stream.lent_to) : *stream.generator).set_state(numbers);
  }
}

std::map<std::string, Generator*> RngTracker::generators() const {
  std::map<std::string, Generator*> out;
  for (const auto& [name, stream] : streams_->by_name) out[name] = stream.generator.get();
  return out;
}

RngTracker model_parallel_seed(uint64_t seed, const Group& tensor_parallel, const std::optional<Group>& pipeline,
                               Location where) {
  const CallScope call("model_parallel_seed", where);
  tensor_parallel.member().check_member();
  if (pipeline) pipeline->member().check_member();
  const int stages = pipeline ? pipeline->size() : 1, stage = pipeline ? pipeline->rank() : 0;
  manual_seed(seed);
  RngTracker tracker(seed);
  tracker.add("local", seed + 1 + static_cast<uint64_t>(tensor_parallel.rank() * stages + stage));
  return tracker;
}

}  // namespace weft::distributed
