#include "plan.hpp"

#include <algorithm>
#include <cmath>
#include <list>
#include <mutex>
#include <numbers>

namespace weft::cpu::fft {

namespace {

/// Longer ones do not fit the cache with a register of lines.
constexpr int64_t longest_small = 4096;
/// Larger prime factors cost more as stages than a convolution does.
constexpr int64_t largest_radix = 31;

std::vector<int> radices_of(int64_t n) {
  std::vector<int> radices;
  int twos = 0;
  for (; n % 2 == 0; n /= 2) ++twos;
  for (; twos >= 5 || twos == 3; twos -= 3) radices.push_back(8);  // 16 is 4 times 4
  for (; twos >= 2; twos -= 2) radices.push_back(4);
  if (twos == 1) radices.push_back(2);
  for (int p = 3; p <= largest_radix; p += 2) {
    while (n % p == 0) radices.push_back(p), n /= p;
  }
  if (n != 1) radices.clear();
  return radices;
}

bool is_smooth(int64_t n) { return n == 1 || !radices_of(n).empty(); }

template <class T>
Complex<T> rounded(complex128 z) {
  return {static_cast<T>(z.re), static_cast<T>(z.im)};
}

template <class T>
void make_small(Plan<T>& plan) {
  int64_t groups = 1;
  for (const int radix : radices_of(plan.n)) {
    Stage stage{radix, groups, plan.n / (groups * radix), static_cast<int64_t>(plan.roots.size()), 0};
    for (int64_t i = 0; i < stage.span; ++i) {
      for (int j = 1; j < radix; ++j) plan.roots.push_back(rounded<T>(root_of_unity(j * groups * i, plan.n)));
    }
    stage.circle = static_cast<int64_t>(plan.roots.size());
    if (radix > 5 && radix != 8) {
      for (int j = 0; j < radix; ++j) plan.roots.push_back(rounded<T>(root_of_unity(j, radix)));
    }
    plan.stages.push_back(stage);
    groups *= radix;
  }
}

/// The divisor next to the root of n, below it.
int64_t middle_divisor(int64_t n) {
  int64_t best = 1;
  for (int64_t d = 1; d * d <= n; ++d) {
    if (n % d == 0) best = d;
  }
  return best;
}

template <class T>
std::shared_ptr<const Plan<T>> small_plan(int64_t n) {
  auto plan = std::make_shared<Plan<T>>();
  plan->n = n;
  make_small(*plan);
  return plan;
}

template <class T>
void make_split(Plan<T>& plan, int64_t rows) {
  plan.rows = small_plan<T>(plan.n / rows);
  plan.columns = small_plan<T>(rows);
  while (plan.step * plan.step < plan.n) plan.step *= 2;
  for (int64_t i = 0; i < plan.step; ++i) plan.fine.push_back(root_of_unity(i, plan.n));
  for (int64_t i = 0; i * plan.step < plan.n; ++i) plan.coarse.push_back(root_of_unity(i * plan.step, plan.n));
}

template <class T>
void make_convolve(Plan<T>& plan) {
  const int64_t n = plan.n;
  int64_t length = 1;
  while (length < 2 * n - 1) length *= 2;
  plan.power = plan_of<T>(length);
  plan.chirp.resize(static_cast<size_t>(n));
  plan.response.assign(static_cast<size_t>(length), Complex<T>(0));
  __extension__ using Wide = __int128;
  for (int64_t k = 0; k < n; ++k) {
    const complex128 root = root_of_unity(static_cast<int64_t>(Wide{k} * k % (2 * n)), 2 * n);
    plan.chirp[static_cast<size_t>(k)] = rounded<T>(root);
    plan.response[static_cast<size_t>(k)] = rounded<T>(conj(root));
    if (k != 0) plan.response[static_cast<size_t>(length - k)] = rounded<T>(conj(root));
  }
  transform_line(*plan.power, plan.response.data(), plan.response.data(), false, T(1) / static_cast<T>(length));
}

template <class T>
std::shared_ptr<const Plan<T>> make_plan(int64_t n) {
  auto plan = std::make_shared<Plan<T>>();
  plan->n = n;
  for (int64_t k = 0; k <= n / 2; ++k) plan->half_roots.push_back(rounded<T>(root_of_unity(k, 2 * n)));
  if (!is_smooth(n)) {
    make_convolve(*plan);
    return plan;
  }
  const int64_t rows = middle_divisor(n);
  if (n <= longest_small || rows == 1) make_small(*plan);
  if (rows >= 8) make_split(*plan, rows);
  return plan;
}

}  // namespace

complex128 root_of_unity(int64_t k, int64_t n) {
  k %= n;
  // 8k / n, so that an eighth of the circle is a whole number.
  __extension__ using Wide = __int128;
  const Wide eighths = Wide{8} * k;
  const int octant = static_cast<int>(eighths / n);
  const bool odd = (octant & 1) != 0;
  const Wide rest =
      odd ? Wide{octant + 1} * n - eighths : eighths - Wide{octant} * n;  // from the nearer axis or diagonal
  const double angle = static_cast<double>(rest) / static_cast<double>(n) * (std::numbers::pi / 4);
  const double c = std::cos(angle), s = std::sin(angle);
  switch (octant) {
    case 0:
      return {c, -s};
    case 1:
      return {s, -c};
    case 2:
      return {-s, -c};
    case 3:
      return {-c, -s};
    case 4:
      return {-c, s};
    case 5:
      return {-s, c};
    case 6:
      return {s, c};
    default:
      return {c, s};
  }
}

namespace {

/// Plans that were used last, the latest in front.
template <class T>
class Plans {
 public:
  std::shared_ptr<const Plan<T>> get(int64_t n) {
    if (auto known = find(n)) return known;
    std::shared_ptr<const Plan<T>> made = make_plan<T>(n);
    const std::lock_guard lock(mutex_);
    plans_.push_front(made);
    if (plans_.size() > most) plans_.pop_back();
    return made;
  }

 private:
  static constexpr size_t most = 32;
  std::shared_ptr<const Plan<T>> find(int64_t n) {
    const std::lock_guard lock(mutex_);
    const auto found = std::ranges::find_if(plans_, [n](const auto& plan) { return plan->n == n; });
    if (found == plans_.end()) return nullptr;
    plans_.splice(plans_.begin(), plans_, found);
    return plans_.front();
  }
  std::mutex mutex_;
  std::list<std::shared_ptr<const Plan<T>>> plans_;
};

}  // namespace

template <class T>
std::shared_ptr<const Plan<T>> plan_of(int64_t n) {
  static Plans<T>& plans = *new Plans<T>;  // threads may outlive statics
  return plans.get(n);
}
template std::shared_ptr<const Plan<float>> plan_of(int64_t);
template std::shared_ptr<const Plan<double>> plan_of(int64_t);

}  // namespace weft::cpu::fft
