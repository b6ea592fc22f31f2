// Eigen's decompositions of a 512 x 512 matrix.
#include <Eigen/Dense>

#include "timing.hpp"

template <class T>
void run(const char* type) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>;
  const int n = 512;
  const Matrix a = Matrix::Random(n, n), b = Matrix::Random(n, n), symmetric = (a + a.transpose()) / 2;
  const Matrix positive = a * a.transpose() / T(n) + Matrix::Identity(n, n);
  volatile T sink = 0;
  std::printf("%s\n", type);
  report("cholesky", [&] { sink = Eigen::LLT<Matrix>(positive).matrixLLT()(1, 0); });
  report("lu", [&] { sink = Eigen::PartialPivLU<Matrix>(a).matrixLU()(1, 0); });
  report("solve", [&] { sink = Eigen::PartialPivLU<Matrix>(a).solve(b).eval()(1, 0); });
  report("qr", [&] {
    const Matrix q = Eigen::HouseholderQR<Matrix>(a).householderQ();
    sink = q(1, 0);
  });
  report("eigh", [&] { sink = Eigen::SelfAdjointEigenSolver<Matrix>(symmetric).eigenvectors()(1, 0); });
  report("eigvalsh",
         [&] { sink = Eigen::SelfAdjointEigenSolver<Matrix>(symmetric, Eigen::EigenvaluesOnly).eigenvalues()(1, 0); });
  report("svd", [&] { sink = Eigen::BDCSVD<Matrix>(a, Eigen::ComputeFullU | Eigen::ComputeFullV).matrixU()(1, 0); });
  report("svdvals", [&] { sink = Eigen::BDCSVD<Matrix>(a).singularValues()(1, 0); });
}

int main() {
  run<float>("f32");
  run<double>("f64");
}
