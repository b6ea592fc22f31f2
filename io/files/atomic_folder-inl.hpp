// Atomic creation of a folder. Internal to io/.
#pragma once

#include "../path.hpp"
#include "../../tensor/error.hpp"

namespace weft::io {

/// A temporary folder next to `path`. `commit` renames it to `path` and then removes the previous contents. Without a
/// commit it is removed. A killed process leaves its temporary folder; the next AtomicFolder for the same path removes
/// it. A lock marks folders that another process still writes.
class AtomicFolder {
 public:
  AtomicFolder(const Path& path, const char* op, Location where);
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;

  const Path& temporary() const { return temporary_; }
  /// The files must be flushed before.
  void commit();

 private:
  [[noreturn]] void fail(const char* action, int code);
  bool take_name();

  Path path_, temporary_;
  const char* op_;
  Location where_;
  int lock_ = -1;
};

/// Removes a folder of files atomically for readers: it is renamed before its files are removed.
void remove_folder(const Path& path);

}  // namespace weft::io
