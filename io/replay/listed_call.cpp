// Copies the arguments of a kernel call.
#include "call_file-inl.hpp"

#include <algorithm>
#include <cstring>

#include "../../backends/dispatch.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/impl.hpp"
#include "../../tensor/layout.hpp"

namespace weft::io {

namespace {

KeptAttribute kept(const WeftAttribute& a) {
  KeptAttribute out{.name = a.name, .kind = a.kind, .whole = {}, .real = {}};
  if (a.kind == WEFT_ATTRIBUTE_F64) out.real = {a.value.f64};
  else if (a.kind == WEFT_ATTRIBUTE_F64_LIST) out.real.assign(a.value.f64s, a.value.f64s + a.count);
  else if (a.kind == WEFT_ATTRIBUTE_I64_LIST) out.whole.assign(a.value.i64s, a.value.i64s + a.count);
  else out.whole = {a.value.i64};
  return out;
}

// Compares shape and strides too: a matrix and its transpose begin at the same address.
bool are_same(const View& a, const View& b) {
  if (a.data != b.data || a.layout.dtype != b.layout.dtype) return false;
  if (!std::ranges::equal(sizes_of(a.layout), sizes_of(b.layout))) return false;
  for (int d = 0; d < a.layout.rank; ++d) {
    if (a.layout.sizes[d] > 1 && a.layout.strides[d] != b.layout.strides[d]) return false;
  }
  return true;
}

}  // namespace

Tensor elements_of(const View& view) {
  const Layout& layout = view.layout;
  const Dims sizes = sizes_once(layout);
  if (layout.host_scalar != 0) {
    const Tensor number = empty(sizes, layout.dtype);
    std::memcpy(number.data_ptr(), view.data, static_cast<size_t>(itemsize(layout.dtype)));
    return number;
  }
  const Tensor out = empty(sizes, {layout.dtype, Device(layout.device_type, layout.device_index)});
  View once = view;
  once.layout.numel = out.numel();
  std::copy_n(sizes.data(), layout.rank, once.layout.sizes);
  if (out.numel() > 0) kernel_tables[static_cast<int>(layout.device_type)].copy(out.raw_view(), once);
  return out;
}

KeptCall listed_call(const WeftKernelCall& call, std::vector<View>& views) {
  KeptCall out;
  out.kernel = call.kernel;
  out.variant = call.variant;
  out.variant_name = call.variant_name != nullptr ? call.variant_name : "";
  out.outputs = call.output_count;
  for (int i = 0; i < call.attribute_count; ++i) out.attributes.push_back(kept(call.attributes[i]));
  for (int i = 0; i < call.view_count; ++i) {
    View view;
    std::memcpy(static_cast<void*>(&view), &call.views[i], sizeof view);
    KeptView& kept_view = out.views.emplace_back();
    kept_view.layout = view.layout;
    kept_view.absent = view.data == nullptr;
    const auto same = std::ranges::find_if(views, [&](const View& other) { return are_same(other, view); });
    if (!kept_view.absent && view.layout.host_scalar == 0 && view.layout.numel > 0 && same != views.end()) {
      kept_view.same_as = static_cast<int>(same - views.begin());
    }
    views.push_back(view);
  }
  return out;
}

}  // namespace weft::io
