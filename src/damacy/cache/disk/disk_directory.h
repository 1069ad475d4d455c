// The directory of a disk tier: DIR/damacy-1/, which only its owner may write to, and the opening of files in it. Knows
// owners and modes; not what the files hold.
#pragma once

#include <string>
#include <vector>

#include "damacy/cache/disk/disk_calls.h"

namespace damacy {

class DiskDirectory {
 public:
  static constexpr const char* kName = "damacy-1";  // in the directory that users name; of this layout

  // Makes `directory` and damacy-1 in it if they do not exist. Throws Error(inval, "disk-cache") if damacy-1 is no
  // directory, is a link, belongs to another user or may be written to by others; Error(io, "disk-cache") if it cannot
  // be made. `shared`: its group may write, and it may belong to another user of a group of this process.
  DiskDirectory(const std::string& directory, bool shared);

  // A regular file of this directory, never through a link. Empty with errno. Made where `make` says so.
  DiskFile open(DiskCalls& calls, const std::string& name, bool make) const;
  void remove(const std::string& name) const noexcept;
  // Of all that is in it, in any order. Throws Error(io, "disk-cache").
  std::vector<std::string> names() const;

  const std::string& path() const noexcept { return path_; }
  // Empty for disks of this machine.
  std::string network_file_system() const;

 private:
  std::string path_;
  bool shared_;
  DiskFile directory_;
};

}  // namespace damacy
