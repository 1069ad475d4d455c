// Disk tiers of small segments in a directory of their own, with entries whose bytes follow from their numbers. Knows
// the names of files; not what is tested.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/cache/chunk_key.h"
#include "damacy/cache/disk/disk_tier.h"

namespace damacy::testing {

namespace fs = std::filesystem;
using Bytes = std::vector<std::byte>;
using Random = std::mt19937_64;

inline constexpr std::uint64_t kSegment = 64 << 10;
inline constexpr auto kLong = std::chrono::seconds(60);

inline ChunkKey key_of(std::uint64_t number) {
  return {{mixed(number + 1), mixed(number + 0x1234567)}};
}

// Bytes that only this key and length have.
inline Bytes bytes_of(std::uint64_t number, std::size_t length) {
  Bytes bytes(length);
  Random random(number * 31 + length);
  for (std::size_t i = 0; i < length; ++i) bytes[i] = static_cast<std::byte>(random());
  return bytes;
}

// A shorter one: `wait` returns when all is written.
class SmallDiskTier {
 public:
  explicit SmallDiskTier(const fs::path& directory, std::uint64_t segments = 16,
                         std::shared_ptr<DiskCalls> calls = std::make_shared<DiskCalls>(), bool shared = false)
      : tier_(settings(directory, segments, std::move(calls), shared)) {}

  static DiskTierSettings settings(const fs::path& directory, std::uint64_t segments, std::shared_ptr<DiskCalls> calls,
                                   bool shared) {
    DiskTierSizes sizes;
    sizes.bytes = segments * kSegment;
    sizes.segment_bytes = kSegment;
    sizes.buckets = 4096;
    sizes.remembered = 1 << 16;
    sizes.queue_bytes = 1 << 20;
    return {directory.string(), shared, sizes, std::move(calls)};
  }

  DiskTier& operator*() { return tier_; }
  DiskTier* operator->() { return &tier_; }

  void keep(std::uint64_t number, std::size_t length, const std::string& name = {}) {
    tier_.keep(key_of(number), bytes_of(number, length), name);
    if (!tier_.wait_written(kLong)) throw std::runtime_error("not written");
  }
  // Fails the test if the bytes are wrong.
  bool read(std::uint64_t number, std::size_t length) {
    Bytes to(length);
    DiskTier::Wanted wanted{key_of(number), to};
    tier_.read({&wanted, 1});
    EXPECT_TRUE(!wanted.found || to == bytes_of(number, length)) << number;
    return wanted.found;
  }
  // As a fetch does. True: a hit.
  bool use(std::uint64_t number, std::size_t length) {
    if (tier_.find(key_of(number), length) && read(number, length)) return true;
    if (tier_.has_room_for(length)) keep(number, length);
    return false;
  }

 private:
  DiskTier tier_;
};

class DiskTierTest : public ::testing::Test {
 protected:
  DiskTierTest() {
    std::string name = (fs::temp_directory_path() / "damacy-disk-XXXXXX").string();
    directory_ = ::mkdtemp(name.data());
  }
  ~DiskTierTest() override { fs::remove_all(directory_); }
  const fs::path& directory() const { return directory_; }
  fs::path inside() const { return directory_ / "damacy-1"; }
  std::vector<fs::path> segments() const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::directory_iterator(inside()))
      if (entry.path().filename().string().starts_with("segment-")) found.push_back(entry.path());
    std::ranges::sort(found);
    return found;
  }

 private:
  fs::path directory_;
};

}  // namespace damacy::testing
