// Text files line by line.
#pragma once

#include <string>
#include <vector>

#include "../io/path.hpp"
#include "../tensor/location.hpp"

namespace weft::data {

/// The lines of a file without their ends, "\n" or "\r\n"; the last one need not have an end. A byte-order mark at the
/// start is left out. IoError where the file cannot be read.
WEFT_API std::vector<std::string> read_lines(const io::Path& path, Location where = {});

}  // namespace weft::data
