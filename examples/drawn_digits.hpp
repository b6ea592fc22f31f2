// Images of random digits, for examples that would otherwise need data files.
#pragma once

#include <sstream>

#include <weft/weft.hpp>

namespace drawn {

using namespace weft;

struct Images {
  Tensor pixels, labels;  ///< f32 [count, 1, 28, 28] in [0, 1], and i64 [count]
};

inline constexpr int64_t size = 28, classes = 10, most_strokes = 14;

// The pen path of each digit: points "xy" on a grid of 5 by 9; a bar lifts the pen.
inline const char* const paths[classes] = {
    "10 30 42 46 38 18 06 02 10",          "12 20 28 | 18 38", "02 10 30 42 43 08 48",
    "01 10 30 42 33 24 34 45 46 38 18 07", "30 05 45 | 30 38", "40 00 03 33 45 46 38 18 07",
    "40 20 03 06 18 38 46 45 34 04",       "00 40 18",         "10 30 42 33 14 05 06 18 38 46 45 34 13 02 10",
    "43 14 03 01 10 30 41 43 46 28"};

// End points of each digit's strokes, [classes, most_strokes, 2, 2], in [-0.5, 0.5]; the last stroke is repeated.
inline Tensor stroke_table() {
  const Tensor table = zeros({classes, most_strokes, 2, 2});
  for (int64_t digit = 0; digit < classes; ++digit) {
    std::istringstream points(paths[digit]);
    std::string before, at;
    int64_t stroke = 0;
    for (points >> before; points >> at; before = at) {
      if (before == "|" || at == "|") continue;
      const Tensor ends = tensor<int>({{before[0] - '0', before[1] - '0'}, {at[0] - '0', at[1] - '0'}});
      table[{digit, Slice(stroke++, {})}] = ends / tensor<int>({4, 8}) - 0.5;
    }
  }
  return table;
}

// Draws digits with random rotation, shear, scale, position, pen width and noise. Brightness decreases with the
// distance of a pixel from the nearest stroke.
inline Images draw_digits(int64_t count) {
  const Tensor table = stroke_table(), labels = randint(0, classes, count);
  Images all{empty({count, 1, size, size}), labels};
  const Tensor line = linspace(-0.5, 0.5, size);
  const Tensor pixels = stack({line.expand({size, size}), line.unsqueeze(1).expand({size, size})}, -1).view({-1, 1, 2});
  constexpr int64_t at_once = 256;
  for (int64_t first = 0; first < count; first += at_once) {
    const int64_t n = std::min(at_once, count - first);
    const Tensor turn = randn(n) * 0.15, shear = randn(n) * 0.15;
    const Tensor wide = 0.45 + 0.15 * rand(n), high = 0.6 + 0.15 * rand(n);
    const Tensor map = stack({wide * cos(turn), high * (shear - sin(turn)), wide * sin(turn), high * cos(turn)}, -1);
    const Tensor strokes = table.index_select(0, labels.narrow(0, first, n)).view({n, -1, 2});
    const Tensor moved = matmul(strokes, map.view({n, 2, 2}).transpose(1, 2)) + (rand({n, 1, 2}) - 0.5) * 0.15;
    const Tensor ends = moved.view({n, 1, most_strokes, 2, 2}), a = ends.select(3, 0);
    const Tensor along = ends.select(3, 1) - a, from = pixels - a;
    const Tensor share = clamp((from * along).sum(-1, true) / (along.square().sum(-1, true) + 1e-6), 0, 1);
    const Tensor distance = amin((from - share * along).square().sum(-1), -1).sqrt();
    const Tensor pen = 0.025 + 0.03 * rand({n, 1});
    const Tensor ink = sigmoid((pen - distance) * 80) + 0.05 * randn({n, size * size});
    all.pixels.narrow(0, first, n).copy_(clamp(ink, 0, 1).view({n, 1, size, size}));
  }
  return all;
}

}  // namespace drawn
