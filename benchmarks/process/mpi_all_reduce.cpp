// Compares Weft's all_reduce_ of f32 with MPI_Allreduce, alternating, between the processes that mpirun starts:
//   mpirun -n 2 build/release/benchmarks/weft_mpi_all_reduce
// Each line has the medians of both.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <weft/distributed.hpp>
#include <weft/weft.hpp>

using namespace weft;
using namespace weft::distributed;

namespace {

/// Microseconds per call, averaged over `count` consecutive calls.
template <class F>
double time_of(int count, F call) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < count; ++i) call();
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() / count;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  const Group group = world();
  if (group.rank() == 0) std::printf("%12s %12s %12s %8s\n", "bytes", "weft µs", "MPI µs", "ratio");
  for (int64_t bytes = 4; bytes <= int64_t{64} << 20; bytes *= 4) {
    const Tensor x = zeros({bytes / 4});
    std::vector<float> in(static_cast<size_t>(bytes / 4)), out(in.size());
    const int count = static_cast<int>(std::clamp<int64_t>((int64_t{16} << 20) / bytes, 2, 1000));
    std::vector<double> ours, theirs;
    for (int turn = 0; turn < 15; ++turn) {
      ours.push_back(time_of(count, [&] { all_reduce_(x, group); }));
      theirs.push_back(time_of(count, [&] {
        MPI_Allreduce(in.data(), out.data(), static_cast<int>(in.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      }));
    }
    const double a = median(ours), b = median(theirs);
    if (group.rank() == 0) std::printf("%12lld %12.2f %12.2f %8.2f\n", static_cast<long long>(bytes), a, b, a / b);
  }
}
