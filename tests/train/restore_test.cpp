// A state that one part of a run refuses changes no part of it.
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "message_of.hpp"
#include "small_run.hpp"
#include "temporary_folder.hpp"

namespace weft::train {
namespace {

using testing::HasSubstr;

/// A part that is restored, and raises then where it is the one that refuses.
struct MayRefuse {
  detail::SavedPart inner;
  const std::string& refusing;

  PartState state() const { return inner.state(); }
  void restore(const PartState& state) {
    inner.restore(state);
    if (refusing == inner.name) throw ValueError("it does not fit");
  }
};

struct Rates : MayRefuse {
  optim::Scheduler& rates;
  void step() { rates.step(); }
};

struct Loader : MayRefuse {
  Points& points;
  auto begin() { return points.begin(); }
  auto end() { return points.end(); }
  int64_t size() const { return points.size(); }
};

std::string text_of(const std::map<std::string, Tensor>& tensors) {
  std::ostringstream out;
  out.precision(17);
  for (const auto& [name, tensor] : tensors) {
    out << name;
    for (const double v : tensor.to_vector<double>()) out << ' ' << v;
    out << '\n';
  }
  return out.str();
}

/// A run with every kind of part.
struct Training {
  Net net, teacher;
  optim::AdamW optimizer{net.parameters(), {.lr = 0.05}};
  optim::Scheduler schedule{optimizer, optim::cosine_annealing_lr(40)};
  optim::ReduceOnPlateau plateau{optimizer, {.patience = 1}};
  optim::Averager average{net.parameters(), {.decay = 0.5}};
  optim::GradScaler scaler{{.init_scale = 65536, .growth_interval = 3}};
  Generator noise{7};
  Points points{40, 4};

  std::string refusing = {};
  Rates rates{{detail::saved_part("scheduler", schedule), refusing}, schedule};
  MayRefuse kept_plateau{detail::saved_part("plateau", plateau), refusing};
  MayRefuse kept_average{detail::saved_part("average", average), refusing};
  MayRefuse kept_teacher{detail::saved_part("teacher", teacher), refusing};
  Loader loader{{detail::saved_part("loader", points), refusing}, points};

  void keep_in(Trainer& trainer) {
    trainer.schedule(rates);
    trainer.keep("plateau", kept_plateau);
    trainer.keep("average", kept_average);
    trainer.keep("teacher", kept_teacher);
  }
  FitResult fit(TrainerOptions options, optim::Optimizer* other = nullptr) {
    options.scaler = &scaler;
    if (options.generators.empty()) options.generators = {{"noise", &noise}};
    options.resume = true;
    Trainer trainer(net, other != nullptr ? *other : optimizer, options);
    keep_in(trainer);
    trainer.on_step_end([&](const TrainEvent& e) {
      average.update();
      plateau.step(e.figures[0].second);
      const NoGradGuard unrecorded;
      teacher.up.weight.fill_(e.figures[0].second);
    });
    return trainer.fit(
        loader, [&](const Batch& b) { return cross_entropy(net(b.x + 0.01 * randn(b.x.shape(), {}, &noise)), b.y); });
  }
  /// All that a state restores.
  std::string everything() const {
    std::ostringstream out;
    out.precision(17);
    out << text_of(net.state_dict()) << text_of(teacher.state_dict()) << text_of(optimizer.state_dict())
        << text_of(average.state_dict()) << detail::numbers_text(schedule.state())
        << detail::numbers_text(plateau.state()) << scaler.state().scale << ' ' << scaler.state().growth_tracker << ' '
        << points.state();
    for (const GeneratorState& s : {default_generator().state(), noise.state()}) {
      out << ' ' << s.seed << ' ' << s.subsequence << ' ' << s.offset;
    }
    for (const Tensor& p : net.parameters()) out << ' ' << p.grad().defined();
    return out.str();
  }
};

/// A run with other data for three steps, so that nothing in it agrees with a state.
struct Other : Training {
  Other() {
    manual_seed(99);
    uniform_(net.up.weight.detach(), -1, 1);
    const TemporaryFolder folder;
    fit({.steps = 3, .save = {.folder = folder / "s"}});
  }
};

class Restoring : public testing::Test {
 protected:
  Restoring() {
    manual_seed(3);
    Training run;
    run.fit({.steps = 7, .save = {.folder = states}});
  }
  /// The error of resuming; checks that the run is unchanged then.
  std::string refusal(const std::function<void(Training&)>& resume) {
    Other run;
    const std::string before = run.everything();
    const std::string problem = message_of<Error>([&] { resume(run); });
    EXPECT_EQ(run.everything(), before) << problem;
    return problem;
  }
  void edit(const char* document, const std::string& from, const std::string& to) {
    const std::filesystem::path file = std::filesystem::path(states.string()) / "step-00000007" / document;
    std::string text = read_bytes(file);
    const size_t at = text.find(from);
    ASSERT_NE(at, text.npos) << text;
    std::ofstream(file, std::ios::binary) << text.replace(at, from.size(), to);
  }

  TemporaryFolder folder;
  io::Path states = folder / "states";
};

TEST_F(Restoring, AnErrorOfAnyPartChangesNothing) {
  for (const char* part : {"scheduler", "plateau", "average", "teacher", "loader"}) {
    EXPECT_THAT(refusal([&](Training& run) {
                  run.refusing = part;
                  run.fit({.steps = 9, .save = {.folder = states}});
                }),
                AllOf(HasSubstr("it does not fit"), HasSubstr(std::string("\"") + part + "\" in " + states.string())));
  }
}

TEST_F(Restoring, AnErrorOfTheScalerChangesNothing) {
  edit("loop.json", "\"scale\": 262144", "\"scale\": -26214");
  EXPECT_THAT(refusal([&](Training& run) { run.fit({.steps = 9, .save = {.folder = states}}); }),
              HasSubstr("\"scaler\" in "));
}

TEST_F(Restoring, AnErrorOfOptimizerOrGeneratorChangesNothing) {
  EXPECT_THAT(refusal([&](Training& run) {
                optim::SGD sgd(run.net.parameters());
                run.fit({.steps = 9, .save = {.folder = states}}, &sgd);
              }),
              HasSubstr("is of another optimizer"));
  EXPECT_THAT(refusal([&](Training& run) {
                run.fit({.steps = 9, .save = {.folder = states}, .generators = {{"other", &run.noise}}});
              }),
              HasSubstr("has no generator \"other\""));
}

TEST_F(Restoring, AFailedResumeCanBeRepeatedBitForBit) {
  Other run;
  for (const char* part : {"loader", "average"}) {
    run.refusing = part;
    EXPECT_THROW(run.fit({.steps = 20, .save = {.folder = states}}), ValueError);
  }
  run.refusing = "";
  run.fit({.steps = 20, .save = {.folder = states}});
  manual_seed(3);
  Training straight;
  straight.fit({.steps = 20, .save = {.folder = folder / "straight"}});
  EXPECT_EQ(run.everything(), straight.everything());
}

}  // namespace
}  // namespace weft::train
