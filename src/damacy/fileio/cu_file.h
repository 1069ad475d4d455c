// A file that reads and writes host memory and memory of GPUs: the class of file I/O for users, as `damacy.CuFile` is
// in Python. Its calls have the shape of KvikIO's FileHandle. Knows requests; not how they are served.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <sys/types.h>

#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/operation.h"

namespace damacy {

struct CuFileOptions {
  mode_t mode = 0644;         // of a file that is made
  std::optional<int> dir_fd;  // relative paths start there
  FileOptions settings;       // what the file settles for itself
};

// One range of a gather: the memory and where its bytes are in the file.
struct FileRange {
  FileMemory memory;
  std::uint64_t file_offset = 0;
};

// Move-only. Calls of any thread, at the same time; of close() and a request one comes first. Offsets and sizes are
// bytes. Each call throws FileError: (closed), (mode) for reading a file that is open for writing only or the reverse,
// and what the file system says; Error(inval, "overflow") for a range that ends above 2^63 - 1.
class CuFile {
 public:
  // `flags`: r w a x with b and +, as in Python's open(). Regular files and block devices only. Throws FileError(open).
  explicit CuFile(const std::string& path, std::string_view flags = "r", const CuFileOptions& options = {});
  // Duplicates the caller's descriptor. Throws Error(inval, "flags") if its access mode does not fit.
  static CuFile of_descriptor(int fd, std::string_view flags = "r", const FileOptions& settings = {});
  CuFile(CuFile&&) noexcept = default;
  CuFile& operator=(CuFile&&) noexcept;
  ~CuFile();  // as close(false)

  // Waits. Reads stop at the end of the file and give the count; with `options.exact` that is FileError(short_read).
  std::uint64_t read(const FileMemory& memory, std::uint64_t file_offset = 0, const RequestOptions& options = {});
  std::uint64_t write(const FileMemory& memory, std::uint64_t file_offset = 0, const RequestOptions& options = {});
  // Memory of a GPU, as one part on the calling thread: no worker helps, and nothing is queued. part_of() gives what
  // starts further into a memory. Throw Error(inval, "no-device") for host memory.
  std::uint64_t raw_read(const FileMemory& memory, std::uint64_t file_offset = 0, bool exact = false);
  std::uint64_t raw_write(const FileMemory& memory, std::uint64_t file_offset = 0);
  // Do not wait. A read of up to 64 KiB to host memory whose bytes are in the page cache is done on return.
  IOFuture pread(const FileMemory& memory, std::uint64_t file_offset = 0, const RequestOptions& options = {});
  IOFuture pwrite(const FileMemory& memory, std::uint64_t file_offset = 0, const RequestOptions& options = {});

  // Many ranges, one request; the error of a range has its number, FileError::range_index. Reads of ranges at most
  // `coalesce_gap` apart share system calls. Throw Error(inval, "overlap") for ranges to write that overlap.
  IOFuture preadv(std::span<const FileRange> ranges, const RequestOptions& options = {});
  IOFuture pwritev(std::span<const FileRange> ranges, const RequestOptions& options = {});
  // Range i: sizes[i] bytes of the file from file_offsets[i], at memory_offsets[i], or without these one after the
  // other. Throws Error(inval, "arguments") for lists of different lengths and ranges outside the memory.
  IOFuture preadv_packed(const FileMemory& memory, std::span<const std::uint64_t> sizes,
                         std::span<const std::uint64_t> file_offsets,
                         std::span<const std::uint64_t> memory_offsets = {}, const RequestOptions& options = {});
  IOFuture pwritev_packed(const FileMemory& memory, std::span<const std::uint64_t> sizes,
                          std::span<const std::uint64_t> file_offsets,
                          std::span<const std::uint64_t> memory_offsets = {}, const RequestOptions& options = {});

  // Memory of a GPU, in the order of `stream`: what is queued there later comes after it, and the host does not wait.
  // The memory stays until then. Throw Error(inval, "no-device") for host memory.
  IOFuture read_async(const FileMemory& memory, std::uint64_t stream, std::uint64_t file_offset = 0);
  IOFuture write_async(const FileMemory& memory, std::uint64_t stream, std::uint64_t file_offset = 0);

  // No request begins afterwards. Those under way end; with `wait` they have ended on return. Idempotent.
  void close(bool wait = true) noexcept;
  bool closed() const noexcept { return file_->closed(); }
  const std::string& path() const noexcept { return file_->path(); }
  std::uint64_t append_base() const noexcept { return file_->append_base(); }  // where a file of flag `a` ended at open
  const IoCounters& counters() const noexcept { return file_->counters(); }
  const std::shared_ptr<File>& file() const noexcept { return file_; }

 private:
  explicit CuFile(std::shared_ptr<File> file) noexcept : file_(std::move(file)) {}
  IOFuture gather(Direction direction, std::span<const FileRange> ranges, const RequestOptions& options);
  IOFuture packed(Direction direction, const FileMemory& memory, std::span<const std::uint64_t> sizes,
                  std::span<const std::uint64_t> file_offsets, std::span<const std::uint64_t> memory_offsets,
                  const RequestOptions& options);
  std::uint64_t transfer(Direction direction, const FileMemory& memory, std::uint64_t file_offset,
                         const RequestOptions& options);
  std::uint64_t raw(Direction direction, const FileMemory& memory, std::uint64_t file_offset, bool exact);
  IOFuture begin(Direction direction, const FileMemory& memory, std::uint64_t file_offset,
                 const RequestOptions& options);
  IOFuture in_stream(Direction direction, const FileMemory& memory, std::uint64_t stream, std::uint64_t file_offset);

  std::shared_ptr<File> file_;
};

// Ranges of many files, one request. Reads as CuFile::preadv does.
struct FileRangeOf {
  const CuFile* file = nullptr;
  FileMemory memory;
  std::uint64_t file_offset = 0;
};
[[nodiscard]] IOFuture preadv_many(std::span<const FileRangeOf> ranges, const RequestOptions& options = {});

// With cuFile, the whole allocation that memory of a GPU lies in need not be staged from then on. Otherwise no effect.
void memory_register(const FileMemory& memory);
void memory_deregister(const FileMemory& memory);

}  // namespace damacy
