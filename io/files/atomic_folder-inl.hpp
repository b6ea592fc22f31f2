// A folder that appears whole or not at all. Internal to io/.
#pragma once

#include "../path.hpp"
#include "../../tensor/error.hpp"

namespace weft::io {

/// A temporary folder beside `path`, which takes its name with all it holds at `commit`; what stood there before is
/// removed afterwards. Without a commit it is removed. A killed process leaves its temporary folder; the next one for
/// the same name removes it, told by a lock from what another process still writes.
class AtomicFolder {
 public:
  AtomicFolder(const Path& path, const char* op, Location where);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;

  const Path& temporary() const { return temporary_; }
  /// The caller has flushed the files.
  void commit();

 private:
  [[noreturn]] void fail(const char* action, int code);
  bool take_name();

  Path path_, temporary_;
  const char* op_;
  Location where_;
  int lock_ = -1;
};

/// Removes a folder of files at once for whoever looks: it loses its name before it loses its files.
void remove_folder(const Path& path);

}  // namespace weft::io
