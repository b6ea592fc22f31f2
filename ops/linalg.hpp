// Linear algebra: factors, solutions, eigenvalues, singular values and norms of matrices, as PyTorch's torch.linalg.
//
// A matrix spans the last two dimensions; those before are batch dimensions, which broadcast between operands. Operands
// are floating or complex (DTypeError for others) and share dtype and device; 16-bit floats are computed in f32 and
// rounded once. Singular values, norms and eigenvalues of Hermitian matrices are real. Results are new contiguous
// tensors, differentiable to any order unless said. The decompositions compute on the CPU: tensors of other devices are
// copied there and their results back. Raises ShapeError for fewer than two dimensions, for non-square matrices where
// square ones are needed, and for sizes that do not fit. Raises LinAlgError, with the batch index, if a matrix has no
// such factor, no inverse, or an element that is not finite.
#pragma once

#include <optional>
#include <string_view>

#include "../tensor/index.hpp"

namespace weft {

/// A matrix for which a function has no result: singular, not positive definite, or one that no iteration solves.
class WEFT_API LinAlgError : public Error {
 public:
  using Error::Error;
};

/// Products summed over letters: "ij,jk->ik". Each word has one letter per dimension of its operand. The result has the
/// letters after the arrow, or without an arrow the letters that occur once, in alphabetical order. A repeated letter
/// in a word takes the diagonal, a letter that is not in the result is summed over, and `...` matches any dimensions,
/// which broadcast. Size 1 broadcasts. Operands are contracted in pairs: in the order of opt_einsum's greedy rule or,
/// for up to eight operands, in the optimal order if that is cheaper. Raises ValueError for invalid notation,
/// ShapeError if sizes differ.
[[nodiscard]] WEFT_API Tensor einsum(std::string_view equation, std::span<const Tensor> operands, Location where = {});
[[nodiscard]] WEFT_API Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands,
                                     Location where = {});
template <class = void>
Tensor einsum(std::string_view, const Tensor&, ...) = delete;  // operands in braces: einsum("ij,jk->ik", {a, b})

/// Sums of products over the last dimension of both: [..., n] and [..., n] give a's other dimensions, then b's. A 0-d
/// operand multiplies. Raises ShapeError if the last sizes differ, and the errors of matmul for dtypes.
[[nodiscard]] WEFT_API Tensor inner(const Tensor& a, const Tensor& b, Location where = {});
/// The sum of conj(a) * b of two 1-d tensors, 0-d. Raises ShapeError for other ranks and sizes, DTypeError unless both
/// have one dtype.
[[nodiscard]] WEFT_API Tensor vdot(const Tensor& a, const Tensor& b, Location where = {});
/// Kronecker's product: every product of an element of a and one of b, blocks of b in the places of a's elements. The
/// shorter shape gets ones in front. Dtypes promote.
[[nodiscard]] WEFT_API Tensor kron(const Tensor& a, const Tensor& b, Location where = {});
/// beta * input + alpha * (a x b) for batches [b, m, k] and [b, k, n]; input broadcasts, and is not read where beta is
/// 0. Raises ShapeError unless shapes fit, DTypeError unless all three have one dtype.
[[nodiscard]] WEFT_API Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
                                      Scalar alpha = 1, Location where = {});
/// beta * input + alpha * the sum of the products over the batch: [m, n]. Errors as baddbmm.
[[nodiscard]] WEFT_API Tensor addbmm(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
                                     Scalar alpha = 1, Location where = {});
/// beta * input + alpha * (a [m, k] x b [k]): [m]. Errors as baddbmm.
[[nodiscard]] WEFT_API Tensor addmv(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
                                    Scalar alpha = 1, Location where = {});
/// beta * input + alpha * outer(a [m], b [n]): [m, n]. Errors as baddbmm.
[[nodiscard]] WEFT_API Tensor addr(const Tensor& input, const Tensor& a, const Tensor& b, Scalar beta = 1,
                                   Scalar alpha = 1, Location where = {});
/// The product of matrices in the order that takes the fewest multiplications, as linalg::multi_dot. Raises ValueError
/// for an empty list.
[[nodiscard]] WEFT_API Tensor chain_matmul(std::span<const Tensor> tensors, Location where = {});

namespace linalg {

struct FactorAndInfo {
  Tensor factor, info;
};
struct ResultAndInfo {
  Tensor result, info;
};
struct LuFactor {
  Tensor lu, pivots;
};
struct LuFactorAndInfo {
  Tensor lu, pivots, info;
};
struct Lu {
  Tensor p, l, u;
};
struct Qr {
  Tensor q, r;
};
struct Eigen {
  Tensor values, vectors;
};
struct Svd {
  Tensor u, s, vh;
};
struct SignAndLogarithm {
  Tensor sign, logabsdet;
};
struct LeastSquares {
  Tensor solution, residuals, rank, singular_values;
};
enum class QrMode : uint8_t { reduced, complete, r };

/// The lower triangle l with x = l lᴴ of a positive definite x; reads the lower triangle of x. With `upper`: the upper
/// triangle u with x = uᴴ u. The gradient is that of a symmetric x, half of it in each triangle. Raises LinAlgError
/// unless x is positive definite.
[[nodiscard]] WEFT_API Tensor cholesky(const Tensor& x, bool upper = false, Location where = {});
/// The same without LinAlgError: info [batch], i32, is the number, from 1, of the first leading minor that is not
/// positive, and 0 where the factor is one.
WEFT_API FactorAndInfo cholesky_ex(const Tensor& x, bool upper = false, bool check_errors = false, Location where = {});
/// The solution of a x = b for the Cholesky factor of a; b [..., n, k]. Raises ShapeError if b has another number of
/// rows.
[[nodiscard]] WEFT_API Tensor cholesky_solve(const Tensor& b, const Tensor& factor, bool upper = false,
                                             Location where = {});
/// The inverse of a matrix, from its Cholesky factor. Raises ShapeError for factors that are not square.
[[nodiscard]] WEFT_API Tensor cholesky_inverse(const Tensor& factor, bool upper = false, Location where = {});

/// The solution of a x = b, or with left = false of x a = b, for a triangular a. The other triangle of a is not read.
/// With `unitriangular` the diagonal is not read either, and counts as ones. Zeros on the diagonal give infinities and
/// NaN. Raises ShapeError if b does not fit.
[[nodiscard]] WEFT_API Tensor solve_triangular(const Tensor& a, const Tensor& b, bool upper, bool left = true,
                                               bool unitriangular = false, Location where = {});

/// x [..., m, n] = p l u with row exchanges, l and u packed into one; pivots [..., min(m, n)], i32: row j was exchanged
/// with row pivots[j], both from 1. LinAlgError where a pivot is 0.
WEFT_API LuFactor lu_factor(const Tensor& x, Location where = {});
/// The same without LinAlgError: info [batch], i32, is the number, from 1, of the first pivot that is 0, or 0.
WEFT_API LuFactorAndInfo lu_factor_ex(const Tensor& x, Location where = {});
/// x = p l u: p is a permutation, l has ones on its diagonal. A singular x has factors, too.
[[nodiscard]] WEFT_API Lu lu(const Tensor& x, Location where = {});
/// The solution of a x = b, of x a = b with left = false, of aᴴ x = b with `adjoint`, from lu_factor(a). Raises
/// DTypeError unless pivots are i32, ShapeError if pivots or b do not fit.
[[nodiscard]] WEFT_API Tensor lu_solve(const Tensor& lu, const Tensor& pivots, const Tensor& b, bool left = true,
                                       bool adjoint = false, Location where = {});
/// The solution of a x = b, or of x a = b. b is a batch of matrices, or of vectors where it is 1-d or has a's shape
/// without the last dimension. Raises LinAlgError for a singular matrix, ShapeError if b does not fit.
[[nodiscard]] WEFT_API Tensor solve(const Tensor& a, const Tensor& b, bool left = true, Location where = {});
/// The same without LinAlgError unless errors are checked: info [batch], i32, is the number, from 1, of the first pivot
/// that is 0, or 0; the result of a singular matrix has infinities and NaN.
WEFT_API ResultAndInfo solve_ex(const Tensor& a, const Tensor& b, bool left = true, bool check_errors = false,
                                Location where = {});
[[nodiscard]] WEFT_API Tensor inv(const Tensor& x, Location where = {});
/// The inverse, with the info and errors of solve_ex.
WEFT_API ResultAndInfo inv_ex(const Tensor& x, bool check_errors = false, Location where = {});
/// The determinant; that of a 0 x 0 matrix is 1. At a singular matrix of rank n - 1 the gradient is exact but for
/// rounding, below it is 0. Raises ShapeError unless x is square, as the next two do.
[[nodiscard]] WEFT_API Tensor det(const Tensor& x, Location where = {});
/// Its sign, det / |det|, and the logarithm of its magnitude, -inf for 0.
WEFT_API SignAndLogarithm slogdet(const Tensor& x, Location where = {});
/// The logarithm of the determinant; NaN where it is a negative real number.
[[nodiscard]] WEFT_API Tensor logdet(const Tensor& x, Location where = {});

/// x [..., m, n] = q r: q has orthonormal columns, min(m, n) of them or m (`complete`), r is upper triangular; mode r
/// leaves q empty. Differentiable but for mode r, and for `complete` where m > n: AutogradError.
WEFT_API Qr qr(const Tensor& x, QrMode mode = QrMode::reduced, Location where = {});
/// The first n columns of the product of the reflections I - tau[i] v vᴴ. v is column i of x [..., m, n] below the
/// diagonal, with 1 on the diagonal. tau is [..., k]. Raises ShapeError if tau does not fit.
[[nodiscard]] WEFT_API Tensor householder_product(const Tensor& x, const Tensor& tau, Location where = {});

/// Eigenvalues in ascending order and eigenvectors, in columns, of a Hermitian x, of which the lower triangle is read,
/// or with `upper` the upper one. Gradients of vectors are finite where no two values are equal. A loss that depends on
/// the phase of complex vectors, here, of svd and of eig, has no gradient: AutogradError in backward.
[[nodiscard]] WEFT_API Eigen eigh(const Tensor& x, bool upper = false, Location where = {});
[[nodiscard]] WEFT_API Tensor eigvalsh(const Tensor& x, bool upper = false, Location where = {});
/// Eigenvalues in any order and eigenvectors, in columns of norm 1 with a real largest element, of any square x; both
/// complex. Gradients of vectors are finite if no two eigenvalues are equal (Boeddeker et al. 2017). Raises LinAlgError
/// if the iteration does not converge or an element is not finite.
[[nodiscard]] WEFT_API Eigen eig(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor eigvals(const Tensor& x, Location where = {});
/// x = u diag(s) vh with singular values s in descending order; u and vh are square or, without `full_matrices`, have
/// min(m, n) columns and rows. Gradients of vectors are finite where the values differ, and with full_matrices those of
/// the added ones are 0.
[[nodiscard]] WEFT_API Svd svd(const Tensor& x, bool full_matrices = true, Location where = {});
[[nodiscard]] WEFT_API Tensor svdvals(const Tensor& x, Location where = {});
/// Moore and Penrose's inverse; singular values up to max(atol, rtol * the largest) count as 0. Without either rtol is
/// max(m, n) times the dtype's epsilon; with atol alone it is 0. Raises ValueError for a negative tolerance.
[[nodiscard]] WEFT_API Tensor pinv(const Tensor& x, std::optional<double> atol = {}, std::optional<double> rtol = {},
                                   bool hermitian = false, Location where = {});
/// The number of singular values above the bound of pinv; i64, not differentiable. Raises ValueError for a negative
/// tolerance.
[[nodiscard]] WEFT_API Tensor matrix_rank(const Tensor& x, std::optional<double> atol = {},
                                          std::optional<double> rtol = {}, bool hermitian = false, Location where = {});
/// The least-squares solution x of a x = b with the smallest norm; the residual sums of squares if a [m, n] has m > n
/// and full rank, else empty; the rank; and the singular values of a. Singular values up to rcond times the largest
/// count as 0. Raises ShapeError if b has another number of rows.
WEFT_API LeastSquares lstsq(const Tensor& a, const Tensor& b, std::optional<double> rcond = {}, Location where = {});

/// A norm of matrices: 'fro', the root of the sum of squares; 'nuc', the sum of the singular values; ±2, the largest or
/// smallest of them; ±1, the largest or smallest sum of magnitudes of a column; ±infinity, that of a row. Raises
/// ValueError for another order, and unless `dims` names two dimensions.
[[nodiscard]] WEFT_API Tensor matrix_norm(const Tensor& x, std::string_view order = "fro", const Dims& dims = {-2, -1},
                                          bool keepdim = false, std::optional<DType> dtype = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor matrix_norm(const Tensor& x, double order, const Dims& dims = {-2, -1},
                                          bool keepdim = false, std::optional<DType> dtype = {}, Location where = {});
/// norm(x) norm(x⁻¹), by singular values if the order is not given or ±2; infinity for a singular matrix. Raises
/// ValueError for an order that matrix_norm lacks, ShapeError unless x is square for the other orders.
[[nodiscard]] WEFT_API Tensor cond(const Tensor& x, Location where = {});
[[nodiscard]] WEFT_API Tensor cond(const Tensor& x, double order, Location where = {});
[[nodiscard]] WEFT_API Tensor cond(const Tensor& x, std::string_view order, Location where = {});

/// x times itself n times, by squaring; the inverse's power for a negative n. Raises LinAlgError if n is negative and x
/// is singular.
[[nodiscard]] WEFT_API Tensor matrix_power(const Tensor& x, int64_t n, Location where = {});
/// e to the power x, by scaling and squaring of a Taylor polynomial of degree 18 (Bader, Blanes and Casas 2019). Raises
/// ShapeError unless x is square.
[[nodiscard]] WEFT_API Tensor matrix_exp(const Tensor& x, Location where = {});
/// The product of two or more matrices in the order that takes the fewest multiplications; the first and the last may
/// be 1-d, a row and a column. ShapeError for others.
[[nodiscard]] WEFT_API Tensor multi_dot(std::span<const Tensor> tensors, Location where = {});
/// The cross product along dim, of size 3 (else ShapeError); other dimensions broadcast. Raises IndexError for a
/// dimension that is missing.
[[nodiscard]] WEFT_API Tensor cross(const Tensor& a, const Tensor& b, int dim = -1, Location where = {});
/// The sum of conj(a) * b along dim; shapes broadcast (else ShapeError). Raises IndexError for a dimension that is
/// missing.
[[nodiscard]] WEFT_API Tensor vecdot(const Tensor& a, const Tensor& b, int dim = -1, Location where = {});
/// Powers 0 … n - 1 of x [..., k] as rows [..., k, n]; n is k unless given, and then above 1.
[[nodiscard]] WEFT_API Tensor vander(const Tensor& x, std::optional<int64_t> n = {}, Location where = {});
/// The x with tensordot(a, x, x.dim()) = b. The shape of a is that of b and then that of x, after its dimensions `dims`
/// were moved to the end. Raises ShapeError if this is no square system, LinAlgError if it is singular.
[[nodiscard]] WEFT_API Tensor tensorsolve(const Tensor& a, const Tensor& b, const Dims& dims = {}, Location where = {});
/// The inverse of the map tensordot(x, ·, x.dim() - ind). Raises ShapeError unless the first `ind` dimensions and the
/// others have one product, ValueError for ind below 1, LinAlgError for a singular x.
[[nodiscard]] WEFT_API Tensor tensorinv(const Tensor& x, int64_t ind = 2, Location where = {});

}  // namespace linalg
}  // namespace weft
