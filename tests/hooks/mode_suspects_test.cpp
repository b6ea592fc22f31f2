// Training and evaluation mixed up, and batch norms of one row, beside healthy twins.
#include "twins.hpp"

namespace weft {
namespace {

using testing::HasSubstr;
using namespace twins;

std::string here(int line) { return "mode_suspects_test.cpp:" + std::to_string(line); }

int call_line = 0;

nn::Sequential dropping() { return nn::Sequential(nn::Linear(8, 32), nn::ReLU(), nn::Dropout(0.2), nn::Linear(32, 4)); }

/// `evaluate` is called behind every fifth step.
std::string evaluated_run(nn::Sequential net, const std::function<void(nn::Sequential&, const Rows&)>& evaluate,
                          int every = 5) {
  manual_seed(1);
  const Rows rows(8);
  return first_three(net,
                     [&](int) {
                       const auto [x, y] = rows.draw(32);
                       call_line = __LINE__ + 1;
                       return cross_entropy(net(x), y);
                     },
                     {.after_step = [&](int step) {
                       if (step % every == every - 1) evaluate(net, rows);
                     }});
}

int evaluation_line = 0;
double accuracy(const nn::Sequential& net, const Rows& rows) {
  const NoGradGuard unrecorded;
  double right = 0;
  for (int i = 0; i < 4; ++i) {
    const auto [x, y] = rows.draw(64);
    evaluation_line = __LINE__ + 1;
    right += (argmax(net(x), 1) == y).to(f32).mean().item<double>() / 4;
  }
  return right;
}

TEST(ModeSuspects, NameAnEvaluationInTrainingMode) {
  const auto forgotten = [](nn::Sequential& net, const Rows& rows) { accuracy(net, rows); };
  for (const int every : {5, 1}) {
    const std::string said = evaluated_run(dropping(), forgotten, every);
    EXPECT_THAT(
        said, HasSubstr("as at " + here(evaluation_line) + ", 2 (Dropout) worked as in training; call eval() before"));
  }
}

TEST(ModeSuspects, NameATrainingInEvaluationMode) {
  const auto forgotten = [](nn::Sequential& net, const Rows& rows) {
    net.eval();
    accuracy(net, rows);
  };
  const std::string said = evaluated_run(dropping(), forgotten);
  EXPECT_THAT(said, HasSubstr("the model is trained in evaluation mode: in the last 35 steps 2 (Dropout) worked as in "
                              "evaluation (the model is called at " +
                              here(call_line) + ")"));
}

TEST(ModeSuspects, AreSilentWhereModesAreSet) {
  const auto right = [](nn::Sequential& net, const Rows& rows) {
    net.eval();
    accuracy(net, rows);
    net.train();
  };
  EXPECT_EQ(evaluated_run(dropping(), right), "");
  // Without a part that draws or averages, modes are the same.
  const auto never = [](nn::Sequential& net, const Rows& rows) { accuracy(net, rows); };
  EXPECT_EQ(evaluated_run(nn::Sequential(nn::Linear(8, 32), nn::ReLU(), nn::Dropout(0), nn::Linear(32, 4)), never), "");
}

TEST(ModeSuspects, AreSilentWhereStatisticsAreMadeAnew) {
  const auto renewed = [](nn::Sequential& net, const Rows& rows) {
    std::vector<Tensor> batches;
    for (int i = 0; i < 4; ++i) batches.push_back(rows.draw(32).first);
    optim::update_bn(batches, net);
  };
  EXPECT_EQ(
      evaluated_run(nn::Sequential(nn::Linear(8, 32), nn::BatchNorm1d(32), nn::ReLU(), nn::Linear(32, 4)), renewed),
      "");
}

TEST(ModeSuspects, AreSilentAboutNormsThatAreFrozenOnPurpose) {
  manual_seed(2);
  const Rows rows(8);
  nn::Sequential net(nn::Linear(8, 32), nn::BatchNorm1d(32), nn::ReLU(), nn::Linear(32, 4));
  for (auto& [name, part] : net.named_modules()) {
    if (part.class_name() == "BatchNorm1d") part.eval();
  }
  EXPECT_EQ(first_three(net,
                        [&](int) {
                          const auto [x, y] = rows.draw(32);
                          return cross_entropy(net(x), y);
                        }),
            "");
}

// A generator runs without gradients in training mode for its critic's step.
TEST(ModeSuspects, AreSilentAboutSamplesForACritic) {
  manual_seed(3);
  const nn::Sequential maker(nn::Linear(4, 32), nn::BatchNorm1d(32), nn::ReLU(), nn::Linear(32, 2));
  const nn::Sequential critic(nn::Linear(2, 32), nn::ReLU(), nn::Linear(32, 1));
  optim::Adam of_maker(maker.parameters(), {.lr = 1e-3}), of_critic(critic.parameters(), {.lr = 1e-3});
  GradientRecorder recorder(maker);
  for (int step = 0; step < 40; ++step) {
    Tensor made;
    {
      const NoGradGuard unrecorded;
      made = maker(randn({32, 4}));
    }
    of_critic.zero_grad();
    const Tensor real = randn({32, 2}) * 0.5 + 1.0;
    const Tensor both = critic(cat({real, made}));
    binary_cross_entropy_with_logits(both, cat({ones({32, 1}), zeros({32, 1})})).backward();
    of_critic.step();
    of_maker.zero_grad();
    const Tensor loss = binary_cross_entropy_with_logits(critic(maker(randn({32, 4}))), ones({32, 1}));
    loss.backward();
    of_maker.step();
    recorder.step(loss.item<double>());
  }
  EXPECT_EQ(words(recorder.suspects()), "");
}

TEST(ModeSuspects, NameABatchNormOfOneRow) {
  const auto run = [](int64_t rows) {
    manual_seed(4);
    const nn::Sequential net(nn::Conv2d(1, 4, {3, 3}), nn::BatchNorm2d(4), nn::ReLU(), nn::Flatten(),
                             nn::Linear(4 * 36, 2));
    return first_three(net, [&](int) {
      const Tensor x = randn({rows, 1, 8, 8});
      return cross_entropy(net(x), (x.mean({1, 2, 3}) > 0.0).to(i64));
    });
  };
  const std::string said = run(1);
  EXPECT_THAT(said, HasSubstr("run: the batch norm 1 at "));
  EXPECT_THAT(said, HasSubstr("gets a single row in every step of training, 40 in all"));
  EXPECT_EQ(run(16), "");
}

}  // namespace
}  // namespace weft
