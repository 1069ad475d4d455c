// Requests in stream order: for each window of a pinned block, a host function that transfers file bytes, followed by a
// copy, or the reverse. Only the device waits.
#include <algorithm>
#include <optional>
#include <utility>

#include <sys/stat.h>

#include "damacy/core/on_failure.h"
#include "damacy/fileio/detail/callback_thread.h"
#include "damacy/fileio/detail/count_batch.h"
#include "damacy/fileio/detail/slices.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/file_requests.h"
#include "damacy/fileio/staging.h"

namespace damacy {
namespace {

using detail::Slice;
using detail::Way;

class StreamJob final : public IoJob {
 public:
  StreamJob(FileRequest request, std::uint64_t stream)
      : use_(std::in_place, request.file), request_(std::move(request)), stream_(stream) {
    if (request_.direction == Direction::write) request_.offset += request_.file->append_base();
  }

  std::uint64_t parts() const noexcept override { return memory().size > 0 ? 1 : 0; }
  std::uint64_t range_bytes(std::uint64_t) const noexcept override { return memory().size; }
  std::uint64_t block_device() const noexcept override { return request_.file->block_device(); }
  void ended() noexcept override { use_.reset(); }  // each host function has its own

  void run(std::uint64_t, Operation& operation) override {
    const OnDevice& on = *memory().device;
    const auto block = StagingPool::process().take(on.device);
    block->stream().wait(on.before);
    const OnFailure spoils([&] { spoil(*block, operation); });
    run_windows(*block, operation);
  }

 private:
  void run_windows(StagingBlock& block, Operation& operation) {
    const OnDevice& on = *memory().device;
    const std::uint64_t size_now = file_size();
    for (std::uint64_t done = 0; done < memory().size;) {
      FencedMemory& slot = block.next();
      const std::uint64_t some = std::min<std::uint64_t>(memory().size - done, slot.bytes().size());
      const bool may_end = request_.offset + done + some > size_now;
      enqueue(block.stream(), slot.bytes().first(some), done, may_end, operation.shared_from_this());
      done += some;
      slot.reusable_after(block.stream().record());
      if (done < memory().size) continue;
      operation.copies_until(slot.ready());
      on.device->make_wait(stream_, slot.ready());
    }
  }

  // Some windows were enqueued: waits for the operation include them, and their memory is not lent again.
  static void spoil(StagingBlock& block, Operation& operation) noexcept {
    block.spoil();
    try {
      operation.copies_until(block.stream().record());
    } catch (const Error&) {  // their end is unknown; freeing the block waits for them
    }
  }

  // What a host function holds.
  struct Share {
    std::shared_ptr<Operation> operation;
    FileUse use;
  };

  // CUDA calls host functions on a thread that must not call CUDA, and should not wait for Python: what may do either,
  // the end of the operation or of its file, is left to the callback thread.
  static void let_go(Share& share) noexcept {
    using Settle = CallbackThread::Settle;
    const Settle close = [](Operation& ended) { static_cast<StreamJob&>(ended.job()).request_.file->close_ended(); };
    const Settle nothing = [](Operation&) {};
    CallbackThread::process().add(std::move(share.operation), share.use.end_without_closing() ? close : nothing);
  }

  inline static const FileMemory kNone{};
  const FileMemory& memory() const noexcept { return request_.memory.empty() ? kNone : request_.memory.front(); }

  std::uint64_t file_size() const {
    struct ::stat found{};
    return ::fstat(request_.file->descriptor(), &found) == 0 ? static_cast<std::uint64_t>(found.st_size) : 0;
  }

  void enqueue(Stream& stream, std::span<std::byte> slot, std::uint64_t done, bool may_end,
               std::shared_ptr<Operation> operation) {
    const std::span device(memory().data + done, slot.size());
    auto file_part = [share = std::make_shared<Share>(Share{std::move(operation), use_->another()}), slot, done,
                      may_end, this] {
      const std::uint64_t got = move(share->use, slot, done, *share->operation);
      // The following copy takes the whole slot, and its old bytes must not be exposed.
      if (!may_end && got < slot.size()) std::ranges::fill(slot.subspan(got), std::byte{0});
      let_go(*share);
    };
    if (request_.direction == Direction::write) {
      stream.copy(slot, device);
      stream.host_task(std::move(file_part));
    } else {
      // Bytes past the end of the file must not change on the device: they are copied down and up again.
      if (may_end) stream.copy(slot, device);
      stream.host_task(std::move(file_part));
      stream.copy(device, slot);
    }
  }

  // On a thread of the device's. `this` lives as long as `operation`. Gives the bytes that were moved.
  std::uint64_t move(const FileUse& use, std::span<std::byte> slot, std::uint64_t done,
                     Operation& operation) const noexcept {
    if (operation.limit(0) < done) return 0;  // ended or failed before
    const detail::CountBatch counts;          // a device of the host may run this amid the batch of another file
    const bool reads = request_.direction == Direction::read;
    const Slice slice{slot.data(), slot.size(), nullptr};
    const auto moved =
        detail::move_host(*use, reads ? Way::read : Way::write, request_.offset + done, {&slice, 1}, IoWay::staging);
    if (moved.bytes == slot.size()) return moved.bytes;
    operation.short_at(0, done + moved.bytes);
    if (moved.error == 0 && reads) return moved.bytes;
    operation.failed(done, std::make_exception_ptr(FileError::failed(
                               reads ? "pread" : "pwrite", moved.error != 0 ? moved.error : ENOSPC, use->path(),
                               request_.offset + done, slot.size(), moved.bytes, "staging")));
    return moved.bytes;
  }

  std::optional<FileUse> use_;
  FileRequest request_;
  const std::uint64_t stream_;
};

}  // namespace

std::shared_ptr<Operation> begin_in_stream(FileRequest request, std::uint64_t stream) {
  if (request.direction == Direction::read)
    request.file->check_readable();
  else
    request.file->check_writable();
  auto operation = std::make_shared<Operation>(std::make_unique<StreamJob>(std::move(request), stream));
  operation->run_one();
  return operation;
}

}  // namespace damacy
