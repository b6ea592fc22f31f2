// LAPACK's decompositions of a 512 x 512 matrix, with the linked BLAS.
#include <random>
#include <type_traits>
#include <vector>

#include "timing.hpp"

#define ROUTINES(T, p)                                                                                              \
  extern "C" {                                                                                                      \
  void p##potrf_(const char*, const int*, T*, const int*, int*);                                                    \
  void p##getrf_(const int*, const int*, T*, const int*, int*, int*);                                               \
  void p##geqrf_(const int*, const int*, T*, const int*, T*, T*, const int*, int*);                                 \
  void p##orgqr_(const int*, const int*, const int*, T*, const int*, const T*, T*, const int*, int*);               \
  void p##syevd_(const char*, const char*, const int*, T*, const int*, T*, T*, const int*, int*, const int*, int*); \
  void p##gesdd_(const char*, const int*, const int*, T*, const int*, T*, T*, const int*, T*, const int*, T*,       \
                 const int*, int*, int*);                                                                           \
  }
ROUTINES(float, s)
ROUTINES(double, d)

#define CALL(name, ...)                                               \
  do {                                                                \
    if constexpr (std::is_same_v<T, double>) d##name##_(__VA_ARGS__); \
    else s##name##_(__VA_ARGS__);                                     \
  } while (false)

template <class T>
void run(const char* type) {
  constexpr int n = 512, work_size = 4 << 20, integers = 1 << 17;
  std::mt19937 random(0);
  std::normal_distribution<T> normal;
  std::vector<T> a(n * n), positive(n * n), symmetric(n * n), w, tau(n), s(n), u(n * n), v(n * n), work(work_size);
  std::vector<int> pivots(n), whole(integers);
  int info = 0;
  for (T& x : a) x = normal(random);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      T sum = 0;
      for (int k = 0; k < n; ++k) sum += a[i + k * n] * a[j + k * n];
      positive[i + j * n] = sum / n + (i == j);
      symmetric[i + j * n] = (a[i + j * n] + a[j + i * n]) / 2;
    }
  }
  std::printf("%s\n", type);
  report("cholesky", [&] {
    w = positive;
    CALL(potrf, "L", &n, w.data(), &n, &info);
  });
  report("lu", [&] {
    w = a;
    CALL(getrf, &n, &n, w.data(), &n, pivots.data(), &info);
  });
  report("qr", [&] {
    w = a;
    CALL(geqrf, &n, &n, w.data(), &n, tau.data(), work.data(), &work_size, &info);
    CALL(orgqr, &n, &n, &n, w.data(), &n, tau.data(), work.data(), &work_size, &info);
  });
  for (const char* job : {"V", "N"}) {
    report(*job == 'V' ? "eigh" : "eigvalsh", [&] {
      w = symmetric;
      CALL(syevd, job, "L", &n, w.data(), &n, s.data(), work.data(), &work_size, whole.data(), &integers, &info);
    });
  }
  for (const char* job : {"A", "N"}) {
    report(*job == 'A' ? "svd" : "svdvals", [&] {
      w = a;
      CALL(gesdd, job, &n, &n, w.data(), &n, s.data(), u.data(), &n, v.data(), &n, work.data(), &work_size,
           whole.data(), &info);
    });
  }
}

int main() {
  run<float>("f32");
  run<double>("f64");
}
