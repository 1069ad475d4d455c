#include "damacy/device/arena.h"

#include <algorithm>
#include <new>
#include <utility>

#include "damacy/core/checked.h"
#include "damacy/core/error.h"
#include "damacy/core/formatted.h"
#include "damacy/core/mutex.h"

namespace damacy {
namespace {

constexpr std::size_t kStrandedAtMost = 1024;  // of which the places are known: more threads are never left behind

}  // namespace

Arena::Arena(std::shared_ptr<Alloc> alloc, std::size_t bytes) : buffer_(std::move(alloc), bytes) {
  free_.reserve(4096);  // pieces are few: two a thread
  stranded_.reserve(kStrandedAtMost);
  free_.push_back({0, bytes});
}

std::size_t Arena::peak() const noexcept {
  const Lock lock(mutex_);
  return peak_;
}

std::byte* Arena::fit(std::size_t bytes) {
  for (std::size_t i = 0; i < free_.size(); ++i) {
    Range& range = free_[i];
    if (range.end - range.begin < bytes) continue;
    std::byte* memory = buffer_.data() + range.begin;
    // If the tail of the arena is smaller than the alignment, the piece takes all of it.
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
    throw Error(Status::oom, formatted("{} bytes do not fit the buffer of {} bytes", bytes, buffer_.size()), "buffers");
  Lock lock(mutex_);
  Waiter self;
  *std::exchange(last_, &self.next) = &self;
  std::byte* memory = nullptr;
  const auto may = [&]() DAMACY_REQUIRES(mutex_) {
    return first_ == &self && (lent_ == 0 || (lent_ <= most && bytes <= most - lent_));
  };
  const auto hopeless = [&]() DAMACY_REQUIRES(mutex_) {
    return !stranded_.empty() && bytes > largest_without_stranded();
  };
  const bool served = changed_.wait(
      lock, stop, [&]() DAMACY_REQUIRES(mutex_) { return (may() && (memory = fit(bytes)) != nullptr) || hopeless(); });
  leave(self);
  if (memory != nullptr) lent_ += bytes;
  changed_.notify_all();
  if (!served) throw Error(Status::shutdown, "stopped while waiting for buffer memory", "closed");
  if (memory == nullptr) throw_stranded(bytes);
  return {this, {memory, bytes}};
}

Arena::Piece Arena::try_take(std::size_t bytes) {
  const Lock lock(mutex_);
  std::byte* const memory = bytes == 0 || first_ != nullptr ? nullptr : fit(bytes);
  if (memory == nullptr) return {};
  lent_ += bytes;
  return {this, {memory, bytes}};
}

void Arena::leave(const Waiter& waiter) noexcept {
  Waiter** at = &first_;
  while (*at != &waiter) at = &(*at)->next;
  *at = waiter.next;
  if (last_ == &waiter.next) last_ = at;
}

std::size_t Arena::lendable() const {
  const Lock lock(mutex_);
  return largest_without_stranded();
}

std::size_t Arena::stranded() const {
  const Lock lock(mutex_);
  return stranded_bytes_;
}

// Pieces between stranded ones are returned at some time.
std::size_t Arena::largest_without_stranded() const noexcept {
  std::size_t largest = 0, begin = 0;
  for (const Range& range : stranded_) {
    largest = std::max(largest, range.begin - begin);
    begin = range.end;
  }
  return std::max(largest, buffer_.size() - begin);
}

void Arena::throw_stranded(std::size_t bytes) const {
  throw Error(
      Status::io,
      formatted(
          "timed out waiting for {} bytes of buffer memory: operations that are not responding hold {} of {} bytes in {} pieces{}{}",
          bytes, stranded_bytes_, buffer_.size(), stranded_.size(), holder_.empty() ? "" : ", the last for ", holder_),
      "deadline");
}

Arena::Range Arena::range_of(std::span<std::byte> bytes) const noexcept {
  const std::size_t begin = static_cast<std::size_t>(bytes.data() - buffer_.data());
  return {begin, std::min(buffer_.size(), begin + round_up(bytes.size(), kPieceAlignment))};
}

void Arena::strand(std::span<std::byte> bytes, std::string_view object, std::string_view store) noexcept {
  const Lock lock(mutex_);
  const Range range = range_of(bytes);
  const auto at = std::ranges::lower_bound(stranded_, range.begin, {}, &Range::begin);
  if (at != stranded_.end() && at->begin == range.begin) return;
  if (stranded_.size() == stranded_.capacity()) return;  // waits count on it all the same
  stranded_.insert(at, range);
  stranded_bytes_ += bytes.size();
  lent_ -= bytes.size();
  try {
    holder_ = formatted("{} of {}", object, store);
  } catch (const std::bad_alloc&) {  // errors then name another one
  }
  changed_.notify_all();
}

void Arena::give(std::span<std::byte> bytes) noexcept {
  const Lock lock(mutex_);
  const auto [begin, end] = range_of(bytes);
  const auto stranded = std::ranges::lower_bound(stranded_, begin, {}, &Range::begin);
  if (stranded != stranded_.end() && stranded->begin == begin) {
    stranded_.erase(stranded);
    stranded_bytes_ -= bytes.size();
  } else {
    lent_ -= bytes.size();
  }
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
