// Tensors of modules that are computed from others at each use, as torch.nn.utils.parametrize has them.
//
//   struct Symmetric : nn::Layer<Symmetric> {
//     Tensor forward(const Tensor& x) const { return triu(x) + triu(x, 1).t(); }
//   };
//   nn::register_parametrization(layer, "weight", Symmetric());
//   nn::weight_norm(net.hidden);
//   nn::spectral_norm(net.out);
//
// What the tensor is computed from is saved as `parametrizations.weight.original`, or `original0` and so on, and is
// what `parameters()` gives. Every layer of Weft computes with the parametrized tensor; a module of one's own does
// where its forward says `value_of(weight)`. The member `weight` of a C++ layer stays the handle of the tensor that was
// there: the original where there is one of its shape, and NaN where none is.
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

/// What a right_inverse gives: one tensor, which is saved as `original`, or several, `original0` and so on.
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

/// module(of[0], of[1], …) for as many as its forward takes, up to four.
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

/// Any module whose forward computes a tensor from one, or the first one of a tensor from up to four, with its
/// `right_inverse` where it has one: `Tensor right_inverse(const Tensor& value)`, or a vector, an array or a pair of
/// tensors, from which forward computes the value.
class WEFT_API Parametrization : public Module {
 public:
  template <std::derived_from<Module> M>
    requires(!std::same_as<M, Parametrization>)
  Parametrization(M module) : Module(module), held_(Shared<HeldModule<M>>::make(std::move(module))) {}
  /// From outside C++: what computes, and the inverse or nothing. Clones share what the functions hold.
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

/// From now on the parameter or buffer `name` of the module is parametrization(original), computed at each use; several
/// are applied one after the other. Where it has a right_inverse, that gives the originals, and the value stays as it
/// was; one original of the same shape stays the same tensor, for optimizers that hold it. ValueError where the module
/// has no such tensor, where shape or dtype change, or those that right_inverse makes of them do, unless `unsafe`, and
/// where the weight has an adapter of LoRA. What forward and right_inverse raise comes through. Then nothing was
/// changed.
WEFT_API void register_parametrization(const Module& module, std::string_view name, Parametrization parametrization,
                                       bool unsafe = false, Location where = {});

/// Whether the tensor of that name is, or any without a name.
WEFT_API bool is_parametrized(const Module& module, std::string_view name = {});
/// The names of those that are.
WEFT_API std::vector<std::string> parametrized_names(const Module& module);

/// The value at present. ValueError where it is not parametrized.
WEFT_API Tensor parametrized_tensor(const Module& module, std::string_view name, Location where = {});
/// Gives the originals the values that the right_inverses make of `value`. ValueError where it is not parametrized, or
/// a parametrization has no right_inverse, and where number or dtypes of the originals would change or, but for an
/// unsafe one, shapes; then nothing was changed.
WEFT_API void set_parametrized_tensor(const Module& module, std::string_view name, const Tensor& value,
                                      Location where = {});

/// The tensor is a plain one again, the last of its module, with its present value, or else its original's. It is the
/// tensor that was there before, so that members and optimizers follow. ValueError where it is not parametrized, and
/// for the original where there are several.
WEFT_API void remove_parametrizations(const Module& module, std::string_view name, bool leave_parametrized = true,
                                      Location where = {});

/// While one lives, each parametrized tensor is computed once on this thread, with gradients and without, and again
/// only where an original was written: for a module whose weights are used at many places of a forward.
class WEFT_API CachedParametrizationsGuard {
 public:
  CachedParametrizationsGuard();
  ~CachedParametrizationsGuard();
  CachedParametrizationsGuard(const CachedParametrizationsGuard&) = delete;

  struct Cache;

 private:
  weft::detail::Pimpl<Cache> cache_;
};

/// w = g v / |v|, where original0 is g, original1 is v, and the lengths are taken over all dimensions but `dim`, or
/// over all where it is none or, as in PyTorch, -1 (Salimans and Kingma 2016). The value stays as it was. ValueError
/// for a dim that is not there, and as register_parametrization.
WEFT_API void weight_norm(const Module& module, std::string_view name = "weight", std::optional<int> dim = 0,
                          Location where = {});

struct SpectralNormOptions {
  /// In training, at each use.
  int64_t n_power_iterations = 1;
  double eps = 1e-12;
  /// Which dimension of the weight are the matrix' rows; 1 for transposed convolutions, else 0.
  std::optional<int> dim = {};
};
/// w / σ, where σ is the largest singular value of the weight as a matrix, estimated by power iteration with the
/// buffers _u and _v (Miyato et al. 2018); a weight of one dimension is divided by its length. ValueError for options
/// out of range, a weight without dimensions, and as register_parametrization.
WEFT_API void spectral_norm(const Module& module, std::string_view name = "weight",
                            const SpectralNormOptions& options = {}, Location where = {});

/// From a matrix X of any values: exp(A), Cayley's (I - A/2)⁻¹ (I + A/2), where A is skew with X's lower triangle, or
/// the product of the reflections whose vectors stand below X's diagonal.
enum class OrthogonalMap : uint8_t { matrix_exp, cayley, householder };
struct OrthogonalOptions {
  /// matrix_exp for a square weight, else householder.
  std::optional<OrthogonalMap> map = {};
  /// The map's matrix is multiplied with the buffer `base`, so that training starts from the identity (Lezcano-Casado
  /// 2019), and a value can be set.
  bool use_trivialization = true;
};
/// A weight [..., n, k] with orthonormal columns, or rows where it is wide. It becomes the orthogonal factor of what it
/// was, with a base or by householder; the other maps take what it was as X. Setting a value that is not orthogonal
/// does the same. ValueError for a weight of less than two dimensions, and as register_parametrization.
WEFT_API void orthogonal(const Module& module, std::string_view name = "weight", const OrthogonalOptions& options = {},
                         Location where = {});

}  // namespace weft::nn
