// Scenarios of the allocation-failure test, and common checks.
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include <weft/weft.hpp>

namespace weft::faults {

/// Everything is made in the constructor, with memory; `act` runs while requests fail. All checks throw `Wrong`.
class Scenario {
 public:
  virtual ~Scenario() = default;
  virtual void act() = 0;
  /// After `act`, with memory again. `failed`: it ran out. Nothing may be half done.
  virtual void check(bool failed) = 0;
};

struct Kind {
  const char* name;
  std::function<std::unique_ptr<Scenario>()> make;
};
std::vector<Kind> scenarios();

struct Wrong : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void require(bool holds, const std::string& what) {
  if (!holds) throw Wrong(what);
}

inline std::vector<double> values(const Tensor& t) { return t.to_vector<double>(); }
/// Equal up to float32 rounding.
inline bool close(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(a[i] - b[i]) <= 1e-4 + 1e-4 * std::fabs(b[i]))) return false;
  }
  return true;
}
inline bool close(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.shape() == b.shape() && close(values(a), values(b));
}

/// Numbers without pattern in [0.2, 1.2], the same every time.
inline Tensor numbers(const Dims& shape, int seed) {
  const Tensor t = empty(shape, f64);
  for (int64_t i = 0; i < t.numel(); ++i) {
    t.data<double>()[i] = 0.2 + std::fmod(0.618034 * static_cast<double>(i + 1) + 0.137 * seed, 1.0);
  }
  return t;
}
inline Tensor leaf(const Dims& shape, int seed) { return numbers(shape, seed).requires_grad_(); }

}  // namespace weft::faults
