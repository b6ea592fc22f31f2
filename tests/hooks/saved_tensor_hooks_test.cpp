// Saved-tensor hooks: packing, unpacking, offloading, compressing.
#include "hooks/values.hpp"

#include <cmath>
#include <optional>
#include <thread>

namespace weft {
namespace {

using SavedHooks = LiveCount;

Tensor leaf() { return tensor({1.0, 2.0}).requires_grad_(); }
const auto itself = [](const Tensor& t) { return t; };

TEST_F(SavedHooks, EachSavedTensorIsPackedOnceAndUnpackedWhenItsNodeRuns) {
  const Tensor x = leaf(), w = leaf();
  int packed = 0, unpacked = 0;
  Tensor loss;
  {
    const SavedTensorHooks hooks(
        [&](const Tensor& t) {
          ++packed;
          EXPECT_FALSE(grad_mode().enabled);
          return t.to_vector<float>();
        },
        [&](const std::vector<float>& v) {
          ++unpacked;
          return tensor(v);
        });
    loss = (exp(x * w)).sum();
  }
  EXPECT_EQ(packed, 3);  // both factors, and exp's result
  EXPECT_EQ(unpacked, 0);
  loss.backward();
  EXPECT_EQ(unpacked, 3);
  EXPECT_NEAR(values(x.grad())[1], 2 * std::exp(4.0), 1e-4);
}

TEST_F(SavedHooks, AreAskedAgainByEachRunOfARetainedGraph) {
  const Tensor x = leaf();
  int unpacked = 0;
  Tensor loss;
  {
    const SavedTensorHooks hooks([](const Tensor& t) { return t.clone(); },
                                 [&](const Tensor& t) {
                                   ++unpacked;
                                   return t;
                                 });
    loss = exp(x).sum();
  }
  loss.backward({.retain_graph = true});
  loss.backward();
  EXPECT_EQ(unpacked, 2);
}

TEST_F(SavedHooks, MayBeForOneTensor) {
  const Tensor x = leaf(), w = leaf();
  int packed = 0;
  Tensor loss;
  {
    const SavedTensorHooks hooks(
        w,
        [&](const Tensor& t) {
          ++packed;
          return t.clone();
        },
        itself);
    loss = (x * w).sum() + (w * x).sum() + exp(x).sum();
  }
  EXPECT_EQ(packed, 2);
  loss.backward();
  EXPECT_NEAR(values(x.grad())[0], 2 + std::exp(1.0), 1e-5);
}

TEST_F(SavedHooks, InnerScopesWinAndAnEmptyOptionalLeavesATensorAlone) {
  const Tensor x = leaf();
  int outer = 0, inner = 0;
  const SavedTensorHooks a(
      [&](const Tensor& t) {
        ++outer;
        return t;
      },
      itself);
  Tensor loss;
  {
    const SavedTensorHooks b(
        [&](const Tensor&) -> std::optional<Tensor> {
          ++inner;
          return {};
        },
        itself);
    loss = exp(x).sum();
  }
  const Tensor other = exp(x).sum();
  EXPECT_EQ(inner, 1);
  EXPECT_EQ(outer, 1);
  loss.backward();
  other.backward();
  EXPECT_NEAR(values(x.grad())[0], 2 * std::exp(1.0), 1e-5);
}

TEST_F(SavedHooks, AnAnyComesBackAsItWas) {
  const auto unpack = [](const std::any& packed) { return tensor(std::any_cast<const std::vector<float>&>(packed)); };
  const auto pack = [](const Tensor& t) { return std::any(t.to_vector<float>()); };
  const auto sometimes = [&](const Tensor& t) {
    return t.to_vector<float>()[0] == 1 ? std::optional<std::any>(pack(t)) : std::nullopt;
  };
  const auto gradient = [&](const auto& how) {
    const Tensor x = leaf();
    Tensor loss;
    {
      const SavedTensorHooks hooks(how, unpack);
      loss = (exp(x) * x).sum();
    }
    loss.backward();
    return values(x.grad());
  };
  const std::vector<double> expected = gradient([](const Tensor&) { return std::any(); });  // left as they are
  EXPECT_EQ(gradient(pack), expected);
  EXPECT_EQ(gradient(sometimes), expected);
}

TEST_F(SavedHooks, TensorsKeepTheirPlaceInTheGraph) {
  const Tensor x = tensor({0.5}, f64).requires_grad_();
  Tensor y;
  {
    const SavedTensorHooks hooks([](const Tensor& t) { return t.clone(); }, [](const Tensor& t) { return t.clone(); });
    y = exp(x * x) * x;
  }
  const Tensor first = grad({y}, {x}, {}, {.create_graph = true})[0];
  const double e = std::exp(0.25);
  EXPECT_NEAR(first.item<double>(), e * (2 * 0.25 + 1), 1e-12);
  EXPECT_NEAR(grad({first}, {x})[0].item<double>(), e * (6 * 0.5 + 4 * 0.125), 1e-12);
}

TEST_F(SavedHooks, AWriteAfterSavingIsFoundOnlyWhereTheMemoryIsShared) {
  const Tensor x = leaf();
  const auto write_after = [&](auto pack) {
    const Tensor y = x * 1.0;
    Tensor loss;
    {
      const SavedTensorHooks hooks(pack, itself);
      loss = (y * y).sum();
    }
    {
      const NoGradGuard unrecorded;
      y.mul_(100.0);
    }
    loss.backward();
  };
  EXPECT_NE(message_of<AutogradError>([&] { write_after(itself); }).find("modified by an in-place operation"),
            std::string::npos);
  write_after([](const Tensor& t) { return t.clone(); });
  EXPECT_EQ(values(x.grad()), (Doubles{2, 4}));
}

TEST_F(SavedHooks, PackMustNotWrite) {
  const Tensor x = leaf();
  const SavedTensorHooks hooks([](const Tensor& t) { return t.mul_(2.0); }, itself);
  EXPECT_NE(message_of<AutogradError>([&] { (void)exp(x * 1.0); }).find("a pack hook wrote"), std::string::npos);
}

TEST_F(SavedHooks, UnpackMustGiveTheSameShapeDtypeAndDevice) {
  const Tensor x = leaf();
  const auto with = [&](const Tensor& wrong) {
    return [&x, wrong] {
      Tensor loss;
      {
        const SavedTensorHooks hooks([](const Tensor&) { return 0; }, [wrong](int) { return wrong; });
        loss = exp(x).sum();
      }
      loss.backward();
    };
  };
  const auto text = message_of<ShapeError>(with(zeros({3})));
  EXPECT_NE(text.find("saved float32 [2] on cpu, unpacked float32 [3] on cpu"), std::string::npos) << text;
  EXPECT_THROW(with(zeros({2}, f64))(), DTypeError);
  EXPECT_THROW(with(zeros({2}, Device("meta")))(), DeviceError);
  EXPECT_THROW(with(Tensor())(), ValueError);
}

TEST_F(SavedHooks, ThrowingInEitherLeavesNothingBehind) {
  const Tensor x = leaf();
  {
    const SavedTensorHooks hooks([](const Tensor&) -> Tensor { throw std::runtime_error("pack"); }, itself);
    EXPECT_THROW((void)exp(x), std::runtime_error);
  }
  Tensor loss;
  {
    const SavedTensorHooks hooks(itself, [](const Tensor&) -> Tensor { throw std::runtime_error("unpack"); });
    loss = exp(x).sum();
  }
  EXPECT_THROW(loss.backward(), std::runtime_error);
  exp(x).sum().backward();
  EXPECT_NEAR(values(x.grad())[0], std::exp(1.0), 1e-5);
}

TEST_F(SavedHooks, AnUnpackHookMayRunABackwardOfItsOwn) {
  const Tensor x = leaf(), w = leaf();
  Tensor loss;
  {
    const SavedTensorHooks hooks(itself, [&](const Tensor& t) {
      const EnableGradGuard recorded;
      exp(w).sum().backward();
      return t;
    });
    loss = exp(x).sum();
  }
  loss.backward();
  EXPECT_NEAR(values(w.grad())[0], std::exp(1.0), 1e-5);
  EXPECT_NEAR(values(x.grad())[0], std::exp(1.0), 1e-5);
}

TEST_F(SavedHooks, TwoThreadsMayRunOneRetainedGraph) {
  const Tensor x = ones({16}).requires_grad_();
  Tensor loss;
  {
    const SavedTensorHooks hooks([](const Tensor& t) { return t.clone(); }, [](const Tensor& t) { return t.clone(); });
    loss = (exp(x) * x).sum();
  }
  const Doubles once = values(grad({loss}, {x}, {}, {.retain_graph = true})[0]);
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) EXPECT_EQ(values(grad({loss}, {x}, {}, {.retain_graph = true})[0]), once);
    });
  }
  for (auto& t : threads) t.join();
}

struct Mlp : nn::Layer<Mlp> {
  nn::Linear a{8, 16}, b{16, 4};
  Mlp() { register_module("a", a), register_module("b", b); }
  Tensor forward(const Tensor& x) const { return b(gelu(layer_norm(a(x), {16}))); }
};

TEST_F(SavedHooks, OffloadingChangesNoBit) {
  manual_seed(1);
  Mlp m;
  const Tensor x = rand({32, 8}), target = randint(0, 4, {32});
  const auto run = [&](bool offload) {
    m.zero_grad();
    Tensor loss;
    {
      std::optional<SavedTensorHooks> forced;  // the CPU's copies are copies too
      if (offload) forced.emplace([](const Tensor& t) { return t.clone(); }, [](const Tensor& t) { return t.clone(); });
      loss = cross_entropy(m(x), target);
    }
    loss.backward();
    std::vector<Doubles> out;
    for (const Tensor& p : m.parameters()) out.push_back(values(p.grad()));
    return out;
  };
  EXPECT_EQ(run(true), run(false));
  {
    const OffloadSavedTensors offload;  // already there: nothing to do
    cross_entropy(m(x), target).backward();
  }
}

TEST_F(SavedHooks, CompressingKeepsHalfTheMemoryAndTheDtypesPrecision) {
  manual_seed(1);
  Mlp m;
  const Tensor x = rand({32, 8}), target = randint(0, 4, {32});
  cross_entropy(m(x), target).backward();
  std::vector<Doubles> exact;
  for (const Tensor& p : m.parameters()) exact.push_back(values(p.grad()));
  m.zero_grad();
  Tensor loss;
  {
    const CompressSavedTensors compress;
    loss = cross_entropy(m(x), target);
  }
  loss.backward();
  bool differs = false;
  for (size_t i = 0; i < exact.size(); ++i) {
    const Doubles now = values(m.parameters()[i].grad());
    for (size_t j = 0; j < now.size(); ++j) {
      EXPECT_NEAR(now[j], exact[i][j], 0.02);
      differs |= now[j] != exact[i][j];
    }
  }
  EXPECT_TRUE(differs);
  EXPECT_THROW(CompressSavedTensors{f32}, DTypeError);
}

TEST_F(SavedHooks, CompressedMemoryIsSmaller) {
  const Tensor x = ones({1024, 64}).requires_grad_();
  const auto grown = [&](bool compress) {
    std::optional<CompressSavedTensors> hooks;
    if (compress) hooks.emplace();
    const auto before = static_cast<int64_t>(memory_stats().allocated);
    Tensor y = exp(x);
    for (int i = 0; i < 3; ++i) y = exp(y * 0.0);
    const int64_t bytes = static_cast<int64_t>(memory_stats().allocated) - before;
    y = Tensor();
    return bytes;
  };
  EXPECT_LT(grown(true), grown(false));
}

}  // namespace
}  // namespace weft
