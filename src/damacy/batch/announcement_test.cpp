// Reads of chunks before their batches have slots: which begin, how long their bytes stay, who gets them.
#include "damacy/batch/announcement.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <stop_token>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/core/error.h"
#include "damacy/store/answer_block.h"
#include "damacy/store/storage_watch.h"
#include "support/error_of.h"

namespace damacy {
namespace {

constexpr std::uint64_t kChunk = 10, kStride = 16;  // bytes of a chunk, and from one to the next
const std::uint64_t kBlock = AnswerBlock::capacity_for(kChunk);

std::byte byte_at(std::uint64_t offset) {
  return static_cast<std::byte>(offset * 7 + 3);
}

// Its reads land when the test says so, or at once. Counts what it is asked for, and the reads that were not destroyed.
class AskedObject final : public Object {
 public:
  explicit AskedObject(std::uint64_t chunks) { stamp_ = {1, 1, chunks * kStride, 1}; }

  const Stamp& stamp() const noexcept override { return stamp_; }
  ReadShape read_shape() const noexcept override { return {.gap = gap}; }
  void read_exact(std::uint64_t offset, std::span<std::byte> dst) override {
    note(offset, dst.size());
    fill(offset, dst);
  }
  bool can_start_reads() const noexcept override { return can_start; }
  std::unique_ptr<StartedRead> start_read(std::uint64_t offset, std::span<std::byte> dst,
                                          std::function<void()> landed) override {
    note(offset, dst.size());
    if (during_start) during_start();
    auto read = std::make_unique<Started>(*this, offset, dst);
    if (lands_at_once) {
      landed();
    } else {
      const Lock lock(mutex_);
      pending_.push_back(std::move(landed));
    }
    return read;
  }

  // That one of those that have not landed.
  void land(std::size_t number) {
    std::function<void()> landed;
    {
      const Lock lock(mutex_);
      landed = std::move(pending_[number]);
      pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(number));
    }
    landed();
  }
  void land_all() {
    while (pending() > 0) land(0);
  }
  std::size_t pending() const {
    const Lock lock(mutex_);
    return pending_.size();
  }
  // How often it was asked for the chunk.
  int asked(std::uint32_t chunk) const {
    const Lock lock(mutex_);
    const auto covers = [&](const ByteRange& range) {
      return range.begin <= chunk * kStride && chunk * kStride + kChunk <= range.end;
    };
    return static_cast<int>(std::ranges::count_if(asked_, covers));
  }
  std::size_t requests() const {
    const Lock lock(mutex_);
    return asked_.size();
  }
  int under_way() const { return under_way_; }

  std::uint64_t gap = 0;
  bool can_start = true, lands_at_once = false;
  std::set<std::uint32_t> damaged;  // chunks: reads of them fail
  std::function<void()> during_start;
  std::function<void(std::uint64_t)> during_finish;  // of a read of so many bytes

 private:
  class Started final : public StartedRead {
   public:
    Started(AskedObject& object, std::uint64_t offset, std::span<std::byte> dst)
        : object_(object), offset_(offset), dst_(dst) {
      ++object_.under_way_;
    }
    ~Started() override { --object_.under_way_; }
    Started(const Started&) = delete;
    Started& operator=(const Started&) = delete;
    void finish() override {
      if (object_.during_finish) object_.during_finish(dst_.size());
      object_.fill(offset_, dst_);
    }

   private:
    AskedObject& object_;
    const std::uint64_t offset_;
    const std::span<std::byte> dst_;
  };

  void note(std::uint64_t offset, std::uint64_t bytes) {
    const Lock lock(mutex_);
    asked_.push_back({offset, offset + bytes});
  }
  void fill(std::uint64_t offset, std::span<std::byte> dst) const {
    for (const std::uint32_t chunk : damaged)
      if (offset < chunk * kStride + kChunk && chunk * kStride < offset + dst.size())
        throw Error(Status::io, "refused", "io").at_key("c/0").at_bytes(offset, offset + dst.size());
    for (std::size_t i = 0; i < dst.size(); ++i) dst[i] = byte_at(offset + i);
  }

  Stamp stamp_;
  std::atomic<int> under_way_{0};
  mutable Mutex mutex_;
  std::vector<std::function<void()>> pending_ DAMACY_GUARDED_BY(mutex_);
  std::vector<ByteRange> asked_ DAMACY_GUARDED_BY(mutex_);
};

ArrayMetadata in_shards() {
  ArrayMetadata metadata;
  metadata.shards.emplace_back();
  return metadata;
}

struct ReadsAheadTest : ::testing::Test {
  using Numbers = std::vector<std::uint32_t>;

  Wants wants_of(const Numbers& numbers, const std::shared_ptr<Object>& of = nullptr) const {
    Wants wants{.objects = {of ? of : object}, .arrays = {&metadata}, .chunks = {}, .ahead = {}};
    for (const std::uint32_t number : numbers)
      wants.chunks.push_back(
          {.place = {.offset = number * kStride, .bytes = kChunk}, .id = {{1, number}}, .is_versioned = true});
    return wants;
  }
  // Announced, and its reads begun.
  std::unique_ptr<Announcement> announced(const Numbers& numbers) const {
    auto batch = std::make_unique<Announcement>(std::vector<RemoteObject>(), memory);
    batch->begin_reads(wants_of(numbers));
    return batch;
  }
  // The runs of the planned batch.
  std::vector<ChunkRun> planned(Announcement& batch, const Numbers& numbers) const {
    Wants wants = wants_of(numbers);
    batch.take_reads(wants);
    return find_reads(wants).runs;
  }
  // A read of a run, as the engine makes it.
  struct RunRead {
    RunRead(const ChunkRun& run, const std::shared_ptr<Object>& own)
        : object(run.whole ? run.whole : own), offset(run.offset), dst(run.bytes) {
      held = object->held(offset, run.bytes);
      if (!held.owner) started = object->start_read(offset, dst, [landed = landed] { ++*landed; });
    }
    void finish() {
      if (started) started->finish();
      const std::span<const std::byte> bytes = held.owner ? held.bytes : std::span<const std::byte>(dst);
      for (std::size_t i = 0; i < bytes.size(); ++i) ASSERT_EQ(bytes[i], byte_at(offset + i));
    }
    bool has_landed() const { return held.owner || *landed == 1; }

    std::shared_ptr<Object> object;
    std::uint64_t offset;
    std::vector<std::byte> dst;
    HeldBytes held;
    std::shared_ptr<std::atomic<int>> landed = std::make_shared<std::atomic<int>>(0);
    std::unique_ptr<StartedRead> started;
  };
  void read_all(const std::vector<ChunkRun>& runs) const {
    for (const ChunkRun& run : runs) RunRead(run, object).finish();
  }
  void make_memory(std::uint64_t bytes, bool reads_chunks = true) {
    memory = std::make_shared<AnswersAhead>(bytes, reads_chunks);
  }
  void expect_nothing_left() const {
    EXPECT_EQ(memory->bytes(), 0u);
    EXPECT_EQ(object->under_way(), 0);
  }

  const ArrayMetadata metadata = in_shards();
  const std::shared_ptr<AskedObject> object = std::make_shared<AskedObject>(8);
  std::shared_ptr<AnswersAhead> memory = std::make_shared<AnswersAhead>(1 << 20, true);
};

TEST_F(ReadsAheadTest, are_asked_for_once_for_all_batches_that_want_them) {
  const auto first = announced({1, 2, 3}), second = announced({2, 3, 4}), third = announced({1, 4, 5});
  EXPECT_EQ(object->requests(), 5u);
  EXPECT_EQ(memory->bytes(), 5 * kBlock);
  object->land_all();
  for (const auto& [batch, numbers] :
       {std::pair(first.get(), Numbers{1, 2, 3}), std::pair(second.get(), Numbers{2, 3, 4}),
        std::pair(third.get(), Numbers{1, 4, 5})})
    read_all(planned(*batch, numbers));
  EXPECT_EQ(object->requests(), 5u);
  expect_nothing_left();
}

TEST_F(ReadsAheadTest, stay_until_the_last_batch_that_wants_them_took_them) {
  const auto first = announced({1, 2}), second = announced({2, 3});
  object->land_all();
  read_all(planned(*first, {1, 2}));
  EXPECT_EQ(memory->bytes(), 2 * kBlock);  // 2 and 3
  const auto third = announced({2});
  read_all(planned(*second, {2, 3}));
  EXPECT_EQ(memory->bytes(), kBlock);
  read_all(planned(*third, {2}));
  expect_nothing_left();
  EXPECT_EQ(object->requests(), 3u);
}

TEST_F(ReadsAheadTest, of_chunks_that_are_kept_decoded_are_not_made) {
  const auto decoded = std::make_shared<DecodedAhead>(std::make_shared<PageAlloc>(), std::size_t{1} << 20);
  memory = std::make_shared<AnswersAhead>(1 << 20, true, decoded);
  const DecodedAhead::Place places[] = {1, 2, 3};
  const DecodedAhead::Wanted wanted(decoded, places);
  for (const std::uint32_t number : {1u, 2u, 3u}) {
    const DecodedAhead::Named named{number, {{1, number}}};
    decoded->name({&named, 1});
  }
  static_cast<void>(decoded->reserve({{1, 1}}, kChunk).publish());
  const auto filling = decoded->reserve({{1, 2}}, kChunk);
  const auto batch = announced({1, 2, 3});
  EXPECT_EQ(object->asked(1), 0);
  EXPECT_EQ(object->asked(2), 1);
  EXPECT_EQ(object->asked(3), 1);
}

TEST_F(ReadsAheadTest, of_neighbours_are_one_request_and_each_chunk_has_its_bytes) {
  object->gap = kStride - kChunk;
  const auto first = announced({1, 2, 3}), second = announced({2, 3, 4});
  EXPECT_EQ(object->requests(), 2u);
  EXPECT_EQ(object->asked(4), 1);
  EXPECT_EQ(memory->bytes(), 2 * kBlock);
  object->land_all();
  read_all(planned(*first, {1, 2, 3}));
  read_all(planned(*second, {2, 3, 4}));
  EXPECT_EQ(object->requests(), 2u);
  expect_nothing_left();
}

TEST_F(ReadsAheadTest, land_for_all_that_wait_for_them) {
  const auto first = announced({1}), second = announced({1});
  RunRead one(planned(*first, {1}).front(), object), another(planned(*second, {1}).front(), object);
  EXPECT_FALSE(one.has_landed() || another.has_landed());
  object->land_all();
  EXPECT_TRUE(one.has_landed() && another.has_landed());
  one.finish();
  another.finish();
}

// A batch decodes the bytes where they are, once another one has finished the read.
TEST_F(ReadsAheadTest, are_held_once_they_are_finished) {
  const auto first = announced({1}), second = announced({1});
  object->land_all();
  const ChunkRun run = planned(*second, {1}).front();
  EXPECT_FALSE(run.whole->held(run.offset, run.bytes).owner);
  read_all(planned(*first, {1}));
  HeldBytes held = run.whole->held(run.offset, run.bytes);
  ASSERT_TRUE(held.owner);
  EXPECT_EQ(held.bytes.front(), byte_at(run.offset));
  EXPECT_FALSE(run.whole->held(run.offset, run.bytes + 1).owner);
  EXPECT_FALSE(run.whole->held(run.offset - 1, run.bytes).owner);
}

TEST_F(ReadsAheadTest, of_a_batch_that_is_dropped_are_cancelled_unless_another_wants_them) {
  auto first = announced({1, 2}), second = announced({2, 3});
  first.reset();
  EXPECT_EQ(object->under_way(), 2);
  EXPECT_EQ(memory->bytes(), 2 * kBlock);
  object->land_all();  // also those that no batch waits for
  second.reset();
  expect_nothing_left();
}

TEST_F(ReadsAheadTest, that_were_joined_and_given_up_leave_the_others) {
  const auto first = announced({1}), second = announced({1});
  std::optional<RunRead> given_up(std::in_place, planned(*first, {1}).front(), object);
  const auto landed = given_up->landed;
  RunRead other(planned(*second, {1}).front(), object);
  given_up.reset();
  object->land_all();
  EXPECT_EQ(*landed, 0);
  other.finish();
}

TEST_F(ReadsAheadTest, begin_within_the_memory_of_answers_in_their_order) {
  make_memory(4 * kBlock);  // of which objects may have the last quarter
  auto first = announced({1, 2}), second = announced({2, 3, 4});
  EXPECT_EQ(memory->bytes(), 3 * kBlock);
  EXPECT_EQ(object->asked(4), 0);
  object->land_all();
  const std::vector<ChunkRun> runs = planned(*second, {2, 3, 4});
  EXPECT_EQ(std::ranges::count_if(runs, [](const ChunkRun& run) { return run.whole == nullptr; }), 1);
  first.reset();
  const auto third = announced({4});
  EXPECT_EQ(object->asked(4), 1);
}

TEST_F(ReadsAheadTest, share_the_memory_with_objects) {
  make_memory(4 * ((64 << 10) + kBlock + 2) / 3);
  const Announcement objects({{nullptr, "a", 64 << 10}}, memory);
  ASSERT_EQ(objects.objects().size(), 1u);
  const auto batch = announced({1, 2});
  EXPECT_EQ(object->requests(), 1u);
}

TEST_F(ReadsAheadTest, of_a_batch_that_is_planned_begin_then) {
  Announcement batch({}, memory);
  read_all(planned(batch, {1, 2}));
  EXPECT_EQ(object->requests(), 2u);
  batch.begin_reads(wants_of({1, 2}));  // too late
  EXPECT_EQ(object->requests(), 2u);
  EXPECT_EQ(memory->bytes(), 0u);
}

TEST_F(ReadsAheadTest, of_an_object_without_a_version_are_not_made) {
  Wants wants = wants_of({1, 2});
  wants.chunks[0].is_versioned = false;
  Announcement batch({}, memory);
  batch.begin_reads(wants);
  EXPECT_EQ(object->asked(1), 0);
  EXPECT_EQ(object->asked(2), 1);
}

TEST_F(ReadsAheadTest, of_a_damaged_chunk_are_made_again_for_later_batches) {
  const auto first = announced({1, 2});
  object->land_all();
  first->forget({{1, 1}});
  const auto second = announced({1, 2});
  EXPECT_EQ(object->asked(1), 2);
  EXPECT_EQ(object->asked(2), 1);
}

TEST_F(ReadsAheadTest, are_limited_in_number) {
  make_memory(std::size_t{1} << 30);
  Numbers many(3000);
  std::iota(many.begin(), many.end(), 0);
  auto batch = announced(many);
  EXPECT_EQ(object->requests(), 2048u);
  object->land_all();
  batch.reset();
  batch = announced({2999});
  EXPECT_EQ(object->asked(2999), 1);
}

TEST_F(ReadsAheadTest, leave_an_announcement_that_times_out_meanwhile) {
  Announcement batch({}, memory);
  ASSERT_TRUE(batch.begin_opening());
  object->during_start = [&] { batch.time_out(Error(Status::io, "did not answer", "deadline")); };
  batch.begin_reads(wants_of({1}));
  EXPECT_TRUE(batch.take_failures({}).empty());  // of no object that was opened before
}

TEST_F(ReadsAheadTest, that_failed_long_ago_are_made_once_more) {
  for (const auto seconds : {std::chrono::seconds(10), std::chrono::seconds(0)}) {
    const auto before = object->requests();
    object->damaged = {2};
    memory = std::make_shared<AnswersAhead>(1 << 20, /*reads_chunks=*/true, nullptr, seconds);
    const auto batch = announced({2});
    object->land_all();
    RunRead read(planned(*batch, {2}).front(), object);
    error_of([&] { read.finish(); });
    EXPECT_EQ(object->requests() - before, seconds.count() == 0 ? 2u : 1u);
  }
}

TEST_F(ReadsAheadTest, fail_by_what_was_learned_just_now) {
  for (const int seconds : {0, 9, 11}) {
    Announcement batch({}, memory);
    ASSERT_TRUE(batch.begin_opening());
    batch.open(0, [] { throw Error(Status::io, "refused", "http"); });
    batch.end_opening();
    const auto now = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
    EXPECT_EQ(batch.take_failures({}, now).size(), seconds < 10 ? 1u : 0u) << seconds;
  }
}

TEST_F(ReadsAheadTest, are_not_made_where_none_are_wanted) {
  const auto none = [&](const std::unique_ptr<Announcement>& batch) {
    EXPECT_EQ(object->requests(), 0u);
    for (const ChunkRun& run : planned(*batch, {1, 2})) EXPECT_FALSE(run.whole);
  };
  object->can_start = false;
  none(announced({1, 2}));
  object->can_start = true;
  make_memory(1 << 20, /*reads_chunks=*/false);
  none(announced({1, 2}));
  make_memory(1 << 20);
  const_cast<ArrayMetadata&>(metadata).shards.clear();  // they came with their objects
  none(announced({1, 2}));
}

TEST_F(ReadsAheadTest, of_an_object_that_is_a_part_of_another_are_read_from_that_one) {
  class PartObject final : public Object {
   public:
    explicit PartObject(std::shared_ptr<Object> whole) : whole_(std::move(whole)) {}
    const Stamp& stamp() const noexcept override { return whole_->stamp(); }
    void read_exact(std::uint64_t, std::span<std::byte>) override { FAIL(); }
    std::optional<WholeObject> whole() const override { return WholeObject{whole_, 2 * kStride, this}; }

   private:
    const std::shared_ptr<Object> whole_;
  };
  const auto part = std::make_shared<PartObject>(object);
  Announcement batch({}, memory);
  batch.begin_reads(wants_of({1}, part));
  EXPECT_EQ(object->asked(3), 1);
  Wants wants = wants_of({1}, part);
  batch.take_reads(wants);
  const ChunkReads reads = find_reads(wants);
  ASSERT_EQ(reads.runs.size(), 1u);
  EXPECT_EQ(reads.runs.front().offset, 3 * kStride);
  read_all(reads.runs);
  EXPECT_EQ(object->requests(), 1u);
}

TEST_F(ReadsAheadTest, that_fail_give_their_error_to_each_batch_that_wanted_them) {
  object->damaged = {2};
  const auto first = announced({1, 2}), second = announced({2, 3});
  object->land_all();
  const std::vector<ChunkRun> of_first = planned(*first, {1, 2}), of_second = planned(*second, {2, 3});
  for (const ChunkRun& run : {of_first[1], of_second[0]}) {
    RunRead read(run, object);
    ASSERT_TRUE(read.has_landed());
    const Error error = error_of([&] { read.finish(); });
    EXPECT_EQ(error.message(), "refused");
    EXPECT_EQ(error.where().key, "c/0");
    EXPECT_EQ(error.where().byte_range, std::pair(2 * kStride, 2 * kStride + kChunk));
  }
  EXPECT_EQ(object->asked(2), 1);
  RunRead(of_first[0], object).finish();
  RunRead(of_second[1], object).finish();
  object->damaged.clear();
  const auto later = announced({2});  // asks anew
  EXPECT_EQ(object->asked(2), 2);
  object->land_all();
  read_all(planned(*later, {2}));
}

// The last chunk may end behind the object. A run with others is read apart by the batch.
TEST_F(ReadsAheadTest, that_are_too_long_fail_only_the_chunks_that_are) {
  object->gap = kStride;
  object->during_finish = [](std::uint64_t bytes) {
    if (bytes > kChunk) throw Error(Status::io, "short read: 20 of 26 bytes", "short-read");
  };
  const auto both = announced({1, 2}), one = announced({1});
  EXPECT_EQ(object->requests(), 1u);
  object->land_all();
  RunRead read(planned(*both, {1, 2}).front(), object);
  EXPECT_EQ(error_of([&] { read.finish(); }).where().reason, "short-read");
  read_all(planned(*one, {1}));
  EXPECT_EQ(object->requests(), 2u);
}

TEST_F(ReadsAheadTest, whose_thread_is_abandoned_are_made_by_the_next_one) {
  const auto first = announced({1}), second = announced({1});
  object->land_all();
  object->during_finish = [](std::uint64_t) { throw Abandoned(); };
  RunRead abandoned(planned(*first, {1}).front(), object);
  EXPECT_THROW(abandoned.finish(), Abandoned);
  read_all(planned(*second, {1}));
  EXPECT_EQ(object->asked(1), 2);
}

// Any number of batches ahead, and of answers in any order; batches are dropped, and chunks fail.
TEST_F(ReadsAheadTest, leave_nothing_whatever_happens) {
  constexpr std::uint32_t kChunks = 8;
  struct Batch {
    Numbers numbers;
    std::unique_ptr<Announcement> announcement;
    bool is_planned = false;
    std::list<std::pair<std::uint32_t, RunRead>> reads;
  };
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const auto below = [&](std::size_t most) {
      return std::uniform_int_distribution<std::size_t>(0, most - 1)(random);
    };
    const std::size_t lookahead = 1 + below(5), slots = 1 + below(4);
    const bool is_short = below(2) == 0, may_drop = below(2) == 0;
    const std::uint64_t most = is_short ? kBlock * (1 + below(kChunks)) : 1 << 20;
    make_memory(most);
    const auto asked = std::make_shared<AskedObject>(kChunks);
    asked->gap = below(2) * kStride;
    if (below(3) == 0) asked->damaged = {static_cast<std::uint32_t>(below(kChunks))};
    std::list<Batch> batches;
    const auto wants = [&](const Batch& batch) { return wants_of(batch.numbers, asked); };
    std::size_t left = 12;
    const auto claimed = [&](std::uint32_t number) {
      return std::ranges::any_of(batches, [&](const Batch& batch) {
        if (!batch.announcement) return false;
        if (!batch.is_planned) return std::ranges::count(batch.numbers, number) > 0;
        return std::ranges::any_of(batch.reads, [&](const auto& read) { return read.first == number; });
      });
    };
    for (int step = 0; step < 10'000 && (left > 0 || !batches.empty()); ++step) {
      const auto unplanned = [&] { return std::ranges::find(batches, false, &Batch::is_planned); };
      const auto waiting = static_cast<std::size_t>(std::ranges::count(batches, false, &Batch::is_planned));
      switch (below(5)) {
        case 0: {  // announced
          if (left == 0 || waiting >= lookahead) break;
          --left;
          Batch batch;
          for (std::uint32_t number = 0; number < kChunks; ++number)
            if (below(2) == 0) batch.numbers.push_back(number);
          std::vector<int> before, is_claimed;
          for (const std::uint32_t number : batch.numbers) {
            before.push_back(asked->asked(number));
            is_claimed.push_back(claimed(number));
          }
          batch.announcement = std::make_unique<Announcement>(std::vector<RemoteObject>(), memory);
          batch.announcement->begin_reads(wants(batch));
          for (std::size_t i = 0; !is_short && asked->gap == 0 && asked->damaged.empty() && i < before.size(); ++i)
            EXPECT_EQ(asked->asked(batch.numbers[i]) - before[i], is_claimed[i] ? 0 : 1);
          batches.push_back(std::move(batch));
          break;
        }
        case 1: {  // planned
          const auto batch = unplanned();
          if (batch == batches.end() || batches.size() - waiting >= slots) break;
          Wants of = wants(*batch);
          batch->announcement->take_reads(of);
          batch->is_planned = true;
          for (const ChunkRun& run : find_reads(of).runs)
            batch->reads.emplace_back(batch->numbers[run.chunks.front()], RunRead(run, asked));
          break;
        }
        case 2:  // answered
          if (const std::size_t pending = asked->pending(); pending > 0) asked->land(below(pending));
          break;
        case 3: {  // taken
          for (Batch& batch : batches) {
            const auto read =
                std::ranges::find_if(batch.reads, [](const auto& one) { return one.second.has_landed(); });
            if (read == batch.reads.end()) continue;
            const auto failure = failure_of([&] { read->second.finish(); });
            EXPECT_TRUE(!failure || !asked->damaged.empty());
            batch.reads.erase(read);
            break;
          }
          std::erase_if(batches, [](const Batch& batch) { return batch.is_planned && batch.reads.empty(); });
          break;
        }
        default:  // dropped
          if (may_drop && !batches.empty() && below(4) == 0)
            batches.erase(std::next(batches.begin(), static_cast<std::ptrdiff_t>(below(batches.size()))));
      }
      ASSERT_LE(memory->bytes(), most);
    }
    ASSERT_TRUE(batches.empty());
    EXPECT_EQ(memory->bytes(), 0u);
    EXPECT_EQ(asked->under_way(), 0);
    EXPECT_EQ(memory.use_count(), 1);
  }
}

TEST_F(ReadsAheadTest, are_taken_by_threads_at_once) {
  object->lands_at_once = true;
  std::vector<std::jthread> threads;
  for (unsigned t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      std::mt19937 random(t);
      for (int i = 0; i < 200; ++i) {
        Numbers numbers;
        for (std::uint32_t number = 0; number < 8; ++number)
          if (random() % 2 == 0) numbers.push_back(number);
        const auto batch = announced(numbers);
        read_all(planned(*batch, numbers));
      }
    });
  threads.clear();
  expect_nothing_left();
}

struct OpeningAheadTest : ::testing::Test {
  Announcement batch{{}, std::make_shared<AnswersAhead>(1 << 20, true)};
  static auto refuse(Status status) {
    return [status] { throw Error(status, "refused", "denied"); };
  }
};

TEST_F(OpeningAheadTest, tells_what_plans_why_objects_cannot_be_opened) {
  ASSERT_TRUE(batch.begin_opening());
  batch.open(0, [] {});
  batch.open(2, refuse(Status::io));
  batch.open(3, refuse(Status::oom));  // there may be memory later
  batch.end_opening();
  const std::map<std::size_t, Error> failures = batch.take_failures({});
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures.at(2).message(), "refused");
}

TEST_F(OpeningAheadTest, does_not_begin_once_the_batch_is_planned) {
  EXPECT_TRUE(batch.take_failures({}).empty());
  EXPECT_FALSE(batch.begin_opening());
}

TEST_F(OpeningAheadTest, is_waited_for_until_it_ends_or_the_pipeline_is_closed) {
  ASSERT_TRUE(batch.begin_opening());
  std::stop_source closed;
  closed.request_stop();
  EXPECT_TRUE(batch.take_failures(closed.get_token()).empty());
  std::atomic<bool> has_ended{false};
  std::jthread opening([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    has_ended = true;
    batch.end_opening();
  });
  static_cast<void>(batch.take_failures({}));
  EXPECT_TRUE(has_ended);
}

TEST_F(OpeningAheadTest, leaves_objects_to_what_plans_from_then_on) {
  ASSERT_TRUE(batch.begin_opening());
  std::stop_source closed;  // so that it does not wait
  closed.request_stop();
  batch.open(1, [&] {
    static_cast<void>(batch.take_failures(closed.get_token()));
    refuse(Status::io)();
  });
  batch.open(2, [] { ADD_FAILURE(); });
  batch.end_opening();
  EXPECT_EQ(batch.take_failures({}).count(1), 1u);
}

TEST_F(OpeningAheadTest, that_storage_does_not_answer_fails_that_object_only) {
  ASSERT_TRUE(batch.begin_opening());
  batch.open(0, [] {});
  batch.open(1, [&] {
    batch.time_out(Error(Status::io, "no answer", "deadline"));
    refuse(Status::io)();  // too late
  });
  batch.open(2, refuse(Status::io));
  const std::map<std::size_t, Error> failures = batch.take_failures({});
  ASSERT_EQ(failures.size(), 1u);
  EXPECT_EQ(failures.at(1).where().reason, "deadline");
}

}  // namespace
}  // namespace damacy
