// A copy between two boxes of arrays (slots) that are known by layout only. Knows no addresses; copies nothing.
#pragma once

#include <cstdint>

#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"

namespace damacy::copy {

// An array's layout. Its base is the address of element (0, 0, …), wherever in memory that is.
struct Slot {
  Dtype dtype = Dtype::u8;
  Dims shape;
  Dims strides;  // bytes, signed
  bool writable = true;

  friend bool operator==(const Slot&, const Slot&) = default;
};

struct SlotBox {
  std::uint32_t slot = 0;
  std::int64_t offset = 0;  // bytes from the slot's base to the first element
  Dims strides;             // bytes, signed; one an axis of the copy

  friend bool operator==(const SlotBox&, const SlotBox&) = default;
};

// Each element of the source is converted to the destination's type, then negated, then stored or added there.
struct Operation {
  bool negate = false;  // of the sign bit (of both parts) or two's complement; refused for unsigned types and bool
  bool add = false;

  friend bool operator==(const Operation&, const Operation&) = default;
};

struct Copy {
  SlotBox src;
  SlotBox dst;
  Dims extents;  // of both boxes
  Operation op;

  friend bool operator==(const Copy&, const Copy&) = default;
};

}  // namespace damacy::copy
