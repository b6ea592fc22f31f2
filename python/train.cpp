// Metrics and folders of runs for Python; weft/train.py gives them keywords.
#include "../train/early_stopping.hpp"
#include "../train/metrics.hpp"
#include "../train/run_folder.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

using Names = std::vector<std::string>;
using Numbers = std::vector<double>;

// Methods of all metrics; `names` are those of update's arguments.
template <class Metric>
nb::class_<Metric> bind_metric(nb::module_& m, const char* name, const char* document) {
  return nb::class_<Metric>(m, name, document)
      .def("merge", &Metric::merge, nb::arg("other"), "Adds the samples of another metric with the same options.")
      .def("reset", &Metric::reset, "Forgets everything.");
}

template <class Metric>
void bind_batches(nb::class_<Metric>& c) {
  c.def(
       "update",
       [](Metric& self, const Tensor& predictions, const Tensor& target) {
         const Location where = here();
         self.update(predictions, target, where);
       },
       nb::arg("preds"), nb::arg("target"), "Takes a batch in, without waiting for a device.")
      .def(
          "compute",
          [](const Metric& self) {
            if constexpr (requires { self.value(Location()); }) return self.value(here());
            else return self.value();
          },
          "The value so far; NaN over nothing.");
}

template <class Metric>
void bind_state(nb::class_<Metric>& c) {
  c.def(
       "state_dict", [](const Metric& self) { return self.state(); }, "The counts, as a list of numbers.")
      .def(
          "load_state_dict", [](Metric& self, const Numbers& state) { self.restore(state, here()); }, nb::arg("state"),
          "Takes such a list of a metric of the same options.");
}

train::Average average_in(const std::string& name) {
  if (name == "binary") return train::Average::binary;
  if (name == "micro") return train::Average::micro;
  if (name == "macro") return train::Average::macro;
  if (name == "weighted") return train::Average::weighted;
  raise<ValueError>({.op = "average", .problem = "\"" + name + "\" is not binary, micro, macro or weighted"}, here());
}

void bind_metrics_of_classes(nb::module_& m) {
  using train::Accuracy;
  auto accuracy = bind_metric<Accuracy>(m, "Accuracy", "The share of predictions that are right.");
  accuracy.def(
      "__init__",
      [](Accuracy* self, double threshold, std::optional<int64_t> ignore_index) {
        new (self) Accuracy({threshold, ignore_index});
      },
      nb::kw_only(), nb::arg("threshold") = 0.5, nb::arg("ignore_index") = nb::none());
  bind_batches(accuracy), bind_state(accuracy);

  using train::TopK;
  auto top_k = bind_metric<TopK>(m, "TopK", "The share of samples whose class is among the k highest scores.");
  top_k.def(
      "__init__",
      [](TopK* self, int64_t k, std::optional<int64_t> ignore_index) { new (self) TopK(k, ignore_index, here()); },
      nb::arg("k"), nb::kw_only(), nb::arg("ignore_index") = nb::none());
  bind_batches(top_k), bind_state(top_k);

  using train::ClassScores;
  auto scores = bind_metric<ClassScores>(m, "ClassScores", "Precision, recall and F1, as scikit-learn's.");
  scores.def(
      "__init__",
      [](ClassScores* self, int64_t classes, const std::string& average, bool multilabel, double threshold,
         double zero_division, std::optional<int64_t> ignore_index) {
        new (self)
            ClassScores({classes, average_in(average), multilabel, threshold, zero_division, ignore_index}, here());
      },
      nb::arg("num_classes") = 2, nb::kw_only(), nb::arg("average") = "binary", nb::arg("multilabel") = false,
      nb::arg("threshold") = 0.5, nb::arg("zero_division") = 0.0, nb::arg("ignore_index") = nb::none());
  bind_batches(scores), bind_state(scores);
  scores.def("precision", [](const ClassScores& self) { return self.precision(here()); })
      .def("recall", [](const ClassScores& self) { return self.recall(here()); })
      .def("f1", [](const ClassScores& self) { return self.f1(here()); })
      .def(
          "f_beta", [](const ClassScores& self, double beta) { return self.f_beta(beta, here()); }, nb::arg("beta"))
      .def(
          "per_class",
          [](const ClassScores& self) {
            std::vector<nb::tuple> out;
            for (const auto& c : self.per_class(here())) {
              out.push_back(nb::make_tuple(c.precision, c.recall, c.f1, c.support));
            }
            return out;
          },
          "(precision, recall, F1, support) of each class.");

  using train::ConfusionMatrix;
  auto matrix = bind_metric<ConfusionMatrix>(m, "ConfusionMatrix", "How often each class was taken for each.");
  matrix.def(
      "__init__",
      [](ConfusionMatrix* self, int64_t classes, double threshold, std::optional<int64_t> ignore_index) {
        new (self) ConfusionMatrix(classes, {threshold, ignore_index}, here());
      },
      nb::arg("num_classes"), nb::kw_only(), nb::arg("threshold") = 0.5, nb::arg("ignore_index") = nb::none());
  bind_batches(matrix), bind_state(matrix);
  matrix
      .def(
          "matrix", [](const ConfusionMatrix& self) { return self.matrix(here()); }, "int64 [classes, classes].")
      .def(
          "text", [](const ConfusionMatrix& self, const Names& names) { return self.text(names, here()); },
          nb::arg("names") = Names(), "A table.")
      .def(
          "svg", [](const ConfusionMatrix& self, const Names& names) { return self.svg(names, here()); },
          nb::arg("names") = Names(), "A picture.");

  using train::RocAuc;
  auto area = bind_metric<RocAuc>(m, "RocAuc", "The area under the ROC curve, exact.");
  area.def(
      "__init__",
      [](RocAuc* self, int64_t classes, bool multilabel, const std::string& average) {
        new (self) RocAuc({classes, multilabel, average_in(average)}, here());
      },
      nb::arg("num_classes") = 1, nb::kw_only(), nb::arg("multilabel") = false, nb::arg("average") = "macro");
  bind_batches(area);
  area.def("per_class", [](const RocAuc& self) { return self.per_class(here()); });
}

void bind_metrics_of_numbers(nb::module_& m) {
  using train::MeanStd;
  auto mean = bind_metric<MeanStd>(m, "MeanStd", "Mean and deviation of a stream of numbers.");
  mean.def(nb::init<>())
      .def(
          "update", [](MeanStd& self, const Tensor& values) { self.update(values, here()); }, nb::arg("values"))
      .def(
          "update", [](MeanStd& self, double value, double weight) { self.update(value, weight, here()); },
          nb::arg("value"), nb::arg("weight") = 1.0)
      .def(
          "update", [](MeanStd& self, const Tensor& value, double weight) { self.update(value, weight, here()); },
          nb::arg("value"), nb::arg("weight"))
      .def("compute", &MeanStd::mean, "The mean.")
      .def("count", &MeanStd::count)
      .def("variance", &MeanStd::variance, nb::arg("correction") = 0.0)
      .def("std", &MeanStd::std, nb::arg("correction") = 0.0);
  bind_state(mean);

  using train::Perplexity;
  auto perplexity = bind_metric<Perplexity>(m, "Perplexity", "exp of the mean loss of a token.");
  perplexity.def(
      "__init__", [](Perplexity* self, int64_t ignore_index) { new (self) Perplexity(ignore_index); }, nb::kw_only(),
      nb::arg("ignore_index") = -100);
  bind_batches(perplexity), bind_state(perplexity);
  perplexity.def(
      "update_loss",
      [](Perplexity& self, const Tensor& mean_loss, int64_t count) { self.update_loss(mean_loss, count, here()); },
      nb::arg("mean_loss"), nb::arg("count"));

  using train::Regression;
  auto regression = bind_metric<Regression>(m, "Regression", "Distances of numbers from their targets.");
  regression.def(nb::init<>());
  bind_batches(regression);
  regression.def("mean_absolute_error", &Regression::mean_absolute_error)
      .def("mean_squared_error", &Regression::mean_squared_error)
      .def("root_mean_squared_error", &Regression::root_mean_squared_error)
      .def("r2", &Regression::r2);
}

}  // namespace

void bind_train(nb::module_& parent) {
  nb::module_ m = parent.def_submodule("_train");
  bind_metrics_of_classes(m);
  bind_metrics_of_numbers(m);

  using train::EarlyStopping;
  nb::class_<EarlyStopping>(m, "EarlyStopping", "Notices when a figure has stopped getting better.")
      .def(
          "__init__",
          [](EarlyStopping* self, int64_t patience, double min_delta, bool maximize) {
            new (self) EarlyStopping({maximize, patience, min_delta}, here());
          },
          nb::kw_only(), nb::arg("patience") = 0, nb::arg("min_delta") = 0.0, nb::arg("maximize") = false)
      .def("update", &EarlyStopping::update, nb::arg("value"), "Whether the value is the best so far.")
      .def_prop_ro("should_stop", &EarlyStopping::should_stop)
      .def_prop_ro("best", &EarlyStopping::best);

  using train::RunFolder;
  nb::class_<RunFolder>(m, "_RunFolder")
      .def("__init__",
           [](RunFolder* self, const std::string& folder, const std::string& title, const std::string& config, bool csv,
              bool tensorboard, bool page, double page_every) {
             new (self) RunFolder(folder, {title, config, csv, tensorboard, page, page_every}, here());
           })
      .def(
          "begin", [](RunFolder& self, int64_t first, int64_t last) { self.begin(first, last, here()); },
          nb::arg("first") = 0, nb::arg("last") = 0, "Continues after step `first`; `last` is 0 if it is not known.")
      .def("record", [](RunFolder& self, int64_t step, const io::Figures& shown,
                        const io::Figures& untold) { self.record(step, shown, untold); })
      .def(
          "sample_text",
          [](RunFolder& self, int64_t step, const std::string& name, const std::string& text) {
            self.sample_text(step, name, text);
          },
          nb::arg("step"), nb::arg("name"), nb::arg("text"))
      .def(
          "sample_svg",
          [](RunFolder& self, int64_t step, const std::string& name, const std::string& svg) {
            self.sample_svg(step, name, svg);
          },
          nb::arg("step"), nb::arg("name"), nb::arg("svg"))
      .def(
          "checkpoint",
          [](RunFolder& self, const std::string& path, int64_t step, bool best) { self.checkpoint(path, step, best); },
          nb::arg("path"), nb::arg("step"), nb::arg("best") = false)
      .def("write_page", [](RunFolder& self) { self.write_page(here()); })
      .def(
          "finish", [](RunFolder& self, const std::string& state) { self.finish(state, here()); },
          nb::arg("state") = "done")
      .def(
          "fail", [](RunFolder& self, const std::string& why) { self.fail(why, here()); }, nb::arg("why"))
      .def_prop_ro("folder", [](const RunFolder& self) { return self.folder().string(); });
  bind_checkpoints(m);
  bind_trainer(m);
}

}  // namespace weft::python
