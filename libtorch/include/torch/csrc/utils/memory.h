// torch::make_unique, of libtorch's time before C++14.
#pragma once

#include <memory>

namespace torch {
using std::make_unique;
}
