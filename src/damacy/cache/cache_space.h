// Divides a fixed number of bytes into pieces of any size, without allocations. A hand goes around: a new piece lies
// where the hand is, over the pieces that had to go, so free bytes do not scatter. Knows offsets and owners of pieces;
// not what is in them, nor which may go. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>

#include "damacy/cache/records.h"

namespace damacy {

class CacheSpace {
 public:
  static constexpr std::uint64_t kAlignment = 64;  // of pieces, and their sizes are rounded up to it
  static constexpr std::size_t kMostSteps = 64;    // pieces that one take() looks at

  CacheSpace(std::uint64_t bytes, std::size_t most_pieces);
  static constexpr std::size_t bytes_of(std::size_t most_pieces) noexcept {
    return Memory::bytes_of(nodes_for(most_pieces));
  }
  // In memory of the caller, of that size, which must be cleared before its first use.
  CacheSpace(std::span<std::byte> memory, std::size_t most_pieces) : memory_(memory, nodes_for(most_pieces)) {}
  void clear(std::uint64_t bytes) noexcept;

  using Piece = std::uint32_t;
  using Owner = std::uint32_t;
  // Empty if neighbours that are free, or whose owners may go, are not found at once; then nothing has changed. Calls
  // `evict` for each owner that goes: its piece is gone.
  std::optional<Piece> take(std::uint64_t bytes, Owner owner, const std::function<bool(Owner)>& may_go,
                            const std::function<void(Owner)>& evict);
  void give(Piece piece) noexcept;
  // Behind the pieces that were added since it was cleared, at `offset` or later. Empty: it does not fit there.
  std::optional<Piece> add(std::uint64_t offset, std::uint64_t bytes, Owner owner) noexcept;

  std::uint64_t offset_of(Piece piece) const noexcept { return memory_[piece].offset; }
  std::uint64_t size() const noexcept { return memory_->size; }
  std::uint64_t free_bytes() const noexcept { return memory_->free_bytes; }

 private:
  using Index = std::uint32_t;
  static constexpr Index kNone = ~Index{0};
  // Pieces and the free ranges between them, in order of their offsets. No two neighbours are free.
  struct Node {
    std::uint64_t offset = 0, bytes = 0;
    Index before = kNone, after = kNone;  // of unused nodes, `after` is the next unused one
    Owner owner = 0;
    bool is_free = true;
  };
  struct Head {
    Index first, hand;
    Index unused;  // a list of nodes; those from `fresh` on were never used
    Index fresh;
    std::uint64_t size, free_bytes;
  };
  using Memory = Records<Head, Node>;
  // A free range between any two pieces, and one more while a piece is cut.
  static constexpr std::size_t nodes_for(std::size_t pieces) noexcept { return 2 * pieces + 2; }

  struct Window {
    Index first, last;
    std::uint64_t bytes;
  };
  std::optional<Window> find(std::uint64_t bytes, const std::function<bool(Owner)>& may_go);
  void join_with_next(Index node) noexcept;
  void cut(Index node, std::uint64_t bytes) noexcept;
  void release(Index node) noexcept;
  Index new_node() noexcept;

  Memory memory_;
};

}  // namespace damacy
