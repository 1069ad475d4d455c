#include "damacy/cache/cache_space.h"

#include <utility>

namespace damacy {
namespace {

constexpr std::uint64_t rounded(std::uint64_t bytes) noexcept {
  return (bytes + CacheSpace::kAlignment - 1) / CacheSpace::kAlignment * CacheSpace::kAlignment;
}

}  // namespace

CacheSpace::CacheSpace(std::uint64_t bytes, std::size_t most_pieces) : memory_(nodes_for(most_pieces)) {
  clear(bytes);
}

void CacheSpace::clear(std::uint64_t bytes) noexcept {
  const std::uint64_t size = bytes / kAlignment * kAlignment;
  *memory_.operator->() = {0, 0, kNone, 1, size, size};
  memory_[0] = {0, size, kNone, kNone, 0, true};
}

CacheSpace::Index CacheSpace::new_node() noexcept {
  if (memory_->unused == kNone) return memory_->fresh++;
  return std::exchange(memory_->unused, memory_[memory_->unused].after);
}

void CacheSpace::release(Index node) noexcept {
  memory_[node].after = memory_->unused;
  memory_->unused = node;
}

std::optional<CacheSpace::Piece> CacheSpace::add(std::uint64_t offset, std::uint64_t bytes, Owner owner) noexcept {
  Index last = memory_->hand;  // the free range behind all pieces
  bytes = rounded(bytes);
  const std::uint64_t end = memory_[last].offset + memory_[last].bytes;
  if (!memory_[last].is_free || offset < memory_[last].offset || offset % kAlignment != 0 || bytes == 0 ||
      offset > end || bytes > end - offset)
    return {};
  if (offset > memory_[last].offset) {
    cut(last, offset - memory_[last].offset);
    last = memory_[last].after;
  }
  cut(last, bytes);
  memory_[last].owner = owner;
  memory_[last].is_free = false;
  memory_->free_bytes -= bytes;
  memory_->hand = memory_[last].after == kNone ? last : memory_[last].after;
  return last;
}

// The first window from the hand on. If there is none, the hand goes on, so that the next search looks elsewhere.
std::optional<CacheSpace::Window> CacheSpace::find(std::uint64_t bytes, const std::function<bool(Owner)>& may_go) {
  Window window{kNone, kNone, 0};
  Index at = memory_->hand;
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const Node& node = memory_[at];
    if (node.is_free || may_go(node.owner)) {
      if (window.first == kNone) window.first = at;
      window.last = at;
      window.bytes += node.bytes;
      if (window.bytes >= bytes) return window;
    } else {
      window = {kNone, kNone, 0};
    }
    at = node.after;
    if (at != kNone) continue;
    at = memory_->first;
    window = {kNone, kNone, 0};
  }
  memory_->hand = at;
  return {};
}

std::optional<CacheSpace::Piece> CacheSpace::take(std::uint64_t bytes, Owner owner,
                                                  const std::function<bool(Owner)>& may_go,
                                                  const std::function<void(Owner)>& evict) {
  bytes = rounded(bytes);
  if (bytes == 0 || bytes > memory_->size) return {};
  const std::optional<Window> window = find(bytes, may_go);
  if (!window) return {};
  const Index piece = window->first;
  for (Index at = piece;; at = memory_[at].after) {
    if (!memory_[at].is_free) {
      evict(memory_[at].owner);
      memory_->free_bytes += memory_[at].bytes;
    }
    if (at == window->last) break;
  }
  while (memory_[piece].bytes < window->bytes) join_with_next(piece);
  cut(piece, bytes);
  memory_[piece].owner = owner;
  memory_[piece].is_free = false;
  memory_->free_bytes -= bytes;
  memory_->hand = memory_[piece].after == kNone ? memory_->first : memory_[piece].after;
  return piece;
}

void CacheSpace::join_with_next(Index node) noexcept {
  const Index next = memory_[node].after;
  memory_[node].bytes += memory_[next].bytes;
  memory_[node].after = memory_[next].after;
  if (memory_[node].after != kNone) memory_[memory_[node].after].before = node;
  if (memory_->hand == next) memory_->hand = node;
  release(next);
}

// What is beyond `bytes` becomes free.
void CacheSpace::cut(Index node, std::uint64_t bytes) noexcept {
  if (memory_[node].bytes == bytes) return;
  const Index rest = new_node();
  memory_[rest] = {memory_[node].offset + bytes, memory_[node].bytes - bytes, node, memory_[node].after, 0, true};
  memory_[node].bytes = bytes;
  memory_[node].after = rest;
  const Index next = memory_[rest].after;
  if (next == kNone) return;
  memory_[next].before = rest;
  if (memory_[next].is_free) join_with_next(rest);
}

void CacheSpace::give(Piece piece) noexcept {
  memory_[piece].is_free = true;
  memory_->free_bytes += memory_[piece].bytes;
  const Index next = memory_[piece].after;
  const Index before = memory_[piece].before;
  if (next != kNone && memory_[next].is_free) join_with_next(piece);
  if (before != kNone && memory_[before].is_free) join_with_next(before);
}

}  // namespace damacy
