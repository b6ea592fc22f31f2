// Text files line by line.
#pragma once

#include <string>
#include <vector>

#include "../io/path.hpp"
#include "../tensor/location.hpp"

namespace weft::data {

/// Returns the lines of a file without their "\n" or "\r\n". The last line may lack its line ending. A byte-order mark
/// at the start is skipped. Raises IoError if the file cannot be read.
WEFT_API std::vector<std::string> read_lines(const io::Path& path, Location where = {});

}  // namespace weft::data
