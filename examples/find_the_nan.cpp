// A small net with four planted faults, one of which produces NaN in one step of many. Weft's tools find them all:
// the recorder reports the affected layers, the anomaly guard the line that produced the NaN.
#include <cstdio>
#include <string>

#include <CLI/CLI.hpp>
#include <weft/weft.hpp>

using namespace weft;

// Rows divided by their norms. The norm of a zero row is 0, where sqrt has an infinite slope: its forward is finite,
// but its backward is not.
Tensor normalized(const Tensor& x) {
  const Tensor squares = (x * x).sum({1}, true);
  return x / (sqrt(squares) + 1e-6);  // the planted NaN; correct: sqrt(squares + 1e-12)
}

struct Net : nn::Layer<Net> {
  nn::Linear embed{16, 32, false}, head{32, 4};
  std::vector<nn::Linear> deep;
  nn::Linear dead{32, 32}, forgotten{32, 32};
  nn::LayerNorm norm{32};

  Net() {
    register_module("embed", embed);
    for (int i = 0; i < 7; ++i) {
      deep.emplace_back(32, 32);
      register_module("deep" + std::to_string(i), deep.back());
    }
    register_module("dead", dead);
    register_module("forgotten", forgotten);
    register_module("norm", norm);
    register_module("head", head);
    const NoGradGuard unrecorded;
    dead.bias.fill_(-20.0);  // the ReLU is never active
  }

  Tensor forward(const Tensor& x) const {
    Tensor h = normalized(embed(x));
    for (const nn::Linear& layer : deep) h = sigmoid(layer(h));  // seven factors of at most 1/4 in the gradient
    h = h + relu(dead(h));
    return head(norm(tanh(forgotten(h))));
  }
};

// The parameters for the optimizer: all but those of `forgotten`, a planted fault.
std::vector<Tensor> trained(const Net& net) {
  std::vector<Tensor> out;
  for (const nn::NamedTensor& p : net.named_parameters()) {
    if (!p.name.starts_with("forgotten")) out.push_back(p.tensor);
  }
  return out;
}

int main(int argc, char** argv) {
  std::string folder = "runs/find-the-nan";
  CLI::App app("Trains a small net with planted faults and lets Weft's tools find them.", "weft find-the-nan");
  app.add_option("folder", folder, "for the page, the graph, the trace and the events")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  constexpr int steps = 120, blank_step = 90;
  manual_seed(7);
  Net net;
  optim::AdamW optimizer(trained(net), {.lr = 2e-3});
  GradientRecorder recorder(net);
  io::GradientLog log(recorder, folder, {.title = "Find the NaN"});
  const Tensor rule = randn({16, 4});

  Tensor x, y;
  for (int step = 0; step < steps && recorder.finite(); ++step) {
    x = randn({64, 16});
    y = argmax(x.matmul(rule), 1);
    if (step == blank_step) x.select(0, 5).zero_();
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(net(x), y);
    loss.backward();
    if (step % 20 == 0) std::printf("step %3d  loss %.4f\n", step, loss.item<double>());
    recorder.step(loss.item<double>());
    if (recorder.finite()) optimizer.step();
  }

  std::printf("\nThe recorder's suspects:\n");
  for (const Suspect& s : recorder.suspects()) std::printf("  %-10s  %s\n", name_of(s.trouble), s.text.c_str());

  std::printf("\nThe last batch again, under AnomalyGuard:\n");
  bool found = false;
  const Tensor loss = cross_entropy(net(x), y);
  io::write_file(folder + "/graph.svg", draw_graph(loss, {.names = names_of(net)}).svg(), "find_the_nan");
  try {
    const AnomalyGuard guard({.repro = folder + "/repro"});
    loss.backward();
  } catch (const NonFiniteError& error) {
    std::printf("%s\n", error.what());
    found = true;
  }

  Profiler profiler;
  profiler.start();
  cross_entropy(net(x), y).backward();
  profiler.stop();
  std::printf("\nWhere the time of a step goes:\n%s", profiler.table({.rows = 8}).c_str());
  io::write_file(folder + "/trace.json", profiler.chrome_trace(), "find_the_nan");
  std::printf("\nthe page %s\nthe graph %s/graph.svg, the trace %s/trace.json (for ui.perfetto.dev)\n",
              log.save_page().c_str(), folder.c_str(), folder.c_str());
  return found ? 0 : 1;
}
