// Inputs, targets and predictions from which nothing can be learnt, beside healthy twins.
#include "twins.hpp"

namespace weft {
namespace {

using testing::HasSubstr;
using namespace twins;

std::string here(int line) { return "data_suspects_test.cpp:" + std::to_string(line); }

int loss_line = 0, call_line = 0;

nn::Sequential classifier(int64_t width = 8, int64_t classes = 4) {
  return nn::Sequential(nn::Linear(width, 32), nn::ReLU(), nn::Linear(32, classes));
}

// ---- targets ----

std::string labelled_run(const std::function<Tensor(const Tensor& y)>& labels, Training run = {}) {
  manual_seed(1);
  const Rows rows(8);
  const nn::Sequential net = classifier();
  return first_three(
      net,
      [&](int) {
        const auto [x, y] = rows.draw(64);
        loss_line = __LINE__ + 1;
        return cross_entropy(net(x), labels(y));
      },
      run);
}

TEST(DataSuspects, NameALossWithEqualTargets) {
  const std::string said = labelled_run([](const Tensor& y) { return y * 0 + 2; });
  EXPECT_THAT(said, HasSubstr("run: every target of cross_entropy at " + here(loss_line) + " is 2, in all 64 rows"));
  EXPECT_EQ(labelled_run([](const Tensor& y) { return y; }), "");
}

TEST(DataSuspects, NameALossThatSettlesWhereGuessingComesTo) {
  const Training run{.steps = 240, .lr = 1e-2};
  const std::string said = labelled_run([](const Tensor& y) { return roll(y, {1}, {0}); }, run);
  EXPECT_THAT(said, HasSubstr("run: the loss has settled at 1.3"));
  EXPECT_THAT(said, HasSubstr("are the targets of cross_entropy at " + here(loss_line) + " shifted against the rows"));
  EXPECT_EQ(labelled_run([](const Tensor& y) { return y; }, run), "");
}

TEST(DataSuspects, NameARegressionThatSettlesAtTheVarianceOfItsTargets) {
  const auto run = [](bool sick) {
    manual_seed(2);
    const nn::Sequential net(nn::Linear(8, 32), nn::Tanh(), nn::Linear(32, 1));
    return first_three(net,
                       [&](int) {
                         const Tensor x = randn({64, 8}), y = x.slice(1, 0, 2).sum({1}, true);
                         loss_line = __LINE__ + 1;
                         return mse_loss(net(x), sick ? roll(y, {1}, {0}) : y);
                       },
                       {.steps = 240, .lr = 1e-2});
  };
  const std::string said = run(true);
  EXPECT_THAT(said, HasSubstr("are the targets of mse_loss at " + here(loss_line)));
  EXPECT_EQ(run(false), "");
}

TEST(DataSuspects, AreSilentAboutWishesThatAreTheSameInEveryRow) {
  manual_seed(3);
  const nn::Sequential critic(nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 1));
  const auto adversarial = [&](int) {
    const Tensor real = randn({32, 2}), made = randn({32, 2}) * 2.0 + 1.0;
    return binary_cross_entropy_with_logits(critic(real), ones({32, 1})) +
           binary_cross_entropy_with_logits(critic(made), zeros({32, 1}));
  };
  EXPECT_EQ(first_three(critic, adversarial), "");
  const nn::Sequential net(nn::Linear(1, 32), nn::Tanh(), nn::Linear(32, 1));
  const auto equation = [&](int) {  // u' = u, u(0) = 1
    const Tensor t = rand({32, 1}).requires_grad_();
    const Tensor u = net(t), slope = grad({u.sum()}, {t}, {}, {.create_graph = true})[0];
    return mse_loss(slope - u, zeros({32, 1})) + mse_loss(net(zeros({1, 1})), ones({1, 1}));
  };
  EXPECT_EQ(first_three(net, equation), "");
}

// ---- inputs ----

std::string fed_run(const std::function<Tensor(const Tensor& data, int step)>& batch) {
  manual_seed(4);
  const nn::Sequential net(nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 1));
  const Tensor data = randn({64, 8});
  return first_three(net, [&](int step) {
    const Tensor x = batch(data, step);
    call_line = __LINE__ + 1;
    return mse_loss(net(x), x.sum({1}, true));
  });
}

TEST(DataSuspects, NameABatchThatComesInEveryStep) {
  const auto first_batch = [](const Tensor& data, int) { return data.slice(0, 0, 16); };
  const std::string said = fed_run(first_batch);
  EXPECT_THAT(said, HasSubstr("run: the model got the same 16 rows in each of 40 steps, each time in a "
                              "tensor made anew (it is called at " +
                              here(call_line) + ")"));
  EXPECT_EQ(fed_run([](const Tensor& data, int) { return data.index_select(0, randint(0, 64, {16})); }), "");
}

TEST(DataSuspects, AreSilentAboutABatchThatTheProgramHolds) {
  EXPECT_EQ(fed_run([](const Tensor& data, int) { return data; }), "");
  EXPECT_EQ(fed_run([](const Tensor& data, int) { return data.view({64, 8}); }), "");
  Tensor held;
  EXPECT_EQ(fed_run([&](const Tensor& data, int step) {
              if (step == 0) held = data.slice(0, 0, 16);
              return held;
            }),
            "");
}

// ---- predictions ----

struct Forgetful : nn::Layer<Forgetful> {
  bool sick;
  nn::Linear first{8, 16}, second{16, 4};
  explicit Forgetful(bool s) : sick(s) { WEFT_REGISTER(first, second); }
  Tensor forward(const Tensor& x) const {
    Tensor h = tanh(first(x));
    call_line = __LINE__ + 1;
    if (sick) h = h - h;
    return second(h);
  }
};

TEST(DataSuspects, NameTheOpThatMakesAllRowsEqual) {
  const auto run = [](bool sick) {
    manual_seed(5);
    const Rows rows(8);
    const Forgetful net(sick);
    return first_three(net, [&](int) {
      const auto [x, y] = rows.draw(32);
      return cross_entropy(net(x), y);
    });
  };
  const std::string said = run(true);
  EXPECT_THAT(said, HasSubstr("run: the model's result does not depend on its input: all rows are equal"));
  EXPECT_THAT(said, HasSubstr("sub at " + here(call_line) + " makes them so"));
  EXPECT_EQ(run(false), "");
}

TEST(DataSuspects, NameASoftmaxOverTheWrongSize) {
  const auto run = [](int64_t over) {
    manual_seed(6);
    const nn::Sequential net(nn::Linear(8, 16), nn::Tanh(), nn::Linear(16, 1));
    struct Model : nn::Layer<Model> {
      nn::Sequential body;
      int64_t over;
      Model(const nn::Sequential& b, int64_t o) : body(b), over(o) { WEFT_REGISTER(body); }
      Tensor forward(const Tensor& x) const {
        call_line = __LINE__ + 1;
        return over == 1 ? softmax(body(x), 1) : sigmoid(body(x));
      }
    } model(net, over);
    return first_three(model, [&](int) {
      const Tensor x = randn({32, 8});
      return binary_cross_entropy(model(x), (x.sum({1}, true) > 0.0).to(f32));
    });
  };
  const std::string said = run(1);
  EXPECT_THAT(said, HasSubstr("softmax at " + here(call_line) + " makes them so"));
  EXPECT_EQ(run(0), "");
}

TEST(DataSuspects, NameAMeanOverRowsThatWasMeantForColumns) {
  const auto run = [](bool sick) {
    manual_seed(8);
    struct Model : nn::Layer<Model> {
      bool sick;
      nn::Linear first{8, 16}, second{16, 4};
      explicit Model(bool s) : sick(s) { WEFT_REGISTER(first, second); }
      Tensor forward(const Tensor& x) const {
        const Tensor h = tanh(first(x));
        call_line = __LINE__ + 1;
        const Tensor mean = h.mean({sick ? 0 : 1}, true);
        return second(sick ? mean.expand({x.size(0), 16}) : h - mean);
      }
    } model(sick);
    const Rows rows(8);
    return first_three(model, [&](int) {
      const auto [x, y] = rows.draw(32);
      return cross_entropy(model(x), y);
    });
  };
  const std::string said = run(true);
  EXPECT_THAT(said, HasSubstr("mean at " + here(call_line) + " makes them so"));
  EXPECT_EQ(run(false), "");
}

TEST(DataSuspects, AreSilentAboutAHeadThatBeginsAtZero) {
  manual_seed(7);
  const Rows rows(8);
  nn::Sequential net = classifier();
  net.parameters()[2].detach().zero_();
  EXPECT_EQ(first_three(net,
                        [&](int) {
                          const auto [x, y] = rows.draw(32);
                          return cross_entropy(net(x), y);
                        }),
            "");
}

}  // namespace
}  // namespace weft
