#include <algorithm>
#include <bit>
#include <optional>
#include <utility>
#include <vector>

#include "scratch_memory.hpp"
#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry roots_entry(named::fourier_roots);
constinit Entry stage_entry(named::fourier_stage);
constinit Entry chirp_entry(named::fourier_chirp);
constinit Entry response_entry(named::fourier_response);
constinit Entry respond_entry(named::fourier_respond);
constinit Entry unchirp_entry(named::fourier_unchirp);

/// The radices of n's stages; none where a prime factor has no kernel.
std::vector<int> radices_of(int64_t n) {
  std::vector<int> radices;
  for (const int radix : {8, 4, 2, 3, 5, 7}) {
    for (; n % radix == 0; n /= radix) radices.push_back(radix);
  }
  if (n != 1) return {};
  if (radices.empty()) radices.push_back(1);
  return radices;
}

/// Where the device computes, and memory of complex numbers there.
struct Place {
  Accelerator& device;
  Compute compute;

  size_t bytes(int64_t numbers) const {
    return static_cast<size_t>(numbers) * 2 * static_cast<size_t>(itemsize(dtype_of(compute)));
  }
  template <class... A>
  void run(Entry& entry, int64_t items, const A&... arguments) const {
    launch(device, entry.on(device, compute), item_grid(items), arguments...);
  }
};

/// The roots of n, for the duration of a transform.
class Roots {
 public:
  Roots(const Place& place, int64_t n) : memory_(place.device, place.bytes(n)) {
    place.run(roots_entry, n, memory_.data(), n, n);
  }
  void* data() const { return memory_.data(); }

 private:
  ScratchMemory memory_;
};

struct Buffers {
  void *in, *out;
};
/// All stages, alternating between two buffers: the first reads `ends.in` if given, the last writes `ends.out` if
/// given, else the returned buffer. `factor` scales the output operand.
void* run_stages(const Place& place, const portable::Fourier& lines, const std::vector<int>& radices, void* roots,
                 const Buffers& operands, Buffers scratch, double factor) {
  portable::FourierStage stage = {};
  stage.lines = lines;
  stage.span = 1;
  for (size_t i = 0; i < radices.size(); ++i) {
    const bool last = i + 1 == radices.size();
    stage.radix = radices[i];
    stage.reads_operand = i == 0 && operands.in != nullptr;
    stage.writes_operand = last && operands.out != nullptr;
    void* const from = stage.reads_operand != 0 ? operands.in : scratch.in;
    void* const to = stage.writes_operand != 0 ? operands.out : scratch.out;
    in_compute_type(place.compute, factor, [&](auto number) {
      place.run(stage_entry, lines.lines * (lines.n / stage.radix), to, from, roots, stage, number);
    });
    stage.span *= stage.radix;
    std::swap(scratch.in, scratch.out);
  }
  return scratch.in;
}

/// Lines of n numbers as convolutions of m.
class ChirpTransform {
 public:
  ChirpTransform(const Place& place, const portable::Fourier& lines)
      : place_(place),
        m_(int64_t{1} << std::bit_width(static_cast<uint64_t>(2 * lines.n - 2))),
        radices_(radices_of(m_)),
        roots_(place, m_),
        chirps_(place, 2 * lines.n),
        response_(place.device, place.bytes(m_)),
        other_(place.device, place.bytes(m_)) {
    portable::FourierConvolution plan = {lines, m_};
    place.run(response_entry, m_, response_.data(), chirps_.data(), plan);
    transformed_response_ =
        run_stages(place, plain(1), radices_, roots_.data(), {}, {response_.data(), other_.data()}, 1);
  }
  int64_t length() const { return m_; }

  void run(const portable::Fourier& lines, const Buffers& operands, const Buffers& scratch, double factor) const {
    const portable::FourierConvolution plan = {lines, m_};
    const int64_t items = lines.lines * m_;
    place_.run(chirp_entry, items, scratch.in, operands.in, chirps_.data(), plan);
    void* there = run_stages(place_, plain(lines.lines), radices_, roots_.data(), {}, scratch, 1);
    place_.run(respond_entry, items, there, transformed_response_, plan);
    void* const free = there == scratch.in ? scratch.out : scratch.in;
    there = run_stages(place_, plain(lines.lines), radices_, roots_.data(), {}, {there, free}, 1);
    in_compute_type(place_.compute, factor / static_cast<double>(m_), [&](auto number) {
      place_.run(unchirp_entry, lines.lines * lines.n, operands.out, there, chirps_.data(), plan, number);
    });
  }

 private:
  portable::Fourier plain(int64_t lines) const {
    portable::Fourier plan = {};
    plan.n = m_;
    plan.lines = lines;
    return plan;
  }

  const Place& place_;
  int64_t m_;
  std::vector<int> radices_;
  Roots roots_, chirps_;
  ScratchMemory response_, other_;
  void* transformed_response_;
};

portable::Fourier lines_of(const View& out, const View& in, int dim, bool inverse) {
  portable::Fourier plan = {};
  const bool to_real = !is_complex(out.layout.dtype), from_real = !is_complex(in.layout.dtype);
  plan.rows = rows_of({&out, &in}, dim);
  plan.n = to_real ? out.layout.sizes[dim] : in.layout.sizes[dim];
  plan.form[0] = to_real ? portable::fourier_real : (from_real ? portable::fourier_half : portable::fourier_complex);
  plan.form[1] = from_real ? portable::fourier_real : (to_real ? portable::fourier_half : portable::fourier_complex);
  plan.conjugate = inverse || to_real;
  return plan;
}

}  // namespace

void fourier(const View& out, const View& in, int dim, bool inverse, double factor) {
  constexpr int64_t most_scratch = int64_t{64} << 20, longest_convolution = int64_t{1} << 30;
  if (out.layout.numel == 0) return;
  const DType real = real_type(in.layout.dtype);
  if (real != DType::f32 && real != DType::f64) unsupported("fourier", in);
  const Place place = {device_of(in), compute_of(real)};
  require(place.device, place.compute, "fourier", in);
  portable::Fourier lines = lines_of(out, in, dim, inverse);
  const std::vector<int> radices = radices_of(lines.n);
  if (radices.empty() && lines.n > longest_convolution) unsupported("fourier", in);
  std::optional<ChirpTransform> convolution;
  std::optional<Roots> roots;
  if (radices.empty()) convolution.emplace(place, lines);
  else roots.emplace(place, lines.n);
  const int64_t length = convolution ? convolution->length() : lines.n, count = lines.rows.walk.count;
  const int64_t together = std::clamp<int64_t>(most_scratch / static_cast<int64_t>(2 * place.bytes(length)), 1, count);
  const ScratchMemory first(place.device, place.bytes(together * length)),
      second(place.device, place.bytes(together * length));
  const Buffers operands = {address(in), address(out)}, scratch = {first.data(), second.data()};
  for (; lines.first_line < count; lines.first_line += together) {
    lines.lines = std::min(together, count - lines.first_line);
    if (convolution) convolution->run(lines, operands, scratch, factor);
    else run_stages(place, lines, radices, roots->data(), operands, scratch, factor);
  }
}

}  // namespace weft::portable::host
