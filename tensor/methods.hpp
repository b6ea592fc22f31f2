// The methods that Tensor and x[…] share. Both classes include this file in their body. WEFT_WRITES declares a method
// that writes, and returns the tensor itself or, for x[…], the selected elements after they were written back into x.
//
// A declaration here is all that a method needs: it calls the free function of the same name in ops/, with the tensor
// as first argument. cmake/methods.cmake makes a row of each declaration, and ops/methods.cpp defines the methods from
// the rows. ops/ documents shapes, dtypes, aliasing and errors of methods without a comment.
#if !defined(WEFT_WRITES)
#include "tensor.hpp"
#else

// ---- views ----
[[nodiscard]] Tensor real(Location where = {}) const;
[[nodiscard]] Tensor imag(Location where = {}) const;
[[nodiscard]] Tensor view_as_real(Location where = {}) const;
[[nodiscard]] Tensor view_as_complex(Location where = {}) const;
[[nodiscard]] Tensor unfold(int dim, int64_t size, int64_t step, Location where = {}) const;
[[nodiscard]] Tensor movedim(const Dims& source, const Dims& destination, Location where = {}) const;
[[nodiscard]] Tensor moveaxis(const Dims& source, const Dims& destination, Location where = {}) const;
[[nodiscard]] Tensor swapaxes(int dim0, int dim1, Location where = {}) const;
[[nodiscard]] Tensor swapdims(int dim0, int dim1, Location where = {}) const;
[[nodiscard]] Tensor unflatten(int dim, const Dims& sizes, Location where = {}) const;
[[nodiscard]] Tensor ravel(Location where = {}) const;
[[nodiscard]] Tensor atleast_1d(Location where = {}) const;
[[nodiscard]] Tensor atleast_2d(Location where = {}) const;
[[nodiscard]] Tensor atleast_3d(Location where = {}) const;
[[nodiscard]] Tensor broadcast_to(const Dims& shape, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> split_with_sizes(std::span<const int64_t> sizes, int dim = 0,
                                                   Location where = {}) const;
[[nodiscard]] std::vector<Tensor> split_with_sizes(std::initializer_list<int64_t> sizes, int dim = 0,
                                                   Location where = {}) const;
[[nodiscard]] std::vector<Tensor> tensor_split(int64_t sections, int dim = 0, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> tensor_split(std::span<const int64_t> indices, int dim = 0,
                                               Location where = {}) const;
[[nodiscard]] std::vector<Tensor> tensor_split(std::initializer_list<int64_t> indices, int dim = 0,
                                               Location where = {}) const;
[[nodiscard]] std::vector<Tensor> hsplit(int64_t sections, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> hsplit(std::span<const int64_t> indices, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> hsplit(std::initializer_list<int64_t> indices, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> vsplit(int64_t sections, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> vsplit(std::span<const int64_t> indices, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> vsplit(std::initializer_list<int64_t> indices, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> dsplit(int64_t sections, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> dsplit(std::span<const int64_t> indices, Location where = {}) const;
[[nodiscard]] std::vector<Tensor> dsplit(std::initializer_list<int64_t> indices, Location where = {}) const;

// ---- copies: new contiguous tensors, recorded ----
/// As to(dtype), with a choice for values beyond the largest.
[[nodiscard]] Tensor cast(DType dtype, Overflow overflow = Overflow::by_format, Location where = {}) const;
[[nodiscard]] Tensor flip(const Dims& dims, Location where = {}) const;
[[nodiscard]] Tensor fliplr(Location where = {}) const;
[[nodiscard]] Tensor flipud(Location where = {}) const;
[[nodiscard]] Tensor roll(const Dims& shifts, const Dims& dims = {}, Location where = {}) const;
[[nodiscard]] Tensor repeat(const Dims& repeats, Location where = {}) const;
[[nodiscard]] Tensor tile(const Dims& repeats, Location where = {}) const;
[[nodiscard]] Tensor repeat_interleave(int64_t repeats, std::optional<int64_t> dim = {}, Location where = {}) const;
[[nodiscard]] Tensor repeat_interleave(const Tensor& repeats, std::optional<int64_t> dim = {},
                                       std::optional<int64_t> output_size = {}, Location where = {}) const;
[[nodiscard]] Tensor angle(Location where = {}) const;
[[nodiscard]] Tensor sgn(Location where = {}) const;
[[nodiscard]] Tensor rot90(int64_t k = 1, const Dims& dims = {0, 1}, Location where = {}) const;
[[nodiscard]] Tensor pad(std::span<const int64_t> padding, Padding mode = {}, Scalar value = 0,
                         Location where = {}) const;
[[nodiscard]] Tensor pad(std::initializer_list<int64_t> padding, Padding mode = {}, Scalar value = 0,
                         Location where = {}) const;
[[nodiscard]] Tensor pixel_shuffle(int64_t upscale_factor, Location where = {}) const;
[[nodiscard]] Tensor pixel_unshuffle(int64_t downscale_factor, Location where = {}) const;
[[nodiscard]] Tensor channel_shuffle(int64_t groups, Location where = {}) const;
[[nodiscard]] Tensor diag(int64_t diagonal = 0, Location where = {}) const;
[[nodiscard]] Tensor diag_embed(int64_t offset = 0, int dim1 = -2, int dim2 = -1, Location where = {}) const;
[[nodiscard]] Tensor trace(Location where = {}) const;
[[nodiscard]] Tensor tril(int64_t diagonal = 0, Location where = {}) const;
[[nodiscard]] Tensor triu(int64_t diagonal = 0, Location where = {}) const;
WEFT_WRITES(tril_(int64_t diagonal = 0, Location where = {}));
WEFT_WRITES(triu_(int64_t diagonal = 0, Location where = {}));
[[nodiscard]] Tensor diagonal_scatter(const Tensor& source, int64_t offset = 0, int dim1 = 0, int dim2 = 1,
                                      Location where = {}) const;
[[nodiscard]] Tensor select_scatter(const Tensor& source, int dim, int64_t index, Location where = {}) const;
[[nodiscard]] Tensor slice_scatter(const Tensor& source, int dim = 0, std::optional<int64_t> start = {},
                                   std::optional<int64_t> stop = {}, int64_t step = 1, Location where = {}) const;
[[nodiscard]] Tensor combinations(int64_t r = 2, bool with_replacement = false, Location where = {}) const;
[[nodiscard]] Tensor vander(std::optional<int64_t> count = {}, bool increasing = false, Location where = {}) const;

// ---- elementwise: name(…), and name_(…) in place, which raises the version and is recorded ----
#define WEFT_UNARY_METHOD(name, ...)                    \
  [[nodiscard]] Tensor name(Location where = {}) const; \
  WEFT_WRITES(name##_(Location where = {}));
WEFT_UNARY_OPS(WEFT_UNARY_METHOD)
#undef WEFT_UNARY_METHOD
#define WEFT_BINARY_METHOD(name, ...)                    \
  [[nodiscard]] Tensor name(const Operand& other) const; \
  WEFT_WRITES(name##_(const Operand& other));
WEFT_BINARY_OPS(WEFT_BINARY_METHOD)
WEFT_INTEGER_OPS(WEFT_BINARY_METHOD)
#undef WEFT_BINARY_METHOD
#define WEFT_COMPARE_METHOD(name, ...) Tensor name(const Operand& other) const;
WEFT_COMPARE_OPS(WEFT_COMPARE_METHOD)
#undef WEFT_COMPARE_METHOD
[[nodiscard]] Tensor polygamma(int64_t n, Location where = {}) const;
[[nodiscard]] Tensor mvlgamma(int64_t p, Location where = {}) const;
[[nodiscard]] Tensor nextafter(const Operand& other) const;
[[nodiscard]] MantissaAndExponent frexp(Location where = {}) const;
[[nodiscard]] Tensor positive(Location where = {}) const;
[[nodiscard]] Tensor bitwise_not(Location where = {}) const;
WEFT_WRITES(bitwise_not_(Location where = {}));
[[nodiscard]] Tensor round(int64_t decimals, Location where = {}) const;
WEFT_WRITES(round_(int64_t decimals, Location where = {}));
[[nodiscard]] Tensor softplus(double beta, double threshold = 20, Location where = {}) const;
[[nodiscard]] Tensor gelu(Location where = {}) const;
[[nodiscard]] Tensor gelu(Approximate approximate, Location where = {}) const;
/// Clamps to [low, high]; also called clip. `{}` or `none` omits a bound. Raises ValueError if both are omitted.
[[nodiscard]] Tensor clamp(std::optional<Scalar> low = {}, std::optional<Scalar> high = {}, Location where = {}) const;
/// As above with tensors as bounds, which broadcast; an undefined tensor omits the bound. Raises ValueError if both are
/// omitted.
[[nodiscard]] Tensor clamp(const Tensor& low, const Tensor& high = {}, Location where = {}) const;
[[nodiscard]] Tensor clip(std::optional<Scalar> low = {}, std::optional<Scalar> high = {}, Location where = {}) const;
[[nodiscard]] Tensor clip(const Tensor& low, const Tensor& high = {}, Location where = {}) const;
/// Clamps in place. Raises DTypeError if promotion with a bound gives a dtype that x cannot store.
WEFT_WRITES(clamp_(std::optional<Scalar> low = {}, std::optional<Scalar> high = {}, Location where = {}));
WEFT_WRITES(clamp_(const Tensor& low, const Tensor& high = {}, Location where = {}));
WEFT_WRITES(clip_(std::optional<Scalar> low = {}, std::optional<Scalar> high = {}, Location where = {}));
WEFT_WRITES(clip_(const Tensor& low, const Tensor& high = {}, Location where = {}));
[[nodiscard]] Tensor add(const Operand& other, Scalar alpha) const;
[[nodiscard]] Tensor sub(const Operand& other, Scalar alpha) const;
/// x += alpha * other and x -= alpha * other. Raises DTypeError if alpha is a fraction and all others are integers.
WEFT_WRITES(add_(const Operand& other, Scalar alpha));
WEFT_WRITES(sub_(const Operand& other, Scalar alpha));
[[nodiscard]] Tensor addcmul(const Operand& b, const Operand& c, Scalar value = 1) const;
[[nodiscard]] Tensor lerp(const Operand& end, const Operand& weight) const;
[[nodiscard]] Tensor addcdiv(const Operand& b, const Operand& c, Scalar value = 1) const;
[[nodiscard]] Tensor threshold(const Operand& edge, const Operand& value) const;
[[nodiscard]] Tensor hardtanh(Location where = {}) const;
[[nodiscard]] Tensor hardtanh(const Operand& low, const Operand& high) const;
[[nodiscard]] Tensor prelu(const Tensor& weight, Location where = {}) const;
[[nodiscard]] Tensor logit(std::optional<double> eps = {}, Location where = {}) const;
[[nodiscard]] Tensor glu(int64_t dim = -1, Location where = {}) const;
[[nodiscard]] Tensor nan_to_num(double nan = 0, std::optional<double> posinf = {}, std::optional<double> neginf = {},
                                Location where = {}) const;
[[nodiscard]] Tensor float_power(const Operand& exponent) const;
[[nodiscard]] Tensor ldexp(const Operand& exponent) const;
/// Elements of x where `condition` (bool) is true, else of `other`.
[[nodiscard]] Tensor where(const Operand& condition, const Operand& other) const;
[[nodiscard]] Tensor masked_fill(const Operand& mask, const Operand& value) const;
WEFT_WRITES(masked_fill_(const Tensor& mask, const Operand& value));
[[nodiscard]] Tensor logical_not(Location where = {}) const;
[[nodiscard]] Tensor isnan(Location where = {}) const;
[[nodiscard]] Tensor isinf(Location where = {}) const;
[[nodiscard]] Tensor isfinite(Location where = {}) const;
[[nodiscard]] Tensor isposinf(Location where = {}) const;
[[nodiscard]] Tensor isneginf(Location where = {}) const;
[[nodiscard]] Tensor isreal(Location where = {}) const;
[[nodiscard]] Tensor signbit(Location where = {}) const;
[[nodiscard]] Tensor isclose(const Operand& other, double relative = 1e-5, double absolute = 1e-8,
                             bool equal_nan = false) const;
bool allclose(const Tensor& other, double relative = 1e-5, double absolute = 1e-8, bool equal_nan = false,
              Location where = {}) const;
bool equal(const Tensor& other, Location where = {}) const;

// ---- reductions and scans ----
[[nodiscard]] Tensor sum(Location where = {}) const;
[[nodiscard]] Tensor sum(const Dims& dims, bool keepdim = false, std::optional<DType> dtype = {},
                         Location where = {}) const;
[[nodiscard]] Tensor mean(Location where = {}) const;
[[nodiscard]] Tensor mean(const Dims& dims, bool keepdim = false, std::optional<DType> dtype = {},
                          Location where = {}) const;
[[nodiscard]] Tensor prod(Location where = {}) const;
[[nodiscard]] Tensor prod(const Dims& dims, bool keepdim = false, std::optional<DType> dtype = {},
                          Location where = {}) const;
[[nodiscard]] Tensor max(Location where = {}) const;
[[nodiscard]] ValuesAndIndices max(int dim, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor min(Location where = {}) const;
[[nodiscard]] ValuesAndIndices min(int dim, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor max(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor min(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor amax(const Dims& dims = {}, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor amin(const Dims& dims = {}, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor argmax(std::optional<int64_t> dim = {}, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor argmin(std::optional<int64_t> dim = {}, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor any(Location where = {}) const;
[[nodiscard]] Tensor any(const Dims& dims, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor all(Location where = {}) const;
[[nodiscard]] Tensor all(const Dims& dims, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor var(Location where = {}) const;
[[nodiscard]] Tensor var(const Dims& dims, double correction = 1, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor std(Location where = {}) const;
[[nodiscard]] Tensor std(const Dims& dims, double correction = 1, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor logsumexp(const Dims& dims, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor norm(Location where = {}) const;
[[nodiscard]] Tensor norm(const Dims& dims, Location where = {}) const;
[[nodiscard]] Tensor vector_norm(double order = 2, const Dims& dims = {}, bool keepdim = false,
                                 std::optional<DType> dtype = {}, Location where = {}) const;
[[nodiscard]] Tensor cumsum(std::optional<int64_t> dim, bool exclusive = false, bool reverse = false,
                            std::optional<DType> dtype = {}, Location where = {}) const;
WEFT_WRITES(cumsum_(int64_t dim, bool exclusive = false, bool reverse = false, Location where = {}));
[[nodiscard]] Tensor softmax(int dim, std::optional<DType> dtype = {}, Location where = {}) const;
[[nodiscard]] Tensor log_softmax(int dim, std::optional<DType> dtype = {}, Location where = {}) const;
[[nodiscard]] Tensor softmin(int dim, std::optional<DType> dtype = {}, Location where = {}) const;
[[nodiscard]] Tensor cumprod(int dim, std::optional<DType> dtype = {}, Location where = {}) const;
[[nodiscard]] Tensor logcumsumexp(int dim, Location where = {}) const;
[[nodiscard]] ValuesAndIndices cummax(int dim, Location where = {}) const;
[[nodiscard]] ValuesAndIndices cummin(int dim, Location where = {}) const;

// ---- order and statistics ----
[[nodiscard]] ValuesAndIndices sort(int dim = -1, bool descending = false, Location where = {}) const;
[[nodiscard]] Tensor argsort(int dim = -1, bool descending = false, Location where = {}) const;
[[nodiscard]] Tensor msort(Location where = {}) const;
[[nodiscard]] ValuesAndIndices topk(int64_t k, int dim = -1, bool largest = true, Location where = {}) const;
[[nodiscard]] ValuesAndIndices kthvalue(int64_t k, int dim = -1, bool keepdim = false, Location where = {}) const;
[[nodiscard]] ValuesAndIndices mode(int dim = -1, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor median(Location where = {}) const;
[[nodiscard]] ValuesAndIndices median(int dim, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor nanmedian(Location where = {}) const;
[[nodiscard]] ValuesAndIndices nanmedian(int dim, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Tensor quantile(const Operand& q, std::optional<int64_t> dim = {}, bool keepdim = false) const;
[[nodiscard]] Tensor quantile(const Operand& q, std::optional<int64_t> dim, bool keepdim,
                              QuantileInterpolation interpolation) const;
[[nodiscard]] Tensor nanquantile(const Operand& q, std::optional<int64_t> dim = {}, bool keepdim = false) const;
[[nodiscard]] Tensor nanquantile(const Operand& q, std::optional<int64_t> dim, bool keepdim,
                                 QuantileInterpolation interpolation) const;
[[nodiscard]] Tensor nansum(const Dims& dims = {}, bool keepdim = false, std::optional<DType> dtype = {},
                            Location where = {}) const;
[[nodiscard]] Tensor nanmean(const Dims& dims = {}, bool keepdim = false, std::optional<DType> dtype = {},
                             Location where = {}) const;
[[nodiscard]] MinMax aminmax(std::optional<int64_t> dim = {}, bool keepdim = false, Location where = {}) const;
[[nodiscard]] DispersionAndMean var_mean(const Dims& dims = {}, double correction = 1, bool keepdim = false,
                                         Location where = {}) const;
[[nodiscard]] DispersionAndMean std_mean(const Dims& dims = {}, double correction = 1, bool keepdim = false,
                                         Location where = {}) const;
[[nodiscard]] Tensor dist(const Tensor& other, double p = 2, Location where = {}) const;
[[nodiscard]] Tensor renorm(double p, int dim, double maxnorm, Location where = {}) const;
[[nodiscard]] Tensor cov(int64_t correction = 1, const Tensor& fweights = {}, const Tensor& aweights = {},
                         Location where = {}) const;
[[nodiscard]] Tensor corrcoef(Location where = {}) const;
[[nodiscard]] Tensor histc(int64_t bins = 100, double low = 0, double high = 0, Location where = {}) const;
[[nodiscard]] HistogramResult histogram(int64_t bins, Location where = {}) const;
[[nodiscard]] HistogramResult histogram(int64_t bins, const HistogramOptions& options, Location where = {}) const;
[[nodiscard]] HistogramResult histogram(const Tensor& edges, Location where = {}) const;
[[nodiscard]] HistogramResult histogram(const Tensor& edges, const HistogramOptions& options,
                                        Location where = {}) const;
[[nodiscard]] Tensor diff(int64_t n = 1, int dim = -1, const Tensor& prepend = {}, const Tensor& append = {},
                          Location where = {}) const;
[[nodiscard]] Tensor trapezoid(double dx = 1, int dim = -1, Location where = {}) const;
[[nodiscard]] Tensor trapezoid(const Tensor& points, int dim = -1, Location where = {}) const;
[[nodiscard]] Tensor cumulative_trapezoid(double dx = 1, int dim = -1, Location where = {}) const;
[[nodiscard]] Tensor cumulative_trapezoid(const Tensor& points, int dim = -1, Location where = {}) const;

// ---- products and layers ----
[[nodiscard]] Tensor matmul(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor mm(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor bmm(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor mv(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor dot(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor outer(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor addmm(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1,
                           Location where = {}) const;
[[nodiscard]] Tensor tensordot(const Tensor& other, int64_t count = 2, Location where = {}) const;
[[nodiscard]] Tensor tensordot(const Tensor& other, const Dims& dims, const Dims& dims_of_other,
                               Location where = {}) const;
[[nodiscard]] Tensor linear(const Tensor& weight, const Tensor& bias = {}, Location where = {}) const;
[[nodiscard]] Tensor embedding(const Tensor& indices, int64_t padding_idx = -1, Location where = {}) const;
[[nodiscard]] Tensor layer_norm(const Dims& normalized_shape, const Tensor& weight = {}, const Tensor& bias = {},
                                double eps = 1e-5, Location where = {}) const;
[[nodiscard]] Tensor rms_norm(const Dims& normalized_shape, const Tensor& weight = {}, std::optional<double> eps = {},
                              Location where = {}) const;
[[nodiscard]] Tensor scaled_dot_product_attention(const Tensor& k, const Tensor& v, Location where = {}) const;
[[nodiscard]] Tensor scaled_dot_product_attention(const Tensor& k, const Tensor& v, const AttentionOptions& options,
                                                  Location where = {}) const;
[[nodiscard]] Tensor dropout(double p = 0.5, bool training = true, Generator* generator = nullptr,
                             Location where = {}) const;

// ---- losses; the tensor is the input, or the logits ----
[[nodiscard]] Tensor cross_entropy(const Operand& target) const;
[[nodiscard]] Tensor cross_entropy(const Operand& target, const CrossEntropyOptions& options) const;
[[nodiscard]] Tensor nll_loss(const Operand& target) const;
[[nodiscard]] Tensor nll_loss(const Operand& target, const NllOptions& options) const;
[[nodiscard]] Tensor mse_loss(const Operand& target) const;
[[nodiscard]] Tensor mse_loss(const Operand& target, const LossOptions& options) const;
[[nodiscard]] Tensor l1_loss(const Operand& target) const;
[[nodiscard]] Tensor l1_loss(const Operand& target, const LossOptions& options) const;
[[nodiscard]] Tensor huber_loss(const Operand& target) const;
[[nodiscard]] Tensor huber_loss(const Operand& target, const HuberOptions& options) const;
[[nodiscard]] Tensor smooth_l1_loss(const Operand& target) const;
[[nodiscard]] Tensor smooth_l1_loss(const Operand& target, const SmoothL1Options& options) const;
[[nodiscard]] Tensor binary_cross_entropy_with_logits(const Operand& target) const;
[[nodiscard]] Tensor binary_cross_entropy_with_logits(const Operand& target,
                                                      const BinaryCrossEntropyOptions& options) const;
[[nodiscard]] Tensor binary_cross_entropy(const Operand& target) const;
[[nodiscard]] Tensor binary_cross_entropy(const Operand& target, const PlainBinaryOptions& options) const;
[[nodiscard]] Tensor kl_div(const Operand& target) const;
[[nodiscard]] Tensor kl_div(const Operand& target, const KlOptions& options) const;
[[nodiscard]] Tensor poisson_nll_loss(const Operand& target) const;
[[nodiscard]] Tensor poisson_nll_loss(const Operand& target, const PoissonNllOptions& options) const;
[[nodiscard]] Tensor hinge_embedding_loss(const Operand& target) const;
[[nodiscard]] Tensor hinge_embedding_loss(const Operand& target, const HingeOptions& options) const;
[[nodiscard]] Tensor soft_margin_loss(const Operand& target) const;
[[nodiscard]] Tensor soft_margin_loss(const Operand& target, const LossOptions& options) const;
[[nodiscard]] Tensor multi_margin_loss(const Operand& target) const;
[[nodiscard]] Tensor multi_margin_loss(const Operand& target, const MultiMarginOptions& options) const;
[[nodiscard]] Tensor multilabel_margin_loss(const Operand& target) const;
[[nodiscard]] Tensor multilabel_margin_loss(const Operand& target, const LossOptions& options) const;
[[nodiscard]] Tensor multilabel_soft_margin_loss(const Operand& target) const;
[[nodiscard]] Tensor multilabel_soft_margin_loss(const Operand& target, const PlainBinaryOptions& options) const;
[[nodiscard]] Tensor gaussian_nll_loss(const Operand& target, const Operand& variance) const;
[[nodiscard]] Tensor gaussian_nll_loss(const Operand& target, const Operand& variance,
                                       const GaussianNllOptions& options) const;
[[nodiscard]] Tensor cosine_embedding_loss(const Operand& other, const Operand& target) const;
[[nodiscard]] Tensor cosine_embedding_loss(const Operand& other, const Operand& target,
                                           const MarginOptions& options) const;
[[nodiscard]] Tensor margin_ranking_loss(const Operand& other, const Operand& target) const;
[[nodiscard]] Tensor margin_ranking_loss(const Operand& other, const Operand& target,
                                         const MarginOptions& options) const;
[[nodiscard]] Tensor triplet_margin_loss(const Operand& positive, const Operand& negative) const;
[[nodiscard]] Tensor triplet_margin_loss(const Operand& positive, const Operand& negative,
                                         const TripletOptions& options) const;
[[nodiscard]] Tensor ctc_loss(const Operand& targets, const Operand& input_lengths,
                              const Operand& target_lengths) const;
[[nodiscard]] Tensor ctc_loss(const Operand& targets, const Operand& input_lengths, const Operand& target_lengths,
                              const CtcOptions& options) const;

// ---- distances ----
[[nodiscard]] Tensor normalize(Location where = {}) const;
[[nodiscard]] Tensor normalize(const NormalizeOptions& options, Location where = {}) const;
[[nodiscard]] Tensor cosine_similarity(const Operand& other, int dim = 1, double eps = 1e-8) const;
[[nodiscard]] Tensor pairwise_distance(const Operand& other, double p = 2, double eps = 1e-6,
                                       bool keepdim = false) const;
[[nodiscard]] Tensor cdist(const Tensor& other, double p = 2, DistanceMode mode = DistanceMode{},
                           Location where = {}) const;
[[nodiscard]] Tensor pdist(double p = 2, Location where = {}) const;

// ---- indexing ----
[[nodiscard]] Tensor index(const IndexList& index) const;
[[nodiscard]] Tensor index_put(const IndexList& index, const Operand& value, bool accumulate = false) const;
/// x[index] = value; with `accumulate`, values of repeated indices are added.
WEFT_WRITES(index_put_(const IndexList& index, const Operand& value, bool accumulate = false));
[[nodiscard]] Tensor index_select(int dim, const Tensor& index, Location where = {}) const;
[[nodiscard]] Tensor index_add(int dim, const Tensor& index, const Tensor& source, Scalar alpha = 1,
                               Location where = {}) const;
WEFT_WRITES(index_add_(int dim, const Tensor& index, const Tensor& source, Scalar alpha = 1, Location where = {}));
[[nodiscard]] Tensor index_copy(int dim, const Tensor& index, const Tensor& source, Location where = {}) const;
WEFT_WRITES(index_copy_(int dim, const Tensor& index, const Tensor& source, Location where = {}));
[[nodiscard]] Tensor index_fill(int dim, const Tensor& index, const Operand& value) const;
WEFT_WRITES(index_fill_(int dim, const Tensor& index, const Operand& value));
[[nodiscard]] Tensor take(const Tensor& index, std::optional<int64_t> axis = {}, Location where = {}) const;
[[nodiscard]] Tensor put(const Tensor& index, const Tensor& source, bool accumulate = false, Location where = {}) const;
WEFT_WRITES(put_(const Tensor& index, const Tensor& source, bool accumulate = false, Location where = {}));
[[nodiscard]] Tensor set_value(const Operand& value, const Dims& starts, const Dims& ends, const Dims& steps,
                               const Dims& axes, Location where = {}) const;
WEFT_WRITES(set_value_(const Operand& value, const Dims& starts, const Dims& ends, const Dims& steps, const Dims& axes,
                       Location where = {}));
[[nodiscard]] Tensor slice(const Dims& axes, const Dims& starts, const Dims& ends, Location where = {}) const;
[[nodiscard]] Tensor strided_slice(const Dims& axes, const Dims& starts, const Dims& ends, const Dims& steps,
                                   Location where = {}) const;
[[nodiscard]] Tensor gather(int dim, const Tensor& index, Location where = {}) const;
[[nodiscard]] Tensor take_along_dim(const Tensor& indices, std::optional<int64_t> dim = {}, Location where = {}) const;
[[nodiscard]] Tensor scatter(int dim, const Tensor& index, const Operand& source) const;
WEFT_WRITES(scatter_(int dim, const Tensor& index, const Operand& source));
[[nodiscard]] Tensor scatter(int dim, const Tensor& index, const Operand& source, ScatterReduction reduction) const;
WEFT_WRITES(scatter_(int dim, const Tensor& index, const Operand& source, ScatterReduction reduction));
[[nodiscard]] Tensor scatter_add(int dim, const Tensor& index, const Tensor& source, Location where = {}) const;
WEFT_WRITES(scatter_add_(int dim, const Tensor& index, const Tensor& source, Location where = {}));
[[nodiscard]] Tensor scatter_reduce(int dim, const Tensor& index, const Tensor& source, ScatterReduction reduction,
                                    bool include_self = true, Location where = {}) const;
WEFT_WRITES(scatter_reduce_(int dim, const Tensor& index, const Tensor& source, ScatterReduction reduction,
                            bool include_self = true, Location where = {}));
[[nodiscard]] Tensor masked_select(const Tensor& mask, Location where = {}) const;
[[nodiscard]] Tensor masked_scatter(const Tensor& mask, const Tensor& source, Location where = {}) const;
WEFT_WRITES(masked_scatter_(const Tensor& mask, const Tensor& source, Location where = {}));

// ---- sets and positions ----
[[nodiscard]] Tensor nonzero(Location where = {}) const;
[[nodiscard]] Tensor argwhere(Location where = {}) const;
[[nodiscard]] Tensor count_nonzero(const Dims& dims = {}, bool keepdim = false, Location where = {}) const;
[[nodiscard]] Unique unique(Location where = {}) const;
[[nodiscard]] Unique unique(const UniqueOptions& options, Location where = {}) const;
[[nodiscard]] Unique unique_consecutive(Location where = {}) const;
[[nodiscard]] Unique unique_consecutive(const UniqueOptions& options, Location where = {}) const;
[[nodiscard]] Tensor bincount(const Tensor& weights = {}, int64_t minlength = 0, Location where = {}) const;
[[nodiscard]] Tensor one_hot(int64_t classes = -1, Location where = {}) const;
[[nodiscard]] Tensor searchsorted(const Operand& values) const;
[[nodiscard]] Tensor searchsorted(const Operand& values, const SearchOptions& options) const;
[[nodiscard]] Tensor bucketize(const Tensor& boundaries, bool right = false, bool out_int32 = false,
                               Location where = {}) const;
[[nodiscard]] Tensor isin(const Operand& tests, bool invert = false) const;

// ---- random values ----
WEFT_WRITES(uniform_(double low = 0, double high = 1, Generator* generator = nullptr, Location where = {}));
WEFT_WRITES(normal_(double mean = 0, double deviation = 1, Generator* generator = nullptr, Location where = {}));
WEFT_WRITES(bernoulli_(double p = 0.5, Generator* generator = nullptr, Location where = {}));
[[nodiscard]] Tensor bernoulli(Generator* generator = nullptr, Location where = {}) const;
WEFT_WRITES(exponential_(double rate = 1, Generator* generator = nullptr, Location where = {}));
WEFT_WRITES(geometric_(double p, Generator* generator = nullptr, Location where = {}));
WEFT_WRITES(cauchy_(double median = 0, double scale = 1, Generator* generator = nullptr, Location where = {}));
WEFT_WRITES(log_normal_(double mean = 1, double deviation = 2, Generator* generator = nullptr, Location where = {}));
[[nodiscard]] Tensor poisson(Generator* generator = nullptr, Location where = {}) const;
[[nodiscard]] Tensor standard_gamma(Generator* generator = nullptr, Location where = {}) const;
[[nodiscard]] Tensor binomial(const Tensor& p, Generator* generator = nullptr, Location where = {}) const;
[[nodiscard]] Tensor multinomial(int64_t samples, bool replacement = false, Generator* generator = nullptr,
                                 Location where = {}) const;

// ---- new tensors of this dtype and device ----
[[nodiscard]] Tensor new_empty(const Dims& shape, const LikeOptions& options = {}, Location where = {}) const;
[[nodiscard]] Tensor new_zeros(const Dims& shape, const LikeOptions& options = {}, Location where = {}) const;
[[nodiscard]] Tensor new_ones(const Dims& shape, const LikeOptions& options = {}, Location where = {}) const;
[[nodiscard]] Tensor new_full(const Dims& shape, Scalar value, const LikeOptions& options = {},
                              Location where = {}) const;

// ---- linear algebra (ops/linalg.hpp) ----
[[nodiscard]] Tensor inner(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor vdot(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor kron(const Tensor& other, Location where = {}) const;
[[nodiscard]] Tensor cross(const Tensor& other, int dim = -1, Location where = {}) const;
[[nodiscard]] Tensor addmv(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1,
                           Location where = {}) const;
[[nodiscard]] Tensor addr(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1,
                          Location where = {}) const;
[[nodiscard]] Tensor addbmm(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1,
                            Location where = {}) const;
[[nodiscard]] Tensor baddbmm(const Tensor& a, const Tensor& b, Scalar beta = 1, Scalar alpha = 1,
                             Location where = {}) const;
[[nodiscard]] Tensor det(Location where = {}) const;
[[nodiscard]] Tensor logdet(Location where = {}) const;
[[nodiscard]] Tensor inverse(Location where = {}) const;
[[nodiscard]] Tensor pinverse(double rcond = 1e-15, Location where = {}) const;
[[nodiscard]] Tensor matrix_exp(Location where = {}) const;
[[nodiscard]] Tensor matrix_power(int64_t n, Location where = {}) const;
[[nodiscard]] Tensor cholesky_inverse(bool upper = false, Location where = {}) const;
[[nodiscard]] Tensor cholesky_solve(const Tensor& factor, bool upper = false, Location where = {}) const;

#include "more_methods.hpp"
#include "own_methods.hpp"

#endif
