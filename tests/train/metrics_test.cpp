#include <cmath>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <weft/train/metrics.hpp>
#include <weft/weft.hpp>

#include "message_of.hpp"

namespace weft::train {
namespace {

using Json = nlohmann::json;

std::vector<Json> cases_of(const std::string& kind) {
  std::ifstream file(WEFT_SOURCE_DIR "/tests/train/cases/metrics.jsonl");
  std::vector<Json> out;
  for (std::string line; std::getline(file, line);) {
    Json one = Json::parse(line);
    if (one["kind"] == kind) out.push_back(std::move(one));
  }
  EXPECT_FALSE(out.empty()) << kind;
  return out;
}

double number(const Json& j) { return j.is_null() ? NAN : j.get<double>(); }

Tensor scores_of(const Json& c) {
  return tensor(c["scores"].get<std::vector<double>>(), f32).reshape(Dims(c["shape"].get<std::vector<int64_t>>()));
}

void expect_near(double got, const Json& wanted, const std::string& what) {
  const double want = number(wanted);
  if (std::isnan(want)) EXPECT_TRUE(std::isnan(got)) << what << ' ' << got;
  else EXPECT_NEAR(got, want, 1e-12 * std::max(1.0, std::abs(want))) << what;
}

// The parts that the batches of an epoch are.
std::vector<Tensor> parts(const Tensor& x) { return x.split(7); }

template <class Metric>
Metric fed(Metric metric, const Tensor& a, const Tensor& b) {
  const std::vector<Tensor> x = parts(a), y = parts(b);
  for (size_t i = 0; i < x.size(); ++i) metric.update(x[i], y[i]);
  // In two halves that are merged, it is the same.
  Metric first = metric, second = metric;
  first.reset(), second.reset();
  for (size_t i = 0; i < x.size(); ++i) (i % 2 == 0 ? first : second).update(x[i], y[i]);
  first.merge(second);
  const double merged = first.value(), own = metric.value();
  EXPECT_TRUE(std::abs(merged - own) <= 1e-13 * std::abs(own) || (std::isnan(merged) && std::isnan(own)));
  return metric;
}

const std::pair<const char*, Average> averages[] = {
    {"binary", Average::binary}, {"micro", Average::micro}, {"macro", Average::macro}, {"weighted", Average::weighted}};

void expect_class_scores(const Json& c, ClassScoresOptions options, const Tensor& scores, const Tensor& targets) {
  options.zero_division = number(c["zero"]);
  for (const auto& [name, average] : averages) {
    if (!c.contains(name)) continue;
    options.average = average;
    const ClassScores m = fed(ClassScores(options), scores, targets);
    expect_near(m.precision(), c[name][0], name), expect_near(m.recall(), c[name][1], name);
    expect_near(m.f1(), c[name][2], name), expect_near(m.f_beta(2), c[name][3], name);
    const auto each = m.per_class();
    ASSERT_EQ(each.size(), c["per_class"].size());
    for (size_t i = 0; i < each.size(); ++i) {
      const Json& want = c["per_class"][i];
      expect_near(each[i].precision, want[0], "precision"), expect_near(each[i].recall, want[1], "recall");
      expect_near(each[i].f1, want[2], "f1");
      EXPECT_EQ(each[i].support, want[3]);
    }
    ClassScores other(options);
    other.restore(m.state());
    expect_near(other.f1(), c[name][2], "restored");
  }
}

TEST(Metrics, OfClassesAreScikitLearns) {
  for (const Json& c : cases_of("classes")) {
    const Tensor scores = scores_of(c), targets = tensor(c["targets"].get<std::vector<int64_t>>());
    const int64_t classes = scores.size(1);
    expect_near(fed(Accuracy(), scores, targets).value(), c["accuracy"], "accuracy");
    expect_near(fed(Accuracy(), argmax(scores, 1), targets).value(), c["accuracy"], "accuracy of classes");
    expect_near(fed(TopK(1), scores, targets).value(), c["accuracy"], "top 1");
    EXPECT_EQ(fed(TopK(classes), scores, targets).value(), 1);
    const ConfusionMatrix matrix = fed(ConfusionMatrix(classes), scores, targets);
    EXPECT_EQ(matrix.matrix().reshape({-1}).to_vector<int64_t>(), c["confusion"].get<std::vector<int64_t>>());
    expect_near(matrix.value(), c["accuracy"], "diagonal");
    expect_class_scores(c, {.classes = classes}, scores, targets);
    const RocAuc macro = fed(RocAuc({.classes = classes}), scores, targets);
    expect_near(macro.value(), c["auc_macro"], "area");
    for (size_t i = 0; i < c["auc_each"].size(); ++i)
      expect_near(macro.per_class()[i], c["auc_each"][i], "area of a class");
    expect_near(fed(RocAuc({.classes = classes, .average = Average::weighted}), scores, targets).value(),
                c["auc_weighted"], "weighted area");
    EXPECT_NEAR(fed(Perplexity(), scores, targets).value(), number(c["perplexity"]), 1e-5);
  }
}

TEST(Metrics, OfBinaryScoresAreScikitLearns) {
  for (const Json& c : cases_of("binary")) {
    const Tensor scores = scores_of(c), targets = tensor(c["targets"].get<std::vector<int64_t>>());
    expect_near(fed(Accuracy(), scores, targets).value(), c["accuracy"], "accuracy");
    expect_near(fed(Accuracy(), scores, targets.to(boolean)).value(), c["accuracy"], "accuracy");
    expect_class_scores(c, {}, scores, targets);
    expect_near(fed(RocAuc(), scores, targets).value(), c["auc"], "area");
    expect_near(fed(RocAuc(), scores, targets.to(boolean)).value(), c["auc"], "area");
  }
}

TEST(Metrics, OfLabelsAreScikitLearns) {
  for (const Json& c : cases_of("labels")) {
    const Tensor scores = scores_of(c);
    const Tensor targets = tensor(c["targets"].get<std::vector<int64_t>>()).reshape(scores.shape());
    expect_near(fed(Accuracy(), scores, targets).value(), c["accuracy"], "accuracy");
    expect_class_scores(c, {.classes = scores.size(1), .multilabel = true}, scores, targets);
    // Nothing is of the first label, which is left out.
    const RocAuc areas = fed(RocAuc({.classes = scores.size(1), .multilabel = true}), scores, targets);
    EXPECT_TRUE(std::isnan(areas.per_class()[0]));
    expect_near(areas.value(), c["auc_macro"], "area");
    const RocAuc weighted =
        fed(RocAuc({.classes = scores.size(1), .multilabel = true, .average = Average::weighted}), scores, targets);
    expect_near(weighted.value(), c["auc_weighted"], "weighted area");
  }
}

TEST(Metrics, OfNumbersAreScikitLearns) {
  for (const Json& c : cases_of("regression")) {
    const Tensor x = scores_of(c), y = tensor(c["targets"].get<std::vector<double>>(), f32);
    const Regression m = fed(Regression(), x, y);
    expect_near(m.mean_absolute_error(), c["mae"], "mae"), expect_near(m.mean_squared_error(), c["mse"], "mse");
    EXPECT_NEAR(m.r2(), number(c["r2"]), 1e-9);
    MeanStd s;
    for (const Tensor& part : parts(x)) s.update(part);
    EXPECT_NEAR(s.mean(), number(c["mean"]), 1e-10);
    EXPECT_NEAR(s.std(), number(c["std"]), 1e-9);
    EXPECT_NEAR(s.std(1), number(c["std1"]), 1e-9);
  }
}

TEST(Metrics, PredictionsOfManyPlacesCountEach) {
  const Tensor scores = randn({2, 3, 4, 5}), targets = randint(0, 3, {2, 4, 5});
  const Tensor rows = scores.movedim({1}, {3}).reshape({-1, 3}), flat = targets.reshape({-1});
  Accuracy a, b;
  TopK c(2), d(2);
  a.update(scores, targets), b.update(rows, flat), c.update(scores, targets), d.update(rows, flat);
  EXPECT_EQ(a.counts(), b.counts());
  EXPECT_EQ(a.counts().second, 40);
  EXPECT_EQ(c.value(), d.value());
}

TEST(Metrics, OfEqualScoresTheFirstCount) {
  TopK two(2);
  two.update(zeros({3, 3}), tensor({0, 1, 2}));
  EXPECT_EQ(two.value(), 2.0 / 3);
}

TEST(Metrics, IgnoredTargetsDoNotCount) {
  const Tensor scores = tensor({{0.0, 1.0}, {double{NAN}, 0.0}, {3.0, 2.0}}), targets = tensor({1, -100, 1});
  Accuracy a({.ignore_index = -100});
  a.update(scores, targets);
  EXPECT_EQ(a.counts(), std::pair(int64_t{1}, int64_t{2}));
  ConfusionMatrix m(2, {.ignore_index = -100});
  m.update(scores, targets);
  EXPECT_EQ(m.matrix().reshape({-1}).to_vector<int64_t>(), (std::vector<int64_t>{0, 0, 1, 1}));
  Perplexity p;
  p.update(tensor({{0.0, 0.0}, {5.0, 0.0}}), tensor({1, -100}));
  EXPECT_NEAR(p.value(), 2, 1e-6);
  Perplexity q;
  q.update_loss(tensor(0.5), 3), q.update_loss(tensor(2.0), 1);
  EXPECT_NEAR(q.value(), std::exp(3.5 / 4), 1e-6);
}

TEST(Metrics, MeansKeepTheirDigitsFarFromZero) {
  MeanStd s;
  for (int i = 0; i < 1000; ++i) s.update(1e9 + (i % 2));
  EXPECT_NEAR(s.mean(), 1e9 + 0.5, 1e-6);
  EXPECT_NEAR(s.std(), 0.5, 1e-6);
  MeanStd weighted, plain;
  weighted.update(2, 3), weighted.update(5, 0), weighted.update(4);
  for (double v : {2.0, 2.0, 2.0, 4.0}) plain.update(v);
  EXPECT_DOUBLE_EQ(weighted.mean(), plain.mean());
  EXPECT_DOUBLE_EQ(weighted.std(1), plain.std(1));
  EXPECT_THROW(s.update(1, -1), ValueError);
  EXPECT_THROW(s.update(1, NAN), ValueError);
  EXPECT_THROW(s.restore({1}), ValueError);
}

TEST(Metrics, OfNothingAreNaN) {
  EXPECT_TRUE(std::isnan(Accuracy().value()));
  EXPECT_TRUE(std::isnan(TopK(1).value()));
  EXPECT_TRUE(std::isnan(ConfusionMatrix(3).value()));
  EXPECT_TRUE(std::isnan(RocAuc().value()));
  EXPECT_TRUE(std::isnan(Perplexity().value()));
  EXPECT_TRUE(std::isnan(Regression().value()));
  EXPECT_TRUE(std::isnan(MeanStd().mean()));
  Accuracy a;
  a.update(zeros({0, 3}), zeros({0}, i64));
  MeanStd m;
  m.update(zeros({0}));
  EXPECT_TRUE(std::isnan(a.value()));
  EXPECT_TRUE(std::isnan(m.mean()));
}

TEST(Metrics, OneClassAloneHasNoArea) {
  RocAuc auc;
  auc.update(tensor({0.1, 0.7}), tensor({1, 1}));
  EXPECT_TRUE(std::isnan(auc.value()));
}

TEST(Metrics, NanScoresRaiseWhenAsked) {
  const Tensor scores = tensor({{0.0, double{NAN}}, {1.0, 0.0}}), targets = tensor({0, 1});
  Accuracy a;
  a.update(scores, targets);
  EXPECT_THROW(a.value(), NonFiniteError);
  EXPECT_THAT(message_of<NonFiniteError>([&] { a.value(); }), testing::HasSubstr("1 predictions were NaN"));
  TopK k(1);
  k.update(scores, targets);
  EXPECT_THROW(k.value(), NonFiniteError);
  ClassScores f;
  f.update(scores, targets);
  EXPECT_THROW(f.f1(), NonFiniteError);
  RocAuc auc;
  auc.update(tensor({double{NAN}, 0.0}), targets);
  EXPECT_THROW(auc.value(), NonFiniteError);
  a.reset();
  a.update(tensor({{0.0, 1.0}}), tensor({1}));
  EXPECT_EQ(a.value(), 1);
}

TEST(Metrics, TargetsThatAreNoClassRaiseWhenAsked) {
  Accuracy a;
  a.update(zeros({2, 3}), tensor({0, 3}));
  EXPECT_THROW(a.value(), IndexError);
  ConfusionMatrix m(3);
  m.update(tensor({0, 7}), tensor({0, 1}));
  EXPECT_THROW(m.matrix(), IndexError);
  ClassScores f;
  f.update(tensor({0.2, 0.8}), tensor({0, -1}));
  EXPECT_THROW(f.f1(), IndexError);
  RocAuc auc;
  auc.update(tensor({0.2, 0.8}), tensor({0, 2}));
  EXPECT_THROW(auc.value(), IndexError);
}

TEST(Metrics, WrongShapesAndTypesRaiseAtOnce) {
  EXPECT_THROW(Accuracy().update(zeros({2, 3}), zeros({3}, i64)), ShapeError);
  EXPECT_THROW(Accuracy().update(zeros({2, 3, 4}), zeros({2}, i64)), ShapeError);
  EXPECT_THROW(Accuracy().update(zeros({2}), zeros({2})), DTypeError);
  EXPECT_THROW(Accuracy().update(Tensor(), zeros({2}, i64)), ValueError);
  EXPECT_THROW(ConfusionMatrix(3).update(zeros({2, 4}), zeros({2}, i64)), ShapeError);
  EXPECT_THROW(ConfusionMatrix(3).update(zeros({2}), zeros({2}, i64)), ShapeError);
  EXPECT_THROW(TopK(4).update(zeros({2, 3}), zeros({2}, i64)), ShapeError);
  EXPECT_THROW(
      ClassScores({.classes = 3, .average = Average::macro, .multilabel = true}).update(zeros({4}), zeros({4}, i64)),
      ShapeError);
  EXPECT_THROW(RocAuc().update(zeros({2}), zeros({3}, i64)), ShapeError);
  EXPECT_THROW(RocAuc().update(zeros({2}, i64), zeros({2}, i64)), DTypeError);
  EXPECT_THROW(Regression().update(zeros({2, 1}), zeros({2})), ShapeError);
  EXPECT_THROW(TopK(0), ValueError);
  EXPECT_THROW(ConfusionMatrix(1), ValueError);
  EXPECT_THROW(ConfusionMatrix(int64_t{1} << 40), ValueError);
  EXPECT_THROW(ClassScores({.classes = 3}), ValueError);
  EXPECT_THROW(ClassScores({.zero_division = 0.5}), ValueError);
  EXPECT_THROW(RocAuc({.classes = 0}), ValueError);
  EXPECT_THROW(ConfusionMatrix(2).restore({1, 2, 3}), ValueError);
  EXPECT_THROW(Accuracy().restore({0, 0, -1, 3}), ValueError);
  ConfusionMatrix two(2), three(3);
  two.update(tensor({0, 1}), tensor({0, 1})), three.update(tensor({0, 1}), tensor({0, 1}));
  EXPECT_THROW(two.merge(three), ValueError);
}

TEST(Metrics, KeepNoGraph) {
  const Tensor weight = ones({3, 2}).requires_grad_();
  const int64_t before = weft::detail::live_tensors();
  {
    Accuracy a;
    RocAuc auc({.classes = 2, .multilabel = true});
    for (int i = 0; i < 3; ++i) {
      const Tensor scores = matmul(ones({4, 3}), weight);
      a.update(scores, zeros({4}, i64));
      auc.update(scores, zeros({4, 2}, i64));
    }
    EXPECT_LE(weft::detail::live_tensors() - before, 8);
  }
  EXPECT_EQ(weft::detail::live_tensors(), before);
}

TEST(Metrics, AreTheSameForStridedAndHalfPrecisionScores) {
  const Tensor scores = randn({6, 4}).to(bf16), targets = tensor({0, 1, 2, 3, 0, 1});
  const Tensor transposed = scores.t().contiguous().t();
  Accuracy a, b;
  a.update(scores, targets), b.update(transposed.to(f32), targets.to(i32));
  EXPECT_EQ(a.counts(), b.counts());
}

TEST(Metrics, AConfusionMatrixIsATableAndAPicture) {
  ConfusionMatrix m(2);
  m.update(tensor({0, 1, 1, 1}), tensor({0, 0, 1, 1}));
  EXPECT_EQ(m.text({"cat", "dog"}),
            "is \\ taken for  cat  dog\n"
            "cat               1    1\n"
            "dog               0    2\n");
  EXPECT_THAT(m.svg({"cat", "<dog>"}), testing::AllOf(testing::StartsWith("<svg"), testing::HasSubstr("&lt;dog")));
}

}  // namespace
}  // namespace weft::train
