#include "host.hpp"
#include "launch.hpp"

namespace weft::portable::host {

namespace {

constinit Entry norm_entry(named::norm);
constinit Entry norm_gradient_entry(named::norm_gradient);
constinit Entry norm_columns_entry(named::norm_columns);
constinit Entry norm_residual_entry(named::norm_residual);
constinit Entry batch_norm_entry(named::batch_norm);
constinit Entry batch_norm_gradient_entry(named::batch_norm_gradient);
constinit Entry cross_entropy_entry(named::cross_entropy);
constinit Entry cross_entropy_gradient_entry(named::cross_entropy_gradient);

void check_floats(const char* kernel, std::initializer_list<const View*> views) {
  for (const View* v : views) {
    if (v->data != nullptr && !is_computable_float(v->layout.dtype)) unsupported(kernel, *v);
  }
}

/// Launches a kernel with one team per row along `dim` of views of floats; it writes the first view. It takes their
/// data, their Rows and `setting`.
template <const KernelName& kernel, class T, class... V>
void launch_rows(int dim, T setting, const V&... views) {
  static constinit Entry entry(kernel);
  const View* const all[] = {&views...};
  const View& out = *all[0];
  check_floats(kernel.name, {&views...});
  if (out.layout.numel == 0) return;
  Accelerator& device = device_of(out);
  const Compute compute = compute_of(out.layout.dtype);
  require(device, compute, kernel.name, out);
  const auto rows = rows_of(all, dim);
  const Grid grid = team_grid(device, rows.walk.count, rows.length);
  Kernel& found = entry.on(device, compute);
  in_compute_type(compute, setting, [&](auto taken) { launch(device, found, grid, views.data..., rows, taken); });
}

/// One number for each row.
portable::Matrix column_of(const View& view) {
  portable::Matrix m = matrix_of(view);
  m.column = 0;
  return m;
}
/// One number for each column.
portable::Matrix vector_of(const View& view) {
  portable::Matrix m = matrix_of(view);
  m.column = m.row;
  m.row = 0;
  return m;
}

void norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight, const View& bias,
          double epsilon, bool centered) {
  Accelerator& device = device_of(x);
  const Compute compute = compute_of(x.layout.dtype);
  require(device, compute, "norm", x);
  portable::Norm plan = {};
  plan.rows = x.layout.sizes[0];
  plan.n = x.layout.sizes[1];
  if (plan.rows == 0) return;
  plan.x = matrix_of(x);
  plan.out = matrix_of(out);
  plan.mean = column_of(mean);
  plan.rstd = column_of(rstd);
  plan.weight = vector_of(weight);
  plan.bias = vector_of(bias);
  plan.centered = centered;
  Kernel& kernel = norm_entry.on(device, compute);
  in_compute_type(compute, epsilon, [&](auto e) {
    launch(device, kernel, team_grid(device, plan.rows, plan.n), address(out), mean.data, rstd.data, address(x),
           address(weight), address(bias), plan, e);
  });
}

void norm_gradient(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                   const View& mean, const View& rstd, const View& weight, bool centered) {
  Accelerator& device = device_of(x);
  const Compute compute = compute_of(x.layout.dtype);
  require(device, compute, "norm_gradient", x);
  portable::Norm plan = {};
  plan.rows = x.layout.sizes[0];
  plan.n = x.layout.sizes[1];
  plan.x = matrix_of(x);
  plan.g = matrix_of(g);
  plan.mean = column_of(mean);
  plan.rstd = column_of(rstd);
  plan.centered = centered;
  if ((dweight.data != nullptr || dbias.data != nullptr) && plan.n != 0) {
    plan.weight = vector_of(dweight);
    plan.bias = vector_of(dbias);
    launch(device, norm_columns_entry.on(device, compute), team_grid(device, plan.n, plan.rows, true), address(dweight),
           address(dbias), address(g), address(x), address(mean), address(rstd), plan);
  }
  if (dx.data == nullptr || plan.rows == 0 || plan.n == 0) return;
  plan.out = matrix_of(dx);
  plan.weight = vector_of(weight);
  launch(device, norm_gradient_entry.on(device, compute), team_grid(device, plan.rows, plan.n), dx.data, g.data, x.data,
         mean.data, rstd.data, weight.data, plan);
}

/// The plan of a channel's norm, without its outputs; g may be absent.
portable::BatchNorm channels_plan(const View& out, const View& x, const View& g) {
  portable::BatchNorm plan = {};
  plan.batch = x.layout.sizes[0];
  plan.channels = x.layout.sizes[1];
  plan.length = x.layout.sizes[2];
  const auto set = [](const View& view, int64_t(&steps)[3], DType& dtype) {
    std::copy_n(view.layout.strides, 3, steps);
    dtype = view.layout.dtype;
  };
  if (out.data != nullptr) set(out, plan.out, plan.out_dtype);
  if (g.data != nullptr) set(g, plan.g, plan.g_dtype);
  set(x, plan.x, plan.x_dtype);
  plan.has_out = out.data != nullptr;
  return plan;
}
/// Where a channel has one element in each example, neighbours are those of other channels.
Grid channel_grid(const Accelerator& device, const portable::BatchNorm& plan) {
  return team_grid(device, plan.channels, plan.batch * plan.length, plan.length == 1);
}

portable::CrossEntropy loss_plan(const View& logits, const View& targets, int64_t ignore_index) {
  portable::CrossEntropy plan = {};
  plan.rows = logits.layout.sizes[0];
  plan.classes = logits.layout.sizes[1];
  plan.logits = matrix_of(logits);
  plan.targets = column_of(targets);
  plan.ignore_index = ignore_index;
  plan.check.dim = class_axis;
  return plan;
}

void check_loss(const View& logits, const View& per_row, const View& targets) {
  check_floats("cross_entropy", {&logits});
  if (per_row.layout.dtype != compute_type(logits.layout.dtype)) unsupported("cross_entropy", per_row);
  if (targets.layout.dtype != DType::i64) unsupported("cross_entropy", targets);
  require(device_of(logits), compute_of(logits.layout.dtype), "cross_entropy", logits);
}

}  // namespace

void softmax(const View& out, const View& in, int dim, bool logarithm) {
  launch_rows<named::softmax>(dim, int32_t{logarithm}, out, in);
}
void softmax_gradient(const View& out, const View& g, const View& y, int dim, bool logarithm) {
  launch_rows<named::softmax_gradient>(dim, int32_t{logarithm}, out, g, y);
}

void layer_norm(const View& out, const View& mean, const View& rstd, const View& x, const View& weight,
                const View& bias, double epsilon) {
  check_floats("layer_norm", {&out, &x, &weight, &bias});
  norm(out, mean, rstd, x, weight, bias, epsilon, true);
}
void layer_norm_gradient(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                         const View& mean, const View& rstd, const View& weight) {
  check_floats("layer_norm_gradient", {&dx, &dweight, &dbias, &g, &x, &weight});
  norm_gradient(dx, dweight, dbias, g, x, mean, rstd, weight, true);
}
void rms_norm(const View& out, const View& rstd, const View& x, const View& weight, double epsilon) {
  check_floats("rms_norm", {&out, &x, &weight});
  norm(out, View{}, rstd, x, weight, View{}, epsilon, false);
}
void rms_norm_residual(const View& out, const View& sum, const View& rstd, const View& x, const View& residual,
                       const View& bias, const View& weight, double epsilon) {
  check_floats("rms_norm_residual", {&out, &sum, &x, &residual, &bias, &weight});
  Accelerator& device = device_of(x);
  const Compute compute = compute_of(x.layout.dtype);
  require(device, compute, "rms_norm_residual", x);
  portable::Norm plan = {};
  plan.rows = x.layout.sizes[0];
  plan.n = x.layout.sizes[1];
  if (plan.rows == 0) return;
  plan.x = matrix_of(x);
  plan.out = matrix_of(out);
  plan.rstd = column_of(rstd);
  plan.weight = vector_of(weight);
  plan.bias = vector_of(bias);
  Kernel& kernel = norm_residual_entry.on(device, compute);
  in_compute_type(compute, epsilon, [&](auto e) {
    launch(device, kernel, team_grid(device, plan.rows, plan.n), address(out), address(sum), rstd.data, address(x),
           address(residual), address(bias), address(weight), plan, matrix_of(residual), matrix_of(sum), e);
  });
}
void rotary(const View& out, const View& x, const View& cos, const View& sin, bool interleaved, bool inverse) {
  const int32_t flags = (interleaved ? 1 : 0) + (inverse ? 2 : 0);
  launch_rows<named::rotary>(out.layout.rank - 1, flags, out, x, cos, sin);
}

void rms_norm_gradient(const View& dx, const View& dweight, const View& g, const View& x, const View& rstd,
                       const View& weight) {
  check_floats("rms_norm_gradient", {&dx, &dweight, &g, &x, &weight});
  norm_gradient(dx, dweight, View{}, g, x, View{}, rstd, weight, false);
}

void batch_norm(const View& out, const View& mean, const View& variance, const View& x, const View& weight,
                const View& bias, double epsilon) {
  check_floats("batch_norm", {&out, &x, &weight, &bias});
  if (x.layout.numel == 0) return;
  Accelerator& device = device_of(x);
  const Compute compute = compute_of(x.layout.dtype);
  require(device, compute, "batch_norm", x);
  portable::BatchNorm plan = channels_plan(out, x, View{});
  plan.has_weight = weight.data != nullptr;
  plan.has_bias = bias.data != nullptr;
  Kernel& kernel = batch_norm_entry.on(device, compute);
  in_compute_type(compute, epsilon, [&](auto e) {
    launch(device, kernel, channel_grid(device, plan), out.data, mean.data, variance.data, x.data, weight.data,
           bias.data, plan, e);
  });
}
void batch_norm_gradient(const View& dx, const View& dweight, const View& dbias, const View& g, const View& x,
                         const View& mean, const View& rstd, const View& weight) {
  check_floats("batch_norm_gradient", {&dx, &dweight, &dbias, &g, &x, &weight});
  if (x.layout.numel == 0) return;
  Accelerator& device = device_of(x);
  const Compute compute = compute_of(x.layout.dtype);
  require(device, compute, "batch_norm_gradient", x);
  portable::BatchNorm plan = channels_plan(dx, x, g);
  plan.has_weight = weight.data != nullptr;
  plan.has_dweight = dweight.data != nullptr;
  plan.has_dbias = dbias.data != nullptr;
  launch(device, batch_norm_gradient_entry.on(device, compute), channel_grid(device, plan), dx.data, dweight.data,
         dbias.data, g.data, x.data, mean.data, rstd.data, weight.data, plan);
}

void cross_entropy(const View& losses, const View& log_sum_exp, const View& logits, const View& targets,
                   int64_t ignore_index, double label_smoothing) {
  check_loss(logits, losses, targets);
  Accelerator& device = device_of(logits);
  const Compute compute = compute_of(logits.layout.dtype);
  portable::CrossEntropy plan = loss_plan(logits, targets, ignore_index);
  if (plan.rows == 0) return;
  plan.losses = column_of(losses);
  plan.log_sum_exp = column_of(log_sum_exp);
  plan.check.call = device.note_index_call();
  Kernel& kernel = cross_entropy_entry.on(device, compute);
  in_compute_type(compute, label_smoothing, [&](auto smoothing) {
    launch_indexing(device, kernel, team_grid(device, plan.rows, plan.classes), losses.data, log_sum_exp.data,
                    address(logits), targets.data, device.bad_index(), plan, smoothing);
  });
}

void cross_entropy_gradient(const View& dlogits, const View& g, const View& logits, const View& log_sum_exp,
                            const View& targets, int64_t ignore_index, double label_smoothing) {
  check_loss(logits, g, targets);
  check_floats("cross_entropy_gradient", {&dlogits});
  if (dlogits.layout.numel == 0) return;
  Accelerator& device = device_of(logits);
  const Compute compute = compute_of(logits.layout.dtype);
  portable::CrossEntropy plan = loss_plan(logits, targets, ignore_index);
  plan.out = matrix_of(dlogits);
  plan.g = column_of(g);
  plan.log_sum_exp = column_of(log_sum_exp);
  Kernel& kernel = cross_entropy_gradient_entry.on(device, compute);
  in_compute_type(compute, label_smoothing, [&](auto smoothing) {
    launch(device, kernel, item_grid(plan.rows * plan.classes), dlogits.data, g.data, logits.data, log_sum_exp.data,
           targets.data, plan, smoothing);
  });
}

}  // namespace weft::portable::host
