// The calls for count.py: under `valgrind --tool=callgrind --collect-atstart=no` each case leaves a dump of its own.
// The first line printed says how many calls a dump holds.
#include <valgrind/callgrind.h>

#include <cstdio>

#include <weft/weft.hpp>

namespace {

using namespace weft;

constexpr int calls = 200;

template <class F>
void count(const char* name, F&& call) {
  // Fills free lists and first-call caches.
  for (int i = 0; i < 20; ++i) call();
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
  for (int i = 0; i < calls; ++i) call();
  CALLGRIND_TOGGLE_COLLECT;
  CALLGRIND_DUMP_STATS_AT(name);
}

template <class F>
void count_unrecorded(const char* name, F&& call) {
  const NoGradGuard guard;
  count(name, call);
}

}  // namespace

int main() {
  std::printf("%d calls each\n", calls);
  const Tensor a = rand({1}), b = rand({1}), m = rand({4, 4});
  const Tensor x = rand({1}).requires_grad_(), y = rand({1}).requires_grad_(), z = rand({1}).requires_grad_();
  const Tensor hooked = rand({1}).requires_grad_();
  register_hook(hooked, [](const Tensor& g) { return g; });

  count_unrecorded("add_1.nograd", [&] { Tensor r = a + b; });
  count_unrecorded("view", [&] { Tensor r = m.view({2, 8}); });
  count_unrecorded("getitem_int", [&] { Tensor r = m[1]; });
  count("add_1.record", [&] { Tensor r = x + y; });
  count("muladd_fwd_bwd", [&] {
    x.set_grad({}), y.set_grad({}), z.set_grad({});
    Tensor r = x * y + z;
    r.backward();
  });
  count("hook_fwd_bwd", [&] {
    hooked.set_grad({});
    Tensor r = hooked + 1.0;
    r.backward();
  });
}
