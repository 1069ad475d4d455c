// Opens and reads files that may change, fail or be truncated. Knows no keys and no directories.
#include "damacy/store/detail/open_files.h"

#include <algorithm>
#include <cerrno>
#include <limits>
#include <system_error>

#include "damacy/core/file_transfer.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"

namespace damacy::detail {
namespace {

std::string words(int number) {
  return std::generic_category().message(number);
}

Error located(Error error, const FileName& name) {
  return error.at_key(name.key).at_store(name.store);
}

std::string_view kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  if (S_ISCHR(mode) || S_ISBLK(mode)) return "a device";
  return "something else";
}

}  // namespace

Error io_error(const FileName& name, std::string_view verb, int number, int retries) {
  std::string message = formatted("cannot {}: {}", verb, words(number));
  if (retries > 0) message += formatted(" (tried {} times)", retries + 1);
  return located(Error(Status::io, std::move(message), "io").with_errno(number), name);
}

Error not_regular(const FileName& name, mode_t mode) {
  return located(Error(Status::io, formatted("not a regular file but {}", kind_of(mode)), "io"), name);
}

Error changed_error(const FileName& name, std::string_view how) {
  return located(Error(Status::io, formatted("the object {} since it was opened", how), "changed"), name);
}

Stamp stamp_of(const struct ::stat& found) noexcept {
  return {.device = static_cast<std::uint64_t>(found.st_dev),
          .inode = static_cast<std::uint64_t>(found.st_ino),
          .size = static_cast<std::uint64_t>(found.st_size),
          .modified_ns = std::int64_t{found.st_mtim.tv_sec} * 1'000'000'000 + found.st_mtim.tv_nsec};
}

bool is_absent(int number) noexcept {
  return number == ENOENT || number == ENOTDIR;
}
bool is_transient(int number) noexcept {
  return number == EIO || number == ESTALE || number == ETIMEDOUT || number == ENOMEM;
}
int pause_ms(int attempt) noexcept {
  return attempt == 1 ? 1 : 10;
}

Descriptors::Descriptors(std::size_t max_open, std::shared_ptr<FileCalls> calls)
    : max_open_(std::max<std::size_t>(max_open, 1)), calls_(std::move(calls)) {}

// Returns 0 or errno.
int Descriptors::try_open(const char* path, OpenedFile& opened, mode_t& mode) {
  const int fd = calls_->open(path);
  if (fd < 0) return errno;
  opened.descriptor = std::make_shared<Descriptor>(calls_, fd);
  struct ::stat found{};
  if (calls_->fstat(fd, &found) != 0) return errno;
  opened.stamp = stamp_of(found);
  mode = found.st_mode;
  return 0;
}

std::optional<OpenedFile> Descriptors::open(const FileName& name) {
  make_room();
  bool closed_idle = false;
  for (int retries = 0;;) {
    OpenedFile opened;
    mode_t mode{};
    const int number = try_open(name.path.c_str(), opened, mode);
    if (number == 0) {
      if (!S_ISREG(mode)) throw not_regular(name, mode);
      return opened;
    }
    if (number == EINTR) continue;
    if (is_absent(number)) return std::nullopt;
    if ((number == EMFILE || number == ENFILE) && !closed_idle) {
      closed_idle = true;
      close_idle();
    } else if (is_transient(number) && retries < kRetries) {
      calls_->pause(pause_ms(++retries));
    } else {
      throw io_error(name, "open", number, retries);
    }
  }
}

void Descriptors::make_room() {
  const Lock lock(mutex_);
  while (open_.size() >= max_open_ && close_one_idle()) {
  }
}

bool Descriptors::close_one_idle() {
  for (std::size_t steps = 2 * open_.size(); steps > 0; --steps) {
    FileObject& object = *open_.front();
    if (!object.used_.exchange(false, std::memory_order_relaxed)) {
      const Lock lock(object.mutex_);
      if (object.descriptor_.use_count() == 1) {
        object.descriptor_.reset();
        open_.pop_front();
        return true;
      }
    }
    open_.splice(open_.end(), open_, open_.begin());
  }
  return false;
}

void Descriptors::close_idle() {
  const Lock lock(mutex_);
  std::erase_if(open_, [](FileObject* object) {
    const Lock object_lock(object->mutex_);
    if (object->descriptor_.use_count() != 1) return false;
    object->descriptor_.reset();
    return true;
  });
}

void Descriptors::add(FileObject& object, std::shared_ptr<Descriptor> descriptor) {
  const Lock lock(mutex_);
  const Lock object_lock(object.mutex_);
  if (object.descriptor_) return;  // another thread was quicker
  object.place_ = open_.insert(open_.end(), &object);
  object.descriptor_ = std::move(descriptor);
}

void Descriptors::remove(FileObject& object) noexcept {
  std::shared_ptr<Descriptor> last;  // closed outside the locks
  const Lock lock(mutex_);
  const Lock object_lock(object.mutex_);
  if (!object.descriptor_) return;
  open_.erase(object.place_);
  last = std::move(object.descriptor_);
}

FileObject::FileObject(FileName name, const Stamp& stamp, std::shared_ptr<Descriptors> descriptors)
    : name_(std::move(name)), stamp_(stamp), descriptors_(std::move(descriptors)) {}

FileObject::~FileObject() {
  descriptors_->remove(*this);
}

std::shared_ptr<Descriptor> FileObject::descriptor() {
  if (!used_.load(std::memory_order_relaxed)) used_.store(true, std::memory_order_relaxed);
  {
    const Lock lock(mutex_);
    if (descriptor_) return descriptor_;
  }
  return reopen();
}

std::shared_ptr<Descriptor> FileObject::reopen() {
  const auto opened = descriptors_->open(name_);
  if (!opened) throw changed_error(name_, "is gone");
  if (opened->stamp != stamp_) throw changed_error(name_, "has changed");
  descriptors_->add(*this, opened->descriptor);
  return opened->descriptor;
}

int FileObject::read_on(int fd, std::uint64_t offset, std::span<std::byte> dst, std::size_t& got) {
  FileCalls& calls = descriptors_->calls();
  Moved moved{.bytes = got};
  move_on(calls, dst.size(), moved, [&](std::uint64_t done) {
    return calls.pread(fd, dst.data() + done, dst.size() - done, static_cast<off_t>(offset + done));
  });
  got = moved.bytes;
  return moved.error;
}

void FileObject::read_exact(std::uint64_t offset, std::span<std::byte> dst) {
  if (dst.empty()) return;
  std::size_t got = 0;
  constexpr auto kLast = static_cast<std::uint64_t>(std::numeric_limits<off_t>::max());
  const bool is_beyond = offset > kLast || dst.size() > kLast - offset;
  for (int retries = 0; !is_beyond;) {
    const int number = read_on(descriptor()->get(), offset, dst, got);
    if (number == 0) break;
    if (!is_transient(number) || retries == kRetries)
      throw io_error(name_, "read", number, retries).at_bytes(offset, offset + dst.size());
    descriptors_->calls().pause(pause_ms(++retries));
    descriptors_->remove(*this);
  }
  if (got != dst.size())
    throw located(Error(Status::io, formatted("short read: {} of {} bytes", got, dst.size()), "short-read")
                      .at_bytes(offset, offset + dst.size()),
                  name_);
}

}  // namespace damacy::detail

namespace damacy {

using detail::FileName;
using detail::FileObject;

OpenFiles::OpenFiles(std::size_t max_open, std::shared_ptr<detail::FileCalls> calls)
    : max_open_(std::max<std::size_t>(max_open, 1)),
      descriptors_(std::make_shared<detail::Descriptors>(max_open, std::move(calls))) {}

std::shared_ptr<Object> OpenFiles::open(FileName name) {
  if (auto kept = find(name.path)) {
    if (stamp(name) == kept->stamp()) return kept;
    drop(name.path);
  }
  auto opened = descriptors_->open(name);
  if (!opened) return nullptr;
  auto object = std::make_shared<FileObject>(std::move(name), opened->stamp, descriptors_);
  descriptors_->add(*object, std::move(opened->descriptor));
  keep(object);
  return object;
}

std::optional<Stamp> OpenFiles::stamp(const FileName& name) {
  for (int retries = 0;;) {
    struct ::stat found{};
    if (descriptors_->calls().stat(name.path.c_str(), &found) == 0) {
      if (!S_ISREG(found.st_mode)) throw not_regular(name, found.st_mode);
      return detail::stamp_of(found);
    }
    const int number = errno;
    if (number == EINTR) continue;
    if (detail::is_absent(number)) return std::nullopt;
    if (!detail::is_transient(number) || retries == detail::kRetries) throw io_error(name, "stat", number, retries);
    descriptors_->calls().pause(detail::pause_ms(++retries));
  }
}

std::shared_ptr<FileObject> OpenFiles::find(const std::string& path) {
  const Lock lock(mutex_);
  const auto at = by_path_.find(path);
  if (at == by_path_.end()) return nullptr;
  kept_.splice(kept_.begin(), kept_, at->second);
  return kept_.front();
}

void OpenFiles::keep(std::shared_ptr<FileObject> object) {
  std::shared_ptr<FileObject> evicted;  // closed outside the lock
  const Lock lock(mutex_);
  const std::string& path = object->name().path;
  if (by_path_.contains(path)) return;  // another thread was quicker
  kept_.push_front(std::move(object));
  by_path_.emplace(path, kept_.begin());
  if (kept_.size() <= max_open_) return;
  evicted = std::move(kept_.back());
  by_path_.erase(evicted->name().path);
  kept_.pop_back();
}

void OpenFiles::drop(const std::string& path) {
  const Lock lock(mutex_);
  const auto at = by_path_.find(path);
  if (at == by_path_.end()) return;
  const auto gone = at->second;
  by_path_.erase(at);
  kept_.erase(gone);
}

void OpenFiles::forget() noexcept {
  Kept gone;  // closed outside the lock
  const Lock lock(mutex_);
  by_path_.clear();
  gone.swap(kept_);
}

std::shared_ptr<OpenFiles> detail::make_open_files(std::size_t max_open, std::shared_ptr<FileCalls> calls) {
  return std::make_shared<OpenFiles>(max_open, std::move(calls));
}

void close_unused(OpenFiles& files) noexcept {
  files.forget();
}

std::shared_ptr<OpenFiles> make_open_files(std::size_t max_open) {
  return detail::make_open_files(max_open, std::make_shared<detail::FileCalls>());
}

}  // namespace damacy
