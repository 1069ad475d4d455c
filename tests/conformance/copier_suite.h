// What every Copier does. A new implementation joins with
//   struct MyFixture { static TestedCopier make(); };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, CopierSuite, MyFixture);
// Chunks, rows and images are in device memory, which the host does not access. Boxes are checked against plain loops
// where the test can say what they mean, and against the host copier where they are random.
#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/copy/block.h"
#include "damacy/copy/placement.h"
#include "damacy/device/device.h"
#include "support/random_placements.h"

namespace damacy {

struct TestedCopier {
  std::shared_ptr<Device> device;  // null: this machine has none
  std::unique_ptr<Copier> copier;
};

template <class Fixture>
class CopierSuite : public ::testing::Test {
 protected:
  using Bytes = std::vector<std::byte>;
  using Shuffle = ChunkLayout::Shuffle;

  // A chunk, and what is placed from it. The chunk begins `skew` bytes into its memory; both are addresses there.
  struct Boxed {
    Bytes chunk;
    Bytes destination;
    std::function<void(PlacementList&, std::uint64_t src, std::uint64_t dst)> add;
    std::size_t skew = 0;
  };

  void SetUp() override {
    target_ = Fixture::make();
    if (target_.device == nullptr) GTEST_SKIP() << "NOT TESTED: this machine has no such device";
    stream_ = target_.device->make_stream();
  }

  const Copier& copier() const { return *target_.copier; }
  bool is_host() const { return target_.device->is_host(); }

  // The destinations after all boxes were placed from lists of at most `most` placements.
  std::vector<Bytes> placed(const std::vector<Boxed>& boxes, std::size_t most = ~std::size_t{0}) {
    Lists lists;
    prepare(boxes, lists);
    for_each_portion(*target_.copier, lists.all, most, [&](const PlacementList& portion) {
      EXPECT_LE(portion.size(), most);
      const Images images = enqueue(portion);
      EXPECT_TRUE(stream_->record().wait());
    });
    return collect(lists);
  }
  Bytes placed(const Boxed& box) { return placed(std::vector<Boxed>{box}).front(); }

  // The same with a list that is cleared before any of its work must have run.
  std::vector<Bytes> placed_from_a_cleared_list(const std::vector<Boxed>& boxes) {
    Lists lists;
    prepare(boxes, lists);
    const Images images = enqueue(lists.all);
    lists.all.clear();
    return collect(lists);
  }

  static Bytes numbered(std::size_t bytes) {
    Bytes out(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 251);
    return out;
  }

  // As blosc's writers shuffle each block: see ChunkLayout.
  static Bytes shuffled(const Bytes& plain, const ChunkLayout& layout) {
    Bytes out = plain;
    for (std::size_t begin = 0; begin < plain.size(); begin += layout.block_bytes) {
      const std::size_t size = std::min<std::size_t>(layout.block_bytes, plain.size() - begin);
      shuffle_block(layout, &plain[begin], &out[begin], size);
    }
    return out;
  }

 private:
  struct Lists {
    PlacementList all;
    std::vector<HostBuffer> sources, destinations;
  };
  struct Images {  // stay until the work is done
    HostBuffer pinned, device;
  };

  static void shuffle_block(const ChunkLayout& layout, const std::byte* in, std::byte* out, std::size_t size) {
    const std::size_t t = layout.typesize;
    const std::size_t m = size / t;
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t k = 0; k < t; ++k) {
        if (layout.shuffle == Shuffle::bytes) out[k * m + i] = in[i * t + k];
        if (layout.shuffle != Shuffle::bits) continue;
        for (std::size_t b = 0; b < 8; ++b) {
          std::byte& packed = out[(k * 8 + b) * (m / 8) + i / 8];
          const auto mask = static_cast<std::byte>(1u << (i % 8));
          packed = (in[i * t + k] >> b & std::byte{1}) == std::byte{0} ? packed & ~mask : packed | mask;
        }
      }
  }

  HostBuffer uploaded(const Bytes& bytes, std::size_t skew) {
    HostBuffer memory(target_.device->device_memory(), std::max<std::size_t>(skew + bytes.size(), 1));
    const HostBuffer pinned(target_.device->pinned_memory(), std::max<std::size_t>(bytes.size(), 1));
    std::ranges::copy(bytes, pinned.data());
    stream_->copy(memory.bytes().subspan(skew, bytes.size()), pinned.bytes().first(bytes.size()));
    stream_->record().wait();
    return memory;
  }

  void prepare(const std::vector<Boxed>& boxes, Lists& lists) {
    for (const Boxed& box : boxes) {
      lists.sources.push_back(uploaded(box.chunk, box.skew));
      lists.destinations.push_back(uploaded(box.destination, 0));
      box.add(lists.all, address(lists.sources.back()) + box.skew, address(lists.destinations.back()));
    }
  }

  Images enqueue(const PlacementList& list) {
    const std::size_t bytes = target_.copier->image_bytes(list);
    const std::size_t uploaded = std::max<std::size_t>((bytes + 15) / 16 * 16, 16);
    Images images{{target_.device->pinned_memory(), uploaded}, {target_.device->device_memory(), uploaded}};
    target_.copier->write_image(list, images.pinned.bytes().first(bytes));
    target_.copier->upload_image(*stream_, images.device.bytes(), images.pinned.bytes());
    target_.copier->enqueue(*stream_, list, images.device.bytes().first(bytes));
    return images;
  }

  std::vector<Bytes> collect(const Lists& lists) {
    std::vector<Bytes> out;
    for (const HostBuffer& destination : lists.destinations) {
      const HostBuffer back(target_.device->pinned_memory(), destination.size());
      stream_->copy(back.bytes(), destination.bytes());
      EXPECT_TRUE(stream_->record().wait());
      out.emplace_back(back.bytes().begin(), back.bytes().end());
    }
    return out;
  }

  static std::uint64_t address(const HostBuffer& buffer) { return reinterpret_cast<std::uint64_t>(buffer.data()); }

  TestedCopier target_;
  std::unique_ptr<Stream> stream_;
};

TYPED_TEST_SUITE_P(CopierSuite);

// A box of a chunk of 6 x 7 x 16 elements: transposed, one axis backwards, to a row that is longer than the box.
struct TurnedBox {
  static constexpr std::int64_t kShape[3] = {6, 7, 16}, kStart[3] = {1, 2, 3}, kExtent[3] = {4, 3, 9};
  static constexpr std::int64_t kRow = 50;  // elements of the destination for each position of the last source axis
  std::int64_t element;

  std::size_t chunk_bytes() const { return static_cast<std::size_t>(6 * 7 * 16 * element); }
  std::size_t row_bytes() const { return static_cast<std::size_t>((9 * kRow + 5) * element); }

  BlockCopy copy(Dtype dtype) const {
    BlockCopy copy;
    copy.op = {dtype, dtype, false};
    copy.rank = 3;
    const std::int64_t strides[3] = {7 * 16 * element, 16 * element, element};
    for (int i = 0; i < 3; ++i) copy.src_offset += kStart[i] * strides[i];
    copy.src_offset += (kExtent[0] - 1) * strides[0];
    copy.dst_offset = 2 * element;
    copy.axes[0] = {kExtent[2], strides[2], kRow * element};
    copy.axes[1] = {kExtent[0], -strides[0], 4 * element};
    copy.axes[2] = {kExtent[1], strides[1], element};
    return copy;
  }
  // The same, element by element.
  void place(const std::vector<std::byte>& chunk, std::vector<std::byte>& row) const {
    const auto bytes = static_cast<std::size_t>(element);
    for (std::int64_t z = 0; z < kExtent[0]; ++z)
      for (std::int64_t y = 0; y < kExtent[1]; ++y)
        for (std::int64_t x = 0; x < kExtent[2]; ++x) {
          const std::int64_t from = ((kStart[0] + z) * 7 + kStart[1] + y) * 16 + kStart[2] + x;
          const std::int64_t to = 2 + x * kRow + (kExtent[0] - 1 - z) * 4 + y;
          std::memcpy(&row[static_cast<std::size_t>(to) * bytes], &chunk[static_cast<std::size_t>(from) * bytes],
                      bytes);
        }
  }
};

TYPED_TEST_P(CopierSuite, a_box_is_its_elements_and_nothing_beside_them) {
  const TurnedBox box{4};
  const auto chunk = this->numbered(box.chunk_bytes());
  std::vector<std::byte> wanted(box.row_bytes(), std::byte{0xa5});
  const auto out = this->placed({chunk, wanted, [&](PlacementList& list, std::uint64_t src, std::uint64_t dst) {
                                   ChunkLayout layout;
                                   layout.chunk_bytes = chunk.size();
                                   list.add(box.copy(Dtype::u32), src, dst, layout);
                                 }});
  box.place(chunk, wanted);
  EXPECT_EQ(out, wanted);
}

TYPED_TEST_P(CopierSuite, a_box_of_a_shuffled_chunk_is_that_of_the_plain_one) {
  const TurnedBox box{2};
  const auto plain = this->numbered(box.chunk_bytes());
  std::vector<std::byte> wanted(box.row_bytes(), std::byte{0xa5});
  const auto before = wanted;
  box.place(plain, wanted);
  for (const auto shuffle : {ChunkLayout::Shuffle::bytes, ChunkLayout::Shuffle::bits})
    for (const std::uint32_t block_bytes : {std::uint32_t{256}, static_cast<std::uint32_t>(plain.size())}) {
      const ChunkLayout layout{shuffle, 2, block_bytes, plain.size()};
      const auto out = this->placed(
          {this->shuffled(plain, layout), before, [&](PlacementList& list, std::uint64_t src, std::uint64_t dst) {
             list.add(box.copy(Dtype::u16), src, dst, layout);
           }});
      EXPECT_EQ(out, wanted) << static_cast<int>(shuffle) << " in blocks of " << block_bytes;
    }
}

TYPED_TEST_P(CopierSuite, places_random_boxes_as_the_host_copier_does) {
  const std::uint64_t seeds = this->is_host() ? 300 : 2000;
  for (std::uint64_t seed = 0; seed < seeds && !this->HasFailure(); ++seed) {
    const copy_cuda::testing::RandomPlacement random(seed);
    const auto chunk = random.chunk();
    const auto out = this->placed({{chunk.begin(), chunk.end()},
                                   random.destination(),
                                   [&](PlacementList& list, std::uint64_t src, std::uint64_t dst) {
                                     Placement placement = random.placement;
                                     placement.src = src;
                                     placement.dst = dst + random.dst_begin();
                                     list.add(placement);
                                   },
                                   random.chunk_skew()});
    copy_cuda::testing::place_on_host(random.placement);
    EXPECT_TRUE(out == random.destination()) << random.text();
  }
}

// Boxes of all kinds in one list; the rows before them, in the order of the boxes.
template <class Boxed>
std::vector<Boxed> random_boxes(std::vector<std::unique_ptr<copy_cuda::testing::RandomPlacement>>& random) {
  std::vector<Boxed> boxes;
  for (std::uint64_t seed = 5000; seed < 5080; ++seed) {
    random.push_back(std::make_unique<copy_cuda::testing::RandomPlacement>(seed));
    const auto* const one = random.back().get();
    boxes.push_back({{one->chunk().begin(), one->chunk().end()},
                     one->destination(),
                     [one](PlacementList& list, std::uint64_t src, std::uint64_t dst) {
                       Placement placement = one->placement;
                       placement.src = src;
                       placement.dst = dst + one->dst_begin();
                       list.add(placement);
                     },
                     one->chunk_skew()});
  }
  return boxes;
}

TYPED_TEST_P(CopierSuite, a_list_places_all_its_boxes_whole_or_in_portions) {
  std::vector<std::unique_ptr<copy_cuda::testing::RandomPlacement>> random;
  const auto boxes = random_boxes<typename TestFixture::Boxed>(random);
  const auto whole = this->placed(boxes);
  const auto portions = this->placed(boxes, 7);
  for (std::size_t i = 0; i < boxes.size(); ++i) {
    copy_cuda::testing::place_on_host(random[i]->placement);
    EXPECT_TRUE(whole[i] == random[i]->destination()) << random[i]->text();
    EXPECT_TRUE(portions[i] == random[i]->destination()) << random[i]->text();
  }
}

TYPED_TEST_P(CopierSuite, a_list_may_change_once_its_work_is_enqueued) {
  std::vector<std::unique_ptr<copy_cuda::testing::RandomPlacement>> random;
  const auto boxes = random_boxes<typename TestFixture::Boxed>(random);
  EXPECT_TRUE(this->placed_from_a_cleared_list(boxes) == this->placed(boxes));
}

TYPED_TEST_P(CopierSuite, an_empty_list_is_no_work) {
  const std::vector<std::byte> before = this->numbered(100);
  EXPECT_EQ(this->placed_from_a_cleared_list({{this->numbered(10), before, [](PlacementList&, auto, auto) {}}}),
            std::vector<std::vector<std::byte>>{before});
}

// A transpose of `rank` axes of two elements each, no two of which merge.
inline BlockCopy deep_transpose(std::uint32_t rank, Dtype dtype) {
  BlockCopy copy;
  copy.op = {dtype, dtype, false};
  copy.rank = rank;
  const auto element = static_cast<std::int64_t>(size_of(dtype));
  for (std::uint32_t i = 0; i < rank; ++i) copy.axes[i] = {2, element << i, element << (rank - 1 - i)};
  copy.dst_offset = 3 * element;
  return copy;
}

TYPED_TEST_P(CopierSuite, boxes_of_very_many_axes_are_placed_whole_or_in_portions) {
  for (const std::uint32_t rank : {7u, 8u, 11u})
    for (const Dtype dtype : {Dtype::u8, Dtype::u32}) {
      const BlockCopy copy = deep_transpose(rank, dtype);
      const std::size_t element = size_of(dtype);
      const auto chunk = this->numbered(element << rank);
      std::vector<std::byte> wanted(chunk.size() + 64, std::byte{0xa5});
      const auto before = wanted;
      for (std::size_t i = 0; i < std::size_t{1} << rank; ++i) {  // bit k of a place in the chunk is bit rank-1-k there
        std::size_t at = 0;
        for (std::uint32_t k = 0; k < rank; ++k) at |= (i >> k & 1) << (rank - 1 - k);
        std::memcpy(&wanted[(3 + at) * element], &chunk[i * element], element);
      }
      const std::vector<typename TestFixture::Boxed> boxes{
          {chunk, before, [&](PlacementList& list, std::uint64_t src, std::uint64_t dst) {
             ChunkLayout layout;
             layout.chunk_bytes = chunk.size();
             list.add(copy, src, dst, layout);
           }}};
      EXPECT_EQ(this->placed(boxes).front(), wanted) << rank;
      EXPECT_EQ(this->placed(boxes, 5).front(), wanted) << rank;
    }
}

REGISTER_TYPED_TEST_SUITE_P(CopierSuite, a_box_is_its_elements_and_nothing_beside_them,
                            a_box_of_a_shuffled_chunk_is_that_of_the_plain_one,
                            places_random_boxes_as_the_host_copier_does,
                            a_list_places_all_its_boxes_whole_or_in_portions,
                            a_list_may_change_once_its_work_is_enqueued, an_empty_list_is_no_work,
                            boxes_of_very_many_axes_are_placed_whole_or_in_portions);

}  // namespace damacy
