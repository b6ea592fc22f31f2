// Writes pages of runs that are hard to show into a folder: usage: weft_run_page_cases FOLDER
#include <cmath>
#include <filesystem>
#include <string>

#include <weft/io/file.hpp>
#include <weft/train/metrics.hpp>
#include <weft/train/run_folder.hpp>
#include <weft/weft.hpp>

namespace {

using namespace weft;
namespace fs = std::filesystem;

struct Plan {
  int steps = 100, last = 100;
  double (*loss)(int step) = [](int step) { return 2.3 * std::exp(-0.02 * step) + 0.1 + 0.05 * std::sin(step * 1.7); };
  std::string title = {}, config = {}, sample = "a sample";
  const char* state = "done";
};

void run_in(const fs::path& folder, const Plan& plan) {
  train::RunFolder run(folder, {.title = plan.title, .config = plan.config, .csv = false, .page_every = 1000});
  run.begin(0, plan.last);
  for (int step = 1; step <= plan.steps; ++step) {
    io::Figures shown = {{"train_loss", plan.loss(step)}, {"samples_per_s", 1234.5 + step % 7}};
    if (step % 10 == 0)
      shown.insert(shown.end(), {{"val_loss", plan.loss(step) + 0.1}, {"val_accuracy", 1 - 1.0 / step}});
    run.record(step, shown, {{"lr", 1e-3 / step}});
  }
  if (!plan.sample.empty()) run.sample_text(plan.steps, "poem", plan.sample);
  train::ConfusionMatrix matrix(3);
  matrix.update(tensor({0, 1, 2, 2}), tensor({0, 1, 2, 1}));
  if (plan.steps > 10) run.sample_svg(plan.steps, "confusion", matrix.svg({"cat", "dog", "bird"}));
  run.finish(plan.state);
}

// A folder of runs for each page, which is named for the last one.
void page_of(const std::string& out, const std::string& name, const std::vector<Plan>& plans) {
  const fs::path folder = fs::path(out) / ("runs-" + name);
  for (size_t i = 0; i < plans.size(); ++i) run_in(folder / std::to_string(i), plans[i]);
  fs::rename(folder / std::to_string(plans.size() - 1) / "index.html", fs::path(out) / (name + ".html"));
  fs::remove_all(folder);
}

}  // namespace

int main(int, char** argv) {
  const std::string out = argv[1];
  const std::string deep =
      R"({"model": {"layers": [1, 2, 3], "name": ")" + std::string(120, 'x') + R"(", "none": null}})";
  page_of(out, "plain", {{.config = deep}});
  page_of(out, "one", {{.steps = 1, .last = 0}});
  page_of(out, "empty", {{.steps = 0, .last = 0, .sample = ""}});
  page_of(out, "long", {{.steps = 20000, .last = 20000, .sample = std::string(5000, 'w')}});
  page_of(out, "compared",
          {{.title = "first"}, {.steps = 40, .title = std::string(90, 'n')}, {.steps = 300}, {.state = "stopped"}});
  page_of(out, "bad", {{.loss = [](int) { return double{NAN}; }, .state = "failed"}});
  page_of(out, "late", {{.loss = [](int step) { return step > 90 ? double{INFINITY} : 3 - 0.01 * step; }}});
  page_of(out, "flat", {{.loss = [](int) { return 0.0; }}});
  page_of(out, "extreme", {{.loss = [](int step) { return step % 2 == 0 ? -1e300 : 1e300; }}});
  page_of(out, "tiny", {{.loss = [](int step) { return 1e-9 / step; }, .title = "<i>&amp;\"'"}});
}
