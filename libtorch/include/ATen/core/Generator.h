// Generator: a handle to a source of random numbers.
#pragma once

#include <memory>

#include <weft/tensor/generator.hpp>

#include <c10/core/Device.h>
#include <c10/util/Optional.h>

namespace at {

class Generator {
 public:
  Generator() = default;
  explicit Generator(weft::Generator& shared) : generator_(&shared, [](weft::Generator*) {}) {}
  explicit Generator(std::shared_ptr<weft::Generator> own) : generator_(std::move(own)) {}

  bool defined() const { return generator_ != nullptr; }
  weft::Generator* get() const { return generator_.get(); }
  void set_current_seed(uint64_t seed) const { generator_->manual_seed(seed); }
  uint64_t current_seed() const { return generator_->seed(); }
  c10::Device device() const { return c10::kCPU; }

 private:
  std::shared_ptr<weft::Generator> generator_;
};

template <class Impl = void>
Generator make_generator(uint64_t seed = weft::Generator::default_seed) {
  return Generator(std::make_shared<weft::Generator>(seed));
}
struct CPUGeneratorImpl {};
namespace detail {
inline Generator createCPUGenerator(uint64_t seed = weft::Generator::default_seed) { return make_generator(seed); }
inline Generator getDefaultCPUGenerator() { return Generator(weft::default_generator()); }
}  // namespace detail

inline weft::Generator* generator_of(const c10::optional<Generator>& generator) {
  return generator ? generator->get() : nullptr;
}

}  // namespace at
