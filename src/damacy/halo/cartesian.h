// The ranks of a grid of blocks: which cells a rank gets from, and sends to, which other rank. Integers only. Knows no
// fields or messages.
//
// Cells are relative to the first cell of the rank's block, so ghost cells are negative or past the block.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace damacy::halo {

using Integers = std::vector<std::int64_t>;  // one for each decomposed dimension

struct Cells {
  std::int64_t start = 0;
  std::int64_t stop = 0;

  bool operator==(const Cells&) const = default;
};

using CellBox = std::vector<Cells>;  // one for each decomposed dimension

// A box that is sent, or one that is received.
struct GridLink {
  std::int64_t peer = 0;
  Integers side;  // distance in blocks from here to the peer's image; the peer's own side is its opposite
  std::optional<CellBox> send;
  std::optional<CellBox> receive;
  int phase = 0;

  bool operator==(const GridLink&) const = default;
};

// Of ranks that run fastest along the last dimension, `counts` of them along each. coordinates_of() throws Error(inval)
// "rank R of N".
Integers coordinates_of(const Integers& counts, std::int64_t rank);
std::int64_t rank_at(const Integers& counts, const Integers& coordinates);

// sequential: one dimension after the other, in phases. Later phases also send the halos that earlier phases filled.
enum class Corners : std::uint8_t { direct, none, sequential };

struct Grid {
  std::vector<Integers> sizes;  // cells of each block along each dimension: as many blocks as ranks
  std::vector<bool> periodic;
  Corners corners = Corners::direct;
};

class Cartesian {
 public:
  // Throws Error(inval) for a dimension without blocks, negative sizes, or more than 2^60 cells or ranks.
  explicit Cartesian(Grid grid);

  std::int64_t size() const noexcept { return size_; }
  const Integers& counts() const noexcept { return counts_; }  // blocks along each dimension

  Integers block(std::int64_t rank) const;  // cells of the rank's block along each dimension
  // `widths`: halo cells before and after the block, for each dimension. Boxes that are received come first.
  std::vector<GridLink> links(std::int64_t rank, const std::vector<Cells>& widths) const;

 private:
  struct Piece;
  struct Ghost;
  std::int64_t cells(std::size_t axis, std::int64_t at) const;
  std::int64_t start(std::size_t axis, std::int64_t at) const;
  std::vector<Piece> pieces(std::size_t axis, std::int64_t at, Cells wanted) const;
  bool reaches(std::size_t axis, std::int64_t from, std::int64_t to, Cells width) const;
  std::int64_t shift(std::size_t axis, std::int64_t there, std::int64_t here, std::int64_t blocks) const;
  std::vector<Ghost> ghosts(const Integers& here, const std::vector<Cells>& widths) const;
  void add_region(std::vector<Ghost>& out, const Integers& here, const Integers& touched,
                  const std::vector<Cells>& widths, std::optional<std::size_t> phase) const;

  Grid grid_;
  std::vector<Integers> starts_;  // of the blocks, then the number of cells
  Integers counts_;
  std::int64_t size_ = 1;
};

}  // namespace damacy::halo
