// The wire format of a halo exchange: rotated boxes of fields, one after the other in a buffer. Makes the copy plans:
// from the fields to the buffer (pack), from the buffer to the fields (unpack), and the adjoints of both. Knows boxes,
// rotations and byte order; not the peers, nor the transport.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "damacy/copy/copy_plan.h"
#include "damacy/core/dims.h"
#include "damacy/core/dtype.h"
#include "damacy/halo/spec.h"

namespace damacy::halo {

using Addresses = std::vector<std::uint64_t>;

enum class Direction : std::uint8_t { pack, unpack };

// A whole allocation, halo included, and which of its axes are horizontal (-1: none).
struct Field {
  Dtype dtype = Dtype::f64;
  Dims shape;
  Dims strides;  // bytes, signed
  int i_axis = -1;
  int j_axis = -1;
  Dims ranking{};  // strides that rank the axes on a native wire: both ends know these; empty: the array's own
};

struct FieldBox {
  std::uint32_t field = 0;
  Box box;
};

// One box of a field, or of each component of a vector. Packing turns it by -rotation quarter turns clockwise;
// unpacking never turns.
struct Entry {
  FieldBox x;
  std::optional<FieldBox> y;
  int rotation = 0;
  bool negate = false;  // of a scalar
};

// What goes into one buffer, in this order; a vector has its x slot, then its y slot.
struct Message {
  std::vector<Entry> entries;
  Wire wire = Wire::ndsl;
};

// A copy from one box to another, rotated as if it were sent over a wire.
struct Direct {
  Entry from;
  FieldBox to_x;
  std::optional<FieldBox> to_y;
};

// The plan's slots are the fields, then the buffers: one for each type that a message has, in order of appearance.
struct Compiled {
  std::shared_ptr<const copy::Plan> plan;
  std::vector<std::int64_t> buffer_bytes;      // of each message
  std::vector<std::uint32_t> message_of_slot;  // of each slot behind the fields
};

// `adjoint`: the plan of the transposed operator, which adds what the plan reads to where the plan reads it from.
// Throws as copy::compile; Error(dtype) "cannot negate …" for a turned vector of unsigned numbers.
Compiled compile(std::span<const Field> fields, std::span<const Message> messages, std::span<const Direct> directs,
                 Direction direction, bool adjoint = false);

}  // namespace damacy::halo
