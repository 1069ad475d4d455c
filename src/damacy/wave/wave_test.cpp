// A wave's staging memory by itself: its pieces, and when they are reported.
#include "damacy/wave/wave.h"

#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "support/wave_runs.h"

namespace damacy {
namespace {

constexpr std::size_t kStaging = 64 << 10;  // so a piece is 8 KiB

class Recorder final : public WaveWatcher {
 public:
  void piece_written(const std::shared_ptr<Wave>&, StagedPiece& piece) noexcept override { pieces.push_back(&piece); }
  void wave_written(const std::shared_ptr<Wave>&) noexcept override { ++waves; }
  void copy_now(std::span<std::byte>, std::span<const std::byte>) override { ADD_FAILURE(); }
  std::vector<StagedPiece*> pieces;
  int waves = 0;
};

class WaveTest : public ::testing::Test {
 protected:
  static Pool<WaveSlot> one_slot() {
    auto slot = std::make_unique<WaveSlot>();
    slot->source = HostBuffer(std::make_shared<PageAlloc>(), kStaging + Wave::kAlignment);
    slot->destination = HostBuffer(std::make_shared<PageAlloc>(), kStaging);
    slot->frames = make_host_stream_decoder()->make_list({.scratch_bytes = kStaging});
    std::vector<std::unique_ptr<WaveSlot>> slots;
    slots.push_back(std::move(slot));
    return Pool<WaveSlot>(std::move(slots));
  }

  Arena staging{std::make_shared<PageAlloc>(), kStaging};
  Pool<WaveSlot> slots = one_slot();
  Recorder recorder;
  std::shared_ptr<Wave> wave = std::make_shared<Wave>(*slots.acquire({}), staging, recorder);
};

TEST_F(WaveTest, a_piece_is_reported_when_it_is_full_and_written_and_the_wave_after_its_pieces) {
  wave->reserve(8000, kStaging, {});
  {
    const StagedRange first = wave->stage(4000);
    {
      const StagedRange second = wave->stage(3000);
    }
    wave->reserve(4096, kStaging, {});  // does not fit behind them
    EXPECT_TRUE(recorder.pieces.empty());
  }
  ASSERT_EQ(recorder.pieces.size(), 1u);
  EXPECT_EQ(recorder.pieces[0]->bytes, Wave::padded(4000) + Wave::padded(3000));
  {
    const StagedRange third = wave->stage(10);
    EXPECT_EQ(third.begin(), recorder.pieces[0]->bytes);
    wave->seal(0);
    EXPECT_EQ(recorder.waves, 0);
  }
  EXPECT_EQ(recorder.pieces.size(), 2u);
  EXPECT_EQ(recorder.waves, 1);
}

TEST_F(WaveTest, a_reported_piece_takes_nothing_more_although_the_next_could_not_be_allocated) {
  wave->reserve(4096, kStaging, {});
  {
    const StagedRange range = wave->stage(4096);
  }
  EXPECT_THROW(wave->reserve(kStaging + 1, kStaging, {}), Error);
  ASSERT_EQ(recorder.pieces.size(), 1u);
  wave->reserve(1000, kStaging, {});
  const StagedRange next = wave->stage(1000);
  EXPECT_EQ(recorder.pieces[0]->bytes, 4096u);
  EXPECT_EQ(wave->pieces().size(), 2u);
}

TEST_F(WaveTest, its_memory_stays_until_the_last_wave_that_places_from_it_retires) {
  testing::WaveRuns runs({}, 3);
  std::stop_source stopped;
  stopped.request_stop();
  const auto is_free = [&] { return runs.slots.acquire(stopped.get_token()).has_value(); };
  const auto earlier = runs.new_wave(), second = runs.new_wave(), third = runs.new_wave();
  EXPECT_TRUE(earlier->place_from(earlier, 100, 0));
  EXPECT_FALSE(second->place_from(earlier, 100, 0));
  EXPECT_TRUE(second->place_from(earlier, 100, 1));
  EXPECT_TRUE(second->place_from(earlier, 100, 1));
  EXPECT_FALSE(second->place_from(third, 100, 1));
  EXPECT_EQ(second->joined_bytes(), 2 * Wave::padded(100));
  EXPECT_TRUE(third->place_from(earlier, 100, 1));
  earlier->give_back();
  EXPECT_TRUE(earlier->has_retired());
  EXPECT_FALSE(is_free());
  second->give_back();
  EXPECT_TRUE(is_free());  // its own
  const auto fourth = runs.new_wave();
  EXPECT_FALSE(is_free());
  EXPECT_FALSE(fourth->place_from(earlier, 100, 1));
  third->give_back();
  EXPECT_TRUE(is_free());
}

// Small pieces that hung reads hold, far apart: there is room for what is asked for, and for no piece of usual size.
TEST_F(WaveTest, a_piece_is_smaller_than_usual_where_stranded_ones_leave_no_room_for_more) {
  std::vector<Arena::Piece> hung, others;
  while (staging.lendable() >= kStaging / 8) {
    hung.push_back(staging.take(100, {}));
    others.push_back(staging.take(kStaging / 16, {}));
    hung.back().strand("c.0", "store");
  }
  others.clear();
  ASSERT_LE(staging.stranded(), kStaging / 4);
  ASSERT_TRUE(wave->can_reserve(1000));
  wave->reserve(1000, kStaging, {});
  EXPECT_EQ(wave->stage(1000).memory().size(), 1000u);
}

// Readers add frames in turn, so that a full list may have some of each chunk, and all of none.
TEST_F(WaveTest, a_list_says_how_many_bytes_fill_it_also_if_it_has_no_chunk_whole) {
  const auto blocks = std::make_shared<NeededBlocks>();
  blocks->decoded_bytes = 8192;
  StagedChunk one, other;
  one.blocks = other.blocks = blocks;
  constexpr std::uint32_t kHost = FrameList::kHost;
  const std::vector<std::uint32_t> of_one{0, 1, 3, kHost}, of_other{2, kHost, kHost, kHost};
  wave->own_frames(std::vector<Wave::OwnedFrames>{{&one, of_one}, {&other, of_other}});
  EXPECT_EQ(wave->slot().described_bytes, 8192u);
}

}  // namespace
}  // namespace damacy
