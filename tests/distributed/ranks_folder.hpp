// A folder that all ranks of a group see, threads or processes; it goes with rank 0's.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <weft/distributed.hpp>
#include <weft/io/path.hpp>

#include <temporary_folder.hpp>

namespace weft::distributed {

/// Every rank makes one; rank 0's is removed, so ranks meet before that.
class RanksFolder {
 public:
  explicit RanksFolder(const Group& group) {
    if (group.rank() == 0) own_.emplace();
    const std::string own = own_ ? own_->path().string() : "";
    std::vector<int64_t> letters(own.begin(), own.end());
    const int64_t size = broadcast(tensor({std::ssize(letters)}), 0, group).item<int64_t>();
    letters.resize(static_cast<size_t>(size));
    for (const int64_t c : broadcast(tensor(std::span<const int64_t>(letters)), 0, group).to_vector<int64_t>()) {
      path_ += static_cast<char>(c);
    }
  }
  io::Path path() const { return path_; }

 private:
  std::optional<TemporaryFolder> own_;
  std::string path_;
};

}  // namespace weft::distributed
