// Recurrent layers on devices: each step is a product by the device's own matmul and one kernel for its units.
#include "../../recurrent_steps.hpp"
#include "host.hpp"
#include "launch.hpp"
#include "scratch_memory.hpp"

namespace weft::portable::host {

namespace {

constinit Entry step_entries[] = {named::step_tanh, named::step_relu, named::step_lstm, named::step_gru};
constinit Entry unstep_entries[] = {named::unstep_tanh, named::unstep_relu, named::unstep_lstm, named::unstep_gru};

/// Row `row` of a matrix, or nothing.
void* row_of(const View& matrix, int64_t row) {
  if (matrix.data == nullptr) return nullptr;
  return static_cast<char*>(matrix.data) + row * matrix.layout.strides[0];
}

View matrix(const View& like, void* data, int64_t rows, int64_t columns) {
  return matrix_on(like, data, rows, columns, like.layout.dtype);
}

struct Run {
  Accelerator& device;
  Compute compute;
  int64_t batch, hidden, width;
  ScratchMemory scratch;  ///< [batch, width]

  Run(const char* kernel, const View& state, Cell cell)
      : device(device_of(state)),
        compute(wide_float(kernel, state)),
        batch(state.layout.sizes[0]),
        hidden(state.layout.sizes[1]),
        width(gates_of(cell) * hidden),
        scratch(device, static_cast<size_t>(batch * width * itemsize(state.layout.dtype))) {}
};

/// By the device's own library, where it has one.
void multiply(const View& out, const View& a, const View& b, const View& bias) {
  kernel_tables[static_cast<int>(out.layout.device_type)].matmul(out, a, b, bias);
}

}  // namespace

void recurrent(const View& out, const View& gates, const View& kept, const View& state, const View& cell,
               const View& weight, const View& bias, Cell which, const RecurrentSteps& steps) {
  if (state.layout.numel == 0) return;
  const Run run("recurrent", state, which);
  Kernel& kernel = step_entries[static_cast<int>(which)].on(run.device, run.compute);
  each_recurrent_step(steps, run.batch, false, [&](const RecurrentStep& step) {
    if (step.count == 0) return;
    const View product = matrix(state, run.scratch.data(), step.count, run.width);
    multiply(product, matrix(state, state.data, step.count, run.hidden), transposed(weight), View());
    portable::RecurrentUnits plan = {};
    plan.count = step.count;
    plan.hidden = run.hidden;
    plan.keeps = kept.data != nullptr;
    plan.has_bias = bias.data != nullptr;
    launch(run.device, kernel, item_grid(step.count * run.hidden), row_of(out, step.first), row_of(gates, step.first),
           row_of(kept, step.first), state.data, cell.data, product.data, bias.data, plan);
  });
}

void recurrent_gradient(const View& dgates, const View& dkept, const View& dstate, const View& dcell, const View& g,
                        const View& out, const View& gates, const View& kept, const View& first_state,
                        const View& first_cell, const View& weight, Cell which, const RecurrentSteps& steps) {
  if (dstate.layout.numel == 0) return;
  const Run run("recurrent_gradient", dstate, which);
  Kernel& kernel = unstep_entries[static_cast<int>(which)].on(run.device, run.compute);
  const bool is_lstm = which == Cell::lstm, is_gru = which == Cell::gru;
  const View &values = is_lstm ? kept : out, &first = is_lstm ? first_cell : first_state;
  each_recurrent_step(steps, run.batch, true, [&](const RecurrentStep& step) {
    if (step.count == 0) return;
    const View through = matrix(dstate, run.scratch.data(), step.count, run.width);
    portable::RecurrentUnits plan = {};
    plan.count = step.count;
    plan.hidden = run.hidden;
    plan.known = step.known;
    plan.has_g = g.data != nullptr;
    launch(run.device, kernel, item_grid(step.count * run.hidden), row_of(dgates, step.first),
           row_of(dkept, step.first), dstate.data, dcell.data, through.data, row_of(g, step.first),
           row_of(is_lstm || is_gru ? gates : out, step.first), row_of(kept, step.first),
           row_of(values, step.known == 0 ? 0 : step.before), first.data, plan);
    const View to = matrix(dstate, dstate.data, step.count, run.hidden);
    multiply(to, through, weight, is_gru ? to : View());
  });
}

}  // namespace weft::portable::host
