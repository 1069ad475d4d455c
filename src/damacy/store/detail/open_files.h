// Open files: opens and fully reads regular files, limits the number of open descriptors, and reuses open objects.
// Knows paths and errno; not the meaning of keys.
#pragma once

#include <atomic>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/file_calls.h"
#include "damacy/core/mutex.h"
#include "damacy/store/store.h"

namespace damacy::detail {

// Where a file is, and what errors call it.
struct FileName {
  std::string path;
  std::string store;
  std::string key;
};

[[nodiscard]] Error io_error(const FileName& name, std::string_view verb, int number, int retries);
[[nodiscard]] Error not_regular(const FileName& name, mode_t mode);
[[nodiscard]] Error changed_error(const FileName& name, std::string_view how);
[[nodiscard]] Stamp stamp_of(const struct ::stat& found) noexcept;

constexpr int kRetries = 2;
bool is_absent(int number) noexcept;
bool is_transient(int number) noexcept;
int pause_ms(int attempt) noexcept;  // attempt from 1

class Descriptor {  // owns an open file; closes it
 public:
  Descriptor(std::shared_ptr<FileCalls> calls, int fd) noexcept : calls_(std::move(calls)), fd_(fd) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() { calls_->close(fd_); }
  int get() const noexcept { return fd_; }

 private:
  std::shared_ptr<FileCalls> calls_;
  int fd_;
};

class FileObject;

struct OpenedFile {
  std::shared_ptr<Descriptor> descriptor;
  Stamp stamp;
};

// Counts open objects and closes idle ones, least recently used first. Owns no object: an object removes itself.
class Descriptors {
 public:
  Descriptors(std::size_t max_open, std::shared_ptr<FileCalls> calls);

  // Empty if absent. Throws Error(io) if it is not a regular file and for all other failures.
  std::optional<OpenedFile> open(const FileName& name);
  void add(FileObject& object, std::shared_ptr<Descriptor> descriptor);
  void remove(FileObject& object) noexcept;  // and closes its descriptor after its last read
  void close_idle();
  FileCalls& calls() const noexcept { return *calls_; }

 private:
  int try_open(const char* path, OpenedFile& opened, mode_t& mode);
  void make_room();
  bool close_one_idle() DAMACY_REQUIRES(mutex_);

  std::size_t max_open_;
  std::shared_ptr<FileCalls> calls_;
  Mutex mutex_;
  std::list<FileObject*> open_ DAMACY_GUARDED_BY(mutex_);  // the next to go first
};

class FileObject final : public Object {
 public:
  FileObject(FileName name, const Stamp& stamp, std::shared_ptr<Descriptors> descriptors);
  ~FileObject() override;
  const Stamp& stamp() const noexcept override { return stamp_; }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override;
  const FileName& name() const noexcept { return name_; }

 private:
  friend class Descriptors;
  std::shared_ptr<Descriptor> descriptor();
  std::shared_ptr<Descriptor> reopen();
  // Reads on from `got`; returns 0 or errno. End of file is 0 with got < dst.size().
  int read_on(int fd, std::uint64_t offset, std::span<std::byte> dst, std::size_t& got);

  const FileName name_;
  const Stamp stamp_;
  const std::shared_ptr<Descriptors> descriptors_;
  Mutex mutex_;  // taken after Descriptors::mutex_
  std::shared_ptr<Descriptor> descriptor_
      DAMACY_GUARDED_BY(mutex_);            // set exactly while the object is on the list of Descriptors
  std::list<FileObject*>::iterator place_;  // there
  std::atomic<bool> used_{false};
};

}  // namespace damacy::detail

namespace damacy {

// The objects that were opened last, each once a path.
class OpenFiles {
 public:
  OpenFiles(std::size_t max_open, std::shared_ptr<detail::FileCalls> calls);

  // Empty if absent. An open object is reused if its stamp is still the file's.
  std::shared_ptr<Object> open(detail::FileName name);
  std::optional<Stamp> stamp(const detail::FileName& name);
  void close_idle() { descriptors_->close_idle(); }
  void forget() noexcept;  // every object; those that others hold stay open

 private:
  using Kept = std::list<std::shared_ptr<detail::FileObject>>;  // last used first
  std::shared_ptr<detail::FileObject> find(const std::string& path);
  void keep(std::shared_ptr<detail::FileObject> object);
  void drop(const std::string& path);

  std::size_t max_open_;
  std::shared_ptr<detail::Descriptors> descriptors_;
  Mutex mutex_;
  Kept kept_ DAMACY_GUARDED_BY(mutex_);
  std::unordered_map<std::string_view, Kept::iterator> by_path_
      DAMACY_GUARDED_BY(mutex_);  // views into the objects' names
};

namespace detail {

std::shared_ptr<OpenFiles> make_open_files(std::size_t max_open, std::shared_ptr<FileCalls> calls);

}  // namespace detail

}  // namespace damacy
