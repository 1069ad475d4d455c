// Places element by element: any conversion, any strides, any layout and alignment. A value is converted through the
// widest type of its kind (signed, unsigned, floating), which holds it exactly, so that 39 conversions cover all 169.
// Knows one record at a time. A block owns a tile of elements, and a thread every 256th element.
#pragma once

#include "damacy/copy/cuda/layout.h"
#include "damacy/copy/finish.h"

namespace damacy::copy_cuda {

struct Bits {
  u64 low = 0;
  u64 high = 0;  // of elements of 16 bytes
};

DAMACY_ELEMENT u64 byte_swapped_parts(u64 bits, u32 size, u32 part) {
  if (part == 2) return byte_swapped(static_cast<u16>(bits));
  if (part == 8) return byte_swapped(bits);
  const u64 low = byte_swapped(static_cast<u32>(bits));
  return size == 4 ? low : static_cast<u64>(byte_swapped(static_cast<u32>(bits >> 32))) << 32 | low;
}

DAMACY_ELEMENT u64 load_aligned(u64 address, u32 size) {
  if (size == 1) return load<u8>(address);
  if (size == 2) return load<u16>(address);
  return size == 4 ? load<u32>(address) : load<u64>(address);
}

template <class Index>
DAMACY_ELEMENT u64 load_part(const Record& record, Index offset, u32 size) {
  const u64 address = record.chunk + offset;
  u64 bits;
  if (record.shuffle == kShufflePlain && (address & (size - 1)) == 0)
    bits = load_aligned(address, size);
  else
    bits = bytes_at(record, offset, size);
  return record.swap == 0 ? bits : byte_swapped_parts(bits, size, record.swap);
}

DAMACY_ELEMENT void store_part(u64 address, u64 bits, u32 size) {
  if ((address & (size - 1)) != 0) {
    for (u32 k = 0; k < size; ++k) store(address + k, static_cast<u8>(bits >> (8 * k)));
  } else if (size == 1) {
    store(address, static_cast<u8>(bits));
  } else if (size == 2) {
    store(address, static_cast<u16>(bits));
  } else if (size == 4) {
    store(address, static_cast<u32>(bits));
  } else {
    store(address, bits);
  }
}

template <class From>
DAMACY_ELEMENT From read_as(u64 bits) {
  return bits_as<From>(static_cast<UnsignedOf<sizeof(From)>>(bits));
}

template <class To, class From>
DAMACY_ELEMENT u64 written_as(From value) {
  const To result = convert<To>(value);
  return bits_as<UnsignedOf<sizeof(To)>>(result);
}

template <class Wide>
DAMACY_ELEMENT u64 narrowed(Wide value, Dtype to) {
  switch (to) {
    case Dtype::f32:
      return written_as<float>(value);
    case Dtype::bf16:
      return written_as<Bf16>(value);
    case Dtype::f16:
      return written_as<F16>(value);
    case Dtype::f64:
      return written_as<double>(value);
    case Dtype::u8:
      return written_as<std::uint8_t>(value);
    case Dtype::i8:
      return written_as<std::int8_t>(value);
    case Dtype::u16:
      return written_as<std::uint16_t>(value);
    case Dtype::i16:
      return written_as<std::int16_t>(value);
    case Dtype::u32:
      return written_as<std::uint32_t>(value);
    case Dtype::i32:
      return written_as<std::int32_t>(value);
    case Dtype::u64:
      return written_as<std::uint64_t>(value);
    case Dtype::i64:
      return written_as<std::int64_t>(value);
    default:
      return written_as<Bool>(value);
  }
}

DAMACY_ELEMENT double widened_float(u64 bits, Dtype from) {
  switch (from) {
    case Dtype::f32:
      return convert<double>(read_as<float>(bits));
    case Dtype::bf16:
      return convert<double>(read_as<Bf16>(bits));
    case Dtype::f16:
      return convert<double>(read_as<F16>(bits));
    default:
      return read_as<double>(bits);
  }
}

DAMACY_ELEMENT i64 widened_signed(u64 bits, Dtype from) {
  switch (from) {
    case Dtype::i8:
      return read_as<std::int8_t>(bits);
    case Dtype::i16:
      return read_as<std::int16_t>(bits);
    case Dtype::i32:
      return read_as<std::int32_t>(bits);
    default:
      return read_as<std::int64_t>(bits);
  }
}

DAMACY_ELEMENT u64 converted(u64 bits, Dtype from, Dtype to) {
  switch (from) {
    case Dtype::f32:
    case Dtype::bf16:
    case Dtype::f16:
    case Dtype::f64:
      return narrowed(widened_float(bits, from), to);
    case Dtype::i8:
    case Dtype::i16:
    case Dtype::i32:
    case Dtype::i64:
      return narrowed(widened_signed(bits, from), to);
    case Dtype::boolean:
      return narrowed(static_cast<u64>(bits != 0), to);
    default:
      return narrowed(bits, to);
  }
}

// The value of a stored element in a working type that holds it, or its nearest.
template <class Float>
DAMACY_ELEMENT Float working_value(u64 bits, Dtype from) {
  switch (from) {
    case Dtype::f32:
    case Dtype::bf16:
    case Dtype::f16:
    case Dtype::f64:
      return static_cast<Float>(widened_float(bits, from));
    case Dtype::i8:
    case Dtype::i16:
    case Dtype::i32:
    case Dtype::i64:
      return static_cast<Float>(widened_signed(bits, from));
    case Dtype::boolean:
      return bits != 0 ? Float{1} : Float{0};
    default:
      return static_cast<Float>(bits);
  }
}

template <class To>
DAMACY_ELEMENT u64 clipped_as(const Finish& finish, u64 bits) {
  const To value = finish_detail::clipped(read_as<To>(bits), finish.has_low, read_as<To>(finish.low), finish.has_high,
                                          read_as<To>(finish.high));
  return bits_as<UnsignedOf<sizeof(To)>>(value);
}

DAMACY_ELEMENT u64 clipped_bits(const Finish& finish, u64 bits, Dtype to) {
  switch (to) {
    case Dtype::f32:
      return clipped_as<float>(finish, bits);
    case Dtype::bf16:
      return clipped_as<Bf16>(finish, bits);
    case Dtype::f16:
      return clipped_as<F16>(finish, bits);
    case Dtype::f64:
      return clipped_as<double>(finish, bits);
    case Dtype::i8:
      return clipped_as<std::int8_t>(finish, bits);
    case Dtype::i16:
      return clipped_as<std::int16_t>(finish, bits);
    case Dtype::i32:
      return clipped_as<std::int32_t>(finish, bits);
    case Dtype::i64:
      return clipped_as<std::int64_t>(finish, bits);
    default:  // zero-extended: the order of the bits is that of the values
      return clipped_as<std::uint64_t>(finish, bits);
  }
}

DAMACY_ELEMENT u64 computed(const Finish& finish, u64 bits, Dtype from, Dtype to) {
  const bool rounds = finish.is_rounded && !is_float(to);
  if (!finish.computes()) {
    if (!rounds || !is_float(from)) return from == to && from != Dtype::boolean ? bits : converted(bits, from, to);
    return narrowed(finish_detail::rounded(widened_float(bits, from)), to);
  }
  if (!finish.is_wide || is_narrow(to)) {
    const float y = finish.is_wide ? convert<float>(scaled(finish, working_value<double>(bits, from)))
                                   : scaled(finish, working_value<float>(bits, from));
    return narrowed(rounds ? finish_detail::rounded(y) : y, to);
  }
  const double y = scaled(finish, working_value<double>(bits, from));
  return narrowed(rounds ? finish_detail::rounded(y) : y, to);
}

DAMACY_ELEMENT u64 finished(const Finish& finish, u64 bits, Dtype from, Dtype to) {
  if (is_missing(finish, bits, from)) return finish.replacement;
  const u64 result = computed(finish, bits, from, to);
  return finish.has_low || finish.has_high ? clipped_bits(finish, result, to) : result;
}

template <class Index>
struct ElementPlace {
  Index source;  // bytes into the chunk
  u64 dst;
};

template <class Index>
DAMACY_ELEMENT ElementPlace<Index> find_element(const Record& record, Index unit) {
  const auto split = [](Index number, u64 extent, const Divisor& by) -> Index {
    if constexpr (sizeof(Index) == 4)
      return divide(number, by);
    else
      return number / extent;
  };
  Index row = split(unit, record.row_elements, record.by_slots);
  const Index x = unit - row * static_cast<Index>(record.row_elements);
  i64 source = record.src_offset + static_cast<i64>(x) * record.src_step;
  u64 dst = record.dst + static_cast<u64>(x) * record.to_bytes;
  for (u32 i = 0; i < record.outer_axes; ++i) {
    const RecordAxis& axis = record.axes[i];
    const Index next = split(row, axis.extent, axis.by_extent);
    const Index at = row - next * static_cast<Index>(axis.extent);
    source += static_cast<i64>(at) * axis.src_stride;
    dst += static_cast<u64>(static_cast<i64>(at) * axis.dst_stride);
    row = next;
  }
  return {static_cast<Index>(source), dst};
}

template <class Index>
DAMACY_ELEMENT void place_element(const Record& record, Index unit) {
  const auto from = static_cast<Dtype>(record.from);
  const auto to = static_cast<Dtype>(record.to);
  const auto [source, dst] = find_element(record, unit);
  if (record.from_bytes == 16) {
    store_part(dst, load_part(record, source, 8), 8);
    return store_part(dst + 8, load_part(record, static_cast<Index>(source + 8), 8), 8);
  }
  const u64 bits = load_part(record, source, record.from_bytes);
  const bool moves = from == to && from != Dtype::boolean;
  store_part(dst, moves ? bits : converted(bits, from, to), record.to_bytes);
}

template <class Index>
DAMACY_ELEMENT void place_finished_element(const Record& record, const Finish& finish, Index unit) {
  const auto from = static_cast<Dtype>(record.from);
  const auto to = static_cast<Dtype>(record.to);
  const auto [source, dst] = find_element(record, unit);
  const u64 bits = finish.is_constant ? finish.replacement
                                      : finished(finish, load_part(record, source, record.from_bytes), from, to);
  store_part(dst, bits, record.to_bytes);
}

template <class Index, bool kFinished = false>
DAMACY_ELEMENT void place_elements(const Group& group, u32 tile_index, u32 thread) {
  const Tile tile = find_tile(group, tile_index);
  const Record& record = *tile.record;
  const u64 begin = static_cast<u64>(tile.index) * kTileElements;
  const u64 left = record.units - begin;
  const u32 count = left < kTileElements ? static_cast<u32>(left) : kTileElements;
  DAMACY_NO_UNROLL
  for (u32 i = thread; i < count; i += kThreads) {
    if constexpr (kFinished)
      place_finished_element(record, group.finishes[record.finish], static_cast<Index>(begin + i));
    else
      place_element(record, static_cast<Index>(begin + i));
  }
}

}  // namespace damacy::copy_cuda
