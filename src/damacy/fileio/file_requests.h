// Requests on files: reads and writes from and to memory, cut into parts. The interface of file I/O above the system
// calls and below Python. Knows files and memory; not arrays.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "damacy/fileio/file.h"
#include "damacy/fileio/file_memory.h"
#include "damacy/fileio/operation.h"

namespace damacy {

struct RequestOptions {
  std::uint64_t task_size = 0;  // 0: the process's
  bool exact = false;           // a short read is an error
};

// Consecutive bytes of a file from `offset`, to or from each memory in turn.
struct FileRequest {
  std::shared_ptr<File> file;
  Direction direction = Direction::read;
  std::uint64_t offset = 0;  // append files: counted from append_base() when writing
  std::vector<FileMemory> memory;
  RequestOptions options;
};

// One range of a gather.
struct GatherRange {
  std::uint32_t file = 0;    // of GatherRequest::files
  std::uint32_t memory = 0;  // of GatherRequest::devices, plus 1; 0: host memory
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
  std::byte* data = nullptr;
};

struct GatherRequest {
  std::vector<std::shared_ptr<File>> files;
  std::vector<std::shared_ptr<OnDevice>> devices;
  Direction direction = Direction::read;
  std::vector<GatherRange> ranges;
  RequestOptions options;
};

// Host memory, wholly on the calling thread: no queue, no allocation. For what is_one_part() says so.
[[nodiscard]] bool is_one_part(std::uint64_t size, std::uint64_t task_size) noexcept;
std::uint64_t read_now(File& file, std::span<std::byte> dst, std::uint64_t offset, bool exact);
std::uint64_t write_now(File& file, std::span<const std::byte> src, std::uint64_t offset);

// Checked, queued for workers unless `queue` is false; the caller may run parts and must, if nothing is queued.
// Throws FileError (closed, mode) and Error(inval) before anything has an effect.
std::shared_ptr<Operation> begin_request(FileRequest request, bool queue = true);
std::shared_ptr<Operation> begin_gather(GatherRequest request, bool queue = true);

// Device memory, in the order of the caller's stream: the file transfer runs as work of the device, and nothing waits
// on the host. Work queued on `stream` later comes after it.
std::shared_ptr<Operation> begin_in_stream(FileRequest request, std::uint64_t stream);

// A read of up to 64 KiB to host memory whose bytes are in the page cache; empty if it would have waited.
std::optional<std::uint64_t> read_if_resident(File& file, std::span<std::byte> dst, std::uint64_t offset);

}  // namespace damacy
