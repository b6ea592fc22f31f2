// QR factors, eigenvalues and singular values.
#include <algorithm>

#include "../workspace.hpp"
#include "batches.hpp"
#include "../../linalg.hpp"
#include "reflectors.hpp"
#include "spectral.hpp"

namespace weft::cpu {
namespace {

/// q [m, columns] from reflections in the rows of v.
template <class T>
void write_q(const Reflections<T>& h, int64_t m, int64_t columns, T* q) {
  const int64_t stride = padded(m);
  const Workspace memory(static_cast<size_t>(columns * stride) * sizeof(T));
  T* x = memory.as<T>();
  std::fill_n(x, columns * stride, T(0));
  for (int64_t i = 0; i < std::min(columns, m); ++i) x[i * stride + i] = T(1);
  apply_reflections(h, true, columns, x, stride, true);
  transpose(columns, m, x, stride, q, columns);
}

template <class T>
void write_identity(T* x, int64_t rows, int64_t columns) {
  std::fill_n(x, rows * columns, T(0));
  for (int64_t i = 0; i < std::min(rows, columns); ++i) x[i * columns + i] = T(1);
}

template <class T>
void qr_of(int64_t m, int64_t n, const T* a, T* q, int64_t columns, T* r, int64_t rows) {
  const int64_t stride = padded(m), count = std::min(m, n);
  if (count == 0) {
    if (q != nullptr) write_identity(q, m, columns);
    return;
  }
  const Workspace memory(static_cast<size_t>(n * stride + count) * sizeof(T));
  T *v = memory.as<T>(), *tau = v + n * stride;
  transpose(m, n, a, n, v, stride);
  factor_rows(n, m, v, stride, tau, r, n);
  std::fill_n(r + count * n, (rows - count) * n, T(0));
  if (q != nullptr) write_q(Reflections<T>{count, m, 0, v, stride, tau}, m, columns, q);
}

template <class T>
int32_t singular_of(int64_t m, int64_t n, const T* a, Real<T>* s, T* u, int64_t u_columns, T* vh, int64_t vh_rows) {
  // Of a wide matrix the adjoint is decomposed: aᴴ = v diag(s) uᴴ.
  const bool wide = m < n;
  const int64_t rows = std::max(m, n), columns = std::min(m, n), stride = padded(columns);
  const int64_t kept = wide ? vh_rows : u_columns;
  if (columns == 0) {
    if (u != nullptr) write_identity(u, m, u_columns), write_identity(vh, vh_rows, n);
    return 0;
  }
  const Workspace memory(static_cast<size_t>(rows * stride + (u != nullptr ? rows * kept + columns * columns : 0)) *
                         sizeof(T));
  T *work = memory.as<T>(), *tall = work + rows * stride, *square = tall + rows * kept;
  if (wide) adjoint(m, n, a, n, work, stride);
  else copy_rows(m, n, a, n, work, stride);
  if (u == nullptr) return singular_values<T>(rows, columns, work, stride, s, nullptr, 0, nullptr);
  const int32_t info = singular_values(rows, columns, work, stride, s, wide ? tall : u, kept, wide ? square : vh);
  if (wide) {
    adjoint(rows, kept, tall, kept, vh, rows);
    adjoint(columns, columns, square, columns, u, columns);
  }
  return info;
}

}  // namespace

void qr(const View& q, const View& r, const View& a) {
  const int64_t m = size(a, 1), n = size(a, 2);
  with_type(a, [&]<class T>(T) {
    each_matrix(a, 2 * cube(std::max(m, n)), [&](int64_t b) {
      T* to = q.data != nullptr ? part<T>(q, b) : nullptr;
      qr_of(m, n, part<T>(a, b), to, to != nullptr ? size(q, 2) : 0, part<T>(r, b), size(r, 1));
    });
  });
}

void reflections(const View& q, const View& a, const View& tau) {
  const int64_t m = size(a, 1), n = size(a, 2), k = size(tau, 1);
  with_type(a, [&]<class T>(T) {
    each_matrix(a, 2 * cube(m), [&](int64_t b) {
      const int64_t stride = padded(m);
      const Workspace memory(static_cast<size_t>(n * stride) * sizeof(T));
      T* v = memory.as<T>();
      transpose(m, n, part<T>(a, b), n, v, stride);
      for (int64_t j = 0; j < k; ++j) {
        std::fill_n(v + j * stride, j, T(0));
        v[j * stride + j] = T(1);
      }
      write_q(Reflections<T>{k, m, 0, v, stride, part<T>(tau, b)}, m, n, part<T>(q, b));
    });
  });
}

void symmetric_eigen(const View& values, const View& vectors, const View& info, const View& a, bool upper) {
  const int64_t n = size(a, 1);
  with_type(a, [&]<class T>(T) {
    each_matrix(a, 9 * cube(n), [&](int64_t b) {
      const int64_t stride = padded(n);
      const Workspace memory(static_cast<size_t>(n * stride) * sizeof(T));
      T* work = memory.as<T>();
      // Column i of the lower triangle as row i.
      if (upper) copy_rows(n, n, part<T>(a, b), n, work, stride);
      else transpose(n, n, part<T>(a, b), n, work, stride);
      for (int64_t i = 0; upper && i < n; ++i) conjugate_all(n, work + i * stride);
      T* to = vectors.data != nullptr ? part<T>(vectors, b) : nullptr;
      *part<int32_t>(info, b) = symmetric_eigen(n, work, stride, part<Real<T>>(values, b), to);
    });
  });
}

void general_eigen(const View& values, const View& vectors, const View& info, const View& a) {
  const int64_t n = size(a, 1);
  with_type(a, [&]<class T>(T) {
    using Z = Complex<Real<T>>;
    each_matrix(a, 25 * cube(n), [&](int64_t b) {
      const int64_t stride = padded(n);
      const Workspace memory(static_cast<size_t>(n * stride) * sizeof(T));
      T* work = memory.as<T>();
      copy_rows(n, n, part<T>(a, b), n, work, stride);
      Z* to = vectors.data != nullptr ? part<Z>(vectors, b) : nullptr;
      *part<int32_t>(info, b) = general_eigen(n, work, stride, part<Z>(values, b), to);
    });
  });
}

void singular_values(const View& u, const View& s, const View& vh, const View& info, const View& a) {
  const int64_t m = size(a, 1), n = size(a, 2);
  with_type(a, [&]<class T>(T) {
    each_matrix(a, 20 * cube(std::max(m, n)), [&](int64_t b) {
      T* left = u.data != nullptr ? part<T>(u, b) : nullptr;
      T* right = vh.data != nullptr ? part<T>(vh, b) : nullptr;
      *part<int32_t>(info, b) =
          singular_of(m, n, part<T>(a, b), part<Real<T>>(s, b), left, left != nullptr ? size(u, 2) : 0, right,
                      right != nullptr ? size(vh, 1) : 0);
    });
  });
}

}  // namespace weft::cpu
