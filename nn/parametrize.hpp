// Parametrizations: tensors of modules that are computed from others at each use, as in torch.nn.utils.parametrize.
//
//   struct Symmetric : nn::Layer<Symmetric> {
//     Tensor forward(const Tensor& x) const { return triu(x) + triu(x, 1).t(); }
//   };
//   nn::register_parametrization(layer, "weight", Symmetric());
//   nn::weight_norm(net.hidden);
//   nn::spectral_norm(net.out);
//
// The original tensors are saved as `parametrizations.weight.original`, or `original0` and so on, and are returned by
// `parameters()`. All layers of Weft use the parametrized tensor; a user-defined module does if its forward calls
// `value_of(weight)`. The C++ member `weight` keeps its handle to the original, if there is one of the same shape;
// otherwise it is filled with NaN.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "containers.hpp"

namespace weft::nn {

/// The result of a right_inverse: one tensor, saved as `original`, or several, saved as `original0` and so on.
struct Originals {
  std::vector<Tensor> tensors;
  bool numbered = true;

  Originals(const Tensor& one) : tensors{one}, numbered(false) {}
  Originals(std::vector<Tensor> several) : tensors(std::move(several)) {}
  template <size_t n>
  Originals(const std::array<Tensor, n>& several) : tensors(several.begin(), several.end()) {}
  Originals(const std::pair<Tensor, Tensor>& two) : tensors{two.first, two.second} {}
};

namespace detail {

template <size_t>
using SomeTensor = const Tensor&;

[[noreturn]] WEFT_API void raise_wrong_originals(const Module& step, size_t given, Location where);

template <class M, size_t... i>
constexpr bool takes_tensors(std::index_sequence<i...>) {
  if constexpr (requires { M::template takes<Input>; }) return M::template takes<Input, SomeTensor<i>...>;
  else return requires(M & m, const Input& x, const Tensor& t) {
      m(x, ((void)i, t)...);
    };
}

/// Calls module(of[0], of[1], …), with up to four tensors.
template <size_t n = 1, class M>
Tensor call_with(M& module, std::span<const Tensor> of, Location where) {
  if constexpr (takes_tensors<M>(std::make_index_sequence<n - 1>())) {
    if (of.size() == n) {
      return [&]<size_t... i>(std::index_sequence<i...>) { return module(Input(of[0], where), of[i + 1]...); }
      (std::make_index_sequence<n - 1>());
    }
  }
  if constexpr (n < 4) return call_with<n + 1>(module, of, where);
  else raise_wrong_originals(module, of.size(), where);
}

template <class M>
concept HasRightInverse = requires(M& module, const Tensor& value) {
  Originals(module.right_inverse(value));
};

}  // namespace detail

/// Any module with a forward that computes a tensor from one to four tensors. It may have a `right_inverse`: `Tensor
/// right_inverse(const Tensor& value)`, or with a vector, an array or a pair of tensors as result, from which forward
/// computes the value.
class WEFT_API Parametrization : public Module {
 public:
  template <std::derived_from<Module> M>
    requires(!std::same_as<M, Parametrization>)
  Parametrization(M module) : Module(module), held_(Shared<HeldModule<M>>::make(std::move(module))) {}
  /// For other languages: the functions, and an optional inverse. Clones share the state of the functions.
  using Forward = Callback<Tensor(std::span<const Tensor> originals, Location where)>;
  using RightInverse = Callback<Originals(const Tensor& value)>;
  Parametrization(const Module& module, Forward forward, RightInverse right_inverse = {});
  Parametrization(const Parametrization& other);
  Parametrization& operator=(const Parametrization&) & = default;

  Tensor operator()(std::span<const Tensor> originals, Location where = {}) const {
    return held_->call(originals, where);
  }
  bool has_right_inverse() const { return held_->has_inverse(); }
  Originals right_inverse(const Tensor& value) const { return held_->inverse(value); }

 private:
  struct HeldBase {
    virtual ~HeldBase() = default;
    virtual Tensor call(std::span<const Tensor> originals, Location where) = 0;
    virtual bool has_inverse() const = 0;
    virtual Originals inverse(const Tensor& value) = 0;
    virtual Shared<HeldBase> copy() const = 0;
  };
  template <class M>
  struct HeldModule final : HeldBase {
    explicit HeldModule(M module_) : module(std::move(module_)) {}
    Tensor call(std::span<const Tensor> originals, Location where) override {
      return detail::call_with(module, originals, where);
    }
    bool has_inverse() const override { return detail::HasRightInverse<M>; }
    Originals inverse(const Tensor& value) override {
      if constexpr (detail::HasRightInverse<M>) return Originals(module.right_inverse(value));
      else return value;
    }
    Shared<HeldBase> copy() const override { return Shared<HeldModule>::make(*this); }
    M module;
  };
  struct HeldFunctions;

  Shared<HeldBase> held_;
};

/// Makes the parameter or buffer `name` of the module equal to parametrization(original), computed at each use; several
/// parametrizations are applied in order. If it has a right_inverse, that computes the originals, and the value does
/// not change. A single original of the same shape remains the same tensor, for optimizers that hold it. Errors of
/// forward and right_inverse are passed on. Raises ValueError, before any change, if the module has no such tensor,
/// if the weight is sharded, and if its LoRA adapter is merged or shared. An adapter is added to the computed weight.
/// Unless `unsafe`, it also raises ValueError if shape or dtype change.
WEFT_API void register_parametrization(const Module& module, std::string_view name, Parametrization parametrization,
                                       bool unsafe = false, Location where = {});

/// Whether the tensor `name` is parametrized, or any tensor if the name is empty.
WEFT_API bool is_parametrized(const Module& module, std::string_view name = {});
/// The names of the parametrized tensors.
WEFT_API std::vector<std::string> parametrized_names(const Module& module);

/// The current value. Raises ValueError if the tensor is not parametrized.
WEFT_API Tensor parametrized_tensor(const Module& module, std::string_view name, Location where = {});
/// Sets the originals to the right_inverse of `value`. Raises ValueError, before any change, if the tensor is not
/// parametrized or a parametrization has no right_inverse. It also raises if the number or dtypes of the originals
/// would change, and, unless the parametrization is unsafe, their shapes.
WEFT_API void set_parametrized_tensor(const Module& module, std::string_view name, const Tensor& value,
                                      Location where = {});

/// Makes the tensor a plain one with its current value, or with that of its original; it becomes the module's last
/// tensor. It is the same tensor object as before, so that members and optimizers see it. Raises ValueError if the
/// tensor is not parametrized, and for the original if there are several.
WEFT_API void remove_parametrizations(const Module& module, std::string_view name, bool leave_parametrized = true,
                                      Location where = {});

/// Caches parametrized tensors on this thread until destruction, with and without gradients: each is recomputed only
/// after an original was written. For a module that uses its weights several times in a forward.
class WEFT_API CachedParametrizationsGuard {
 public:
  CachedParametrizationsGuard();
  ~CachedParametrizationsGuard();
  CachedParametrizationsGuard(const CachedParametrizationsGuard&) = delete;

  struct Cache;

 private:
  weft::detail::Pimpl<Cache> cache_;
};

/// w = g v / |v|, with originals g (original0) and v (original1). Norms are over all dimensions but `dim`, or over all
/// dimensions if it is empty or, as in PyTorch, -1 (Salimans and Kingma 2016). The value does not change. Raises
/// ValueError if `dim` does not exist, and as register_parametrization.
WEFT_API void weight_norm(const Module& module, std::string_view name = "weight", std::optional<int> dim = 0,
                          Location where = {});

struct SpectralNormOptions {
  /// Number of power iterations at each use in training.
  int64_t n_power_iterations = 1;
  double eps = 1e-12;
  /// The dimension of the weight that becomes the rows of the matrix. Default: 1 for transposed convolutions, else 0.
  std::optional<int> dim = {};
};
/// w / σ, where σ is the largest singular value of the weight as a matrix, estimated by power iteration with the
/// buffers _u and _v (Miyato et al. 2018). A 1-d weight is divided by its norm. Raises ValueError for options out of
/// range, for a 0-d weight, and as register_parametrization.
WEFT_API void spectral_norm(const Module& module, std::string_view name = "weight",
                            const SpectralNormOptions& options = {}, Location where = {});

/// Maps an arbitrary matrix X to an orthogonal one. With A skew-symmetric from X's lower triangle: exp(A), or Cayley's
/// (I - A/2)⁻¹ (I + A/2). householder: the product of the reflections with vectors below X's diagonal.
enum class OrthogonalMap : uint8_t { matrix_exp, cayley, householder };
struct OrthogonalOptions {
  /// Default: matrix_exp for a square weight, else householder.
  std::optional<OrthogonalMap> map = {};
  /// Multiply the map's matrix by the buffer `base`, so that training starts from the identity (Lezcano-Casado 2019)
  /// and a value can be assigned.
  bool use_trivialization = true;
};
/// Makes the weight [..., n, k] orthonormal: its columns, or its rows if it is wide. With a base or householder it
/// becomes the orthogonal factor of its former value, otherwise the map of that value. Assigning a value that is not
/// orthogonal does the same. Raises ValueError for a weight with fewer than two dimensions, and as
/// register_parametrization.
WEFT_API void orthogonal(const Module& module, std::string_view name = "weight", const OrthogonalOptions& options = {},
                         Location where = {});

}  // namespace weft::nn
