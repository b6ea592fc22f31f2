// Converts kernel calls to C structs and back, generated from the signatures of KernelTable. `describe` defines the
// fields of a parameter type for both directions.
#pragma once

#include <array>
#include <vector>

#include "plugin.h"
#include "../watch/observe.hpp"

namespace weft::plugin {

/// Lists the parts of a call. Calls with more slots than the inline arrays use the heap.
class CallWriter {
 public:
  static constexpr bool reads = false;

  /// `written`: how many of the leading views the kernel writes. `names`: of the parameters that are numbers, up to a
  /// null.
  CallWriter(const char* kernel, int written, const char* const* names);
  CallWriter(const CallWriter&) = delete;

  void view(const View& view);
  void variant(int value, const char* name) { call_.variant = value, call_.variant_name = name; }
  void number(const char* name, int64_t value) { attribute(name, WEFT_ATTRIBUTE_I64).value.i64 = value; }
  void number(const char* name, uint64_t value) { attribute(name, WEFT_ATTRIBUTE_U64).value.u64 = value; }
  void number(const char* name, int value) { number(name, int64_t{value}); }
  void number(const char* name, double value) { attribute(name, WEFT_ATTRIBUTE_F64).value.f64 = value; }
  void number(const char* name, bool value) { attribute(name, WEFT_ATTRIBUTE_BOOL).value.i64 = value; }
  void number(const char* name, Scalar value);
  void list(const char* name, const int64_t* values, int count);
  void list(const char* name, std::span<const double> values);
  void list(const char* name, std::span<const int64_t> values);
  /// The number of views left to read; for a writer, those given.
  int views_left(int given, int) const { return given; }
  /// Of slots: the views from here on are read only.
  void gradients_follow() { written_ = call_.view_count; }
  /// The name of the next attribute that is a parameter itself.
  const char* next_name();

  /// Valid during the lifetimes of this object and the listed parts.
  WeftKernelCall& finish();

 private:
  static constexpr int near = 16, near_numbers = 32;
  WeftAttribute& attribute(const char* name, int kind);

  WeftKernelCall call_ = {};
  int written_;
  const char* const* names_;
  int number_count_ = 0;
  std::array<WeftView, near> views_;
  std::vector<WeftView> many_views_;
  std::array<WeftAttribute, near> attributes_;
  std::array<int64_t, near_numbers> numbers_;
};

/// Takes the parts of a call in the same order. ValueError where they do not fit.
class CallReader {
 public:
  static constexpr bool reads = true;

  explicit CallReader(const WeftKernelCall& call) : call_(call) {}

  void view(View& view);
  int variant(int count);
  void number(const char*, int64_t& value) { value = whole(); }
  void number(const char*, uint64_t& value) { value = static_cast<uint64_t>(whole()); }
  void number(const char*, int& value);
  void number(const char*, double& value);
  void number(const char*, bool& value) { value = whole() != 0; }
  void number(const char*, Scalar& value);
  void list(const char*, int64_t* values, int count);
  void list(const char*, std::span<const double>& values);
  void list(const char*, std::span<const int64_t>& values);
  int views_left(int, int most) const;
  void gradients_follow() {}
  const char* next_name() { return ""; }
  /// Everything was taken.
  void finish() const;

 private:
  [[noreturn]] void misfit(const char* what) const;
  const WeftAttribute& attribute();
  int64_t whole();

  const WeftKernelCall& call_;
  int views_ = 0, attributes_ = 0;
};

/// Runs the kernel of that name of a row. ValueError where there is none, or the call does not fit it,
/// NotImplementedError where the row lacks it.
void run_in(const KernelTable& row, const WeftKernelCall& call);
inline void run_on_host(const WeftKernelCall& call) { run_in(host_kernels(), call); }
/// Lists the parts of a call that an observer sees, for `tell`; false for a kernel that is not in the table.
bool list_call(const KernelCall& call, const Callback<void(const WeftKernelCall&)>& tell);

/// A row of kernels that pass their calls to `run_call`; kernels that the plug-in lacks are null.
void fill_row(KernelTable& row, int32_t (*has_kernel)(const char*));

/// Defined in kernels.cpp: queues the call on its device's current queue. A kernel that gives a number waits for it.
void run_call(WeftKernelCall& call);

}  // namespace weft::plugin
