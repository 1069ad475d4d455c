#include "damacy/remote/remote_read.h"

#include <algorithm>
#include <atomic>
#include <deque>
#include <utility>

#include "damacy/core/error.h"
#include "damacy/core/latch.h"
#include "damacy/core/mutex.h"
#include "damacy/fileio/file.h"
#include "damacy/fileio/staging.h"
#include "damacy/store/storage_watch.h"

namespace damacy {
namespace {

// Requests that are sent before the first of them is finished: so many bytes, within bounds.
constexpr std::uint64_t kAheadBytes = 128 << 20;
constexpr std::uint64_t kLeastAhead = 16, kMostAhead = 256;
constexpr std::uint64_t kDeviceTasks = 4;  // a part to a device is so many requests
constexpr auto kLook = std::chrono::milliseconds(20);

// A read under way, whose memory outlives it. What a cache near has is read by finish().
class Sent {
 public:
  Sent(std::shared_ptr<Object> object, std::uint64_t offset, std::span<std::byte> to)
      : object_(std::move(object)),
        offset_(offset),
        to_(to),
        nearness_(object_->nearness({offset, to.size()})),
        landed_(std::make_shared<Latch>()) {
    if (nearness_ == Nearness::near) return;
    read_ = object_->start_read(offset, to, [landed = landed_] { landed->open(); });
  }
  // Throws Abandoned if `stopped` is set meanwhile.
  void finish(const std::atomic<bool>& stopped) {
    if (!read_) return object_->read_piece(offset_, to_);
    while (!landed_->is_open()) {
      if (stopped) throw Abandoned();
      landed_->wait_for(kLook);
    }
    read_->finish();
    if (nearness_ == Nearness::wanted) object_->keep_piece(offset_, to_);
  }

 private:
  const std::shared_ptr<Object> object_;
  const std::uint64_t offset_;
  const std::span<std::byte> to_;
  const Nearness nearness_;
  const std::shared_ptr<Latch> landed_;
  std::unique_ptr<StartedRead> read_;  // null: the bytes are near
};

class RemoteReadJob final : public IoJob {
 public:
  RemoteReadJob(RemoteSource source, RemoteRead read) : source_(std::move(source)), read_(std::move(read)) {
    for (std::uint64_t r = 0; r < read_.ranges.size(); ++r) cut(r);
    sent_.resize(cuts_.size());
    std::uint64_t largest = 1;
    for (const Cut& cut : cuts_) largest = std::max(largest, cut.size);
    ahead_ = std::clamp(kAheadBytes / largest, kLeastAhead, kMostAhead);
    if (source_.opened) send_until(source_.opened, kLeastAhead);  // the caller does not wait for the others
  }

  std::uint64_t parts() const noexcept override { return cuts_.size(); }
  std::uint64_t ranges() const noexcept override { return read_.ranges.size(); }
  std::uint64_t range_bytes(std::uint64_t range) const noexcept override { return there_[range]; }
  std::uint64_t block_device() const noexcept override { return 0; }
  void stop() noexcept override { stopped_ = true; }

  void run(std::uint64_t part, Operation& operation) override {
    const Cut& cut = cuts_[part];
    try {
      const CancelScope scope(stopped_);
      const std::shared_ptr<Object> object = source_.object();
      if (cut.device == nullptr)
        finish(object, part);
      else
        read_staged(object, cut, operation);
    } catch (const Abandoned&) {
      fail(part, operation, Error(Status::io, "the read was stopped", "io"));
    } catch (const std::exception&) {
      fail(part, operation, current_error());
    }
  }

  void ended() noexcept override {
    std::vector<std::unique_ptr<Sent>> left;
    const Lock lock(mutex_);
    left.swap(sent_);
  }

  std::exception_ptr verdict(const Operation& operation) const override {
    if (!read_.exact) return nullptr;
    for (std::uint64_t r = 0; r < ranges(); ++r) {
      if (operation.limit(r) == wanted_[r]) continue;
      FileError error = FileError::short_read(source_.name, read_.ranges[r].offset, wanted_[r], operation.limit(r));
      if (ranges() > 1) error.range_index = r;
      return std::make_exception_ptr(std::move(error));
    }
    return nullptr;
  }

 private:
  struct Cut {
    std::uint64_t range, into;  // bytes of the range before it
    std::uint64_t offset, size;
    std::byte* data;
    OnDevice* device;  // null: host memory
  };

  // What the file has of a range, in parts.
  void cut(std::uint64_t range) {
    const RemoteRange& asked = read_.ranges[range];
    std::uint64_t wanted = 0;
    for (const FileMemory& memory : asked.memory) wanted += memory.size;
    wanted_.push_back(wanted);
    const std::uint64_t end = source_.bytes;
    const std::uint64_t there = asked.offset < end ? std::min(wanted, end - asked.offset) : 0;
    there_.push_back(there);
    const std::uint64_t task = read_.task_size != 0 ? read_.task_size : RemoteRead::kTaskBytes;
    std::uint64_t at = 0;
    for (const FileMemory& memory : asked.memory) {
      const std::uint64_t most = memory.device && read_.task_size == 0 ? kDeviceTasks * task : task;
      for (std::uint64_t into = 0; into < memory.size && at < there;) {
        const std::uint64_t size = std::min({most, memory.size - into, there - at});
        cuts_.push_back({range, at, asked.offset + at, size, memory.data + into, memory.device.get()});
        into += size;
        at += size;
      }
    }
  }

  // Requests to host memory are sent in order, each once, up to the one before `end`.
  void send_until(const std::shared_ptr<Object>& object, std::size_t end) {
    const Lock lock(mutex_);
    for (end = std::min(end, sent_.size()); next_ < end; ++next_) {
      const Cut& cut = cuts_[next_];
      if (cut.device != nullptr) continue;
      sent_[next_] = std::make_unique<Sent>(object, cut.offset, std::span(cut.data, cut.size));
    }
  }

  void finish(const std::shared_ptr<Object>& object, std::uint64_t part) {
    send_until(object, part + ahead_);
    std::unique_ptr<Sent> sent;
    {
      const Lock lock(mutex_);
      if (part < sent_.size()) sent = std::move(sent_[part]);
    }
    if (sent)
      sent->finish(stopped_);
    else  // an earlier part could not send it
      object->read_piece(cuts_[part].offset, std::span(cuts_[part].data, cuts_[part].size));
  }

  // As many requests under way as a staging block has slots; what landed is copied up while others land.
  void read_staged(const std::shared_ptr<Object>& object, const Cut& cut, Operation& operation) {
    struct Piece {
      FencedMemory* slot;
      std::uint64_t into, size;
      std::unique_ptr<Sent> sent;
    };
    const StagingPool::Lease block = StagingPool::process().take(cut.device->device);
    Stream& stream = block->stream();
    stream.wait(cut.device->before);
    std::deque<Piece> under_way;
    std::optional<Event> last;
    const auto tell = [&] {
      if (last) operation.copies_until(*last);
    };
    try {
      for (std::uint64_t next = 0; next < cut.size || !under_way.empty();) {
        if (next < cut.size && under_way.size() < block->slots()) {
          FencedMemory& slot = block->next();
          slot.ready().wait();
          const std::uint64_t size = std::min<std::uint64_t>(slot.bytes().size(), cut.size - next);
          under_way.push_back({&slot, next, size, nullptr});
          under_way.back().sent = std::make_unique<Sent>(object, cut.offset + next, slot.bytes().first(size));
          next += size;
          continue;
        }
        Piece& piece = under_way.front();
        piece.sent->finish(stopped_);
        try {
          stream.copy(std::span(cut.data + piece.into, piece.size), piece.slot->bytes().first(piece.size));
          last = stream.record();
        } catch (...) {
          block->spoil();
          throw;
        }
        piece.slot->reusable_after(*last);
        under_way.pop_front();
      }
    } catch (...) {
      tell();
      throw;
    }
    tell();
  }

  void fail(std::uint64_t part, Operation& operation, Error error) {
    operation.short_at(cuts_[part].range, cuts_[part].into);
    operation.failed(part, std::make_exception_ptr(std::move(error)));
  }

  const RemoteSource source_;
  const RemoteRead read_;
  std::vector<std::uint64_t> wanted_, there_;  // bytes of each range
  std::vector<Cut> cuts_;
  std::uint64_t ahead_ = kLeastAhead;
  std::atomic<bool> stopped_{false};
  Mutex mutex_;
  std::vector<std::unique_ptr<Sent>> sent_ DAMACY_GUARDED_BY(mutex_);
  std::size_t next_ DAMACY_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::unique_ptr<IoJob> make_remote_read(RemoteSource source, RemoteRead read) {
  return std::make_unique<RemoteReadJob>(std::move(source), std::move(read));
}

}  // namespace damacy
