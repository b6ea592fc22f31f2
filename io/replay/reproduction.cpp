// Reproductions of AnomalyGuard and BreakOn, see hooks/detail/reproduction.hpp.
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

// Kernels that read their output, which is not among their inputs.
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

constexpr const char* op_program = R"(// {0}
// In CMake: find_package(weft REQUIRED), target_link_libraries(program PRIVATE weft::weft). Run it in this folder, with
// the name of a device if you like: it ends with 1 where the fault is there.
#include <{2}/ops/library.hpp>
#include <{2}/weft.hpp>

#include <cmath>
#include <iostream>

using namespace weft;

int main(int argc, char** argv) {{
  const Device device(argc > 1 ? argv[1] : "{1}");
  const io::TensorMap kept = io::load_file("tensors.safetensors");
{3}  bool happens = false;
  for (const Tensor& t : made) {{
    if (!t.defined()) continue;
    std::cout << "made " << t << '\n';
    happens |= ({4}).any().item<bool>();
  }}
  return happens ? 1 : 0;
}}
)";

constexpr const char* kernel_program = R"(// {0}
// In CMake: find_package(weft REQUIRED), target_link_libraries(program PRIVATE weft::weft). Run it in this folder, with
// the name of a device if you like: it ends with 1 where the fault is there.
#include <{2}/weft.hpp>

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

std::string program_of(const KeptCall& kept, const std::string& title) {
  // inserted as an argument, so that scripts do not treat the text as an include of this file
  constexpr const char* header = "weft";
  if (!kept.call) return fmt::format(fmt::runtime(kernel_program), title, kept.device, header);
  const char* const fault = !kept.inf ? "isnan(t)" : !kept.nan ? "isinf(t)" : "!isfinite(t)";
  return fmt::format(fmt::runtime(op_program), title, kept.device, header, io::program_of(*kept.call, kept.backward),
                     fault);
}

// Searches the calls of the running op and of the op that the program called.
void find_call(KeptCall& kept, const KernelCall& call, const View& output, std::span<const Tensor> known) {
  std::vector<std::string> ops;
  for (const char* op : {kept.backward ? nullptr : call.entry, call.op}) {
    if (op != nullptr && std::ranges::find(ops, op) == ops.end()) ops.emplace_back(op);
  }
  std::vector<Tensor> on_cpu;
  int64_t bytes = 0;
  for (const Tensor& t : known) {
    bytes += t.nbytes();
    if (bytes > Reproduction::most_bytes) return;
    on_cpu.push_back(t.detach().to(Device()).contiguous());
  }
  kept.call = io::find_op_call(kept, io::elements_of(output).to(Device()), ops, on_cpu);
}

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
  for (const View* out : kept) overwritten_.emplace_back(out->data, io::elements_of(*out));
}

std::string Reproduction::write(const KernelCall& call, const MadeNonFinite& made, std::span<const Tensor> arrived,
                                std::span<const Tensor> known) {
  KeptCall kept;
  std::vector<View> views;
  if (!plugin::list_call(call, [&](const WeftKernelCall& listed) { kept = io::listed_call(listed, views); })) {
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
    else if (!written) view.elements = io::elements_of(views[i]).to(Device());
  }
  for (const Tensor& g : arrived) {
    if (g.defined()) kept.arrived.push_back(g.detach().to(Device()).clone());
  }
  find_call(kept, call, *made.output, known);
  if (io::exists(folder_) && !io::exists(io::Path(folder_) / io::call_file)) {
    return fmt::format("no reproduction was left: {} holds something else", folder_);
  }
  io::AtomicFolder folder(folder_, "replay", Location::none());
  io::write_call(kept, folder.temporary(), Location::none());
  const std::string title = fmt::format("{}{} at {}:{} made {}.", kept.op, kept.backward ? " in backward" : "",
                                        kept.file, kept.line, text_of(made.found));
  io::write_file(folder.temporary() / "program.cpp", program_of(kept, title), "replay", Location::none());
  // The op's call was verified during the search.
  const bool happens = kept.call || io::replay(folder.temporary(), call.device, Location::none()).happens;
  folder.commit();
  return happens ? fmt::format("left in {0}: ./weft replay {0}", folder_)
                 : fmt::format("left in {}, where its kernel alone does not do it again", folder_);
}

std::string Reproduction::leave(const KernelCall& call, const MadeNonFinite& made, std::span<const Tensor> arrived,
                                std::span<const Tensor> known) noexcept {
  if (folder_.empty()) return {};
  try {
    const NoGradGuard unrecorded;
    const OutsideCalls own_work;
    std::string said = write(call, made, arrived, known);
    folder_.clear();  // save only the first fault
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
