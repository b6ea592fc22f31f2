// Devices that communicate by NCCL: a replacement library, on host and HPU memory.
#include <dlfcn.h>

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/backends/stream.hpp>
#include <weft/distributed/detail/member.hpp>
#include <weft/distributed/nccl/wire.hpp>

#include <collected_warnings.hpp>
#include <message_of.hpp>

#include "nccl/fake_nccl.hpp"
#include "ranks.hpp"

#if __has_include(<nccl.h>) && __has_include(<cuda_runtime.h>)
#include <nccl.h>
// The library's declarations of NCCL agree with NCCL's header.
using namespace weft::distributed;
static_assert(sizeof(nccl::UniqueId) == sizeof(ncclUniqueId));
static_assert(static_cast<int>(nccl::Result::in_progress) == ncclInProgress);
static_assert(static_cast<int>(nccl::Result::remote_error) == ncclRemoteError);
static_assert(static_cast<int>(nccl::DataType::u8) == ncclUint8 &&
              static_cast<int>(nccl::DataType::bf16) == ncclBfloat16);
static_assert(static_cast<int>(nccl::DataType::i32) == ncclInt32 &&
              static_cast<int>(nccl::DataType::u64) == ncclUint64);
static_assert(static_cast<int>(nccl::DataType::f16) == ncclFloat16 &&
              static_cast<int>(nccl::DataType::f64) == ncclFloat64);
static_assert(static_cast<int>(nccl::Reduction::sum) == ncclSum && static_cast<int>(nccl::Reduction::avg) == ncclAvg);
static_assert(static_cast<int>(nccl::Reduction::max) == ncclMax && static_cast<int>(nccl::Reduction::min) == ncclMin);
static_assert(offsetof(nccl::Config, magic) == offsetof(ncclConfig_t, magic));
static_assert(offsetof(nccl::Config, version) == offsetof(ncclConfig_t, version));
static_assert(offsetof(nccl::Config, blocking) == offsetof(ncclConfig_t, blocking));
#endif

namespace weft::distributed {
namespace {

using detail::CallRecord;
using detail::Clock;
using detail::Received;
using detail::Sent;
using detail::Wire;
using fake_nccl::Fault;
using std::chrono::seconds;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr const char* fake_file = WEFT_FAKE_NCCL;

const nccl::Library& fake_library() {
  static std::string why;
  static const nccl::Library* const library = nccl::open_library(fake_file, why);
  if (library == nullptr) throw std::runtime_error(why);
  return *library;
}
template <class F>
F of_fake(const char* name) {
  fake_library();
  return reinterpret_cast<F>(dlsym(dlopen(fake_file, RTLD_NOW), name));
}
int calls_of(const char* what) { return of_fake<fake_nccl::Count>("fake_nccl_count")(what); }
void strike(Fault fault, int rank) { of_fake<fake_nccl::SetFault>("fake_nccl_fault")(fault, rank); }

/// The replacement of a GPU stream, behind the device's own.
class TestQueue final : public nccl::Queue {
 public:
  TestQueue(fake_nccl::Stream& stream, Device device) : stream_(stream) {
    if (!device.is_cpu()) current_stream(device).synchronize();
  }
  void* handle() override { return &stream_; }
  void mark() override { mark_ = stream_.queued(); }
  bool reached() override { return stream_.done() >= mark_; }

 private:
  fake_nccl::Stream& stream_;
  uint64_t mark_ = 0;
};

nccl::Site site_of(int rank, const Shared<fake_nccl::Stream>& stream, Device device = {}) {
  nccl::Site site;
  site.library = &fake_library();
  site.device = device;
  site.identity = "device " + std::to_string(rank);
  site.queue = [stream, device] { return std::make_unique<TestQueue>(*stream, device); };
  site.enter = [](const Callback<void()>& act) { act(); };
  return site;
}

CallRecord call_of(const char* op) {
  CallRecord call;
  call.place.op = op;
  return call;
}

Clock::time_point soon() { return Clock::now() + seconds(20); }
Shared<Wire> host_wire(const Group& group) { return {group.shared_member(), &group.member().wire()}; }

/// Memory of the host as if it were the devices'.
Shared<Wire> connected(const Group& group, const nccl::Site& site) {
  return nccl::connect(site, host_wire(group), group.rank(), group.size(), call_of("connect"), soon());
}
void on_wires(int ranks, const std::function<void(const Group&, Wire&)>& body, bool own_sums = false) {
  of_fake<fake_nccl::Reset>("fake_nccl_reset")();
  LocalWorld(ranks, {.timeout_seconds = 20}).run([&](const Group& group) {
    nccl::Site site = site_of(group.rank(), Shared<fake_nccl::Stream>::make());
    site.own_sums = own_sums;
    const Shared<Wire> wire = connected(group, site);
    ASSERT_NE(wire, nullptr);
    body(group, *wire);
  });
  EXPECT_EQ(calls_of("misuse"), 0);
}

TEST(Nccl, PartsOfAnySizeAreExchanged) {
  for (const int ranks : {2, 3, 4}) {
    on_wires(ranks, [&](const Group& group, Wire& wire) {
      const int me = group.rank();
      // Rank a sends (a + 2 b) % 4 bytes to rank b: none, too.
      const auto length = [](int from, int to) { return static_cast<size_t>((from + 2 * to) % 4); };
      const auto byte = [](int from, int to, size_t i) {
        return static_cast<char>(10 * from + 3 * to + static_cast<int>(i));
      };
      std::vector<std::vector<char>> out(static_cast<size_t>(ranks)), in(out.size());
      std::vector<Sent> sends;
      std::vector<Received> receives;
      for (int r = 0; r < ranks; ++r) {
        auto& to = out[static_cast<size_t>(r)];
        for (size_t i = 0; i < length(me, r); ++i) to.push_back(byte(me, r, i));
        in[static_cast<size_t>(r)].resize(length(r, me));
        sends.push_back({to.data(), to.size()});
        receives.push_back({in[static_cast<size_t>(r)].data(), in[static_cast<size_t>(r)].size()});
      }
      for (int round = 0; round < 3; ++round) {
        wire.exchange(call_of("all_to_all"), sends, receives, soon());
        for (int r = 0; r < ranks; ++r) {
          for (size_t i = 0; i < length(r, me); ++i) EXPECT_EQ(in[static_cast<size_t>(r)][i], byte(r, me, i));
        }
      }
    });
    EXPECT_GT(calls_of("Send"), 0);
  }
}

TEST(Nccl, ItsOwnCollectivesAreUsedWhereTheOrderOfRanksIsNoMatter) {
  on_wires(3, [](const Group& group, Wire& wire) {
    const int me = group.rank();
    std::vector<int64_t> x{me + 1, -me, 7}, y(3), all(9);
    ASSERT_TRUE(wire.reduce(call_of("all_reduce"), {ReduceOp::sum, DType::i64, x.data(), y.data(), 3}, soon()));
    EXPECT_EQ(y, (std::vector<int64_t>{6, -3, 21}));
    ASSERT_TRUE(wire.reduce(call_of("all_reduce"), {ReduceOp::max, DType::i64, x.data(), x.data(), 3}, soon()));
    EXPECT_EQ(x, (std::vector<int64_t>{3, 0, 7})) << "in place";
    std::vector<uint8_t> flags{static_cast<uint8_t>(me == 1), 1}, any(2);
    ASSERT_TRUE(
        wire.reduce(call_of("all_reduce"), {ReduceOp::any, DType::boolean, flags.data(), any.data(), 2}, soon()));
    EXPECT_EQ(any, (std::vector<uint8_t>{1, 1}));
    int32_t one = me + 1, product = 0;
    using To = Wire::Reducing::To;
    ASSERT_TRUE(wire.reduce(call_of("reduce"), {ReduceOp::prod, DType::i32, &one, &product, 1, To::root, 2}, soon()));
    EXPECT_EQ(product, me == 2 ? 6 : 0);
    std::vector<int32_t> rows{1, 2, 3};
    int32_t share = 0;
    ASSERT_TRUE(wire.reduce(call_of("reduce_scatter"), {ReduceOp::sum, DType::i32, rows.data(), &share, 1, To::shares},
                            soon()));
    EXPECT_EQ(share, 3 * (me + 1));
    std::vector<char> text(4, static_cast<char>('a' + me));
    ASSERT_TRUE(wire.broadcast(call_of("broadcast"), {text.data(), 4}, 1, soon()));
    EXPECT_EQ(std::string(text.begin(), text.end()), "bbbb");
    const std::vector<int64_t> own{me, 10 * me, 100 * me};
    ASSERT_TRUE(wire.gather(call_of("all_gather"), {own.data(), 24}, all.data(), soon()));
    EXPECT_EQ(all, (std::vector<int64_t>{0, 0, 0, 1, 10, 100, 2, 20, 200}));
    EXPECT_TRUE(wire.broadcast(call_of("broadcast"), {nullptr, 0}, 0, soon())) << "nothing is sent";
    EXPECT_EQ(group.sent_bytes() > 0, true);
  });
  for (const char* name : {"AllReduce", "Reduce", "ReduceScatter", "Broadcast", "AllGather"})
    EXPECT_GT(calls_of(name), 0) << name;
}

TEST(Nccl, FloatsAreSummedInTheOrderOfRanksUnlessItIsSaidOtherwise) {
  // 1e8 + 1 - 1e8 is 0 from the left, and 1 where the last two come first.
  const auto sum = [](Wire& wire, float own, float& out) {
    return wire.reduce(call_of("all_reduce"), {ReduceOp::sum, DType::f32, &own, &out, 1}, soon());
  };
  on_wires(3, [&](const Group& group, Wire& wire) {
    float out = 5;
    EXPECT_FALSE(sum(wire, 1, out));
    const float own = group.rank() == 0 ? 1e8f : group.rank() == 1 ? 1.0f : -1e8f;
    const std::vector<Sent> sends(3, {&own, sizeof(own)});
    wire.collect(
        call_of("all_reduce"), sends,
        [&](std::span<const void* const> parts) {
          out = 0;
          for (const void* part : parts) out += *static_cast<const float*>(part);
        },
        soon());
    EXPECT_EQ(out, 0);
  });
  on_wires(
      3,
      [&](const Group& group, Wire& wire) {
        float out = 5;
        ASSERT_TRUE(sum(wire, group.rank() == 0 ? 1e8f : group.rank() == 1 ? -1e8f : 1.0f, out));
        EXPECT_EQ(out, 0) << "from the last rank down";
        const uint16_t one_bf16 = 0x3f80;
        uint16_t total = 0;
        ASSERT_TRUE(wire.reduce(call_of("all_reduce"), {ReduceOp::sum, DType::bf16, &one_bf16, &total, 1}, soon()));
        EXPECT_EQ(total, 0x4040);
        EXPECT_FALSE(wire.reduce(call_of("all_reduce"), {ReduceOp::max, DType::f32, &out, &out, 1}, soon())) << "NaN";
        EXPECT_FALSE(wire.reduce(call_of("all_reduce"), {ReduceOp::sum, DType::i16, &total, &total, 1}, soon()));
      },
      true);
}

TEST(Nccl, UnconnectedRanksStayOnTheHostWithAReason) {
  auto refused = [number = size_t{0}](const std::function<void(int, nccl::Site&)>& change) mutable {
    of_fake<fake_nccl::Reset>("fake_nccl_reset")();
    const CollectedWarnings warnings;
    // A warning comes once for each op and place.
    constexpr const char* ops[] = {"first", "second", "third", "fourth", "fifth"};
    const char* const op = ops[number++];
    LocalWorld(2, {.timeout_seconds = 20}).run([&](const Group& group) {
      nccl::Site site = site_of(group.rank(), Shared<fake_nccl::Stream>::make());
      change(group.rank(), site);
      EXPECT_EQ(nccl::connect(site, host_wire(group), group.rank(), 2, call_of(op), soon()), nullptr);
      barrier(group);
    });
    EXPECT_EQ(calls_of("CommInitRankConfig"), 0);
    return warnings.texts.empty() ? std::string("no warning") : warnings.texts[0];
  };
  EXPECT_THAT(refused([](int rank, nccl::Site& site) {
                if (rank == 1) site.library = nullptr;
              }),
              HasSubstr("rank 1 has no NCCL: tensors of the group pass through the host"));
  EXPECT_THAT(refused([](int, nccl::Site& site) { site.identity = "the same device"; }),
              HasSubstr("ranks 0 and 1 are on one device"));
  nccl::Library older = fake_library();
  older.version = 21800;
  EXPECT_THAT(refused([&](int rank, nccl::Site& site) {
                if (rank == 0) site.library = &older;
              }),
              HasSubstr("ranks 0 and 1 have NCCL 21800 and 22809"));
  EXPECT_THAT(refused([](int rank, nccl::Site&) {
                if (rank == 0) strike(Fault::no_id, 0);
              }),
              HasSubstr("rank 0 has no NCCL"));
  EXPECT_EQ(refused([](int rank, nccl::Site& site) { site.wanted = rank != 1; }), "no warning");
  std::string why;
  EXPECT_EQ(nccl::open_library("/nowhere/libnccl.so.2", why), nullptr);
  EXPECT_THAT(why, HasSubstr("was not found"));
  EXPECT_EQ(nccl::open_library("libm.so.6", why), nullptr);
  EXPECT_THAT(why, HasSubstr("has no nccl"));
}

/// The errors on rank 0 and the last rank after a fault; no rank hangs.
std::vector<std::string> told(int ranks, const std::function<void(const Group&, Wire&)>& body,
                              double seconds_to_wait = 20) {
  of_fake<fake_nccl::Reset>("fake_nccl_reset")();
  std::vector<std::string> out(static_cast<size_t>(ranks));
  const auto begun = Clock::now();
  try {
    LocalWorld(ranks, {.timeout_seconds = seconds_to_wait}).run([&](const Group& group) {
      auto& mine = out[static_cast<size_t>(group.rank())];
      try {
        const detail::Member& member = group.member();
        member.waiting({}, [&](Clock::time_point) {
          const Shared<Wire> wire = connected(group, site_of(group.rank(), Shared<fake_nccl::Stream>::make()));
          body(group, *wire);
        });
      } catch (const DistributedError& error) {
        mine = error.what();
        throw;
      }
    });
  } catch (const DistributedError&) {
  }
  EXPECT_LT(Clock::now() - begun, seconds(15));
  EXPECT_EQ(calls_of("misuse"), 0);
  return out;
}
void exchange_one(const Group& group, Wire& wire, Clock::time_point deadline) {
  std::vector<int> in(static_cast<size_t>(group.size()));
  const int own = group.rank();
  const std::vector<Sent> sends(in.size(), {&own, sizeof(own)});
  std::vector<Received> receives;
  for (int& from : in) receives.push_back({&from, sizeof(int)});
  wire.exchange(call_of("all_gather"), sends, receives, deadline);
}

TEST(Nccl, ItsErrorTextReachesAllRanks) {
  const auto a = told(3, [](const Group& group, Wire& wire) {
    if (group.rank() == 1) strike(Fault::send_fails, 1);
    exchange_one(group, wire, soon());
  });
  EXPECT_THAT(a[1], AllOf(HasSubstr("[all_gather] rank 1: ncclSend failed with code 2 (unhandled system error)"),
                          HasSubstr("fake NCCL says so"), HasSubstr("WEFT_NCCL=0")));
  EXPECT_THAT(a[0], HasSubstr("rank 1 failed"));
  EXPECT_THAT(a[2], HasSubstr("rank 1 failed"));
  EXPECT_EQ(calls_of("CommAbort"), 3) << "each rank gave up its own";
  const auto b = told(2, [](const Group& group, Wire& wire) {
    exchange_one(group, wire, soon());
    if (group.rank() == 0) strike(Fault::async_error, 0);
    exchange_one(group, wire, soon());
  });
  EXPECT_THAT(b[0], HasSubstr("code 6 (remote process exited)"));
}

TEST(Nccl, AFailureToConnectIsAnErrorOfAllRanks) {
  of_fake<fake_nccl::Reset>("fake_nccl_reset")();
  std::vector<std::string> out(2);
  EXPECT_THROW(LocalWorld(2, {.timeout_seconds = 20}).run([&](const Group& group) {
    try {
      group.member().waiting({}, [&](Clock::time_point) {
        if (group.rank() == 1) strike(Fault::init_fails, 1);
        connected(group, site_of(group.rank(), Shared<fake_nccl::Stream>::make()));
      });
    } catch (const DistributedError& error) {
      out[static_cast<size_t>(group.rank())] = error.what();
      throw;
    }
  }),
               DistributedError);
  EXPECT_THAT(out[1], HasSubstr("ncclCommInitRankConfig failed with code 2"));
  EXPECT_THAT(out[0], HasSubstr("rank 1 failed")) << "it waited for a rank that does not come";
}

TEST(Nccl, ADeviceThatHangsEndsByTheDeadlineAndItsCommunicatorIsGivenUp) {
  const auto a = told(2, [](const Group& group, Wire& wire) {
    exchange_one(group, wire, soon());
    if (group.rank() == 0) strike(Fault::hangs, 0);
    try {
      exchange_one(group, wire, Clock::now() + std::chrono::milliseconds(300));
    } catch (const DistributedError&) {
      EXPECT_THAT(message_of<DistributedError>([&] { exchange_one(group, wire, soon()); }),
                  HasSubstr("given up after a failure"));
      throw;
    }
  });
  EXPECT_THAT(a[0] + a[1], HasSubstr("did not come in time"));
  EXPECT_EQ(calls_of("CommAbort"), 2);
}

TEST(Nccl, RanksThatThrowEndOrDisagreeAreNamedBeforeADeviceWaits) {
  const auto thrown = told(3, [](const Group& group, Wire& wire) {
    if (group.rank() == 2) throw DistributedError("[reader] the disk is full");
    exchange_one(group, wire, soon());
  });
  EXPECT_THAT(thrown[0], HasSubstr("the disk is full"));
  const auto ended = told(2, [](const Group& group, Wire& wire) {
    if (group.rank() == 0) exchange_one(group, wire, soon());
  });
  EXPECT_THAT(ended[0], HasSubstr("rank 1 has ended"));
  const auto sizes = told(2, [](const Group& group, Wire& wire) {
    std::vector<char> data(8);
    wire.broadcast(call_of("broadcast"), {data.data(), group.rank() == 0 ? 8U : 4U}, 0, soon());
  });
  EXPECT_THAT(sizes[0] + sizes[1], HasSubstr("bytes where rank"));
  const auto calls = told(2, [](const Group& group, Wire& wire) {
    std::vector<char> data(8), all(16);
    if (group.rank() == 0) wire.broadcast(call_of("broadcast"), {data.data(), 8}, 0, soon());
    else wire.gather(call_of("all_gather"), {data.data(), 8}, all.data(), soon());
  });
  EXPECT_THAT(calls[0] + calls[1], HasSubstr("but rank"));
}

TEST(Nccl, TheRealLibraryIsLoadedOrItsMissingFunctionNamed) {
  std::string why;
  const nccl::Library* const real = nccl::find_library(why);
  if (real == nullptr) GTEST_SKIP() << why;
  EXPECT_GE(real->version, 21400);
  EXPECT_THAT(real->GetErrorString(nccl::Result::invalid_usage), HasSubstr("invalid usage"));
  if (device_count(DeviceType::cuda) != 0) GTEST_SKIP() << "there is a GPU";
  std::string said;
  try {
    LocalWorld(2, {.timeout_seconds = 30}).run([&](const Group& group) {
      nccl::Site site = site_of(group.rank(), Shared<fake_nccl::Stream>::make());
      site.library = real;
      group.member().waiting({}, [&](Clock::time_point) {
        if (connected(group, site) == nullptr) throw DistributedError("it gives no number");
      });
    });
  } catch (const DistributedError& error) {
    said = error.what();
  }
  EXPECT_THAT(said, ::testing::AnyOf(HasSubstr("failed with code"), HasSubstr("gives no number"))) << "there is no GPU";
}

// ---- tensors on devices ---------------------------------------------------------------------------------------------

/// While this object lives, HPU memory is sent by NCCL: the ranks' tensors are on one device that represents several.
class ByNccl {
 public:
  ByNccl() {
    of_fake<fake_nccl::Reset>("fake_nccl_reset")();
    detail::connects_devices(DeviceType::hpu) = [](Device device, const Shared<Wire>& host, int rank, int ranks,
                                                   const CallRecord& call, Clock::time_point deadline) {
      return nccl::connect(site_of(rank, Shared<fake_nccl::Stream>::make(), device), host, rank, ranks, call, deadline);
    };
  }
  ~ByNccl() { detail::connects_devices(DeviceType::hpu) = nullptr; }
};

class NcclTensors : public ::testing::Test {
 protected:
  void SetUp() override {
    if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
  }
  /// f on tensors of the device, of which nothing may pass through the host, and on those of the host: the same bits.
  static void expect_same(int ranks, DType dtype, const Dims& shape,
                          const std::function<Tensor(const Tensor&, const Group&)>& f) {
    const ByNccl by_nccl;
    LocalWorld(ranks, {.timeout_seconds = 60}).run([&](const Group& group) {
      const Tensor host = input_of(group.rank(), shape, dtype), there = host.to("hpu");
      const Tensor expected = f(host, group), got = f(there, group);
      EXPECT_EQ(got.device(), Device("hpu"));
      EXPECT_TRUE(same_bits(got.to(Device()), expected)) << name(dtype) << " " << shape.text();
    });
    EXPECT_GT(calls_of("Send") + calls_of("Broadcast") + calls_of("AllGather") + calls_of("AllReduce") +
                  calls_of("Reduce") + calls_of("ReduceScatter"),
              0);
    EXPECT_EQ(calls_of("misuse"), 0);
  }
};

TEST_F(NcclTensors, ReductionsHaveTheBitsOfTheHost) {
  for (const DType dtype : {f32, bf16, f16, i32, i64, u8}) {
    for (const ReduceOp op :
         {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min, ReduceOp::prod, ReduceOp::any}) {
      if (op == ReduceOp::avg && !is_floating(dtype)) continue;
      for (const Dims& shape : {Dims{3, 5}, Dims{70, 130}}) {
        SCOPED_TRACE(name(op));
        expect_same(3, dtype, shape, [&](const Tensor& x, const Group& g) { return all_reduce(x, g, op); });
        expect_same(3, dtype, shape, [&](const Tensor& x, const Group& g) { return reduce(x, 1, g, op); });
        expect_same(2, dtype, shape, [&](const Tensor& x, const Group& g) { return reduce_scatter(x, g, op, 1); });
      }
    }
    expect_same(4, dtype, {8, 3}, [&](const Tensor& x, const Group& g) { return reduce_scatter(x, g); });
  }
}

TEST_F(NcclTensors, TransferredBytesAreEqual) {
  for (const DType dtype : {f32, bf16, i64, boolean, f8_e4m3fn}) {
    expect_same(3, dtype, {4, 5}, [](const Tensor& x, const Group& g) { return broadcast(x, 2, g); });
    expect_same(3, dtype, {4, 5}, [](const Tensor& x, const Group& g) { return all_gather(x, g); });
    expect_same(3, dtype, {4, 5}, [](const Tensor& x, const Group& g) { return all_gather(x, g, 1); });
    expect_same(3, dtype, {4, 5},
                [](const Tensor& x, const Group& g) { return all_gather_ragged(x.narrow(0, 0, g.rank()), g); });
    expect_same(3, dtype, {7, 4}, [](const Tensor& x, const Group& g) {
      return all_to_all(x, g, {.split_dim = 1, .join_dim = 0, .receive_sizes = {7, 7, 7}});
    });
    expect_same(2, dtype, {6, 2}, [](const Tensor& x, const Group& g) {
      const int64_t sizes[] = {g.rank() + 1, 5 - g.rank()};
      return all_to_all_ragged(x, sizes, g).values;
    });
    expect_same(3, dtype, {4, 5}, [](const Tensor& x, const Group& g) { return all_gather(x.t(), g); });
  }
  expect_same(4, f32, {300, 400}, [](const Tensor& x, const Group& g) { return broadcast(x, 1, g); });
}

TEST_F(NcclTensors, WritesGradientsAndAsynchronousWorks) {
  expect_same(3, f32, {4, 5}, [](const Tensor& x, const Group& g) { return all_reduce_(x.clone(), g); });
  expect_same(3, f32, {4, 5},
              [](const Tensor& x, const Group& g) { return broadcast_(x.clone().t(), 1, g).contiguous(); });
  expect_same(3, f32, {64, 80}, [](const Tensor& x, const Group& g) {
    const Tensor y = x.clone();
    const Work first = all_reduce_async_(y, g), second = all_reduce_async(x, g, ReduceOp::max);
    first.wait();
    return y + second.wait();
  });
  expect_same(2, f32, {4, 5}, [](const Tensor& x, const Group& g) {
    const Tensor leaf = (4 * x).round().requires_grad_();  // exact in any order
    (all_reduce(leaf * leaf, g) * all_gather(leaf, g).narrow(0, 2, 4)).sum().backward();
    return leaf.grad();
  });
}

TEST_F(NcclTensors, SubgroupsHaveCommunicatorsOfTheirOwn) {
  const ByNccl by_nccl;
  LocalWorld(4, {.timeout_seconds = 60}).run([](const Group& group) {
    const Group pair = group.split(group.rank() % 2);
    const Tensor x = full({3}, static_cast<float>(group.rank())).to("hpu");
    EXPECT_TRUE(equal(all_reduce(x, pair).to(Device()), full({3}, group.rank() % 2 == 0 ? 2.f : 4.f)));
    EXPECT_TRUE(equal(all_reduce(x, group).to(Device()), full({3}, 6.f)));
    EXPECT_TRUE(equal(all_reduce(x.to(Device()), group), full({3}, 6.f))) << "the host's memory stays with the host";
    const Tensor nothing = zeros({0, 3}).to("hpu"), one = tensor(2.0f).to("hpu");
    EXPECT_EQ(all_reduce(nothing, group).shape(), Dims({0, 3}));
    EXPECT_EQ(all_gather(nothing, group).shape(), Dims({0, 3}));
    EXPECT_EQ(broadcast(nothing, 1, group).shape(), Dims({0, 3}));
    EXPECT_EQ(reduce_scatter(nothing, group, ReduceOp::max, 1).numel(), 0);
    EXPECT_EQ(all_reduce(one, group).item<float>(), 8);
    EXPECT_EQ(all_gather(one, group).shape(), Dims(4));
  });
  EXPECT_EQ(calls_of("CommInitRankConfig"), 8);
  EXPECT_EQ(calls_of("CommAbort"), 8) << "none is left";
}

TEST_F(NcclTensors, OneRankOnAnotherDeviceTypeRaises) {
  const ByNccl by_nccl;
  EXPECT_THAT(message_of<DistributedError>([] {
                LocalWorld(2, {.timeout_seconds = 20}).run([](const Group& group) {
                  const Tensor x = ones({3});
                  all_reduce(group.rank() == 0 ? x.to("hpu") : x, group);
                });
              }),
              HasSubstr("on a device"));
}

}  // namespace
}  // namespace weft::distributed
