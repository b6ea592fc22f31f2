// What AnomalyGuard and BreakOn leave behind: hooks/detail/reproduction.hpp.
#include "../../hooks/detail/reproduction.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>

#include <fmt/format.h>

#include "call_file-inl.hpp"
#include "../file.hpp"
#include "../files/atomic_folder-inl.hpp"
#include "../files/folder-inl.hpp"
#include "../replay.hpp"
#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/impl.hpp"
#include "../../tensor/layout.hpp"

namespace weft::detail {

namespace {

using io::KeptAttribute, io::KeptCall, io::KeptView;

// Kernels that read what they write, though it is not among their inputs.
constexpr std::string_view accumulating[] = {"index_add",
                                             "index_put",
                                             "scatter",
                                             "masked_scatter",
                                             "optimizer_step",
                                             "recurrent",
                                             "recurrent_gradient",
                                             "sample_linear_gradient"};

int64_t bytes_once(const Layout& layout) {
  int64_t count = itemsize(layout.dtype);
  for (int d = 0; d < layout.rank; ++d) {
    if (layout.strides[d] != 0 || layout.sizes[d] == 0) count *= layout.sizes[d];
  }
  return count;
}

// The elements of a view on its own device, without repetitions.
Tensor elements_of(const View& view) {
  const Layout& layout = view.layout;
  const Dims sizes = io::sizes_once(layout);
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

KeptAttribute kept(const WeftAttribute& a) {
  KeptAttribute out{.name = a.name, .kind = a.kind, .whole = {}, .real = {}};
  if (a.kind == WEFT_ATTRIBUTE_F64) out.real = {a.value.f64};
  else if (a.kind == WEFT_ATTRIBUTE_F64_LIST) out.real.assign(a.value.f64s, a.value.f64s + a.count);
  else if (a.kind == WEFT_ATTRIBUTE_I64_LIST) out.whole.assign(a.value.i64s, a.value.i64s + a.count);
  else out.whole = {a.value.i64};
  return out;
}

// The same elements in the same order: a matrix and its transpose begin at one address, too.
bool are_same(const View& a, const View& b) {
  if (a.data != b.data || a.layout.dtype != b.layout.dtype) return false;
  if (!std::ranges::equal(sizes_of(a.layout), sizes_of(b.layout))) return false;
  for (int d = 0; d < a.layout.rank; ++d) {
    if (a.layout.sizes[d] > 1 && a.layout.strides[d] != b.layout.strides[d]) return false;
  }
  return true;
}

// Everything but elements.
KeptCall kept_shape(const WeftKernelCall& call, std::vector<View>& views) {
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

constexpr const char* program = R"(// {0}
// In CMake: find_package(weft REQUIRED), target_link_libraries(program PRIVATE weft::weft). Run it in this folder, with
// the name of a device if you like: it ends with 1 where the fault is there.
#include <{2}>

#include <iostream>

int main(int argc, char** argv) {{
  const weft::Device device(argc > 1 ? argv[1] : "{1}");
  const weft::io::Replayed call = weft::io::replay(".", device);
  for (const weft::Tensor& input : call.inputs) std::cout << input << '\n';
  for (const weft::Tensor& output : call.outputs) std::cout << output << '\n';
  std::cout << call.text << '\n';
  return call.happens ? 1 : 0;
}}
)";

}  // namespace

void Reproduction::before(const KernelCall& call) {
  overwritten_.clear();
  if (folder_.empty()) return;
  const bool accumulates = std::ranges::find(accumulating, std::string_view(call.kernel)) != std::end(accumulating);
  std::vector<const View*> kept;
  int64_t bytes = 0;
  for (const View* out : call.outputs) {
    if (out->data == nullptr || !(accumulates || is_input_too(*out, call.inputs))) continue;
    kept.push_back(out);
    bytes += bytes_once(out->layout);
  }
  if (bytes > most_bytes) return;
  const NoGradGuard unrecorded;
  for (const View* out : kept) overwritten_.emplace_back(out->data, elements_of(*out));
}

std::string Reproduction::write(const KernelCall& call, const MadeNonFinite& made, std::span<const Tensor> arrived) {
  KeptCall kept;
  std::vector<View> views;
  if (!plugin::list_call(call, [&](const WeftKernelCall& listed) { kept = kept_shape(listed, views); })) {
    return "no reproduction was left: the kernel is a function of the program's own";
  }
  int64_t bytes = 0;
  for (const View& view : views) bytes += view.data != nullptr ? bytes_once(view.layout) : 0;
  for (const Tensor& g : arrived) bytes += g.defined() ? g.nbytes() : 0;
  if (bytes > most_bytes) {
    return fmt::format("no reproduction was left: its tensors have {} MB, and {} is the most", bytes >> 20,
                       most_bytes >> 20);
  }
  kept.op = call.op != nullptr ? call.op : call.kernel;
  kept.file = call.where.known() ? call.where.file() : "";
  kept.line = call.where.line();
  kept.device = call.device.name();
  kept.backward = !arrived.empty();
  kept.nan = made.found.nan, kept.inf = made.found.inf;
  for (size_t i = 0; i < views.size(); ++i) {
    KeptView& view = kept.views[i];
    if (view.absent || view.same_as >= 0) continue;
    const auto before = std::ranges::find(overwritten_, views[i].data, [](const auto& o) { return o.first; });
    const bool written = static_cast<int>(i) < kept.outputs;
    if (written && views[i].data == made.output->data) kept.bad = static_cast<int>(i);
    if (before != overwritten_.end()) view.elements = before->second.to(Device());
    else if (!written) view.elements = elements_of(views[i]).to(Device());
  }
  for (const Tensor& g : arrived) {
    if (g.defined()) kept.arrived.push_back(g.detach().to(Device()).clone());
  }
  if (io::exists(folder_) && !io::exists(io::Path(folder_) / io::call_file)) {
    return fmt::format("no reproduction was left: {} holds something else", folder_);
  }
  io::AtomicFolder folder(folder_, "replay", Location::none());
  io::write_call(kept, folder.temporary(), Location::none());
  const std::string title = fmt::format("{}{} at {}:{} made {}.", kept.op, kept.backward ? " in backward" : "",
                                        kept.file, kept.line, text_of(made.found));
  io::write_file(folder.temporary() / "program.cpp",
                 fmt::format(fmt::runtime(program), title, kept.device, "weft/weft.hpp"), "replay", Location::none());
  const bool happens = io::replay(folder.temporary(), call.device, Location::none()).happens;
  folder.commit();
  return happens ? fmt::format("left in {0}: ./weft replay {0}", folder_)
                 : fmt::format("left in {}, where its kernel alone does not do it again", folder_);
}

std::string Reproduction::leave(const KernelCall& call, const MadeNonFinite& made,
                                std::span<const Tensor> arrived) noexcept {
  if (folder_.empty()) return {};
  try {
    const NoGradGuard unrecorded;
    const OutsideCalls own_work;
    std::string said = write(call, made, arrived);
    folder_.clear();  // the first one is the one to look at
    return said;
  } catch (const std::exception& error) {
    try {
      const std::string_view text = error.what();
      return fmt::format("no reproduction was left: {}", text.substr(0, text.find('\n')));
    } catch (...) {
      return {};
    }
  }
}

}  // namespace weft::detail
