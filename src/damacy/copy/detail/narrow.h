// Moves of blocks that are a few elements wide along one of the two axes that matter: calls for each row would cost
// more than the row. Knows moves only; no conversions.
#pragma once

#include "damacy/copy/block.h"

namespace damacy::copy_detail {

// An address on each side.
struct Place {
  const std::byte* src;
  std::byte* dst;
};

// Moves the block, whose offsets count from `base`, if it is such a one; else does nothing and returns false. As
// execute(). Lines that no hardware would foresee are asked for, in the end those from `next` on, where the caller
// will go on; nothing there is touched.
bool move_narrow(const BlockCopy& copy, const Place& base, const Place& next);

// The same for rows that lie side by side on both sides and are neither short nor long: no hardware foresees where a
// row goes on in another page.
bool move_rows_ahead(const BlockCopy& copy, const Place& base, const Place& next);

}  // namespace damacy::copy_detail
