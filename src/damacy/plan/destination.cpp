#include "damacy/plan/destination.h"

#include "damacy/zarr/metadata.h"

namespace damacy {
namespace {

// Without source strides.
BlockCopy copy_into(const Box& part, const BoxMemory& to, const CopyOp& op) {
  BlockCopy copy;
  copy.op = op;
  copy.dst_offset = to.begin;
  copy.rank = static_cast<std::uint32_t>(part.rank());
  for (std::size_t i = 0; i < part.rank(); ++i) {
    copy.axes[i] = {part.stop[i] - part.start[i], 0, to.strides[i]};
    copy.dst_offset += (part.start[i] - to.box.start[i]) * to.strides[i];
  }
  return copy;
}

}  // namespace

Dtype type_of_bits(Dtype dtype) noexcept {
  return dtype == Dtype::boolean ? Dtype::u8 : dtype;
}

BlockCopy copy_of_box(const Array& array, const Box& chunk, const Box& part, const BoxMemory& to, const CopyOp& op) {
  BlockCopy copy = copy_into(part, to, op);
  for (std::size_t i = 0; i < part.rank(); ++i) {
    copy.axes[i].src_stride = array.chunk_strides()[i];
    copy.src_offset += (part.start[i] - chunk.start[i]) * array.chunk_strides()[i];
  }
  normalise(copy);
  return copy;
}

BlockCopy fill_of_box(const Box& part, const BoxMemory& to, const CopyOp& op) {
  BlockCopy copy = copy_into(part, to, op);
  normalise(copy);
  return copy;
}

ByteRange bytes_of(const Array& array, const Box& chunk, const Box& part) noexcept {
  const Dims& strides = array.chunk_strides();
  std::int64_t first = 0;
  std::int64_t last = 0;
  for (std::size_t i = 0; i < part.rank(); ++i) {
    first += (part.start[i] - chunk.start[i]) * strides[i];
    last += (part.stop[i] - 1 - chunk.start[i]) * strides[i];
  }
  return {static_cast<std::uint64_t>(first), static_cast<std::uint64_t>(last) + size_of(array.metadata().dtype)};
}

}  // namespace damacy
