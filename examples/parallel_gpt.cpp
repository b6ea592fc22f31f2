// Trains a small GPT on several ranks with a parallelization plan.
//   ./weft train --ranks 4 --plan dp2-tp2                                            processes, started by mpirun
//   mpirun -n 4 build/release/examples/weft-parallel-gpt --plan pp2-tp2              the same, started by hand
//   build/release/examples/weft-parallel-gpt --plan dp2-zero2                        threads of this process
#include <cstdio>
#include <iostream>

#include <CLI/CLI.hpp>

#include "parallel_gpt.hpp"

using namespace parallel_gpt;

int main(int argc, char** argv) {
  std::string plan_text = "dp1", out, data = WEFT_EXAMPLE_DATA "/corpus.txt";
  int steps = 60;
  CLI::App app(
      "Trains a small GPT on several ranks: dpN replicas, ppN stages, epN replicas with experts of their own, tpN "
      "tensor-parallel ranks, spN such with "
      "sequences in parts, zero1 to zero3 for optimizers in parts. Started by mpirun, ranks are its processes, else "
      "threads.");
  app.add_option("--plan", plan_text, "such as dp2-tp2; as many ranks as their product")->capture_default_str();
  app.add_option("--steps", steps)->capture_default_str();
  app.add_option("--data", data, "a text")->check(CLI::ExistingFile)->capture_default_str();
  app.add_option("--out", out, "a folder for the losses, their curve and a page of the gradients of all ranks");
  CLI11_PARSE(app, argc, argv);
  try {
    const Plan plan = plan_of(plan_text);
    const Text text(data);
    const auto body = [&](const Group& group) {
      const std::vector<double> losses = train(plan, group, text, steps, out);
      if (group.rank() != 0) return;
      if (!out.empty()) {
        std::printf("losses, curve and gradients are in %s\n", out.c_str());
        return;
      }
      for (size_t i = 0; i < losses.size(); ++i) {
        if (i % 10 == 0 || i + 1 == losses.size()) std::printf("step %3zu  loss %.6f\n", i + 1, losses[i]);
      }
    };
    const Group alone = world();
    if (alone.size() > 1) body(alone);
    else LocalWorld(plan.ranks()).run(body);
  } catch (const std::exception& error) {
    std::cerr << error.what() << std::endl;
    return 1;
  }
}
