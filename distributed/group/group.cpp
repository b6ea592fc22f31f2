#include "../group.hpp"

#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>

#include "../../tensor/settings.hpp"
#include "../detail/member.hpp"
#include "../error.hpp"
#include "../local/hub.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace detail {

constinit thread_local const Shared<Member>* thread_world = nullptr;

double default_timeout() {
  if (const char* text = weft::detail::setting("WEFT_DISTRIBUTED_TIMEOUT")) {
    const double seconds = std::strtod(text, nullptr);
    if (seconds > 0) return seconds;
  }
  return 600;
}

Shared<Member> lone_world() {
  static const Shared<Member> alone = [] {
    const Shared<Threads> threads = Shared<Threads>::make(size_t{1});
    const int ranks[] = {0};
    return Shared<Member>::make(make_local_wire(threads, threads->next_hub(ranks, 0), 0), std::vector<int>{0}, 0,
                                default_timeout());
  }();
  return alone;
}

}  // namespace detail

int Group::rank() const { return member_->rank(); }
int Group::size() const { return member_->size(); }
std::span<const int> Group::ranks() const { return member_->ranks(); }
double Group::timeout() const { return member_->timeout(); }
const char* Group::wire() const { return member_->contains_me() ? member_->wire().name() : "none"; }

int64_t Group::sent_bytes() const { return member_->contains_me() ? member_->wire().sent_bytes() : 0; }

void Group::set_timeout(double seconds, Location where) const {
  const CallScope call("set_timeout", where);
  if (!(seconds > 0)) raise_value("seconds", "a number above 0", seconds);
  member_->set_timeout(seconds);
}

Group Group::subgroup(std::span<const int> ranks, Location where) const {
  const CallScope call("subgroup", where);
  if (ranks.empty()) raise<ValueError>({.problem = "a group needs a rank"});
  std::vector<int> in_world;
  for (const int rank : ranks) {
    if (rank < 0 || rank >= size()) {
      raise<ValueError>({.problem = fmt::format("the group of {} ranks has no rank {}", size(), rank)});
    }
    in_world.push_back(this->ranks()[static_cast<size_t>(rank)]);
    if (std::count(ranks.begin(), ranks.end(), rank) > 1) {
      raise<ValueError>({.problem = fmt::format("rank {} is named twice", rank)});
    }
  }
  const auto me = std::find(ranks.begin(), ranks.end(), rank());
  if (me == ranks.end()) {
    return Group(Shared<detail::Member>::make(Shared<detail::Wire>(), std::move(in_world), -1, timeout()));
  }
  detail::CallRecord record;
  record.place = {"subgroup", weft::detail::current_call.where};
  Shared<detail::Wire> wire = member_->waiting(
      {}, [&](detail::Clock::time_point deadline) { return member_->wire().of_subgroup(in_world, record, deadline); });
  return Group(Shared<detail::Member>::make(std::move(wire), std::move(in_world), static_cast<int>(me - ranks.begin()),
                                            timeout()));
}

Group Group::subgroup(std::initializer_list<int> ranks, Location where) const {
  return subgroup(std::span(ranks.begin(), ranks.size()), where);
}

Group Group::split(int color, Location where) const {
  const CallScope call("split", where);
  const int64_t own[] = {color};
  const std::vector<int64_t> colors = detail::tell_all(member_, own);
  std::vector<int> same;
  for (int r = 0; r < size(); ++r) {
    if (colors[static_cast<size_t>(r)] == color) same.push_back(r);
  }
  return subgroup(same, where);
}

Group world(Location where) {
  const CallScope call("world", where);
  if (detail::thread_world != nullptr) return Group(*detail::thread_world);
  static const Shared<detail::Member> processes = detail::mpi_world();
  return Group(processes != nullptr ? processes : detail::lone_world());
}

int rank(Location where) { return world(where).rank(); }
int world_size(Location where) { return world(where).size(); }

}  // namespace weft::distributed
