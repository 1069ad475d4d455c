// The memory has no name of its own (memfd): the system frees it when no process has it open. A small file in
// /dev/shm names the processes that have it, each with the number of its descriptor, by which another process of the
// same user opens it through /proc. The file is read and written under flock, which ends with its process.
#include "damacy/cache/shared/region_memory.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/on_failure.h"

namespace damacy {
namespace {

constexpr const char* kReason = "shared-cache";

[[noreturn]] void fail(const std::string& path, std::string_view what) {
  const int error = errno;
  throw Error(Status::io, formatted("host_cache: cannot {} {}: {}", what, path, std::string_view(std::strerror(error))),
              kReason)
      .with_errno(error);
}

[[noreturn]] void refuse(std::string why) {
  throw Error(Status::inval, std::move(why), kReason);
}

// Process numbers are valid within one namespace, so each has its own names.
std::string path_of(const RegionRequest& request) {
  struct ::stat numbers{};
  if (::stat("/proc/self/ns/pid", &numbers) != 0) fail("/proc/self/ns/pid", "look at");
  return formatted("{}/damacy-{}-{}-{}", request.directory, static_cast<std::uint64_t>(::geteuid()),
                   static_cast<std::uint64_t>(numbers.st_ino), request.name);
}

}  // namespace

bool is_region_name(const std::string& name) noexcept {
  const auto is_allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' ||
           c == '_';
  };
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, is_allowed) &&
         name.find_first_not_of('.') != std::string::npos;
}

// The file that names the processes, locked while this exists. Its bytes are what a process of the same user wrote,
// which may be another version.
class RegionMemory::Users {
 public:
  struct Header {
    std::uint64_t magic, layout, bytes, inode;
  };
  struct User {
    ProcessId process;
    std::int64_t descriptor;
  };
  struct Content {
    Header header{};
    std::array<User, kProcesses> users{};
  };

  Users(const std::string& path, bool make) : path_(path) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      file_ = ::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | (make ? O_CREAT : 0), 0600);
      if (file_ < 0) fail(path, "open");
      const OnFailure undo([this] { ::close(file_); });
      check();
      while (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK && errno != EINTR) fail(path, "lock");
        if (std::chrono::steady_clock::now() > deadline) {
          errno = ETIMEDOUT;
          fail(path, "lock");
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      struct ::stat opened{}, named{};
      const bool is_named = ::fstat(file_, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
                            opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
      if (is_named || !make) break;
      ::close(file_);  // its last user removed it meanwhile
    }
    const ssize_t size = ::pread(file_, &content_, sizeof content_, 0);
    const bool is_whole = size == static_cast<ssize_t>(sizeof content_) && content_.header.magic == kMagic;
    if (!is_whole) content_ = {};
    for (User& user : content_.users)
      if (user.process != 0 && !is_alive(user.process)) user = {};
  }
  ~Users() { ::close(file_); }
  Users(const Users&) = delete;
  Users& operator=(const Users&) = delete;

  const Header& header() const noexcept { return content_.header; }
  std::span<const User> users() const noexcept { return content_.users; }
  bool is_used() const noexcept {
    return std::ranges::any_of(content_.users, [](const User& user) { return user.process != 0; });
  }
  void begin(const Header& header) noexcept {
    content_ = {};
    content_.header = header;
    content_.header.magic = kMagic;
  }
  void add(const User& added) {
    for (User& user : content_.users)
      if (user.process == 0) {
        user = added;
        return write();
      }
    refuse(formatted("host_cache: {} processes use it, which is the limit", kProcesses));
  }
  void remove(const User& removed) noexcept {
    for (User& user : content_.users)
      if (user.process == removed.process && user.descriptor == removed.descriptor) user = {};
    if (is_used())
      static_cast<void>(::pwrite(file_, &content_, sizeof content_, 0) == 0);
    else
      ::unlink(path_.c_str());
  }

 private:
  static constexpr std::uint64_t kMagic = 0x316d656d79636d64;  // "dmcymem1"
  static constexpr std::chrono::seconds kPatience{10};

  void check() const {
    struct ::stat found{};
    if (::fstat(file_, &found) != 0) fail(path_, "look at");
    if (found.st_uid != ::geteuid())
      refuse(formatted("host_cache: {} belongs to user {}, this process is user {}: use another name", path_,
                       found.st_uid, ::geteuid()));
    if (!S_ISREG(found.st_mode) || (found.st_mode & 077) != 0)
      refuse(
          formatted("host_cache: {} is not a file that only its user may open: remove it, or use another name", path_));
  }
  void write() const {
    if (::pwrite(file_, &content_, sizeof content_, 0) != static_cast<ssize_t>(sizeof content_)) fail(path_, "write");
  }

  const std::string& path_;
  int file_ = -1;
  Content content_;
};

RegionMemory::RegionMemory(const RegionRequest& request, const std::function<void(std::span<std::byte>)>& prepare)
    : path_(path_of(request)) {
  const OnFailure undo([this] {
    if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
    if (memory_ >= 0) ::close(memory_);
  });
  Users users(path_, /*make=*/true);
  const OnFailure remove_file([&users] {
    if (!users.is_used()) users.remove({});
  });
  if (!users.is_used())
    make(users, request, prepare);
  else if (!join(users, request))
    fail(path_, "open the memory of a process that is named in");
}

bool RegionMemory::join(Users& users, const RegionRequest& request) {
  const Users::Header& header = users.header();
  if (header.layout != request.layout)
    refuse(formatted(
        "host_cache: '{}' has layout version {}, and this damacy has {}: use the same release of damacy in all "
        "processes, or another name",
        request.name, header.layout, request.layout));
  if (header.bytes != request.bytes)
    refuse(formatted(
        "host_cache: '{}' has {} bytes, and {} were asked for: use the same size in all processes, or another "
        "name",
        request.name, header.bytes, request.bytes));
  for (const Users::User& user : users.users()) {
    if (user.process == 0) continue;
    const std::string path = formatted("/proc/{}/fd/{}", number_of(user.process), user.descriptor);
    memory_ = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
    struct ::stat found{};
    if (memory_ >= 0 && ::fstat(memory_, &found) == 0 && found.st_ino == header.inode &&
        found.st_size == static_cast<off_t>(header.bytes)) {
      bytes_ = map(request.bytes);
      users.add({self_, memory_});
      return true;
    }
    if (memory_ >= 0) ::close(memory_);
    memory_ = -1;
  }
  return false;
}

void RegionMemory::make(Users& users, const RegionRequest& request,
                        const std::function<void(std::span<std::byte>)>& prepare) {
  if (request.free_bytes && request.bytes > *request.free_bytes)
    throw Error(Status::oom,
                formatted("host_cache is too large: {} bytes wanted, {} free", request.bytes, *request.free_bytes),
                "memory");
  memory_ = ::memfd_create("damacy", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (memory_ < 0) fail("shared memory", "make");
  struct ::stat found{};
  const bool is_sized = ::fchmod(memory_, 0600) == 0 && ::ftruncate(memory_, static_cast<off_t>(request.bytes)) == 0 &&
                        ::fcntl(memory_, F_ADD_SEALS, F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL) == 0 &&
                        ::fstat(memory_, &found) == 0;
  if (!is_sized) fail("shared memory", "size");
  bytes_ = map(request.bytes);
  is_new_ = true;
  prepare(bytes_);
  users.begin({0, request.layout, request.bytes, found.st_ino});
  users.add({self_, memory_});
}

std::span<std::byte> RegionMemory::map(std::uint64_t bytes) const {
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memory_, 0);
  if (memory == MAP_FAILED)
    throw Error(Status::oom, formatted("no addresses for {} bytes of shared memory", bytes), "memory");
  ::madvise(memory, bytes, MADV_HUGEPAGE);  // where the system has them for shared memory
  ::madvise(memory, bytes, MADV_DONTFORK);  // a child is another process, and must join by itself
  return {static_cast<std::byte*>(memory), bytes};
}

// A child that was forked must leave what its parent uses.
RegionMemory::~RegionMemory() {
  if (this_process() != self_) {
    ::close(memory_);
    return;
  }
  static_cast<void>(failure_of([this] { Users(path_, /*make=*/false).remove({self_, memory_}); }));
  ::munmap(bytes_.data(), bytes_.size());
  ::close(memory_);
}

}  // namespace damacy
