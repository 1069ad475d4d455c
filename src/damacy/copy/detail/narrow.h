// Moves of blocks that are a few elements wide along one of the two axes that matter: calls for each row would cost
// more than the row. Knows moves only; no conversions.
#pragma once

#include "damacy/copy/block_copy.h"

namespace damacy::copy_detail {

// Moves the block if it is such a one; else does nothing and returns false. As execute().
bool move_narrow(const BlockCopy& copy, const std::byte* src, std::byte* dst);

// Moves rows that lie side by side on both sides and are neither short nor long, and asks for the rows that come next:
// no hardware foresees where a row goes on in another page. As move_narrow.
bool move_rows_ahead(const BlockCopy& copy, const std::byte* src, std::byte* dst);

}  // namespace damacy::copy_detail
