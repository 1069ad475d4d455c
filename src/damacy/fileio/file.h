// An open file for positional reads and writes: how it is opened, how long its descriptors live, what it may do, what
// was moved (IoCounters), and the error of every operation on it (FileError). Knows open(2) and close(2); moves no
// bytes.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include <sys/types.h>

#include "damacy/core/error.h"
#include "damacy/fileio/io_settings.h"

namespace damacy {

namespace detail {
class FileCalls;
}

enum class FileErrorKind { io, open, mode, short_read, closed, cufile, cuda };

// The exception of file I/O: the file, the range, the bytes done and the engine.
class FileError : public Error {
 public:
  FileErrorKind file_kind = FileErrorKind::io;
  std::string path;
  std::string backend;  // pread io_uring direct staging cufile cuda; empty: none yet
  std::optional<std::uint64_t> offset;
  std::optional<std::uint64_t> length;
  std::optional<std::uint64_t> transferred;
  std::optional<std::uint64_t> range_index;  // in a gather request
  int cufile_code = 0;
  int cuda_code = 0;

  static FileError failed(std::string_view call, int number, const std::string& path, std::uint64_t offset,
                          std::uint64_t length, std::uint64_t transferred, std::string_view backend);
  static FileError open_failed(int number, const std::string& path);
  static FileError wrong_mode(bool reading, const std::string& path);
  static FileError short_read(const std::string& path, std::uint64_t offset, std::uint64_t wanted, std::uint64_t got);
  static FileError of_library(std::string message);  // cuFile's
  static FileError closed(const std::string& path);

 private:
  FileError(Status status, FileErrorKind kind, std::string message);
};

[[nodiscard]] std::string words_of_errno(int number);

enum class IoWay : std::size_t { inline_, pread, io_uring, direct, staging, cufile };
constexpr std::size_t kIoWays = 6;
constexpr std::array<const char*, kIoWays> kIoWayNames{"inline", "pread", "io_uring", "direct", "staging", "cufile"};

// Exact counters: of one file, or of the process. Counting is lock-free. Counters that several threads add to at the
// same time are on cache lines of their own.
struct IoCounters {
  static constexpr std::size_t kCacheLine = 64;
  static constexpr std::size_t kTimes = 40;  // parts are counted by the logarithm of their time
  using Count = std::atomic<std::uint64_t>;
  struct alignas(kCacheLine) Traffic {
    Count bytes{0}, calls{0};
  };

  std::array<std::array<Traffic, 2>, kIoWays> traffic;  // [way][0: read, 1: write]
  alignas(kCacheLine) Count parts{0};
  Count short_reads{0};
  Count retries{0};
  alignas(kCacheLine) Count resident_bytes{0};  // reads tried without waiting that found their bytes in the page cache
  Count cold_bytes{0};                          // ... and did not
  alignas(kCacheLine) Count copies{0};
  Count copy_batches{0};
  Count host_waits{0};                                           // for a device
  Count pinned_bytes{0};                                         // held now
  alignas(kCacheLine) std::array<Count, kTimes> part_us_log2{};  // parts that took [2^(i-1), 2^i) microseconds

  static void add(Count& count, std::uint64_t n) noexcept { count.fetch_add(n, std::memory_order_relaxed); }
  static std::size_t place_of_time(std::uint64_t microseconds) noexcept {
    return static_cast<std::size_t>(std::bit_width(microseconds)) % kTimes;
  }

  void moved(IoWay way, bool writing, std::uint64_t bytes, std::uint64_t calls) noexcept {
    Traffic& t = traffic[static_cast<std::size_t>(way)][writing ? 1 : 0];
    add(t.bytes, bytes);
    add(t.calls, calls);
  }
  void part_took(std::uint64_t microseconds) noexcept {
    add(parts, 1);
    add(part_us_log2[place_of_time(microseconds)], 1);
  }
};

IoCounters& process_counters() noexcept;

enum class Direction { read, write };

// "r", "wb", "r+b" and so on, wholly parsed. Throws Error(inval, "flags").
struct OpenFlags {
  int flags = 0;  // of open(2), with O_CLOEXEC
  bool readable = false;
  bool writable = false;
  bool append = false;
  bool exclusive = false;
  bool truncates = false;
  static OpenFlags parse(std::string_view text);
};

// What one file settles for itself; empty: as the process at open.
struct FileOptions {
  std::optional<CompatMode> compat_mode = {};
  std::optional<EngineChoice> engine = {};
  std::optional<DirectIo> direct_io = {};
  friend bool operator==(const FileOptions&, const FileOptions&) = default;
};

class File {
 public:
  static constexpr std::uint64_t kMaxOffset = (std::uint64_t{1} << 63) - 1;

  struct Place {
    std::string path;
    int dir_fd;  // AT_FDCWD
    mode_t mode = 0644;
  };

  // Regular files and block devices only; never blocks. Throws FileError.
  static std::shared_ptr<File> open(const Place& place, const OpenFlags& flags, const FileOptions& options = {},
                                    std::shared_ptr<detail::FileCalls> calls = nullptr);
  // Duplicates the caller's descriptor. Error(inval, "flags") when its access mode does not fit.
  static std::shared_ptr<File> adopt(int fd, const OpenFlags& flags, const FileOptions& options = {},
                                     std::shared_ptr<detail::FileCalls> calls = nullptr);

  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  // Between the two the descriptors stay open. begin() throws FileError(closed) after close().
  void begin();
  void begin_again() noexcept { state_.fetch_add(kOne, std::memory_order_acq_rel); }  // by an operation under way
  void end() noexcept;
  // As end(), on a thread that must not close files: true, if the caller lets another thread call close_ended(). A
  // close() that waits does it too.
  [[nodiscard]] bool end_without_closing() noexcept;
  void close_ended() noexcept { close_descriptors(); }

  // No operation begins after this. The last running one closes the file; with `wait` that has happened on return.
  void close(bool wait) noexcept;
  bool closed() const noexcept { return (state_.load(std::memory_order_acquire) & kClosed) != 0; }

  void check_readable() const;  // throws FileError(mode)
  void check_writable() const;

  // A resource of another engine for the file; released before the descriptors close.
  class Attachment {
   public:
    virtual ~Attachment() = default;
  };
  std::shared_ptr<Attachment> attachment() const;
  void attach(std::shared_ptr<Attachment> attachment);  // the first stays

  // Between begin() and end() only.
  int descriptor() const noexcept { return fd_.load(std::memory_order_acquire); }
  // -1: there is none, and why_not_direct() says why.
  int direct_descriptor();
  std::string why_not_direct() const;
  void give_up_direct(std::string_view why);  // the file system refused a direct transfer
  std::uint32_t direct_memory_alignment() const noexcept { return memory_alignment_; }
  std::uint32_t direct_offset_alignment() const noexcept { return offset_alignment_; }
  bool may_be_direct() const noexcept { return direct_read_ != DirectIo::off || direct_write_ != DirectIo::off; }
  DirectIo direct_io(bool writing) const noexcept { return writing ? direct_write_ : direct_read_; }
  bool wants_direct(bool writing) const noexcept { return direct_io(writing) == DirectIo::on; }

  const std::string& path() const noexcept { return path_; }
  const OpenFlags& flags() const noexcept { return flags_; }
  std::uint64_t append_base() const noexcept { return append_base_; }
  CompatMode compat_mode() const noexcept { return compat_mode_; }
  EngineChoice engine() const noexcept { return engine_; }
  std::uint64_t block_device() const noexcept { return device_; }
  std::string filesystem() const;
  detail::FileCalls& calls() const noexcept { return *calls_; }
  bool has_real_calls() const noexcept { return has_real_calls_; }  // and so other ways may stand in for them
  IoCounters& counters() noexcept { return counters_; }

 private:
  static constexpr std::uint32_t kClosed = 1;
  static constexpr std::uint32_t kOne = 2;  // an operation under way

  File(std::string path, const OpenFlags& flags, const FileOptions& options, std::shared_ptr<detail::FileCalls> calls);
  void take(int fd);  // looks at what was opened; closes it when that is of the wrong kind
  void close_descriptors() noexcept;
  void forget_parent() noexcept;  // in a forked child: operations of the parent's are none of ours
  int open_direct(std::string& why);
  void ask_alignment(int fd);

  const std::string path_;
  const OpenFlags flags_;
  const bool has_real_calls_;
  const std::shared_ptr<detail::FileCalls> calls_;
  CompatMode compat_mode_;
  EngineChoice engine_;
  DirectIo direct_read_;
  DirectIo direct_write_;
  std::uint64_t append_base_ = 0;
  std::uint64_t device_ = 0;
  std::uint64_t inode_ = 0;
  std::uint32_t memory_alignment_ = 0;
  std::uint32_t offset_alignment_ = 0;

  std::atomic<int> fd_{-1};
  static constexpr int kUntried = -2;
  std::atomic<int> direct_fd_{kUntried};
  std::atomic<const std::string*> why_not_direct_{nullptr};
  std::atomic<bool> direct_given_up_{false};
  std::atomic<std::uint32_t> state_{0};
  std::atomic<bool> releasing_{false};  // one thread closes the descriptors
  enum Release : int { kOpen, kEnded, kReleased };
  std::atomic<int> released_{kOpen};  // kEnded: the last operation has ended, and a thread is to close them
  std::atomic<std::uint64_t> epoch_;
  struct Attached;
  const std::unique_ptr<Attached> attached_;
  IoCounters counters_;
};

// Holds a file open for one operation.
class FileUse {
 public:
  explicit FileUse(std::shared_ptr<File> file) : file_(std::move(file)) { file_->begin(); }
  FileUse(FileUse&& other) noexcept = default;
  FileUse& operator=(FileUse&& other) noexcept {
    std::swap(file_, other.file_);
    return *this;
  }
  ~FileUse() {
    if (file_ != nullptr) file_->end();
  }
  FileUse another() const noexcept {
    file_->begin_again();
    FileUse use;
    use.file_ = file_;
    return use;
  }
  // The use ends as by File::end_without_closing(). The file must have another owner.
  [[nodiscard]] bool end_without_closing() noexcept { return std::exchange(file_, nullptr)->end_without_closing(); }
  File& operator*() const noexcept { return *file_; }
  File* operator->() const noexcept { return file_.get(); }

 private:
  FileUse() noexcept = default;
  std::shared_ptr<File> file_;
};

}  // namespace damacy
