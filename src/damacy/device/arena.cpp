#include "damacy/device/arena.h"

#include <algorithm>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/text.h"

namespace damacy {

Arena::Arena(std::shared_ptr<Alloc> alloc, std::size_t bytes) : buffer_(std::move(alloc), bytes) {
  free_.reserve(4096);  // pieces are few: two a thread
  free_.push_back({0, bytes});
}

std::size_t Arena::peak() const noexcept {
  const std::lock_guard lock(mutex_);
  return peak_;
}

std::byte* Arena::fit(std::size_t bytes) {
  for (std::size_t i = 0; i < free_.size(); ++i) {
    Range& range = free_[i];
    if (range.end - range.begin < bytes) continue;
    std::byte* memory = buffer_.data() + range.begin;
    // The tail of the arena may be smaller than the alignment: then the piece takes it all.
    range.begin = std::min(range.end, range.begin + round_up(bytes, kPieceAlignment));
    peak_ = std::max(peak_, range.begin);
    if (range.begin == range.end) free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    return memory;
  }
  return nullptr;
}

Arena::Piece Arena::take(std::size_t bytes, std::stop_token stop, std::size_t most) {
  if (bytes == 0) return {};
  if (bytes > buffer_.size())
    throw Error(Status::oom, text("a piece of ", bytes, " bytes does not fit a buffer of ", buffer_.size()), "buffers");
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_ticket_++;
  std::byte* memory = nullptr;
  const auto may = [&] { return serving_ == ticket && (lent_ == 0 || (lent_ <= most && bytes <= most - lent_)); };
  const bool served = changed_.wait(lock, stop, [&] { return may() && (memory = fit(bytes)) != nullptr; });
  if (!served) {
    // Whoever waits behind is stopped too: the stop token belongs to the whole pipeline.
    throw Error(Status::shutdown, "stopped while waiting for buffer memory", "closed");
  }
  ++serving_;
  lent_ += bytes;
  changed_.notify_all();
  return {this, {memory, bytes}};
}

void Arena::give(std::span<std::byte> bytes) noexcept {
  const std::lock_guard lock(mutex_);
  lent_ -= bytes.size();
  const std::size_t begin = static_cast<std::size_t>(bytes.data() - buffer_.data());
  const std::size_t end = std::min(buffer_.size(), begin + round_up(bytes.size(), kPieceAlignment));
  auto at =
      std::lower_bound(free_.begin(), free_.end(), begin, [](const Range& r, std::size_t b) { return r.begin < b; });
  const bool joins_before = at != free_.begin() && std::prev(at)->end == begin;
  const bool joins_after = at != free_.end() && at->begin == end;
  if (joins_before && joins_after) {
    std::prev(at)->end = at->end;
    free_.erase(at);
  } else if (joins_before) {
    std::prev(at)->end = end;
  } else if (joins_after) {
    at->begin = begin;
  } else {
    free_.insert(at, {begin, end});
  }
  changed_.notify_all();
}

}  // namespace damacy
