#include "damacy/cache/cache_space.h"

namespace damacy {
namespace {

constexpr std::uint64_t rounded(std::uint64_t bytes) noexcept {
  return (bytes + CacheSpace::kAlignment - 1) / CacheSpace::kAlignment * CacheSpace::kAlignment;
}

}  // namespace

CacheSpace::CacheSpace(std::uint64_t bytes, std::size_t most_pieces)
    : nodes_(nodes_for(most_pieces)), size_(bytes / kAlignment * kAlignment), free_bytes_(size_) {
  for (std::size_t n = nodes_.size(); n-- > 1;) release(static_cast<Index>(n));
  head_ = hand_ = 0;
  nodes_[0].bytes = size_;
}

void CacheSpace::release(Index node) noexcept {
  nodes_[node].after = unused_;
  unused_ = node;
}

// The first window from the hand on. If there is none, the hand goes on, so that the next search looks elsewhere.
std::optional<CacheSpace::Window> CacheSpace::find(std::uint64_t bytes, const std::function<bool(Owner)>& may_go) {
  Window window{kNone, kNone, 0};
  Index at = hand_;
  for (std::size_t step = 0; step < kMostSteps; ++step) {
    const Node& node = nodes_[at];
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
    at = head_;
    window = {kNone, kNone, 0};
  }
  hand_ = at;
  return {};
}

std::optional<CacheSpace::Piece> CacheSpace::take(std::uint64_t bytes, Owner owner,
                                                  const std::function<bool(Owner)>& may_go,
                                                  const std::function<void(Owner)>& evict) {
  bytes = rounded(bytes);
  if (bytes == 0 || bytes > size_) return {};
  const std::optional<Window> window = find(bytes, may_go);
  if (!window) return {};
  const Index piece = window->first;
  for (Index at = piece;; at = nodes_[at].after) {
    if (!nodes_[at].is_free) {
      evict(nodes_[at].owner);
      free_bytes_ += nodes_[at].bytes;
    }
    if (at == window->last) break;
  }
  while (nodes_[piece].bytes < window->bytes) join_with_next(piece);
  cut(piece, bytes);
  nodes_[piece].owner = owner;
  nodes_[piece].is_free = false;
  free_bytes_ -= bytes;
  hand_ = nodes_[piece].after == kNone ? head_ : nodes_[piece].after;
  return piece;
}

void CacheSpace::join_with_next(Index node) noexcept {
  const Index next = nodes_[node].after;
  nodes_[node].bytes += nodes_[next].bytes;
  nodes_[node].after = nodes_[next].after;
  if (nodes_[node].after != kNone) nodes_[nodes_[node].after].before = node;
  if (hand_ == next) hand_ = node;
  release(next);
}

// What is beyond `bytes` becomes free.
void CacheSpace::cut(Index node, std::uint64_t bytes) noexcept {
  if (nodes_[node].bytes == bytes) return;
  const Index rest = unused_;
  unused_ = nodes_[rest].after;
  nodes_[rest] = {nodes_[node].offset + bytes, nodes_[node].bytes - bytes, node, nodes_[node].after, 0, true};
  nodes_[node].bytes = bytes;
  nodes_[node].after = rest;
  const Index next = nodes_[rest].after;
  if (next == kNone) return;
  nodes_[next].before = rest;
  if (nodes_[next].is_free) join_with_next(rest);
}

void CacheSpace::give(Piece piece) noexcept {
  nodes_[piece].is_free = true;
  free_bytes_ += nodes_[piece].bytes;
  const Index next = nodes_[piece].after;
  const Index before = nodes_[piece].before;
  if (next != kNone && nodes_[next].is_free) join_with_next(piece);
  if (before != kNone && nodes_[before].is_free) join_with_next(before);
}

}  // namespace damacy
