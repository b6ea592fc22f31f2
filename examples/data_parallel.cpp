// Data-parallel training: every rank has a copy of the model and a shard of the data. Gradients are averaged while
// backward is still running.
//   mpirun -n 4 build/release/examples/weft-data-parallel       four processes
//   build/release/examples/weft-data-parallel 4                  four threads of this process
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include <weft/distributed.hpp>
#include <weft/weft.hpp>

using namespace weft;
using namespace weft::distributed;

namespace {

/// Points of two half moons, the same on every rank: x [n, 2] and the moon of each point [n].
std::pair<Tensor, Tensor> moons(int64_t n) {
  const Tensor moon = arange(n) % 2, angle = rand({n}) * M_PI;
  const Tensor side = 1 - 2 * moon.to(f32);
  const Tensor x = stack({cos(angle) + moon * 1.0, side * sin(angle) + moon * 0.4}, 1);
  return {x + 0.1 * randn({n, 2}), moon};
}

bool train(const Group& group) {
  manual_seed(1);
  const auto [x, y] = moons(512);
  const auto rank = static_cast<size_t>(group.rank());
  const Tensor my_x = x.tensor_split(group.size())[rank], my_y = y.tensor_split(group.size())[rank];
  // Weight of this rank's loss: 1 if all ranks have the same number of samples.
  const auto samples = static_cast<double>(my_y.numel());
  const double weight = samples / mean_weight(samples, group);

  nn::Sequential model(nn::Linear(2, 32), nn::Tanh(), nn::Linear(32, 2));
  optim::AdamW optimizer(model.parameters(), {.lr = 0.02});
  const DataParallel replicas(model.parameters(), {.group = group});  // broadcasts the parameters of rank 0

  double loss_of_all = 0;
  for (int step = 0; step < 200; ++step) {
    optimizer.zero_grad();
    const Tensor loss = cross_entropy(model(my_x), my_y) * weight;
    loss.backward();
    replicas.finish();
    optimizer.step();
    loss_of_all = all_reduce(loss.detach(), group, ReduceOp::avg).item<double>();
    if (group.rank() == 0 && step % 50 == 0) std::printf("step %3d  loss %.4f\n", step, loss_of_all);
  }

  bool same = true;  // whether all ranks have bit-identical models
  for (const Tensor& p : model.parameters()) same = same && p.detach().equal(broadcast(p.detach(), 0, group));
  same = all_reduce(tensor(same), group, ReduceOp::all).item<bool>();
  if (group.rank() == 0) {
    std::printf("%d ranks by %s: loss %.4f, models are %s\n", group.size(), group.wire(), loss_of_all,
                same ? "the same" : "different");
  }
  return same && loss_of_all < 0.1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) return train(world()) ? 0 : 1;
  std::vector<char> learned(static_cast<size_t>(std::atoi(argv[1])));
  LocalWorld(std::atoi(argv[1])).run([&](const Group& group) {
    learned[static_cast<size_t>(group.rank())] = train(group);
  });
  for (const char one : learned) {
    if (!one) return 1;
  }
  return 0;
}
