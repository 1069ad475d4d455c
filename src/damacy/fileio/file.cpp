// Opens files safely, and closes them after their last operation.
#include "damacy/fileio/file.h"

#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "damacy/core/file_calls.h"
#include "damacy/core/fork.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"

namespace damacy {
namespace {

std::shared_ptr<detail::FileCalls> real_calls() {
  static const auto* one = new std::shared_ptr<detail::FileCalls>(std::make_shared<detail::FileCalls>());
  return *one;
}

std::string proc_path(int fd) {
  return formatted("/proc/self/fd/{}", fd);
}

std::string name_of_descriptor(int fd) {
  char name[4096];
  const ssize_t n = ::readlink(proc_path(fd).c_str(), name, sizeof name);
  return n > 0 ? std::string(name, static_cast<std::size_t>(n)) : formatted("descriptor {}", fd);
}

[[noreturn]] void bad_flags(std::string_view flags) {
  throw Error(Status::inval, formatted("Unknown file open flag: \"{}\"", flags), "flags");
}

struct KnownFileSystem {
  std::int64_t magic;
  const char* name;
};
constexpr KnownFileSystem kFileSystems[] = {
    {EXT4_SUPER_MAGIC, "ext4"},   {XFS_SUPER_MAGIC, "xfs"},   {BTRFS_SUPER_MAGIC, "btrfs"},
    {TMPFS_MAGIC, "tmpfs"},       {NFS_SUPER_MAGIC, "nfs"},   {OVERLAYFS_SUPER_MAGIC, "overlayfs"},
    {F2FS_SUPER_MAGIC, "f2fs"},   {0x0BD00BD0, "lustre"},     {0x47504653, "gpfs"},
    {0x2fc12fc1, "zfs"},          {FUSE_SUPER_MAGIC, "fuse"}, {0x01021997, "9p"},
    {SQUASHFS_MAGIC, "squashfs"}, {CEPH_SUPER_MAGIC, "ceph"}, {0x19830326, "beegfs"},
};

}  // namespace

OpenFlags OpenFlags::parse(std::string_view text) {
  char access = 0;
  bool binary = false;
  bool plus = false;
  for (const char c : text) {
    bool* const flag = c == 'b' ? &binary : c == '+' ? &plus : nullptr;
    const bool is_access = c == 'r' || c == 'w' || c == 'a' || c == 'x';
    if ((flag == nullptr && !is_access) || (flag != nullptr && *flag) || (is_access && access != 0)) bad_flags(text);
    if (flag != nullptr) *flag = true;
    if (is_access) access = c;
  }
  if (access == 0) bad_flags(text);
  OpenFlags out;
  out.readable = access == 'r' || plus;
  out.writable = access != 'r' || plus;
  out.append = access == 'a';
  out.exclusive = access == 'x';
  out.truncates = access == 'w';
  out.flags = O_CLOEXEC | (plus ? O_RDWR : access == 'r' ? O_RDONLY : O_WRONLY);
  if (access != 'r') out.flags |= O_CREAT;
  if (out.truncates) out.flags |= O_TRUNC;
  if (out.exclusive) out.flags |= O_EXCL;
  return out;
}

struct File::Attached {
  Mutex mutex;
  std::shared_ptr<Attachment> attachment DAMACY_GUARDED_BY(mutex);
};

File::File(std::string path, const OpenFlags& flags, const FileOptions& options,
           std::shared_ptr<detail::FileCalls> calls)
    : path_(std::move(path)),
      flags_(flags),
      has_real_calls_(calls == nullptr),
      calls_(calls ? std::move(calls) : real_calls()),
      epoch_(fork_epoch()),
      attached_(std::make_unique<Attached>()) {
  const IoSettings& now = io_settings();
  compat_mode_ = options.compat_mode.value_or(now.compat_mode);
  engine_ = options.engine.value_or(now.engine);
  direct_read_ = options.direct_io.value_or(now.auto_direct_io_read);
  direct_write_ = options.direct_io.value_or(now.auto_direct_io_write);
}

std::shared_ptr<File> File::open(const Place& place, const OpenFlags& flags, const FileOptions& options,
                                 std::shared_ptr<detail::FileCalls> calls) {
  std::shared_ptr<File> file(new File(place.path, flags, options, std::move(calls)));
  // O_NONBLOCK: opening a FIFO or device must not block the thread. fstat then shows the file type.
  const int how = flags.flags | O_NONBLOCK | O_NOCTTY;
  int fd = -1;
  do fd = file->calls_->openat(place.dir_fd, place.path.c_str(), how, place.mode);
  while (fd < 0 && errno == EINTR);
  if (fd < 0) throw FileError::open_failed(errno == ENXIO ? ESPIPE : errno, place.path);
  file->take(fd);
  return file;
}

std::shared_ptr<File> File::adopt(int fd, const OpenFlags& flags, const FileOptions& options,
                                  std::shared_ptr<detail::FileCalls> calls) {
  const int has = ::fcntl(fd, F_GETFL);
  if (has < 0) throw FileError::open_failed(errno, formatted("descriptor {}", fd));
  const int access = has & O_ACCMODE;
  const bool is_fit = (has & O_PATH) == 0 && (!flags.readable || access != O_WRONLY) &&
                      (!flags.writable || access != O_RDONLY) && !flags.exclusive;
  if (!is_fit)
    throw Error(Status::inval,
                flags.exclusive ? formatted("descriptor {}: mode x needs a new file, and this one is open", fd)
                                : formatted("descriptor {}: its access mode does not fit the flags", fd),
                "flags");
  std::shared_ptr<File> file(new File(name_of_descriptor(fd), flags, options, std::move(calls)));
  // The caller's O_APPEND and O_DIRECT would change what positional calls do; a description of our own has neither.
  int own = -1;
  if ((has & (O_APPEND | O_DIRECT)) != 0) own = ::open(proc_path(fd).c_str(), access | O_CLOEXEC | O_NONBLOCK);
  if (own < 0) own = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (own < 0) throw FileError::open_failed(errno, file->path_);
  file->take(own);
  return file;
}

void File::take(int fd) {
  fd_ = fd;
  struct ::stat found{};
  int number = calls_->fstat(fd, &found) == 0 ? 0 : errno;
  if (number == 0 && S_ISDIR(found.st_mode)) number = EISDIR;
  if (number == 0 && !S_ISREG(found.st_mode) && !S_ISBLK(found.st_mode)) number = ESPIPE;
  if (number != 0) throw FileError::open_failed(number, path_);
  if (const int status = ::fcntl(fd, F_GETFL); (status & O_NONBLOCK) != 0) ::fcntl(fd, F_SETFL, status & ~O_NONBLOCK);
  device_ = S_ISBLK(found.st_mode) ? found.st_rdev : found.st_dev;
  inode_ = found.st_ino;
  if (flags_.append) append_base_ = static_cast<std::uint64_t>(found.st_size);
  ask_alignment(fd);
}

void File::ask_alignment(int fd) {
  const auto page = static_cast<std::uint32_t>(::sysconf(_SC_PAGESIZE));
  memory_alignment_ = offset_alignment_ = page;
#ifdef STATX_DIOALIGN
  struct statx found{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &found) != 0 || (found.stx_mask & STATX_DIOALIGN) == 0) return;
  if (found.stx_dio_mem_align != 0) memory_alignment_ = found.stx_dio_mem_align;
  if (found.stx_dio_offset_align != 0) offset_alignment_ = found.stx_dio_offset_align;
#else
  static_cast<void>(fd);
#endif
}

File::~File() {
  close_descriptors();
  delete why_not_direct_.load();
}

void File::begin() {
  forget_parent();
  if ((state_.fetch_add(kOne, std::memory_order_acq_rel) & kClosed) == 0) return;
  end();
  throw FileError::closed(path_);
}

void File::end() noexcept {
  if (state_.fetch_sub(kOne, std::memory_order_acq_rel) != (kOne | kClosed)) return;
  close_descriptors();
}

bool File::end_without_closing() noexcept {
  if (state_.fetch_sub(kOne, std::memory_order_acq_rel) != (kOne | kClosed)) return false;
  int open = kOpen;
  if (released_.compare_exchange_strong(open, kEnded, std::memory_order_acq_rel)) released_.notify_all();
  return true;
}

void File::close(bool wait) noexcept {
  forget_parent();
  if (state_.fetch_or(kClosed, std::memory_order_acq_rel) == 0) close_descriptors();
  if (!wait) return;
  released_.wait(kOpen, std::memory_order_acquire);
  if (released_.load(std::memory_order_acquire) == kReleased) return;
  close_descriptors();
  released_.wait(kEnded, std::memory_order_acquire);
}

void File::forget_parent() noexcept {
  const std::uint64_t now = fork_epoch();
  std::uint64_t was = epoch_.load(std::memory_order_relaxed);
  if (was == now) return;
  if (!epoch_.compare_exchange_strong(was, now)) return;
  releasing_ = false;  // a thread of the parent's that was closing them does not go on here
  if ((state_.fetch_and(kClosed) & kClosed) != 0) released_.store(kReleased, std::memory_order_release);
}

std::shared_ptr<File::Attachment> File::attachment() const {
  const Lock lock(attached_->mutex);
  return attached_->attachment;
}

void File::attach(std::shared_ptr<Attachment> attachment) {
  const Lock lock(attached_->mutex);
  if (attached_->attachment == nullptr) attached_->attachment = std::move(attachment);
}

void File::close_descriptors() noexcept {
  if (releasing_.exchange(true)) return;
  {
    std::shared_ptr<Attachment> gone;
    const Lock lock(attached_->mutex);
    gone.swap(attached_->attachment);
  }
  if (const int fd = fd_.exchange(-1); fd >= 0) calls_->close(fd);
  if (const int fd = direct_fd_.exchange(-1); fd >= 0) calls_->close(fd);
  released_.store(kReleased, std::memory_order_release);
  released_.notify_all();
}

void File::check_readable() const {
  if (!flags_.readable) throw FileError::wrong_mode(/*reading=*/true, path_);
}
void File::check_writable() const {
  if (!flags_.writable) throw FileError::wrong_mode(/*reading=*/false, path_);
}

int File::direct_descriptor() {
  if (direct_given_up_.load(std::memory_order_acquire)) return -1;
  int now = direct_fd_.load(std::memory_order_acquire);
  if (now != kUntried) return now;
  std::string why;
  const int opened = open_direct(why);
  if (opened < 0) give_up_direct(why);
  if (direct_fd_.compare_exchange_strong(now, opened)) return opened;
  if (opened >= 0) calls_->close(opened);  // another thread was quicker
  return now;
}

// The same file once more: same path in /proc, same device and inode.
int File::open_direct(std::string& why) {
  const int access = flags_.flags & O_ACCMODE;
  const int fd = calls_->openat(AT_FDCWD, proc_path(descriptor()).c_str(), access | O_DIRECT | O_CLOEXEC, 0);
  if (fd < 0) {
    why = formatted("O_DIRECT: {}", words_of_errno(errno));
    return -1;
  }
  struct ::stat found{};
  if (calls_->fstat(fd, &found) == 0 && found.st_ino == inode_ &&
      (found.st_dev == device_ || (S_ISBLK(found.st_mode) && found.st_rdev == device_)))
    return fd;
  calls_->close(fd);
  why = "O_DIRECT: the file opened again is another one";
  return -1;
}

void File::give_up_direct(std::string_view why) {
  const std::string* none = nullptr;
  auto reason = std::make_unique<const std::string>(why);
  if (why_not_direct_.compare_exchange_strong(none, reason.get())) static_cast<void>(reason.release());
  direct_given_up_.store(true, std::memory_order_release);
}

std::string File::why_not_direct() const {
  const std::string* why = why_not_direct_.load(std::memory_order_acquire);
  return why != nullptr ? *why : std::string();
}

std::string File::filesystem() const {
  struct ::statfs found{};
  if (::fstatfs(descriptor(), &found) != 0) return "unknown";
  for (const auto& [magic, name] : kFileSystems)
    if (static_cast<std::int64_t>(found.f_type) == magic) return name;
  return formatted("type {}", static_cast<std::int64_t>(found.f_type));
}

IoCounters& process_counters() noexcept {
  static IoCounters* one = new IoCounters;  // never destroyed: workers count while the process ends
  return *one;
}

}  // namespace damacy
