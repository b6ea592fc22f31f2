// x[…] replayed from tests/indexing_cases/cases.jsonl, with cases on which NumPy and PyTorch agree; make_cases.py
// documents its keys. Every case runs on plain and on permuted, reversed and gapped memory, in f64 and in a second
// dtype.
#include <array>
#include <fstream>
#include <iostream>
#include <sstream>
#include <typeinfo>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <weft/ops/subscript.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

using json = nlohmann::json;

enum class Memory { plain, strided };

struct Case {
  int line;
  json data;

  bool writes() const { return data.contains("w"); }
  bool accumulates() const { return data.contains("a"); }
  bool fails() const { return data.contains("e"); }
  Dims shape() const { return Dims(data["x"].get<std::vector<int64_t>>()); }
};

// ---- contents of a case, as tensors---------------------------------------------------------------------------------

// The elements of `plain` in memory that runs backwards, with its dimensions in reverse order and gaps of 125.
Tensor spaced(const Tensor& plain) {
  Dims wide;
  for (int d = plain.dim() - 1; d >= 0; --d) wide.push_back(2 * plain.size(d));
  Tensor t = full(wide, plain.dtype() == boolean ? 1 : 125, plain.dtype());
  for (int d = 0; d < plain.dim() / 2; ++d) t = t.transpose(d, plain.dim() - 1 - d);
  for (int d = 0; d < plain.dim(); ++d) t = t.slice(d, {}, {}, -2);
  t.copy_(plain);
  return t;
}
Tensor in(Memory memory, const Tensor& plain) { return memory == Memory::plain ? plain : spaced(plain); }

Tensor counted(const Dims& shape, int first, DType dtype = f64) {
  return arange(first, first + shape.product()).view(shape).to(dtype);
}

DType dtype_named(const json& name) { return dtype_from_name(name.get<std::string>().c_str()); }

Index index_of(const json& item, Memory memory) {
  if (item.is_null()) return None;
  if (item.is_boolean()) return item.get<bool>();
  if (item.is_number()) return item.get<int64_t>();
  if (item.is_array()) return item.get<std::vector<int64_t>>();
  if (item.is_object()) {
    const Dims shape(item["s"].get<std::vector<int64_t>>());
    const auto elements = item["v"].get<std::vector<int64_t>>();
    return in(memory, tensor(std::span(elements), shape, dtype_named(item["t"])));
  }
  const auto text = item.get<std::string>();
  if (text == "...") return Ellipsis;
  std::array<std::optional<int64_t>, 3> parts;
  std::istringstream rest(text);
  std::string part;
  for (size_t i = 0; std::getline(rest, part, ':'); ++i) {
    if (!part.empty()) parts.at(i) = std::stoll(part);
  }
  return Slice(parts[0], parts[1], parts[2].value_or(1));
}
std::vector<Index> index_of(const Case& c, Memory memory) {
  std::vector<Index> out;
  for (const json& item : c.data["i"]) out.push_back(index_of(item, memory));
  return out;
}

Tensor value_of(const Case& c, DType dtype) {
  const json& w = c.data["w"];
  if (w.is_number()) return tensor(w.get<int64_t>(), dtype);
  const Dims shape(w.get<std::vector<int64_t>>());
  return c.data.contains("v") ? doubles(c.data["v"], shape).to(dtype) : counted(shape, 40, dtype);
}

void write(const Tensor& x, const std::vector<Index>& index, const Operand& value, bool accumulate) {
  if (accumulate) x.index_put_(index, value, true);
  else x[index] = value;
}

// ---- in words -------------------------------------------------------------------------------------------------------

std::string text_of(const json& item) {
  if (item.is_null()) return "None";
  if (item.is_boolean()) return item.get<bool>() ? "True" : "False";
  if (item.is_string()) return item.get<std::string>();
  if (item.is_object()) return item["t"].get<std::string>() + item["s"].dump() + item["v"].dump();
  return item.dump();
}
std::string text_of(const Case& c) {
  std::ostringstream out;
  out << "cases.jsonl:" << c.line << ": x of shape " << c.data["x"] << ", x[";
  for (const char* comma = ""; const json& item : c.data["i"]) out << std::exchange(comma, ", ") << text_of(item);
  out << ']';
  if (c.writes()) {
    const json& w = c.data["w"];
    out << (c.accumulates() ? " += " : " = ") << (w.is_array() ? "a value of shape " : "") << w;
  }
  return out.str();
}

// ---- replaying ------------------------------------------------------------------------------------------------------

struct IndexingCases : ::testing::Test {
  template <class Check>
  void replay(bool (*wanted)(const Case&), int least, Check&& check) {
    std::ifstream file(WEFT_SOURCE_DIR "/tests/indexing_cases/cases.jsonl");
    std::string line;
    int number = 0, count = 0;
    const auto* result = ::testing::UnitTest::GetInstance()->current_test_info()->result();
    while (std::getline(file, line) && result->total_part_count() < 20) {
      const Case c{++number, json::parse(line)};
      if (!wanted(c)) continue;
      ++count;
      SCOPED_TRACE(text_of(c));
      try {
        for (const Memory memory : {Memory::plain, Memory::strided}) check(c, memory);
      } catch (const std::exception& e) {
        ADD_FAILURE() << e.what();
      }
    }
    std::cout << count << " cases\n";
    if (!HasFailure()) {
      EXPECT_GE(count, least);
    }
  }

  static void expect_shape(const Case& c, const Tensor& actual) { EXPECT_EQ(json(actual.sizes()), c.data["s"]); }
  static void expect(const Case& c, const char* key, const Tensor& actual) {
    EXPECT_EQ(json(actual.to(f64).to_vector<double>()), c.data[key]) << key;
  }
  // A second dtype in which every number of the case is exact.
  static DType other_dtype(const Case& c) {
    static constexpr std::array exact{i64, i32, f32, i16};
    static constexpr std::array small{u8, i8, f16, bf16, i32, f32, i64, i16};
    const auto line = static_cast<size_t>(c.line);
    return c.accumulates() ? exact.at(line % exact.size()) : small.at(line % small.size());
  }
};

bool is_typed(const Case& c) { return c.data.contains("d"); }

TEST_F(IndexingCases, Read) {
  const auto reads = [](const Case& c) { return !c.writes() && !c.fails(); };
  replay(reads, 2400, [](const Case& c, Memory memory) {
    const std::vector<Index> index = index_of(c, memory);
    const Tensor x = in(memory, counted(c.shape(), 0)).requires_grad_();
    const Tensor y = x[index];
    expect_shape(c, y);
    expect(c, "y", y);
    y.backward(counted(y.shape(), 1));
    expect(c, "dx", x.grad());
    const Tensor narrow = in(memory, counted(c.shape(), 0, other_dtype(c)));
    expect(c, "y", narrow[index]);
  });
}

void check_write(const Case& c, Memory memory) {
  using T = IndexingCases;
  const std::vector<Index> index = index_of(c, memory);
  const Tensor x = in(memory, counted(c.shape(), 0)).requires_grad_();
  const Tensor v = in(memory, value_of(c, f64)).requires_grad_();
  const Tensor seed = counted(c.shape(), 1);
  // In place, into a tensor that took part in the graph before.
  const Tensor y = x.clone();
  write(y, index, v, c.accumulates());
  T::expect(c, "y", y);
  y.backward(seed);
  T::expect(c, "dx", x.grad());
  if (c.data.contains("dv")) T::expect(c, "dv", v.grad());
  // Into a copy.
  x.set_grad({});
  v.set_grad({});
  const Tensor copy = index_put(x, index, v, c.accumulates());
  T::expect(c, "y", copy);
  copy.backward(seed);
  T::expect(c, "dx", x.grad());
  if (c.data.contains("dv")) T::expect(c, "dv", v.grad());
  T::expect(c, "y", index_put(x.detach(), index, v.detach(), c.accumulates()));
}

void check_other_write(const Case& c, Memory memory) {
  using T = IndexingCases;
  const std::vector<Index> index = index_of(c, memory);
  const DType dtype = T::other_dtype(c);
  const Tensor x = in(memory, counted(c.shape(), 0, dtype));
  T::expect_shape(c, x[index]);
  if (c.data["w"].is_number()) write(x, index, c.data["w"].get<int64_t>(), c.accumulates());
  else write(x, index, in(memory, value_of(c, c.line % 3 == 0 ? f64 : dtype)), c.accumulates());
  T::expect(c, "y", x);
  if (memory == Memory::strided && x.numel() != 0) {
    const int64_t all = x.numel() << x.dim();
    const Tensor whole = x.as_strided({all}, {1}, 0).to(f64);
    EXPECT_EQ(whole.sum().item<double>(), x.to(f64).sum().item<double>() + 125.0 * static_cast<double>(all - x.numel()))
        << "elements beside x were written";
  }
}

TEST_F(IndexingCases, Write) {
  const auto sets = [](const Case& c) { return c.writes() && !c.accumulates() && !c.fails() && !is_typed(c); };
  replay(sets, 1800, [](const Case& c, Memory memory) {
    check_write(c, memory);
    check_other_write(c, memory);
  });
}

TEST_F(IndexingCases, Accumulate) {
  const auto adds = [](const Case& c) { return c.accumulates() && !c.fails() && !is_typed(c); };
  replay(adds, 480, [](const Case& c, Memory memory) {
    check_write(c, memory);
    check_other_write(c, memory);
  });
}

TEST_F(IndexingCases, ConvertWrittenValues) {
  replay(is_typed, 9, [](const Case& c, Memory memory) {
    const DType dtype = dtype_named(c.data["d"][0]);
    const std::vector<Index> index = index_of(c, memory);
    const Tensor x = in(memory, counted(c.shape(), 0, dtype));
    if (c.data["w"].is_number()) write(x, index, c.data["w"].get<int64_t>(), c.accumulates());
    else write(x, index, in(memory, value_of(c, dtype_named(c.data["d"][1]))), c.accumulates());
    expect_shape(c, x[index]);
    if (is_floating(dtype)) expect(c, "y", x);
    else EXPECT_EQ(json(x.to_vector<int64_t>()), c.data["y"]);
  });
}

const char* kind_of(const Error& e) {
  return dynamic_cast<const IndexError*>(&e)   ? "IndexError"
         : dynamic_cast<const ShapeError*>(&e) ? "ShapeError"
         : dynamic_cast<const DTypeError*>(&e) ? "DTypeError"
         : dynamic_cast<const ValueError*>(&e) ? "ValueError"
                                               : typeid(e).name();
}

TEST_F(IndexingCases, RefuseWithoutWriting) {
  const auto fails = [](const Case& c) { return c.fails(); };
  replay(fails, 500, [](const Case& c, Memory memory) {
    const std::vector<Index> index = index_of(c, memory);
    const Tensor x = in(memory, counted(c.shape(), 0));
    const uint32_t version = x.version();
    try {
      if (c.writes()) write(x, index, value_of(c, f64), c.accumulates());
      else Tensor unused = x[index];
      ADD_FAILURE() << "no error, but " << c.data["e"];
    } catch (const Error& e) {
      EXPECT_EQ(kind_of(e), c.data["e"].get<std::string>()) << e.what();
    }
    EXPECT_EQ(x.version(), version);
    EXPECT_THAT(x.to_vector<double>(), ::testing::ElementsAreArray(counted(c.shape(), 0).to_vector<double>()));
  });
}

}  // namespace
}  // namespace weft::testing
