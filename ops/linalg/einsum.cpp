// einsum: the notation, and its products through matmul.
#include <algorithm>
#include <array>
#include <bit>

#include "../detail/autocast.hpp"
#include "../detail/parts.hpp"
#include "../detail/records.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "common.hpp"
#include "contraction_order.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

/// Letters are numbers: 0 … 51 for A … Z and a … z, in their order, and from 52 on the dimensions of `...`.
constexpr int letters = 52, most_letters = 60;
using Word = std::vector<int>;

[[noreturn]] void raise_notation(std::string_view equation, const std::string& problem) {
  raise<ValueError>({.problem = fmt::format("'{}': {}", equation, problem)});
}

int letter_of(char c) {
  if (c >= 'A' && c <= 'Z') return c - 'A';
  if (c >= 'a' && c <= 'z') return c - 'a' + 26;
  return -1;
}
char text_of(int letter) {
  return letter >= letters ? '.' : static_cast<char>(letter < 26 ? 'A' + letter : 'a' + letter - 26);
}

/// A word with -1 for `...`.
Word parse_word(std::string_view text, std::string_view equation) {
  Word word;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text.substr(i, 3) == "...") {
      if (std::ranges::find(word, -1) != word.end()) raise_notation(equation, "a word has two ellipses");
      word.push_back(-1);
      i += 2;
    } else if (const int letter = letter_of(text[i]); letter >= 0) {
      word.push_back(letter);
    } else {
      raise_notation(equation, fmt::format("'{}' is no letter", text[i]));
    }
  }
  return word;
}

struct Notation {
  std::vector<Word> words;
  Word result;
};

/// Replaces -1 by the last `count` of the `ellipsis_rank` dimensions of the ellipsis.
Word without_ellipsis(const Word& word, int count, int ellipsis_rank) {
  Word out;
  for (const int letter : word) {
    if (letter >= 0) out.push_back(letter);
    for (int d = ellipsis_rank - count; letter < 0 && d < ellipsis_rank; ++d) out.push_back(letters + d);
  }
  return out;
}

Notation parse(std::string_view equation, std::span<const Tensor> operands) {
  const size_t arrow = equation.find("->");
  const bool implicit = arrow == std::string_view::npos;
  std::vector<Word> words;
  for (std::string_view rest = equation.substr(0, arrow);;) {
    const size_t comma = rest.find(',');
    words.push_back(parse_word(rest.substr(0, comma), equation));
    if (comma == std::string_view::npos) break;
    rest.remove_prefix(comma + 1);
  }
  if (words.size() != operands.size()) {
    raise_notation(equation, fmt::format("{} words for {} operands", words.size(), operands.size()));
  }
  std::vector<int> counts;
  int ellipsis_rank = 0;
  for (size_t i = 0; i < words.size(); ++i) {
    const bool dots = std::ranges::find(words[i], -1) != words[i].end();
    const int given = static_cast<int>(words[i].size()) - (dots ? 1 : 0), rank = checked(operands[i]).dim();
    if (dots ? given > rank : given != rank) {
      raise_notation(equation, fmt::format("word {} has {} letters, its operand the shape {}", i, given,
                                           operands[i].shape().text()));
    }
    counts.push_back(dots ? rank - given : 0);
    ellipsis_rank = std::max(ellipsis_rank, counts.back());
  }
  Notation out;
  std::array<int, most_letters> times{};
  for (size_t i = 0; i < words.size(); ++i) {
    out.words.push_back(without_ellipsis(words[i], counts[i], ellipsis_rank));
    for (const int letter : out.words.back()) ++times[static_cast<size_t>(letter)];
  }
  if (implicit) {
    for (int d = 0; d < ellipsis_rank; ++d) out.result.push_back(letters + d);
    for (int letter = 0; letter < letters; ++letter) {
      if (times[static_cast<size_t>(letter)] == 1) out.result.push_back(letter);
    }
    return out;
  }
  const Word result = parse_word(equation.substr(arrow + 2), equation);
  out.result = without_ellipsis(result, ellipsis_rank, ellipsis_rank);
  std::array<bool, most_letters> is_in_result{};
  for (const int letter : out.result) {
    const auto l = static_cast<size_t>(letter);
    if (is_in_result[l]) raise_notation(equation, fmt::format("'{}' occurs twice in the result", text_of(letter)));
    if (times[l] == 0) raise_notation(equation, fmt::format("'{}' of the result is in no word", text_of(letter)));
    is_in_result[l] = true;
  }
  return out;
}

/// A tensor with these letters as dimensions, each once.
struct Lettered {
  Tensor t;
  Word word;

  uint64_t bits() const {
    uint64_t all = 0;
    for (const int letter : word) all |= uint64_t{1} << letter;
    return all;
  }
  int place(int letter) const { return static_cast<int>(std::ranges::find(word, letter) - word.begin()); }
  /// With these letters in this order; those that are missing have size 1.
  Tensor arranged(const Word& order) const {
    Dims permuted;
    for (const int letter : order) {
      if (place(letter) < static_cast<int>(word.size())) permuted.push_back(place(letter));
    }
    Tensor out = t;
    bool moved = false;
    for (int d = 0; d < permuted.size(); ++d) moved |= permuted[d] != d;
    if (moved) out = out.permute(permuted);
    if (permuted.size() == static_cast<int>(order.size())) return out;
    for (size_t d = 0; d < order.size(); ++d) {
      if (place(order[d]) == static_cast<int>(word.size())) out = out.unsqueeze(static_cast<int>(d));
    }
    return out;
  }
};

/// Repeated letters become a diagonal.
Lettered with_diagonals(const Tensor& t, const Word& word, std::string_view equation) {
  Lettered out{t, word};
  for (size_t i = 0; i < out.word.size(); ++i) {
    for (size_t j = i + 1; j < out.word.size();) {
      if (out.word[i] != out.word[j]) {
        ++j;
        continue;
      }
      const int a = static_cast<int>(i), b = static_cast<int>(j);
      if (out.t.size(a) != out.t.size(b)) {
        raise<ShapeError>(
            {.problem = fmt::format("'{}': '{}' has the sizes {} and {} in shape {}", equation, text_of(out.word[i]),
                                    out.t.size(a), out.t.size(b), t.shape().text())});
      }
      const int letter = out.word[i];
      out.t = out.t.diagonal(0, a, b);  // which comes last
      out.word.erase(out.word.begin() + b);
      out.word.erase(out.word.begin() + a);
      out.word.push_back(letter);
      i = 0;
      j = 1;
    }
  }
  return out;
}

/// Dimensions that are wanted nowhere are summed over, those of size 1 dropped.
Lettered summed(Lettered x, uint64_t wanted) {
  Dims dims;
  Word word;
  for (size_t d = 0; d < x.word.size(); ++d) {
    if ((wanted >> x.word[d] & 1) != 0) word.push_back(x.word[d]);
    else dims.push_back(static_cast<int64_t>(d));
  }
  if (dims.empty()) return x;
  return {sum(x.t, dims, false, x.t.dtype()), word};
}
/// Removes letters in `among` with size 1 here and another size in `size`; they broadcast.
Lettered without_ones(Lettered x, const std::array<int64_t, most_letters>& size) {
  Word word;
  for (size_t d = x.word.size(); d-- > 0;) {
    if (x.t.size(static_cast<int>(d)) == 1 && size[static_cast<size_t>(x.word[d])] != 1) {
      x.t = x.t.squeeze(static_cast<int>(d));
    } else {
      word.insert(word.begin(), x.word[d]);
    }
  }
  return {x.t, word};
}

int64_t product_of(const std::array<int64_t, most_letters>& size, const Word& word) {
  int64_t n = 1;
  for (const int letter : word) n *= size[static_cast<size_t>(letter)];
  return n;
}
Dims sizes_of(const std::array<int64_t, most_letters>& size, const Word& word) {
  Dims dims;
  for (const int letter : word) dims.push_back(size[static_cast<size_t>(letter)]);
  return dims;
}
Word joined(std::initializer_list<const Word*> parts) {
  Word all;
  for (const Word* part : parts) all.insert(all.end(), part->begin(), part->end());
  return all;
}

/// Some letters as one dimension, where strides allow it without a copy; matmul takes care of the rest.
Tensor grouped(const Lettered& x, const Word& batch, const Word& first, const Word& second,
               const std::array<int64_t, most_letters>& size) {
  const Tensor ordered = x.arranged(joined({&batch, &first, &second}));
  return ordered.reshape({product_of(size, batch), product_of(size, first), product_of(size, second)});
}

/// The product of two, with the letters of `wanted`.
Lettered product(const Lettered& left, const Lettered& right, uint64_t wanted, const Word& result,
                 const std::array<int64_t, most_letters>& size) {
  const Lettered a = summed(left, wanted | right.bits()), b = summed(right, wanted | left.bits());
  const uint64_t in_a = a.bits(), in_b = b.bits();
  Word batch, rows, columns, inner;
  // Batch letters are in the result's order, the others in their operand's.
  for (const int letter : result) {
    if (((in_a & in_b & wanted) >> letter & 1) != 0) batch.push_back(letter);
  }
  for (const int letter : a.word) {
    const uint64_t bit = uint64_t{1} << letter;
    if ((in_b & bit) == 0) rows.push_back(letter);
    else if ((wanted & bit) == 0) inner.push_back(letter);
    else if (std::ranges::find(batch, letter) == batch.end()) batch.push_back(letter);
  }
  for (const int letter : b.word) {
    if ((in_a >> letter & 1) == 0) columns.push_back(letter);
  }
  if (inner.empty() || !is_inexact(a.t.dtype())) {  // no sum: every product is an element
    const Word all = joined({&batch, &rows, &columns, &inner});
    const Tensor whole = a.arranged(all) * b.arranged(all);
    return summed({whole, all}, wanted);
  }
  Tensor out;
  if (batch.empty()) {
    const Tensor x = a.arranged(joined({&rows, &inner})).reshape({product_of(size, rows), product_of(size, inner)});
    const Tensor y =
        b.arranged(joined({&inner, &columns})).reshape({product_of(size, inner), product_of(size, columns)});
    out = mm(x, y);
  } else {
    out = bmm(grouped(a, batch, rows, inner, size), grouped(b, batch, inner, columns, size));
  }
  const Word word = joined({&batch, &rows, &columns});
  return {out.reshape(sizes_of(size, word)), word};
}

Tensor einsum_of(std::string_view equation, std::span<const Tensor> operands) {
  if (operands.empty()) raise<ValueError>({.problem = "needs an operand"});
  for (const Tensor& t : operands) {
    check_same_device({&checked(operands[0]), &checked(t)});
    expect_one_dtype("operands", operands[0], t, "convert one with to(dtype)");
  }
  const Notation n = parse(equation, operands);
  std::array<int64_t, most_letters> size;
  size.fill(1);
  std::vector<Lettered> list;
  for (size_t i = 0; i < operands.size(); ++i) {
    list.push_back(with_diagonals(operands[i], n.words[i], equation));
    for (size_t d = 0; d < list[i].word.size(); ++d) {
      int64_t& known = size[static_cast<size_t>(list[i].word[d])];
      const int64_t own = list[i].t.size(static_cast<int>(d));
      if (known != 1 && own != 1 && known != own) {
        raise<ShapeError>({.problem = fmt::format("'{}': '{}' has the sizes {} and {}", equation,
                                                  text_of(list[i].word[d]), known, own)});
      }
      if (own != 1) known = own;
    }
  }
  linalg::Contraction plan;
  uint64_t result = 0;
  for (const int letter : n.result) result |= uint64_t{1} << letter;
  for (Lettered& x : list) {
    x = without_ones(x, size);
    plan.words.push_back(x.bits());
  }
  plan.result = result;
  for (const int64_t s : size) plan.sizes.push_back(static_cast<double>(s));
  for (const auto& [first, second] : linalg::contraction_order(plan)) {
    const auto i = static_cast<size_t>(first), j = static_cast<size_t>(second);
    uint64_t wanted = result;
    for (size_t k = 0; k < list.size(); ++k) {
      if (k != i && k != j) wanted |= list[k].bits();
    }
    Lettered both = product(list[i], list[j], wanted, n.result, size);
    list.erase(list.begin() + second);
    list.erase(list.begin() + first);
    list.push_back(std::move(both));
  }
  const Tensor out = summed(list[0], result).arranged(n.result);
  // A view of an operand stays one, as a transpose or a diagonal is.
  return out.expand(sizes_of(size, n.result));
}

}  // namespace

Tensor einsum(std::string_view equation, std::span<const Tensor> operands, Location where) {
  const CallScope call("einsum", where);
  return linalg::in_lower(operands, [&](std::span<const Tensor> list) { return einsum_of(equation, list); });
}
Tensor einsum(std::string_view equation, std::initializer_list<Tensor> operands, Location where) {
  return einsum(equation, std::span<const Tensor>(operands.begin(), operands.size()), where);
}

namespace {

Tensor call_einsum(const std::string& equation, std::span<const Tensor> operands) { return einsum(equation, operands); }

/// Its own letters, if each occurs once in a word.
Partition by_letters(const WholeCall& call) {
  const auto& operands = call.inputs();
  const Notation n = parse(std::get<std::string>(call["equation"]), operands);
  std::array<int64_t, most_letters> size;
  size.fill(1);
  for (size_t i = 0; i < operands.size(); ++i) {
    for (size_t d = 0; d < n.words[i].size(); ++d) {
      int64_t& known = size[static_cast<size_t>(n.words[i][d])];
      known = std::max(known, operands[i].size(static_cast<int>(d)));
    }
  }
  std::vector<std::string> words;
  for (size_t i = 0; i < operands.size(); ++i) {
    std::string word;
    for (size_t d = 0; d < n.words[i].size(); ++d) {
      const int letter = n.words[i][d];
      if (letter >= letters || std::ranges::count(n.words[i], letter) > 1) return parts::whole(call);
      const bool repeats = operands[i].size(static_cast<int>(d)) != size[static_cast<size_t>(letter)];
      word += repeats ? '1' : text_of(letter);
    }
    words.push_back(word);
  }
  std::string result;
  for (const int letter : n.result) result += text_of(letter);
  return {.letters = parts::notation(words, std::vector<std::string>{result}), .linearity = Linearity::each};
}

std::vector<Values> einsum_samples(SampleMaker& make) {
  using List = std::vector<Tensor>;
  const auto t = [&](const Dims& shape) { return make.tensor(shape); };
  return {{"ij,jk->ik", List{t({2, 3}), t({3, 4})}},
          {"bij,bjk", List{t({2, 3, 2}), t({2, 2, 3})}},
          {"...ij,...kj->...ik", List{t({2, 1, 3, 2}), t({4, 5, 2})}},
          {"ii->i", List{t({3, 3})}},
          {"ii", List{t({3, 3})}},
          {"ij->", List{t({2, 3})}},
          {"i,j->ji", List{t({2}), t({3})}},
          {"ij,jk,kl,lm->im", List{t({2, 3}), t({3, 2}), t({2, 4}), t({4, 2})}},
          {"ijk,jil->kl", List{t({2, 3, 2}), t({3, 2, 4})}},
          {"bi,bj,b->ij", List{t({2, 3}), t({2, 2}), t({2})}},
          {"ij,j->i", List{t({2, 0}), t({0})}}};
}

constexpr OpRecord records[] = {
    {"einsum", "einsum(equation, *operands)",
     "Products summed over letters: 'ij,jk->ik' multiplies matrices. Operands are contracted two at a time, in an "
     "order "
     "that is never dearer than opt_einsum's greedy one.",
     OpFacts(true, Autocast::lower), OpRecord::Domain::numeric, einsum_samples, by_letters, detail::boxed<call_einsum>},
};

}  // namespace

std::span<const OpRecord> einsum_records() { return records; }

}  // namespace weft
