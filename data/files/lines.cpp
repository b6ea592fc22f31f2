#include "../lines.hpp"

#include "text_lines-inl.hpp"
#include "../../io/file.hpp"

namespace weft::data {

std::vector<std::string> read_lines(const io::Path& path, Location where) {
  const io::ReadScope reading;
  const io::MappedFile file = io::MappedFile::open(path, "read_lines", where);
  std::string_view rest = without_mark({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  std::vector<std::string> lines;
  while (!rest.empty()) lines.emplace_back(take_line(rest));
  reading.check("read_lines", where);
  return lines;
}

}  // namespace weft::data
