// Requests on files: reads and writes from and to memory of the host or of a device, cut into parts. The interface of
// file I/O above the system calls and below Python. Knows files and memory; not arrays.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "damacy/device/device.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/one_or_more.h"
#include "damacy/fileio/operation.h"

namespace damacy {

// Memory of one device that one request touches.
struct OnDevice {
  std::shared_ptr<Device> device;
  Event before;  // copies from and to the memory wait for it
  // The thread that recorded it on the legacy default stream, where what it records later comes after it. None: another
  // stream, whose handle may come to stand for a new one.
  std::thread::id on_legacy_by = {};
};

// For `on_legacy_by`: the calling thread if that stream is the legacy one.
[[nodiscard]] inline std::thread::id recorder_on(std::uint64_t stream) noexcept {
  return stream <= 1 ? std::this_thread::get_id() : std::thread::id();
}

// Consecutive bytes of memory. `device` null: the host's.
struct FileMemory {
  std::byte* data = nullptr;
  std::uint64_t size = 0;
  std::shared_ptr<OnDevice> device;
};

// Of any contiguous elements: std::vector, std::span and so on, which stay where they are. A request that writes a file
// only reads them.
template <class Elements>
[[nodiscard]] FileMemory host_memory(Elements&& elements) noexcept {
  const auto bytes = std::as_bytes(std::span(elements));
  return {const_cast<std::byte*>(bytes.data()), bytes.size(), nullptr};
}

// Memory of a GPU, also managed memory. Requests come after the work that is queued on `stream` now: 1 is the legacy
// default stream, 2 the per-thread one, anything else a CUstream. Asks the driver; cheap requests take parts of one
// such memory. Throws Error(inval, "no-device") for other memory, and Error(cuda, "capture") if the stream is
// capturing.
[[nodiscard]] FileMemory device_memory(void* data, std::uint64_t size, std::uint64_t stream = 1);
// The same memory, after the work that is queued on `stream` now.
[[nodiscard]] FileMemory after_stream(const FileMemory& memory, std::uint64_t stream);
// Part of a memory, in the same order. Throws Error(inval, "arguments") if it is not inside.
[[nodiscard]] FileMemory part_of(const FileMemory& memory, std::uint64_t offset, std::uint64_t size);

struct RequestOptions {
  std::uint64_t task_size = 0;  // 0: the process's
  bool exact = false;           // a short read is an error
};

// Consecutive bytes of a file from `offset`, to or from each memory in turn.
struct FileRequest {
  std::shared_ptr<File> file;
  Direction direction = Direction::read;
  std::uint64_t offset = 0;  // append files: counted from append_base() when writing
  OneOrMore<FileMemory> memory;
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
  // Of `devices`: copies also come after the work that is queued there when the request begins. Or empty.
  std::vector<std::uint64_t> streams;
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

// A short read to host memory whose bytes are in the page cache; empty if it is longer or would have waited. Short is
// up to 64 KiB with one thread for I/O, and up to 16 KiB with several, which can read while the caller starts more
// requests.
std::optional<std::uint64_t> read_if_resident(File& file, std::span<std::byte> dst, std::uint64_t offset);

}  // namespace damacy
