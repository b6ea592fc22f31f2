#include <exception>
#include <functional>

#include <fmt/format.h>

#include "../../io/files/background-inl.hpp"
#include "../../io/training/state_folder-inl.hpp"
#include "../../tensor/threads.hpp"
#include "../../tensor/warning.hpp"
#include "../detail/member.hpp"
#include "../detail/together.hpp"
#include "saving-inl.hpp"

namespace weft::distributed {

namespace {

/// While one exists, the rank does not exit.
struct UnderWay {
  explicit UnderWay(detail::Wire& wire) : wire_(wire) { wire_.count_work(1); }
  ~UnderWay() { wire_.count_work(-1); }
  UnderWay(const UnderWay&) = delete;

 private:
  detail::Wire& wire_;
};

}  // namespace

struct BackgroundSaver::Impl {
  Group group;
  io::BackgroundCall writing;

  template <class Write>
  void start(Location where, Write write) {
    const auto under_way = Shared<UnderWay>::make(group.member().wire());
    writing.start([under_way, where, write = std::move(write)] {
      const CallScope background("BackgroundSaver::save", where);
      const OneThreadGuard alone;
      write();
    });
  }
};

BackgroundSaver::BackgroundSaver(const Group& group, Location where) : impl_(new Impl{group.split(0, where), {}}) {}

BackgroundSaver::~BackgroundSaver() {
  try {
    impl_->writing.wait();
  } catch (const std::exception& error) {
    warn({.op = "BackgroundSaver", .problem = fmt::format("the last state was not saved: {}", error.what())});
  }
}

int64_t BackgroundSaver::save(const io::ShardedState& state, const io::Path& folder,
                              const io::SaveStateDictOptions& options, Location where) {
  impl_->writing.wait();
  const CallScope call("BackgroundSaver::save", where);
  const Group& group = impl_->group;
  detail::PlannedState planned = detail::planned(state, folder, group, options, where);
  detail::together(group, "save", [&] { detail::take_copies(planned, group.rank()); });
  const int64_t id = planned.plan.id;
  impl_->start(where, [impl = impl_.get(), planned = std::move(planned), folder, where] {
    detail::write(planned, folder, impl->group, where);
  });
  return id;
}

io::Path BackgroundSaver::save(const ShardedRun& run, const io::RunState& state, const io::Path& folder,
                               const io::SaveStateOptions& options, Location where) {
  impl_->writing.wait();
  const CallScope call("BackgroundSaver::save", where);
  const Group& group = impl_->group;
  detail::PlannedRun planned = detail::planned_run(run, state, group, where);
  detail::together(group, "save", [&] {
    for (auto& [name, parts] : planned.states) detail::take_copies(parts, group.rank());
    planned.numbers.tensors.clear();
  });
  impl_->start(where, [impl = impl_.get(), planned = std::move(planned), folder, options, where] {
    detail::write_run(planned, folder, impl->group, options, where);
  });
  return folder / io::state_name(state.step);
}

void BackgroundSaver::wait() { impl_->writing.wait(); }

}  // namespace weft::distributed
