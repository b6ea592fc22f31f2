#include <weft/backends/cpu/gemm.hpp>

#include <dlfcn.h>
#include <signal.h>
#include <strings.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <unordered_map>

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#if WEFT_HAS_OPENBLAS
#include <cblas.h>
#endif
#if WEFT_HAS_ONEDNN
#include <oneapi/dnnl/dnnl.hpp>
#endif

#include <weft/tensor/allocator.hpp>
#include <weft/tensor/error.hpp>

namespace weft::cpu {

Workspace::Workspace(size_t bytes) : data_(nullptr), bytes_(std::max<size_t>(bytes, 64)) {
  data_ = cpu_allocator().allocate(bytes_);
  if (data_ != nullptr) return;
  const MemoryStats stats = cpu_allocator().stats();
  throw OutOfMemoryError(format_error({.op = "workspace",
                                       .problem = std::to_string(bytes_) + " bytes of working memory do not fit",
                                       .remedy = "free tensors or raise the memory limit"},
                                      Location::none()),
                         bytes_, stats.allocated, stats.reserved, stats.limit);
}

Workspace::~Workspace() {
  if (data_ != nullptr) cpu_allocator().free(data_, bytes_);
}

namespace {

/// A matrix as BLAS wants it: transposed or not, and the distance between its lines.
struct Lead {
  bool transposed;
  int64_t distance;
};

/// Needs a unit stride. A matrix of one line may have any distance.
template <class T>
Lead lead_of(const Matrix<T>& matrix, int64_t rows, int64_t columns) {
  if (matrix.column == 1) return {false, std::max<int64_t>({matrix.row, columns, 1})};
  return {true, std::max<int64_t>({matrix.column, rows, 1})};
}

#if WEFT_HAS_OPENBLAS
/// False where this OpenBLAS does not know the CPU and would run on kernels without AVX2.
bool openblas_is_fast() {
  static const bool fast = [] {
    openblas_set_num_threads(1);  // where it is not the serial variant
#if defined(__x86_64__)
    if (!__builtin_cpu_supports("avx2")) return true;
    const std::string_view core = openblas_get_corename();
    for (std::string_view known : {"Haswell", "Zen", "SkylakeX", "Cooperlake", "SapphireRapids"}) {
      if (core.size() == known.size() && strncasecmp(core.data(), known.data(), core.size()) == 0) return true;
    }
    return false;
#else
    return true;
#endif
  }();
  return fast;
}

CBLAS_TRANSPOSE blas_transpose(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

void openblas_gemm(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, bool accumulate, float* c,
                   int64_t stride) {
  const Lead x = lead_of(a, m, k), y = lead_of(b, k, n);
  cblas_sgemm(CblasRowMajor, blas_transpose(x.transposed), blas_transpose(y.transposed), static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), 1, a.data, static_cast<blasint>(x.distance), b.data,
              static_cast<blasint>(y.distance), accumulate ? 1 : 0, c, static_cast<blasint>(stride));
}
void openblas_gemm(int64_t m, int64_t n, int64_t k, Matrix<double> a, Matrix<double> b, bool accumulate, double* c,
                   int64_t stride) {
  const Lead x = lead_of(a, m, k), y = lead_of(b, k, n);
  cblas_dgemm(CblasRowMajor, blas_transpose(x.transposed), blas_transpose(y.transposed), static_cast<blasint>(m),
              static_cast<blasint>(n), static_cast<blasint>(k), 1, a.data, static_cast<blasint>(x.distance), b.data,
              static_cast<blasint>(y.distance), accumulate ? 1 : 0, c, static_cast<blasint>(stride));
}
#endif

#if WEFT_HAS_ONEDNN
/// Kernels of oneDNN use the stack pointer as a general register: a handler that interrupts them on the thread's own
/// stack writes over the process's memory. Signals wait until the call has ended; those of a fault never wait.
class HeldSignals {
 public:
  HeldSignals() {
    static const sigset_t held = [] {
      sigset_t set;
      sigfillset(&set);
      for (int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&set, fault);
      return set;
    }();
    pthread_sigmask(SIG_BLOCK, &held, &before_);
  }
  ~HeldSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  HeldSignals(const HeldSignals&) = delete;

 private:
  sigset_t before_;
};

/// oneDNN asks OpenMP how many threads to take: one, for the pool above it splits the work. The caller's own setting
/// comes back afterwards.
class OneOpenmpThread {
 public:
  OneOpenmpThread() : before_(functions().get != nullptr ? functions().get() : 1) {
    if (before_ != 1) functions().set(1);
  }
  ~OneOpenmpThread() {
    if (before_ != 1) functions().set(before_);
  }
  OneOpenmpThread(const OneOpenmpThread&) = delete;

 private:
  struct Functions {
    int (*get)();
    void (*set)(int);
  };
  static const Functions& functions() {
    static const Functions found = [] {
      // In a plug-in, such as a Python extension, what oneDNN brought is not among the program's own symbols.
      void* runtime = dlopen("libgomp.so.1", RTLD_LAZY | RTLD_NOLOAD);
      if (runtime == nullptr) runtime = RTLD_DEFAULT;
      Functions f{reinterpret_cast<int (*)()>(dlsym(runtime, "omp_get_max_threads")),
                  reinterpret_cast<void (*)(int)>(dlsym(runtime, "omp_set_num_threads"))};
      return f.set != nullptr ? f : Functions{};
    }();
    return found;
  }
  int before_;
};

bool onednn_is_fast() {
#if defined(__x86_64__)
  static const bool fast = __builtin_cpu_supports("avx512f") != 0;
  return fast;
#else
  return true;
#endif
}

#if defined(__x86_64__)
bool has_tiles() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & (1u << 22)) != 0;
}
#endif

void onednn_gemm(int64_t m, int64_t n, int64_t k, Matrix<float> a, Matrix<float> b, bool accumulate, float* c,
                 int64_t stride) {
  const OneOpenmpThread one;
  const HeldSignals held;
  const Lead x = lead_of(a, m, k), y = lead_of(b, k, n);
  dnnl_sgemm(x.transposed ? 'T' : 'N', y.transposed ? 'T' : 'N', m, n, k, 1, a.data, x.distance, b.data, y.distance,
             accumulate ? 1 : 0, c, stride);
}

dnnl::engine& engine() {
  static auto* instance = new dnnl::engine(dnnl::engine::kind::cpu, 0);
  return *instance;
}

/// A bfloat16 product of one shape with its own memory handles; used by one thread.
struct Bf16Product {
  dnnl::matmul primitive;
  dnnl::memory a, b, bias, c, scratchpad;
  size_t scratch_bytes = 0;
};

using Bf16Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, int64_t, bool, bool, bool>;

Bf16Product make_bf16_product(int64_t m, int64_t n, int64_t k, Lead x, Lead y, bool biased, int64_t stride) {
  using dnnl::memory;
  constexpr auto type = memory::data_type::bf16;
  const auto strides = [](Lead l) { return l.transposed ? memory::dims{1, l.distance} : memory::dims{l.distance, 1}; };
  const memory::desc a({m, k}, type, strides(x)), b({k, n}, type, strides(y)), c({m, n}, type, memory::dims{stride, 1});
  const memory::desc bias({1, n}, type, memory::dims{n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  const auto description = biased ? dnnl::matmul::desc(a, b, bias, c) : dnnl::matmul::desc(a, b, c);
  const dnnl::matmul::primitive_desc chosen(description, attributes, engine());
  Bf16Product product;
  product.primitive = dnnl::matmul(chosen);
  product.a = memory(a, engine(), nullptr);
  product.b = memory(b, engine(), nullptr);
  product.bias = memory(bias, engine(), nullptr);
  product.c = memory(c, engine(), nullptr);
  product.scratchpad = memory(chosen.scratchpad_desc(), engine(), nullptr);
  product.scratch_bytes = chosen.scratchpad_desc().get_size();
  return product;
}

struct Bf16Cache {
  dnnl::stream stream{engine()};
  std::map<Bf16Key, Bf16Product> products;

  Bf16Product& get(int64_t m, int64_t n, int64_t k, Lead x, Lead y, bool biased, int64_t stride) {
    const Bf16Key key(m, n, k, x.distance, y.distance, stride, x.transposed, y.transposed, biased);
    const auto found = products.find(key);
    if (found != products.end()) return found->second;
    if (products.size() >= 256) products.clear();
    return products.emplace(key, make_bf16_product(m, n, k, x, y, biased, stride)).first->second;
  }
};
#endif

}  // namespace

// Up to 64³ the own kernels need no set-up and win.
template <>
GemmCode choose_gemm<float>(int64_t m, int64_t n, int64_t k) {
  if (m == 1 || n == 1 || static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) < 64.0 * 64 * 64) {
    return GemmCode::native;
  }
#if WEFT_HAS_ONEDNN
  if (onednn_is_fast()) return GemmCode::onednn;
#endif
#if WEFT_HAS_OPENBLAS
  if (openblas_is_fast()) return GemmCode::openblas;
#endif
  return GemmCode::native;
}

template <>
GemmCode choose_gemm<double>(int64_t m, int64_t n, int64_t k) {
#if WEFT_HAS_OPENBLAS
  const double volume = static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
  if (m > 1 && n > 1 && volume >= 64.0 * 64 * 64 && openblas_is_fast()) return GemmCode::openblas;
#endif
  (void)m, (void)n, (void)k;
  return GemmCode::native;
}

template <class T>
void gemm([[maybe_unused]] GemmCode code, int64_t m, int64_t n, int64_t k, Matrix<T> a, Matrix<T> b, bool accumulate,
          T* c, int64_t stride) {
  if (m == 0 || n == 0) return;
#if WEFT_HAS_ONEDNN
  if constexpr (std::is_same_v<T, float>) {
    if (code == GemmCode::onednn) return onednn_gemm(m, n, k, a, b, accumulate, c, stride);
  }
#endif
#if WEFT_HAS_OPENBLAS
  if (code == GemmCode::openblas) return openblas_gemm(m, n, k, a, b, accumulate, c, stride);
#endif
  native_gemm(m, n, k, a, b, accumulate ? Addend<T>{c, stride} : Addend<T>{}, c, stride);
}
template void gemm(GemmCode, int64_t, int64_t, int64_t, Matrix<float>, Matrix<float>, bool, float*, int64_t);
template void gemm(GemmCode, int64_t, int64_t, int64_t, Matrix<double>, Matrix<double>, bool, double*, int64_t);

bool has_fast_bf16_gemm([[maybe_unused]] int64_t m, [[maybe_unused]] int64_t n) {
#if WEFT_HAS_ONEDNN && defined(__x86_64__)
  static const bool present = __builtin_cpu_supports("avx512bf16") != 0;
  // Intel's vector units do as many multiplications in bfloat16 as in f32; only its tiles do more.
  static const bool twice = __builtin_cpu_is("amd") != 0 || has_tiles();
  return present && (twice || m == 1 || n == 1);
#else
  return false;
#endif
}

void bf16_gemm([[maybe_unused]] int64_t m, [[maybe_unused]] int64_t n, [[maybe_unused]] int64_t k,
               [[maybe_unused]] Matrix<uint16_t> a, [[maybe_unused]] Matrix<uint16_t> b,
               [[maybe_unused]] const uint16_t* bias, [[maybe_unused]] uint16_t* c, [[maybe_unused]] int64_t stride) {
#if WEFT_HAS_ONEDNN
  const OneOpenmpThread one;
  static thread_local Bf16Cache cache;
  Bf16Product& product = cache.get(m, n, k, lead_of(a, m, k), lead_of(b, k, n), bias != nullptr, stride);
  const Workspace scratch(product.scratch_bytes);
  product.a.set_data_handle(const_cast<uint16_t*>(a.data), cache.stream);
  product.b.set_data_handle(const_cast<uint16_t*>(b.data), cache.stream);
  product.c.set_data_handle(c, cache.stream);
  product.scratchpad.set_data_handle(scratch.as<void>(), cache.stream);
  std::unordered_map<int, dnnl::memory> arguments{{DNNL_ARG_SRC, product.a},
                                                  {DNNL_ARG_WEIGHTS, product.b},
                                                  {DNNL_ARG_DST, product.c},
                                                  {DNNL_ARG_SCRATCHPAD, product.scratchpad}};
  if (bias != nullptr) {
    product.bias.set_data_handle(const_cast<uint16_t*>(bias), cache.stream);
    arguments.emplace(DNNL_ARG_BIAS, product.bias);
  }
  const HeldSignals held;
  product.primitive.execute(cache.stream, arguments);
#endif
}

}  // namespace weft::cpu
