#include "damacy/cache/disk/disk_directory.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/store/store.h"

namespace damacy {
namespace {

constexpr const char* kReason = "disk-cache";

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  const int error = errno;
  throw Error(Status::io, formatted("disk_cache: cannot {} {}: {}", what, path, std::string_view(std::strerror(error))),
              kReason)
      .with_errno(error);
}

[[noreturn]] void refuse(std::string why) {
  throw Error(Status::inval, std::move(why), kReason);
}

bool is_own_group(gid_t group) {
  if (group == ::getegid()) return true;
  std::vector<gid_t> groups(static_cast<std::size_t>(std::max(::getgroups(0, nullptr), 0)));
  const int count = ::getgroups(static_cast<int>(groups.size()), groups.data());
  groups.resize(static_cast<std::size_t>(std::max(count, 0)));
  return std::ranges::find(groups, group) != groups.end();
}

std::string octal(mode_t mode) {
  std::string text = "0";
  for (int shift = 6; shift >= 0; shift -= 3) text += static_cast<char>('0' + ((mode >> shift) & 7));
  return text;
}

void check(const std::string& path, const struct ::stat& found, bool shared) {
  if (shared) {
    if (found.st_uid != ::geteuid() && !is_own_group(found.st_gid))
      refuse(formatted("disk_cache: {} belongs to user {} and group {}, this process is user {} and not in that group",
                       path, found.st_uid, found.st_gid, ::geteuid()));
  } else if (found.st_uid != ::geteuid()) {
    refuse(
        formatted("disk_cache: {} belongs to user {}, this process is user {}: use another directory, or "
                  "disk_cache_shared=True to trust its group",
                  path, found.st_uid, ::geteuid()));
  }
  const mode_t writable = shared ? S_IWOTH : S_IWOTH | S_IWGRP;
  if ((found.st_mode & writable) != 0)
    refuse(formatted("disk_cache: {} has mode {}, so other users can write to it: chmod {} it", path,
                     octal(found.st_mode), shared ? "0770" : "0700"));
}

}  // namespace

DiskDirectory::DiskDirectory(const std::string& directory, bool shared)
    : path_(absolute_path(directory) + "/" + kName), shared_(shared) {
  const std::string parent = absolute_path(directory);
  const mode_t mode = shared ? 0770 : 0700;
  if (::mkdir(parent.c_str(), mode) != 0 && errno != EEXIST) fail(parent, "make");
  const DiskFile outer(::open(parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!outer) fail(parent, "open");
  const bool is_new = ::mkdirat(outer.get(), kName, mode) == 0;
  if (!is_new && errno != EEXIST) fail(path_, "make");
  directory_ = DiskFile(::openat(outer.get(), kName, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!directory_ && (errno == ELOOP || errno == ENOTDIR))
    refuse(formatted("disk_cache: {} is a symbolic link or no directory: remove it, or use another directory", path_));
  if (!directory_) fail(path_, "open");
  if (is_new) ::fchmod(directory_.get(), mode);  // whatever the umask is
  struct ::stat found{};
  if (::fstat(directory_.get(), &found) != 0) fail(path_, "look at");
  check(path_, found, shared);
}

DiskFile DiskDirectory::open(DiskCalls& calls, const std::string& name, bool make) const {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK;
  DiskFile file(calls.openat(directory_.get(), name.c_str(), kFlags | (make ? O_CREAT : 0), shared_ ? 0660 : 0600));
  if (!file) return file;
  struct ::stat found{};
  if (calls.fstat(file.get(), &found) != 0) return {};
  if (!S_ISREG(found.st_mode)) {
    errno = EINVAL;
    return {};
  }
  if (shared_ && make && found.st_size == 0) ::fchmod(file.get(), 0660);
  return file;
}

void DiskDirectory::remove(const std::string& name) const noexcept {
  ::unlinkat(directory_.get(), name.c_str(), 0);
}

// By a descriptor of its own, because the position in the directory belongs to it.
std::vector<std::string> DiskDirectory::names() const {
  const int fd = ::openat(directory_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const auto close = [](DIR* listing) { ::closedir(listing); };
  const std::unique_ptr<DIR, decltype(close)> listing(fd >= 0 ? ::fdopendir(fd) : nullptr, close);
  if (!listing) {
    const DiskFile unused(fd);
    fail(path_, "list");
  }
  std::vector<std::string> names;
  for (;;) {
    errno = 0;
    const ::dirent* const entry = ::readdir(listing.get());
    if (entry == nullptr) break;
    names.emplace_back(entry->d_name);
  }
  if (errno != 0) fail(path_, "list");
  return names;
}

std::string DiskDirectory::network_file_system() const {
  struct Kind {
    std::uint32_t magic;
    const char* name;
  };
  constexpr Kind kKinds[] = {{0x6969, "NFS"},        {0x517b, "SMB"},        {0xff534d42, "CIFS"}, {0xfe534d42, "SMB"},
                             {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"},   {0x00c36400, "Ceph"}, {0x5346414f, "AFS"},
                             {0x65735546, "FUSE"},   {0x19830326, "BeeGFS"}, {0x013661, "Panasas"}};
  struct ::statfs found{};
  if (::fstatfs(directory_.get(), &found) != 0) return {};
  for (const Kind& kind : kKinds)
    if (static_cast<std::uint32_t>(found.f_type) == kind.magic) return kind.name;
  return {};
}

}  // namespace damacy
