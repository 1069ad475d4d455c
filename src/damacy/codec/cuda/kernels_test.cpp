// The kernels on the host machine of simt_on_host.h, against the contents and the reference decoder.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "support/reference_decoder.h"
#include "support/simt_on_host_impl.h"
#include "support/wave_on_host.h"
#include "support/zstd_frames.h"

namespace damacy::gpu {
namespace {

using testing::Bytes;
using testing::Random;

struct Case {
  Bytes encoded;
  std::size_t size = 0;
  GpuCodec codec = GpuCodec::zstd;
  std::uint64_t needed_end = 0;
};

// One wave of cases: sources at any alignment, destinations with guards between.
class WaveTest {
 public:
  static constexpr std::size_t kGuard = 64;
  static constexpr std::byte kPoison{0xab};

  explicit WaveTest(std::vector<Case> cases) : cases_(std::move(cases)), wave_(WaveLimits{}) {
    std::size_t source_bytes = 0, output_bytes = kGuard;
    for (const Case& c : cases_) {
      GpuFrame frame;
      frame.src_offset = source_bytes;
      frame.src_size = c.encoded.size();
      frame.dst_offset = output_bytes;
      frame.dst_size = c.size;
      frame.codec = c.codec;
      frame.needed_end = c.needed_end;
      FrameScan scan;
      const DecodeResult result = scan_frame(c.encoded, frame, scan);
      indices_.push_back(result.ok() && !scan.ask_host ? wave_.add(scan) : WaveDescriptors::kFull);
      frames_.push_back(frame);
      source_bytes += c.encoded.size() + source_bytes % 7;
      output_bytes += c.size + kGuard;
    }
    source_ = std::make_unique<DeviceMemory>(((source_bytes + 15) & ~std::size_t{15}) + WaveBuffers::kSourcePadding,
                                             std::byte{0xee});
    for (std::size_t i = 0; i < cases_.size(); ++i)
      std::copy(cases_[i].encoded.begin(), cases_[i].encoded.end(), source_->data() + frames_[i].src_offset);
    output_bytes_ = output_bytes;
  }

  void run(const StageShapes& shapes, u64 seed) {
    output_ = std::make_unique<DeviceMemory>(output_bytes_, kPoison);
    status_ = decode_wave_on_host(wave_, *source_, *output_, shapes, seed);
  }

  std::size_t count() const { return cases_.size(); }
  const Case& at(std::size_t i) const { return cases_[i]; }
  bool scanned(std::size_t i) const { return indices_[i] != WaveDescriptors::kFull; }
  Fault fault(std::size_t i) const { return static_cast<Fault>(status_[indices_[i]]); }
  std::span<const std::byte> bytes(std::size_t i) const {
    return {output_->data() + frames_[i].dst_offset, frames_[i].dst_size};
  }
  bool guards_are_whole() const {
    std::size_t position = 0;
    for (const GpuFrame& frame : frames_) {
      for (; position < frame.dst_offset; ++position)
        if (output_->data()[position] != kPoison) return false;
      position += frame.dst_size;
    }
    for (; position < output_bytes_; ++position)
      if (output_->data()[position] != kPoison) return false;
    return true;
  }

 private:
  std::vector<Case> cases_;
  std::vector<GpuFrame> frames_;
  std::vector<u32> indices_;
  WaveDescriptors wave_;
  std::unique_ptr<DeviceMemory> source_, output_;
  std::size_t output_bytes_ = 0;
  std::vector<u32> status_;
};

StageShapes random_shapes(Random& random) {
  const auto pick = [&](std::initializer_list<u32> choices) { return *(choices.begin() + random() % choices.size()); };
  StageShapes shapes{};
  shapes.sequence_lanes = pick({1, 2, 4, 5, 8, 10, 14});
  shapes.zstd_warps = pick({4, 4, 8, 16});
  shapes.lz4_warps = pick({4, 4, 8, 16});
  shapes.dense = random() % 2 == 0;
  return shapes;
}

Case random_case(Random& random, std::size_t size, std::vector<Bytes>& contents) {
  Bytes content = testing::random_content(random, size);
  Case c;
  c.size = content.size();
  switch (random() % 5) {
    case 0:
      c.codec = GpuCodec::raw;
      c.encoded = content;
      break;
    case 1:
    case 2:
      c.codec = GpuCodec::lz4;
      c.encoded = testing::random_lz4(random, content);
      break;
    default:
      c.encoded = testing::random_zstd(random, content);
  }
  if (random() % 4 == 0 && size > 1) c.needed_end = 1 + random() % size;
  contents.push_back(std::move(content));
  return c;
}

bool starts_like(std::span<const std::byte> bytes, std::span<const std::byte> expected, std::uint64_t count) {
  return std::equal(expected.begin(), expected.begin() + static_cast<std::ptrdiff_t>(count), bytes.begin());
}

TEST(Kernels, give_what_the_libraries_packed) {
  Random random(11);
  for (int round = 0; round < 6; ++round) {
    std::vector<Case> cases;
    std::vector<Bytes> contents;
    for (int i = 0; i < 12; ++i)
      cases.push_back(random_case(random, 1 + random() % (i % 4 == 0 ? 200000 : 8000), contents));
    WaveTest wave(std::move(cases));
    wave.run(random_shapes(random), static_cast<u64>(round));
    for (std::size_t i = 0; i < wave.count(); ++i) {
      ASSERT_TRUE(wave.scanned(i));
      const Case& c = wave.at(i);
      if (wave.fault(i) == Fault::ask_host && c.needed_end != 0) continue;
      ASSERT_EQ(wave.fault(i), Fault::none) << "round " << round << " case " << i;
      ASSERT_TRUE(starts_like(wave.bytes(i), contents[i], c.needed_end != 0 ? c.needed_end : c.size))
          << "round " << round << " case " << i;
    }
    EXPECT_TRUE(wave.guards_are_whole());
  }
}

TEST(Kernels, agree_with_the_reference_decoder_on_mutated_frames) {
  Random random(12);
  ReferenceDecoder reference;
  int accepted = 0, refused = 0;
  for (int round = 0; round < 12; ++round) {
    std::vector<Case> cases;
    std::vector<Bytes> contents;
    for (int i = 0; i < 40; ++i) {
      cases.push_back(random_case(random, 1 + random() % 2500, contents));
      if (cases.back().codec != GpuCodec::raw) testing::mutate(random, cases.back().encoded);
    }
    WaveTest wave(std::move(cases));
    wave.run(random_shapes(random), static_cast<u64>(round));
    ASSERT_TRUE(wave.guards_are_whole()) << "round " << round;
    for (std::size_t i = 0; i < wave.count(); ++i) {
      Bytes expected(wave.at(i).size);
      const std::uint64_t needed = wave.at(i).needed_end;
      const auto outcome = reference.decode(wave.at(i).encoded, wave.at(i).codec, expected, needed);
      if (!wave.scanned(i)) {
        EXPECT_FALSE(outcome.ok());
        continue;
      }
      ASSERT_EQ(wave.fault(i) == Fault::none, outcome.ok())
          << "round " << round << " case " << i << " kernel " << static_cast<int>(wave.fault(i)) << " reference "
          << static_cast<int>(outcome.fault);
      if (outcome.ok()) {
        ASSERT_TRUE(starts_like(wave.bytes(i), expected, needed != 0 ? needed : expected.size()))
            << "round " << round << " case " << i;
      }
      ++(outcome.ok() ? accepted : refused);
    }
  }
  EXPECT_GT(accepted, 50);
  EXPECT_GT(refused, 50);
}

// Every literal length next to every match length, around where either is written in another way.
TEST(Kernels, parse_lz4_lengths_of_all_kinds) {
  Random random(14);
  Bytes content;
  for (const std::size_t literals : {0, 1, 14, 15, 16, 268, 269, 270, 271, 524, 525, 40000})
    for (const std::size_t repeats : {4, 18, 19, 20, 272, 273, 274, 275, 528, 529, 70000}) {
      const Bytes noise = testing::noise(random, literals + 1);
      content.insert(content.end(), noise.begin(), noise.end());
      content.insert(content.end(), repeats, noise.back());
    }
  Case c;
  c.size = content.size();
  c.codec = GpuCodec::lz4;
  c.encoded.resize(static_cast<std::size_t>(LZ4_compressBound(static_cast<int>(c.size))));
  c.encoded.resize(static_cast<std::size_t>(
      LZ4_compress_default(reinterpret_cast<const char*>(content.data()), reinterpret_cast<char*>(c.encoded.data()),
                           static_cast<int>(content.size()), static_cast<int>(c.encoded.size()))));
  WaveTest wave({c, c, c});
  wave.run(random_shapes(random), 1);
  for (std::size_t i = 0; i < wave.count(); ++i) {
    ASSERT_EQ(wave.fault(i), Fault::none);
    EXPECT_TRUE(starts_like(wave.bytes(i), content, content.size()));
  }
  EXPECT_TRUE(wave.guards_are_whole());
}

// A frame that refers to a prefix is valid only with it: the match behind its literals leads before its begin. Whether
// that is seen may not depend on how many bytes are needed, or on how many sequences a window takes.
TEST(Kernels, refuse_an_offset_behind_the_bytes_that_are_needed) {
  Random random(15);
  const Bytes prefix = testing::noise(random, 4000);
  Bytes content = testing::noise(random, 1000);
  for (std::size_t i = 0; i < 400; ++i) {  // sequences with valid offsets, more than a window takes
    const Bytes fresh = testing::noise(random, 3);
    content.insert(content.end(), fresh.begin(), fresh.end());
    content.insert(content.end(), content.begin() + static_cast<std::ptrdiff_t>(i),
                   content.begin() + static_cast<std::ptrdiff_t>(i) + 8);
  }
  content.insert(content.end(), prefix.begin() + 100, prefix.begin() + 1100);
  Bytes encoded(ZSTD_compressBound(content.size()));
  const std::unique_ptr<ZSTD_CCtx, std::size_t (*)(ZSTD_CCtx*)> packer(ZSTD_createCCtx(), ZSTD_freeCCtx);
  ZSTD_CCtx_refPrefix(packer.get(), prefix.data(), prefix.size());
  encoded.resize(ZSTD_compress2(packer.get(), encoded.data(), encoded.size(), content.data(), content.size()));
  std::vector<Case> cases;
  for (const std::uint64_t needed : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1500}, std::uint64_t{5000}})
    cases.push_back({encoded, content.size(), GpuCodec::zstd, needed});
  WaveTest wave(std::move(cases));
  for (const u32 warps : {4u, 8u, 16u}) {
    StageShapes shapes{};
    shapes.sequence_lanes = 4;
    shapes.zstd_warps = shapes.lz4_warps = warps;
    wave.run(shapes, warps);
    for (std::size_t i = 0; i < wave.count(); ++i) {
      ASSERT_TRUE(wave.scanned(i));
      EXPECT_EQ(wave.fault(i), Fault::offset) << warps << " warps, " << wave.at(i).needed_end << " bytes needed";
    }
  }
}

TEST(Kernels, verify_checksums_and_declared_sizes) {
  Random random(13);
  std::vector<Case> cases;
  const Bytes content = testing::microscopy(random, 9001);
  for (int i = 0; i < 4; ++i) {
    Case c;
    c.size = content.size();
    testing::ZstdWriter{3, 0, true, true}.append(std::span(content).first(4000), c.encoded);
    testing::ZstdWriter{3, 0, true, true}.append(std::span(content).subspan(4000), c.encoded);
    if (i == 1) c.encoded.back() ^= std::byte{1};
    cases.push_back(std::move(c));
  }
  WaveTest wave(std::move(cases));
  wave.run(random_shapes(random), 1);
  EXPECT_EQ(wave.fault(0), Fault::none);
  EXPECT_EQ(wave.fault(1), Fault::checksum);
  EXPECT_EQ(wave.fault(2), Fault::none);
}

}  // namespace
}  // namespace damacy::gpu
