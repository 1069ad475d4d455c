#include "damacy/cache/chunk_cache.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <set>
#include <thread>

#include <gtest/gtest.h>

#include "conformance/chunk_tier_suite.h"

namespace damacy {

struct PrivateMemory {
  static std::shared_ptr<ChunkTier> make() {
    return std::make_shared<ChunkCache>(1 << 20, std::make_shared<PageAlloc>());
  }
};
INSTANTIATE_TYPED_TEST_SUITE_P(PrivateMemory, ChunkTierSuite, PrivateMemory);

namespace {

constexpr std::uint64_t kChunk = 64 << 10;
using Random = std::mt19937_64;
using Sequence = std::vector<std::int64_t>;

ChunkKey key_of(std::int64_t chunk, std::uint64_t array = 1) {
  WideHash version;
  version.add(array);
  return key_of_chunk(version, chunk);
}

// As an engine does with a chunk whose bytes it has as a whole. True: it was there.
bool use(ChunkCache& cache, const ChunkKey& key, std::uint64_t bytes) {
  auto found = cache.find(key, bytes);
  if (found.hold) return true;
  if (auto filling = cache.reserve(key, bytes)) filling.publish();
  return false;
}

using SizeOf = std::function<std::uint64_t(std::int64_t)>;
const SizeOf kEqual = [](std::int64_t) { return kChunk; };
// From 4 KiB to 128 KiB, each power of two as often.
const SizeOf kMixed = [](std::int64_t chunk) {
  const std::uint64_t hash = mixed(static_cast<std::uint64_t>(chunk));
  return (std::uint64_t{4} << (hash % 6) << 10) - hash / 6 % 1000;
};

double share_of_hits(ChunkCache& cache, const Sequence& sequence, std::uint64_t array, const SizeOf& size) {
  std::size_t hits = 0;
  for (const std::int64_t chunk : sequence) hits += use(cache, key_of(chunk, array), size(chunk)) ? 1 : 0;
  return static_cast<double>(hits) / static_cast<double>(sequence.size());
}

// The chunks of one epoch over a set.
using Epoch = std::function<Sequence(std::int64_t set, Random&)>;
Sequence uniform(std::int64_t set, Random& random) {
  Sequence chunks(static_cast<std::size_t>(set));
  for (auto& chunk : chunks) chunk = std::uniform_int_distribution<std::int64_t>(0, set - 1)(random);
  return chunks;
}
Sequence in_order(std::int64_t set, Random&) {
  Sequence chunks(static_cast<std::size_t>(set));
  std::iota(chunks.begin(), chunks.end(), 0);
  return chunks;
}
Sequence shuffled(std::int64_t set, Random& random) {
  Sequence chunks = in_order(set, random);
  std::ranges::shuffle(chunks, random);
  return chunks;
}
// Crops of 3 × 3 chunks of a plane; a batch of 4 crops asks for each of its chunks once.
Sequence crops(std::int64_t set, Random& random) {
  const auto side = static_cast<std::int64_t>(std::lround(std::sqrt(static_cast<double>(set))));
  std::uniform_int_distribution<std::int64_t> corner(0, side - 3);
  Sequence chunks;
  while (static_cast<std::int64_t>(chunks.size()) < 2 * set) {
    std::set<std::int64_t> batch;
    for (int crop = 0; crop < 4; ++crop) {
      const std::int64_t y = corner(random), x = corner(random);
      for (std::int64_t n = 0; n < 9; ++n) batch.insert((y + n / 3) * side + x + n % 3);
    }
    chunks.insert(chunks.end(), batch.begin(), batch.end());
  }
  return chunks;
}

struct Pattern {
  const char* name;
  Epoch epoch;
  const SizeOf& size;
};
void PrintTo(const Pattern& pattern, std::ostream* out) {
  *out << pattern.name;
}

class Patterns : public testing::TestWithParam<Pattern> {
 protected:
  // The bytes of a set of which the cache should hold `share`.
  static std::int64_t chunks_for(const ChunkCache& cache, double share) {
    const double mean = &GetParam().size == &kEqual ? kChunk : [] {
      double sum = 0;
      for (std::int64_t chunk = 0; chunk < 10000; ++chunk) sum += static_cast<double>(kMixed(chunk));
      return sum / 10000;
    }();
    return static_cast<std::int64_t>(static_cast<double>(cache.sizes().space) / mean / share);
  }
  double pass(ChunkCache& cache, std::int64_t set, std::uint64_t array = 1) {
    return share_of_hits(cache, GetParam().epoch(set, random), array, GetParam().size);
  }
  // Capacity ÷ set, in bytes.
  double bound(const ChunkCache& cache, std::int64_t set) const {
    double bytes = 0;
    for (std::int64_t chunk = 0; chunk < set; ++chunk) bytes += static_cast<double>(GetParam().size(chunk));
    return std::min(1.0, static_cast<double>(cache.held_bytes()) / bytes);
  }
  Random random{7};
};

TEST_P(Patterns, hits_are_95_percent_of_what_the_capacity_allows) {
  for (const double share : {0.1, 0.3, 0.5, 0.9, 1.3}) {
    ChunkCache cache(64 << 20, std::make_shared<PageAlloc>());
    const std::int64_t set = chunks_for(cache, share);
    for (int warm = 0; warm < 5; ++warm) pass(cache, set);
    double hits = 0;
    for (int epoch = 0; epoch < 5; ++epoch) hits += pass(cache, set) / 5;
    EXPECT_GE(hits, 0.95 * bound(cache, set)) << share;
  }
}

TEST_P(Patterns, at_most_12_percent_of_a_full_cache_are_lost) {
  ChunkCache cache(64 << 20, std::make_shared<PageAlloc>());
  const std::int64_t set = chunks_for(cache, 0.4);
  for (std::uint64_t array = 1; array < 6; ++array)
    for (int epoch = 0; epoch < 3; ++epoch) {
      pass(cache, set, array);
      EXPECT_GE(static_cast<double>(cache.held_bytes()), 0.88 * (64 << 20)) << array << ' ' << epoch;
    }
}

TEST_P(Patterns, a_new_set_is_cached_after_two_capacities_of_accesses) {
  for (const double before : {0.2, 0.5, 1.5})
    for (const double after : {0.2, 0.5, 1.5}) {
      ChunkCache cache(64 << 20, std::make_shared<PageAlloc>());
      const std::int64_t old_set = chunks_for(cache, before), set = chunks_for(cache, after);
      for (int epoch = 0; epoch < 8; ++epoch) pass(cache, old_set);
      const std::int64_t capacity = chunks_for(cache, 1);
      for (std::int64_t accesses = 0;
           accesses < 2 * capacity;) {  // to the end of a pass: before it, nothing may come twice
        const Sequence epoch = GetParam().epoch(set, random);
        share_of_hits(cache, epoch, 2, GetParam().size);
        accesses += static_cast<std::int64_t>(epoch.size());
      }
      const double next = pass(cache, set, 2);
      double then = 0;
      for (int epoch = 0; epoch < 5; ++epoch) then += pass(cache, set, 2) / 5;
      EXPECT_GE(next, 0.9 * bound(cache, set)) << before << " to " << after;
      EXPECT_GE(then, 0.95 * bound(cache, set)) << before << " to " << after;
    }
}

INSTANTIATE_TEST_SUITE_P(All, Patterns,
                         testing::Values(Pattern{"uniform", uniform, kEqual}, Pattern{"shuffled", shuffled, kEqual},
                                         Pattern{"in_order", in_order, kEqual}, Pattern{"crops", crops, kEqual},
                                         Pattern{"uniform_mixed", uniform, kMixed},
                                         Pattern{"shuffled_mixed", shuffled, kMixed},
                                         Pattern{"in_order_mixed", in_order, kMixed},
                                         Pattern{"crops_mixed", crops, kMixed}),
                         [](const auto& instance) { return std::string(instance.param.name); });

TEST(ChunkCache, a_set_that_returns_is_cached_again) {
  ChunkCache cache(64 << 20, std::make_shared<PageAlloc>());
  const auto set = static_cast<std::int64_t>(cache.sizes().space / kChunk) / 2 * 3 / 2;
  Random random{3};
  const auto epochs = [&](std::uint64_t array, int count) {
    double last = 0;
    for (int epoch = 0; epoch < count; ++epoch) last = share_of_hits(cache, shuffled(set, random), array, kEqual);
    return last;
  };
  EXPECT_EQ(epochs(1, 4), 1);
  EXPECT_EQ(epochs(2, 4), 1);
  EXPECT_EQ(epochs(1, 8), 1);
}

// 10^6 random operations against a plain model: what was published is found as it was, or was evicted and counted.
TEST(ChunkCache, agrees_with_a_plain_model_over_a_million_operations) {
  struct Held {
    std::int64_t chunk;
    ChunkCache::Hold hold;
  };
  struct Filled {
    std::int64_t chunk;
    ChunkCache::Filling filling;
  };
  ChunkCache cache(2 << 20, std::make_shared<PageAlloc>());
  const auto size = [](std::int64_t chunk) {
    return std::min<std::uint64_t>(1 + mixed(static_cast<std::uint64_t>(chunk)) % (1 << (chunk % 17)), 40000);
  };
  const auto stamp = [](std::span<std::byte> bytes, std::int64_t chunk) {
    std::memset(bytes.data(), static_cast<int>(chunk % 251), bytes.size());
  };
  const auto is_right = [](std::span<const std::byte> bytes, std::int64_t chunk) {
    const auto expected = static_cast<std::byte>(chunk % 251);
    return bytes.front() == expected && bytes.back() == expected && bytes[bytes.size() / 2] == expected;
  };
  Random random{11};
  std::deque<Held> held;
  std::deque<Filled> filling;
  std::set<std::int64_t> published;  // at some time
  std::int64_t base = 0, hits = 0, misses = 0, kept = 0;
  for (int operation = 0; operation < 1'000'000; ++operation) {
    if (operation % 50'000 == 0) base += 200;
    const std::int64_t chunk = base + static_cast<std::int64_t>(random() % 600);
    const std::uint64_t kind = random() % 16;
    if (kind < 12) {
      auto found = cache.find(key_of(chunk), size(chunk));
      const bool is_held = std::ranges::any_of(held, [&](const Held& h) { return h.chunk == chunk; });
      ASSERT_TRUE(found.hold.has_value() || !is_held) << "a held entry was evicted";
      if (found.hold) {
        ++hits;
        ASSERT_TRUE(published.contains(chunk));
        ASSERT_EQ(found.hold->bytes().size(), size(chunk));
        ASSERT_TRUE(is_right(found.hold->bytes(), chunk));
        if (kind < 4) held.push_back({chunk, std::move(*found.hold)});
      } else {
        ++misses;
        const bool fills = std::ranges::any_of(filling, [&](const Filled& f) { return f.chunk == chunk; });
        if (auto reserved = cache.reserve(key_of(chunk), size(chunk))) {
          ASSERT_FALSE(fills);
          ASSERT_EQ(reserved.bytes().size(), size(chunk));
          filling.push_back({chunk, std::move(reserved)});
        }
      }
    } else if (kind < 15 && !filling.empty()) {
      Filled first = std::move(filling.front());
      filling.pop_front();
      stamp(first.filling.bytes(), first.chunk);
      if (random() % 8 != 0) {
        ++kept;
        published.insert(first.chunk);
        const auto hold = first.filling.publish();
        ASSERT_TRUE(is_right(hold.bytes(), first.chunk));
      }
    } else if (!held.empty()) {
      ASSERT_TRUE(is_right(held.front().hold.bytes(), held.front().chunk)) << "bytes of a held entry were overwritten";
      held.pop_front();
    }
    if (held.size() > 20) held.pop_front();
    if (filling.size() > 6) filling.pop_front();
    ASSERT_LE(cache.held_bytes(), cache.sizes().space);
  }
  const auto counts = cache.counts();
  EXPECT_EQ(counts.hits.chunks, hits);
  EXPECT_EQ(counts.misses.chunks, misses);
  EXPECT_EQ(counts.kept.chunks, kept);
  EXPECT_GT(hits, 100'000);
  EXPECT_GT(counts.evicted.chunks, 1000);
  filling.clear();
  std::uint64_t rounded = 0;  // what is there, by look-ups, is what was kept and not evicted
  std::int64_t bytes = 0;
  for (const std::int64_t chunk : published)
    if (const auto found = cache.find(key_of(chunk), size(chunk)); found.hold) {
      bytes += static_cast<std::int64_t>(size(chunk));
      rounded += (size(chunk) + 63) / 64 * 64;
    }
  EXPECT_EQ(counts.kept.bytes - counts.evicted.bytes, bytes);
  EXPECT_EQ(cache.held_bytes(), rounded);
}

TEST(ChunkCache, gives_back_what_is_not_published) {
  ChunkCache cache(1 << 20, std::make_shared<PageAlloc>());
  {
    const auto filling = cache.reserve(key_of(1), 100);
  }
  EXPECT_EQ(cache.held_bytes(), 0);
  EXPECT_FALSE(cache.find(key_of(1), 100).hold);
  EXPECT_EQ(cache.counts().kept, ChunkCache::Count{});
}

TEST(ChunkCache, keeps_no_chunk_larger_than_an_eighth) {
  ChunkCache cache(1 << 20, std::make_shared<PageAlloc>());
  EXPECT_FALSE(cache.reserve(key_of(1), cache.sizes().largest_chunk() + 1));
  EXPECT_TRUE(cache.reserve(key_of(2), cache.sizes().largest_chunk()));
}

TEST(ChunkCache, a_cache_too_small_for_its_index_keeps_nothing) {
  ChunkCache cache(1, std::make_shared<PageAlloc>());
  EXPECT_FALSE(cache.find(key_of(1), 1).hold);
  EXPECT_FALSE(cache.reserve(key_of(1), 1));
}

TEST(ChunkCache, the_index_takes_at_most_4_percent) {
  for (const std::uint64_t bytes : {std::uint64_t{1} << 20, std::uint64_t{1} << 30, std::uint64_t{40} << 30}) {
    const CacheSizes sizes = cache_sizes(bytes);
    EXPECT_LE(sizes.index + sizes.space, bytes);
    EXPECT_LE(static_cast<double>(sizes.index), 0.04 * static_cast<double>(bytes)) << bytes;
  }
}

TEST(ChunkCache, a_full_cache_keeps_what_it_has_while_a_set_is_read_for_the_first_time) {
  ChunkCache cache(1 << 20, std::make_shared<PageAlloc>());
  std::int64_t chunk = 0;
  while (cache.find(key_of(++chunk), kChunk).may_be_kept) cache.reserve(key_of(chunk), kChunk).publish();
  for (const std::int64_t end = chunk + 1000; chunk < end; ++chunk) use(cache, key_of(chunk), kChunk);
  EXPECT_EQ(cache.counts().evicted.chunks, 0);
}

// Bytes and notes of chunks of all sizes, of sets that follow each other, where either space may be the one that is
// full.
TEST(ChunkCache, a_note_goes_with_its_chunk) {
  Random random(3);
  for (const std::uint64_t note_bytes : {std::uint64_t{8}, std::uint64_t{3000}}) {
    ChunkCache cache(cache_sizes_with_notes(1 << 20, 16), std::make_shared<PageAlloc>());
    ASSERT_EQ(cache.sizes().notes, (1u << 20) / CacheSizes::kShareOfNotes);
    std::uint64_t found = 0;
    for (int i = 0; i < 20000; ++i) {
      const std::int64_t chunk = static_cast<std::int64_t>(random() % 300) + i / 4000 * 300;
      const ChunkKey key = key_of(chunk);
      const std::uint64_t bytes = 1 + mixed(static_cast<std::uint64_t>(chunk)) % 8000;
      const auto of_chunk = static_cast<std::byte>(chunk % 251);
      const auto is_right = [&](std::byte b) { return b == of_chunk; };
      const ChunkCache::Found seen = cache.find(key, bytes);
      if (seen.hold) {
        ++found;
        ASSERT_EQ(seen.hold->bytes().size(), bytes);
        ASSERT_EQ(seen.hold->note().size(), note_bytes);
        ASSERT_TRUE(std::ranges::all_of(seen.hold->bytes(), is_right));
        ASSERT_TRUE(std::ranges::all_of(seen.hold->note(), is_right));
        continue;
      }
      ChunkCache::Filling room = cache.reserve(key, bytes, note_bytes);
      if (!room) continue;
      std::ranges::fill(room.bytes(), of_chunk);
      std::ranges::fill(room.note(), of_chunk);
      if (random() % 10 != 0) static_cast<void>(room.publish());
    }
    EXPECT_GT(found, 500u);
    EXPECT_GT(cache.counts().evicted.chunks, 50);
    EXPECT_LE(cache.held_bytes(), cache.sizes().space);
  }
}

TEST(ChunkCache, a_note_larger_than_an_eighth_of_their_space_is_not_kept) {
  ChunkCache cache(cache_sizes_with_notes(1 << 20, 16), std::make_shared<PageAlloc>());
  EXPECT_TRUE(cache.reserve({}, 100, cache.sizes().notes / 8));
  EXPECT_FALSE(cache.reserve({}, 100, cache.sizes().notes / 8 + 1));
  ChunkCache none(1 << 20, std::make_shared<PageAlloc>());
  EXPECT_FALSE(none.reserve({}, 100, 1));
}

TEST(ChunkCache, chunks_are_found_and_counted_the_same_after_a_prefetch) {
  ChunkCache plain(1 << 20, std::make_shared<PageAlloc>()), cache(1 << 20, std::make_shared<PageAlloc>());
  std::vector<ChunkKey> keys;
  for (std::int64_t chunk = 0; chunk < 100; ++chunk) keys.push_back(key_of(chunk));
  for (int pass = 0; pass < 3; ++pass) {
    cache.prefetch(keys);
    for (const ChunkKey& key : keys) EXPECT_EQ(use(cache, key, 4 << 10), use(plain, key, 4 << 10));
  }
  EXPECT_EQ(cache.counts().hits, plain.counts().hits);
  EXPECT_EQ(cache.counts().misses, plain.counts().misses);
  EXPECT_EQ(cache.counts().kept.chunks, 100);
  cache.prefetch({});
}

TEST(ChunkCache, keeps_chunks_while_pages_are_cleared_ahead) {
  ChunkCache cache(200 << 20, std::make_shared<PageAlloc>());
  cache.clear_pages_ahead();
  const std::uint64_t bytes = 1 << 20;
  for (std::int64_t chunk = 0; chunk < 180; ++chunk) {
    ChunkCache::Filling room = cache.reserve(key_of(chunk), bytes);
    ASSERT_TRUE(room);
    std::ranges::fill(room.bytes(), static_cast<std::byte>(chunk));
    static_cast<void>(room.publish());
  }
  for (std::int64_t chunk = 0; chunk < 180; ++chunk) {
    const auto found = cache.find(key_of(chunk), bytes);
    ASSERT_TRUE(found.hold);
    for (std::size_t at = 0; at < bytes; at += 4096)
      ASSERT_EQ(found.hold->bytes()[at], static_cast<std::byte>(chunk)) << chunk;
  }
}

}  // namespace
}  // namespace damacy
