// Random tensors and dropout. The same seed gives the same numbers on every device and for every number of threads
// (normal within 2 units in the last place). How far an op advances its generator depends on its element count and
// dtype alone (tensor/philox.hpp). Where no generator is given, the default one of the tensor's device is used. Results
// are new contiguous tensors, f32 on the CPU unless the options say otherwise; errors of shapes and devices are those
// of <weft/ops/create.hpp>.
#pragma once

#include <optional>
#include <vector>

#include "../tensor/generator.hpp"
#include "../tensor/index.hpp"

namespace weft {

template <std::integral A, std::integral B, class... More>
Tensor rand(A, B, const More&...) = delete;  // sizes in braces: rand({2, 3})
template <std::integral A, std::integral B, class... More>
Tensor randn(A, B, const More&...) = delete;  // sizes in braces: randn({2, 3})

/// Uniform in [0, 1), of complex numbers each part. DTypeError for integer types.
[[nodiscard]] WEFT_API Tensor rand(const Dims& shape, TensorOptions options = {}, Generator* generator = nullptr,
                                   Location where = {});
[[nodiscard]] WEFT_API Tensor rand_like(const Tensor& like, Generator* generator = nullptr, Location where = {});
/// Normal with mean 0 and standard deviation 1; complex numbers have that of 1, too, the same in each direction.
/// DTypeError for integer types.
[[nodiscard]] WEFT_API Tensor randn(const Dims& shape, TensorOptions options = {}, Generator* generator = nullptr,
                                    Location where = {});
[[nodiscard]] WEFT_API Tensor randn_like(const Tensor& like, Generator* generator = nullptr, Location where = {});
/// Integers in [low, high), i64 unless a dtype is given. ValueError unless low < high and an integer dtype holds them
/// all.
[[nodiscard]] WEFT_API Tensor randint(int64_t low, int64_t high, const Dims& shape, TensorOptions options = {},
                                      Generator* generator = nullptr, Location where = {});
/// 0 … n - 1 in random order (Fisher and Yates), i64 unless a dtype is given; made on the host. ValueError for a
/// negative n.
[[nodiscard]] WEFT_API Tensor randperm(int64_t n, TensorOptions options = {}, Generator* generator = nullptr,
                                       Location where = {});
// The same with a dtype or a device instead of options.
template <TensorOption O>
Tensor rand(const Dims& shape, O option, Generator* generator = nullptr, Location where = {}) {
  return rand(shape, detail::options_from(option), generator, where);
}
template <TensorOption O>
Tensor randn(const Dims& shape, O option, Generator* generator = nullptr, Location where = {}) {
  return randn(shape, detail::options_from(option), generator, where);
}
template <TensorOption O>
Tensor randint(int64_t low, int64_t high, const Dims& shape, O option, Generator* generator = nullptr,
               Location where = {}) {
  return randint(low, high, shape, detail::options_from(option), generator, where);
}
template <TensorOption O>
Tensor randperm(int64_t n, O option, Generator* generator = nullptr, Location where = {}) {
  return randperm(n, detail::options_from(option), generator, where);
}
/// 1 with the probability in the element of `probabilities`, else 0; of its shape and dtype. No gradient. DTypeError
/// unless it is floating, ValueError for a probability outside [0, 1], which waits for a device.
[[nodiscard]] WEFT_API Tensor bernoulli(const Tensor& probabilities, Generator* generator = nullptr,
                                        Location where = {});

/// Overwrite x with numbers uniform in [low, high) or normal, and return it. ValueError for low > high, a range that is
/// not finite or deviation < 0, DTypeError unless x is floating, and the errors of in-place writes in
/// <weft/tensor/methods.hpp>.
WEFT_API const Tensor& uniform_(const Tensor& x, double low = 0, double high = 1, Generator* generator = nullptr,
                                Location where = {});
WEFT_API const Tensor& normal_(const Tensor& x, double mean = 0, double deviation = 1, Generator* generator = nullptr,
                               Location where = {});
/// Overwrites x with 1 with probability p, else 0. ValueError unless 0 <= p <= 1.
WEFT_API const Tensor& bernoulli_(const Tensor& x, double p = 0.5, Generator* generator = nullptr, Location where = {});

/// In training, zeroes each element with probability p and scales the others by 1 / (1 - p); otherwise, and for p = 0,
/// gives x itself (Srivastava et al. 2014). Backward uses the forward's mask. ValueError unless 0 <= p <= 1, DTypeError
/// unless x is floating.
[[nodiscard]] WEFT_API Tensor dropout(const Tensor& x, double p = 0.5, bool training = true,
                                      Generator* generator = nullptr, Location where = {});

/// The exact state of a device's default generator as a u8 tensor on the CPU. Raises DeviceError if the device does not
/// exist.
[[nodiscard]] WEFT_API Tensor get_rng_state(Device device = {}, Location where = {});
/// Restores such a state. FormatError for any other tensor; the state then stays as it was.
WEFT_API void set_rng_state(const Tensor& state, Device device = {}, Location where = {});

/// Restores the default generators of `devices` at the end of the scope, even when an exception leaves it.
class WEFT_API RngForkGuard {
 public:
  explicit RngForkGuard(std::vector<Device> devices = {Device()});
  ~RngForkGuard();
  RngForkGuard(const RngForkGuard&) = delete;

 private:
  std::vector<Device> devices_;
  std::vector<GeneratorState> states_;
};

}  // namespace weft
