// Runs the copiers' suite. Also tests deep placements: of more axes than a `Placement` has, run whole or in portions.
#include "damacy/copy/placement.h"

#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "conformance/copier_suite.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"
#include "fakes/shallow_copier.h"
#include "support/error_of.h"

namespace damacy {
namespace {

template <HostOrder::Kind kind>
struct HostFixture {
  static TestedCopier make() {
    return {make_host_device({.kind = kind, .seed = 3, .guard = true}), make_host_copier()};
  }
};
struct ShallowFixture {
  static TestedCopier make() {
    return {make_host_device({.kind = HostOrder::Kind::lazy, .guard = true}),
            std::make_unique<testing::ShallowCopier>()};
  }
};
struct GpuFixture {
  static TestedCopier make() {
    if (probe_cuda().state != CudaState::usable) return {};
    return {bind_primary_context(0), make_cuda_copier()};
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(HostEager, CopierSuite, HostFixture<HostOrder::Kind::eager>);
INSTANTIATE_TYPED_TEST_SUITE_P(HostLazy, CopierSuite, HostFixture<HostOrder::Kind::lazy>);
INSTANTIATE_TYPED_TEST_SUITE_P(HostRandom, CopierSuite, HostFixture<HostOrder::Kind::random>);
INSTANTIATE_TYPED_TEST_SUITE_P(HostShallow, CopierSuite, ShallowFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, CopierSuite, GpuFixture);

std::vector<std::byte> numbered(std::size_t bytes) {
  std::vector<std::byte> out(bytes);
  for (std::size_t i = 0; i < bytes; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 251);
  return out;
}

std::vector<std::byte> run(Copier& copier, const BlockCopy& copy, const std::vector<std::byte>& chunk,
                           const ChunkLayout& layout, std::size_t most) {
  std::vector<std::byte> out(chunk.size() + 64);
  PlacementList list;
  list.add(copy, reinterpret_cast<std::uint64_t>(chunk.data()), reinterpret_cast<std::uint64_t>(out.data()), layout);
  EXPECT_EQ(list.size(), 1u);
  const auto device = make_host_device({.kind = HostOrder::Kind::lazy});
  const auto stream = device->make_stream();
  for_each_portion(copier, list, most, [&](const PlacementList& portion) {
    EXPECT_LE(portion.size(), most);
    HostBuffer image(device->device_memory(), copier.image_bytes(portion));
    copier.write_image(portion, image.bytes());
    copier.enqueue(*stream, portion, image.bytes());
    stream->record().wait();
  });
  return out;
}

TEST(DeepPlacements, come_in_portions_to_a_copier_that_takes_none) {
  for (const std::uint32_t rank : {7u, 8u, 13u}) {
    const std::vector<std::byte> chunk = numbered(std::size_t{1} << rank);
    ChunkLayout layout;
    layout.chunk_bytes = chunk.size();
    testing::ShallowCopier shallow;
    run(shallow, deep_transpose(rank, Dtype::u8), chunk, layout, 5);
    EXPECT_EQ(shallow.most(), std::min(5u, 1u << (rank - Placement::kRank)));
    EXPECT_FALSE(shallow.deep());
  }
}

TEST(DeepPlacements, of_shuffled_chunks_are_the_same_in_portions) {
  const BlockCopy copy = deep_transpose(9, Dtype::u16);
  const std::vector<std::byte> chunk = numbered(2 << 9);
  const ChunkLayout layout{ChunkLayout::Shuffle::bytes, 2, 256, chunk.size()};
  testing::ShallowCopier shallow;
  const auto whole = make_host_copier();
  EXPECT_EQ(run(shallow, copy, chunk, layout, 3), run(*whole, copy, chunk, layout, 3));
}

TEST(DeepPlacements, take_one_record_whatever_their_rank) {
  PlacementList list;
  ChunkLayout layout;
  layout.chunk_bytes = std::uint64_t{1} << 32;
  list.add(deep_transpose(32, Dtype::u8), 0, 0, layout);
  EXPECT_EQ(list.size(), 1u);
  EXPECT_LT(make_host_copier()->image_bytes(list), 2000u);
}

TEST(DeepPlacements, without_elements_are_dropped) {
  BlockCopy copy = deep_transpose(8, Dtype::u8);
  copy.axes[3].extent = 0;
  PlacementList list;
  list.add(copy, 0, 0, {});
  EXPECT_EQ(list.size(), 0u);
}

TEST(DeepPlacements, are_moved_with_their_list) {
  const std::vector<std::byte> chunk = numbered(1 << 8);
  std::vector<std::byte> out(chunk.size() + 64), wanted(chunk.size() + 64);
  const BlockCopy copy = deep_transpose(8, Dtype::u8);
  run_block_copy(copy, chunk, wanted);
  PlacementList list;
  ChunkLayout layout;
  layout.chunk_bytes = chunk.size();
  list.add(copy, reinterpret_cast<std::uint64_t>(chunk.data()), 0, layout);
  list.rebase(reinterpret_cast<std::uint64_t>(out.data()));
  const auto copier = make_host_copier();
  const auto device = make_host_device({.kind = HostOrder::Kind::eager});
  const auto stream = device->make_stream();
  std::vector<std::byte> image(copier->image_bytes(list));
  copier->write_image(list, image);
  copier->enqueue(*stream, list, image);
  stream->record().wait();
  EXPECT_EQ(out, wanted);
}

class PortionsOnDevice : public ::testing::TestWithParam<HostOrder::Kind> {
 protected:
  const BlockCopy copy = deep_transpose(16, Dtype::u8);  // 1,024 placements
  const std::vector<std::byte> chunk = numbered(1 << 16);
  std::vector<std::byte> out = std::vector<std::byte>(chunk.size() + 64);
  const std::shared_ptr<Device> device = make_host_device({.kind = GetParam(), .seed = 5});
  const std::unique_ptr<Stream> stream = device->make_stream();
  testing::ShallowCopier copier;
  PlacementList list;

  PortionsOnDevice() {
    ChunkLayout layout;
    layout.chunk_bytes = chunk.size();
    list.add(copy, reinterpret_cast<std::uint64_t>(chunk.data()), reinterpret_cast<std::uint64_t>(out.data()), layout);
  }
};

TEST_P(PortionsOnDevice, have_their_images_in_the_same_memory) {
  std::vector<std::byte> pinned_bytes(256 << 10), image(256 << 10), wanted(out.size());
  run_block_copy(copy, chunk, wanted);
  FencedMemory pinned(pinned_bytes);
  enqueue_in_portions(copier, *stream, list, pinned, image);
  EXPECT_EQ(copier.most(), 256u);
  pinned.ready().wait();
  EXPECT_EQ(out, wanted);
}

TEST_P(PortionsOnDevice, wait_for_the_last_use_of_that_memory) {
  std::vector<std::byte> pinned_bytes(256 << 10, std::byte{1}), image(256 << 10), used(1);
  stream->copy(used, std::span(pinned_bytes).first(1));
  FencedMemory pinned(pinned_bytes);
  pinned.reusable_after(stream->record());
  enqueue_in_portions(copier, *stream, list, pinned, image);
  EXPECT_EQ(used.front(), std::byte{1});
  pinned.ready().wait();  // it uses memory of this test
}

TEST_P(PortionsOnDevice, without_room_for_an_image_are_refused) {
  std::vector<std::byte> pinned_bytes(1000), image(1000);
  FencedMemory pinned(pinned_bytes);
  const Error error = error_of([&] { enqueue_in_portions(copier, *stream, list, pinned, image); });
  EXPECT_EQ(error.status(), Status::oom);
  EXPECT_NE(error.message().find(" bytes, its memory 1000"), std::string::npos) << error.message();
}

INSTANTIATE_TEST_SUITE_P(Devices, PortionsOnDevice, ::testing::Values(HostOrder::Kind::lazy, HostOrder::Kind::random),
                         [](const auto& chosen) { return chosen.param == HostOrder::Kind::lazy ? "lazy" : "random"; });

TEST(PlacementList, keeps_what_a_copier_prepared_until_it_changes) {
  const auto prepared = std::make_shared<const int>(1);
  Placement placement;
  placement.rank = 0;
  PlacementList list, more;
  list.add(placement);
  more.add(placement);
  const auto is_kept_after = [&](auto change) {
    list.set_prepared(prepared);
    change();
    return list.take_prepared() == prepared;
  };
  EXPECT_TRUE(is_kept_after([] {}));
  EXPECT_EQ(list.take_prepared(), nullptr);
  EXPECT_FALSE(is_kept_after([&] { list.add(placement); }));
  EXPECT_FALSE(is_kept_after([&] { list.add(more); }));
  EXPECT_FALSE(is_kept_after([&] { list.add(deep_transpose(8, Dtype::u8), 0, 0, {}); }));
  EXPECT_FALSE(is_kept_after([&] { list.rebase(4096); }));
  EXPECT_FALSE(is_kept_after([&] { list.clear(); }));
}

}  // namespace
}  // namespace damacy
