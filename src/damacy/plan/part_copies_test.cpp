#include "damacy/plan/part_copies.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <map>
#include <set>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/copy/block_copy.h"
#include "support/draw.h"

namespace damacy {
namespace {

using testing::Draw;

// Visits the positions of a box of these extents, the last axis first.
template <class Visit>
void for_positions(const Dims& extents, Visit visit) {
  Dims at(extents.size(), 0);
  for (std::int64_t n = *product(extents.span()); n > 0; --n) {
    visit(at);
    for (std::size_t i = at.size(); i-- > 0 && ++at[i] == extents[i];) at[i] = 0;
  }
}

std::int64_t offset_of(const Dims& at, const Dims& strides) {
  std::int64_t offset = 0;
  for (std::size_t i = 0; i < at.size(); ++i) offset += at[i] * strides[i];
  return offset;
}

Dims in_bytes(Dims strides, std::size_t element) {
  for (std::int64_t& stride : strides) stride *= static_cast<std::int64_t>(element);
  return strides;
}

std::uint16_t value_at(const Dims& index) {
  std::uint16_t value = 1;
  for (const std::int64_t i : index) value = static_cast<std::uint16_t>((value * 31 + i) % 50'000);
  return value;
}

// One element of a part, as the definition of parts has it.
struct Element {
  std::int64_t from;  // byte of the decoded chunk; of constants 0
  std::int64_t to;    // byte of the batch
  double value;
};

// Parts of arrays of u16 with little or big bytes: boxes, and axes with steps and borders. Rows are u16 or f32.
class RandomBatch {
 public:
  explicit RandomBatch(std::uint64_t seed) : draw_(seed) {
    const auto rank = static_cast<std::size_t>(draw_.from(1, 3));
    for (int i = 0; i < 2; ++i) arrays_.push_back(random_array(rank));
    for (std::int64_t parts = draw_.from(1, 5); parts > 0; --parts) {
      const auto& array = arrays_[static_cast<std::size_t>(draw_.from(0, 1))];
      draw_.from(0, 1) == 0 ? add_box(array) : add_axes(array);
    }
    batch_.assign(batch_.size(), std::byte{0xff});
  }

  void check() {
    const auto portions = static_cast<std::uint32_t>(draw_.from(1, 3));
    std::size_t uses = 0;
    for (std::uint32_t portion = 0; portion < portions; ++portion) {
      const BatchPlan plan = plan_batch(parts_, portion, portions);
      for (const PlannedShard& shard : plan.shards)
        for (std::uint32_t c = shard.first_chunk; c < shard.first_chunk + shard.chunk_count; ++c) {
          const PlannedChunk& chunk = plan.chunks[c];
          for (std::uint32_t u = chunk.first_use; u < chunk.first_use + chunk.use_count; ++u, ++uses)
            check_use({*plan.arrays[shard.array], chunk.number}, plan.uses[u],
                      model_[{plan.arrays[shard.array], chunk.number, plan.uses[u]}]);
        }
    }
    EXPECT_EQ(uses, model_.size());
    std::set<std::int64_t> written;
    for (const auto& [use, elements] : model_)
      for (const Element& element : elements) {
        EXPECT_TRUE(written.insert(element.to).second);
        EXPECT_EQ(value_in(batch_, element.to, memory_[std::get<2>(use)].dtype), element.value);
      }
  }

 private:
  struct Memory {
    Dims strides;
    std::int64_t begin;
    Dtype dtype;
  };

  std::shared_ptr<const Array> random_array(std::size_t rank) {
    ArrayMetadata metadata;
    for (std::size_t i = 0; i < rank; ++i) {
      metadata.shape.push_back(draw_.from(1, 9));
      metadata.chunk_shape.push_back(draw_.from(1, 5));
      metadata.storage_order.push_back(static_cast<std::int64_t>(i));
    }
    metadata.shard_shape = metadata.chunk_shape;
    metadata.dtype = Dtype::u16;
    metadata.swap_bytes = draw_.from(0, 1) == 0;
    return std::make_shared<Array>("a", nullptr, "", "zarr.json", Stamp{}, metadata, std::vector<std::string>{});
  }

  // Row-major, with a gap before it.
  Memory& add_memory(const Dims& extents) {
    const Dtype dtype = draw_.from(0, 1) == 0 ? Dtype::u16 : Dtype::f32;
    const auto begin = static_cast<std::int64_t>(batch_.size()) + 4 * draw_.from(0, 2);
    batch_.resize(static_cast<std::size_t>(begin + 4 * *product(extents.span())));
    memory_.push_back({in_bytes(row_major_strides(extents), size_of(dtype)), begin, dtype});
    return memory_.back();
  }

  void add_box(const std::shared_ptr<const Array>& array) {
    Box box;
    for (const std::int64_t size : array->shape()) {
      box.start.push_back(draw_.from(0, size - 1));
      box.stop.push_back(draw_.from(box.start[box.start.size() - 1] + 1, size));
    }
    add_memory(box.extents());
    parts_.push_back({array, box});
    for_positions(box.extents(), [&](const Dims& at) {
      Dims index;
      for (std::size_t i = 0; i < at.size(); ++i) index.push_back(box.start[i] + at[i]);
      add_stored(index, at);
    });
  }

  void add_axes(const std::shared_ptr<const Array>& array) {
    std::vector<PartAxis> axes;
    Dims extents;
    for (const std::int64_t size : array->shape()) {
      PartAxis axis;
      axis.border = draw_.from(0, 1) == 0 ? Border::constant : Border::edge;
      axis.start = draw_.from(-6, size + 4);
      axis.step = draw_.from(1, 3);
      axis.stop = axis.start + draw_.from(1, 12);
      extents.push_back(axis.extent());
      axes.push_back(axis);
    }
    const Memory& memory = add_memory(extents);
    for (std::size_t i = 0; i < axes.size(); ++i) {
      axes[i].stride = memory.strides[i];
      axes[i].constant =
          memory.dtype == Dtype::u16 ? 60'000 + i : std::bit_cast<std::uint32_t>(60'000.f + static_cast<float>(i));
    }
    parts_.push_back({array,
                      {Dims(extents.size(), 0), extents},
                      std::make_shared<const PartPlacing>(array->shape(), array->metadata().chunk_shape, axes, 0,
                                                          std::vector<Finish>{}, Dtype::u16, memory.dtype)});
    for_positions(extents, [&](const Dims& at) {
      Dims index;
      for (std::size_t i = 0; i < at.size(); ++i) {
        const std::int64_t wanted = axes[i].start + at[i] * axes[i].step, last = array->shape()[i] - 1;
        if (axes[i].border == Border::constant && (wanted < 0 || wanted > last))
          return add(PlannedChunk::kConstants, {0, 0, 60'000. + static_cast<double>(i)}, at);
        index.push_back(std::clamp<std::int64_t>(wanted, 0, last));
      }
      add_stored(index, at);
    });
  }

  // Of the last part; `at`: its position in it.
  void add_stored(const Dims& index, const Dims& at) {
    const Array& array = *parts_.back().array;
    Dims chunk, inside;
    for (std::size_t i = 0; i < index.size(); ++i) {
      chunk.push_back(index[i] / array.metadata().chunk_shape[i]);
      inside.push_back(index[i] % array.metadata().chunk_shape[i]);
    }
    const std::int64_t from = 2 * offset_of(inside, row_major_strides(array.metadata().chunk_shape));
    add(offset_of(chunk, row_major_strides(array.grid())), {from, 0, static_cast<double>(value_at(index))}, at);
  }
  void add(std::int64_t number, Element element, const Dims& at) {
    const auto part = static_cast<std::uint32_t>(parts_.size() - 1);
    element.to = memory_[part].begin + offset_of(at, memory_[part].strides);
    model_[{parts_[part].array.get(), number, part}].push_back(element);
  }

  // Only what is needed is there.
  static std::vector<std::byte> decoded(const ChunkInArray& chunk, const ByteRange& needed) {
    const ArrayMetadata& metadata = chunk.array.metadata();
    std::vector<std::byte> bytes(static_cast<std::size_t>(metadata.chunk_bytes()), std::byte{0xee});
    std::size_t byte = 0;
    for_positions(metadata.chunk_shape, [&](const Dims& inside) {
      Dims index;
      for (std::size_t i = 0; i < inside.size(); ++i) index.push_back(chunk.box.start[i] + inside[i]);
      std::uint16_t value = value_at(index);
      if (metadata.swap_bytes) value = static_cast<std::uint16_t>(value << 8 | value >> 8);
      if (byte >= needed.begin && byte < needed.end) std::memcpy(bytes.data() + byte, &value, sizeof value);
      byte += sizeof value;
    });
    return bytes;
  }

  void check_use(const ChunkInArray& chunk, std::uint32_t number, const std::vector<Element>& elements) {
    ASSERT_FALSE(elements.empty()) << "a part that needs nothing of a chunk uses it";
    const PlannedPart& part = parts_[number];
    std::vector<std::byte> stored;
    if (!chunk.is_constant) {
      const auto [first, last] = std::ranges::minmax_element(elements, {}, &Element::from);
      const ByteRange needed = bytes_needed(part, chunk);
      EXPECT_EQ(needed,
                (ByteRange{static_cast<std::uint64_t>(first->from), static_cast<std::uint64_t>(last->from) + 2}));
      EXPECT_EQ(count_elements(part, chunk), static_cast<std::int64_t>(elements.size()));
      stored = decoded(chunk, needed);
    }
    EXPECT_EQ(run_copies(chunk, number, false, stored, batch_), elements.size());
    if (chunk.is_constant) return;
    constexpr std::uint16_t kSeven = 7;
    std::vector<std::byte> filled(batch_.size(), std::byte{0xff});
    EXPECT_EQ(run_copies(chunk, number, true, std::as_bytes(std::span(&kSeven, 1)), filled), elements.size());
    for (const Element& element : elements) EXPECT_EQ(value_in(filled, element.to, memory_[number].dtype), 7);
    const auto untouched = static_cast<std::size_t>(std::ranges::count(filled, std::byte{0xff}));
    EXPECT_EQ(untouched, filled.size() - elements.size() * size_of(memory_[number].dtype));
  }

  std::size_t run_copies(const ChunkInArray& chunk, std::uint32_t number, bool fills, std::span<const std::byte> from,
                         std::span<std::byte> to) const {
    const Memory& memory = memory_[number];
    std::int64_t copies = 0, elements = 0;
    for_copies(parts_[number], chunk, {{parts_[number].box, memory.strides, memory.begin}, memory.dtype, fills},
               [&](const BlockCopy& copy) {
                 run_block_copy(copy, from, to);
                 ++copies;
                 elements += Use{number, copy}.elements();
               });
    EXPECT_EQ(copies, count_copies(parts_[number], chunk));
    return static_cast<std::size_t>(elements);
  }

  static double value_in(std::span<const std::byte> bytes, std::int64_t at, Dtype dtype) {
    const std::byte* const from = bytes.data() + at;
    std::uint16_t whole = 0;
    float real = 0;
    if (dtype != Dtype::u16) return std::memcpy(&real, from, sizeof real), real;
    return std::memcpy(&whole, from, sizeof whole), whole;
  }

  Draw draw_;
  std::vector<std::shared_ptr<const Array>> arrays_;
  std::vector<PlannedPart> parts_;
  std::vector<Memory> memory_;  // of the parts
  std::vector<std::byte> batch_;
  std::map<std::tuple<const Array*, std::int64_t, std::uint32_t>, std::vector<Element>> model_;  // array, chunk, part
};

TEST(PartCopies, of_random_parts_bring_each_element_once_from_what_is_needed_of_its_chunk) {
  for (std::uint64_t seed = 0; seed < 200 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RandomBatch(seed).check();
  }
}

}  // namespace
}  // namespace damacy
