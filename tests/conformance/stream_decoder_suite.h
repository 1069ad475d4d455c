// What every StreamDecoder does. A new implementation joins with
//   struct MyFixture {
//     static TestedDecoder make();
//     static constexpr bool kScans = true;  // false: it looks at no frame before it decodes
//   };
//   INSTANTIATE_TYPED_TEST_SUITE_P(My, StreamDecoderSuite, MyFixture);
// Frames are written by the codecs' own libraries and by encoders of the tests, so only codec's tests can use it.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "damacy/codec/stream_decoder.h"
#include "damacy/device/device.h"
#include "support/zstd_frames.h"

namespace damacy {

using gpu::testing::Bytes;
using gpu::testing::Random;

struct TestedDecoder {
  std::shared_ptr<Device> device;  // null: this machine has none
  std::unique_ptr<StreamDecoder> decoder;
};

struct Packed {
  Bytes encoded, content;
  GpuCodec codec = GpuCodec::zstd;
  std::uint64_t needed_end = 0;
};

inline Packed random_packed(Random& random, std::size_t size) {
  Packed packed;
  packed.content = gpu::testing::random_content(random, size);
  packed.codec = static_cast<GpuCodec>(random() % 3);
  if (packed.codec == GpuCodec::raw) packed.encoded = packed.content;
  if (packed.codec == GpuCodec::zstd) packed.encoded = gpu::testing::random_zstd(random, packed.content);
  if (packed.codec == GpuCodec::lz4) packed.encoded = gpu::testing::random_lz4(random, packed.content);
  return packed;
}

// What came out of a wave: bytes and a verdict a frame; a frame that was left to the host has no verdict.
struct Outcome {
  std::vector<Bytes> bytes;
  std::vector<std::optional<GpuVerdict>> verdicts;
  bool kept_between = true;  // the bytes between frames are as they were
};

template <class Fixture>
class StreamDecoderSuite : public ::testing::Test {
 protected:
  static constexpr std::byte kBefore{0xab};  // what memory holds before a wave

  void SetUp() override {
    target_ = Fixture::make();
    if (target_.device == nullptr) GTEST_SKIP() << "NOT TESTED: this machine has no such device";
    stream_ = target_.device->make_stream();
    list_ = target_.decoder->make_list({.scratch_bytes = std::uint64_t{64} << 20});
  }

  HostBuffer pinned(std::size_t bytes) const {
    return {target_.device->pinned_memory(), std::max<std::size_t>(bytes, 1)};
  }
  HostBuffer device(std::size_t bytes) const {
    return {target_.device->device_memory(), std::max<std::size_t>(bytes, 1)};
  }

  // Scans, uploads, decodes and brings back, each with memory of its own.
  enum class Added { one_by_one, together, from_descriptions };
  Outcome decode(const std::vector<Packed>& wave, Added how = Added::one_by_one) {
    list_->clear();
    std::vector<GpuFrame> frames = place(wave);
    std::vector<std::uint32_t> indices(wave.size());
    const std::size_t source_bytes = frames.back().src_offset + frames.back().src_size;
    const std::size_t output_bytes = frames.back().dst_offset + frames.back().dst_size;
    HostBuffer packed = pinned(source_bytes), output = pinned(output_bytes);
    for (std::size_t i = 0; i < wave.size(); ++i)
      std::memcpy(packed.data() + frames[i].src_offset, wave[i].encoded.data(), wave[i].encoded.size());
    HostBuffer bytes = device(source_bytes + WaveBuffers::kSourcePadding);
    const HostBuffer elsewhere = device(WaveBuffers::kSourcePadding);
    const std::span<std::byte> base =
        how == Added::from_descriptions ? elsewhere.bytes() : bytes.bytes().first(source_bytes);
    if (how == Added::together) {
      EXPECT_TRUE(list_->add_chunk(packed.bytes(), 0, frames, indices).ok());
    }
    if (how == Added::from_descriptions) add_described(wave, frames, distance(base, bytes.bytes()), indices);
    for (std::size_t i = 0; i < wave.size() && how == Added::one_by_one; ++i)
      EXPECT_TRUE(list_->add(wave[i].encoded, frames[i], indices[i]).ok()) << i;
    HostBuffer image = pinned(list_->image_bytes()), words = pinned(std::size_t{4} * list_->count());
    list_->write_image(image.bytes().first(list_->image_bytes()));
    stream_->copy(bytes.bytes().first(packed.size()), packed.bytes());
    run(base, image, output, words);
    return collect(wave, frames, indices, output, words);
  }

  static bool is_good(const std::optional<GpuVerdict>& verdict) {
    return verdict && verdict->result.ok() && !verdict->ask_host;
  }

  TestedDecoder target_;
  std::unique_ptr<Stream> stream_;
  std::unique_ptr<FrameList> list_;

 private:
  static std::vector<GpuFrame> place(const std::vector<Packed>& wave) {
    std::vector<GpuFrame> frames;
    std::uint64_t source = 0, destination = 0;
    for (const Packed& packed : wave) {
      frames.push_back(
          {source, packed.encoded.size(), destination, packed.content.size(), packed.codec, packed.needed_end});
      source += packed.encoded.size() + source % 5;
      destination += packed.content.size() + destination % 3;
    }
    return frames;
  }

  static std::uint64_t distance(std::span<const std::byte> from, std::span<const std::byte> to) {
    return reinterpret_cast<std::uint64_t>(to.data()) - reinterpret_cast<std::uint64_t>(from.data());
  }

  // Each described where its offsets are 0, by another list. Their bytes are `away` from the wave's source.
  void add_described(const std::vector<Packed>& wave, const std::vector<GpuFrame>& frames, std::uint64_t away,
                     std::span<std::uint32_t> indices) {
    const auto other = target_.decoder->make_list({.scratch_bytes = std::uint64_t{1} << 20});
    for (std::size_t i = 0; i < wave.size(); ++i) {
      GpuFrame frame = frames[i];
      frame.src_offset = frame.dst_offset = frame.needed_end = 0;
      std::vector<std::byte> description;
      indices[i] = FrameList::kHost;
      if (!other->describe(wave[i].encoded, frame, description)) continue;
      const FrameList::DescribedFrame described{description, away + frames[i].src_offset, frames[i].dst_offset,
                                                frames[i].needed_end};
      list_->add_described({&described, 1}, indices.subspan(i, 1));
    }
  }

  void run(std::span<const std::byte> source, const HostBuffer& image, const HostBuffer& output,
           const HostBuffer& words) {
    HostBuffer on_device = device(image.size());
    HostBuffer destination = device(output.size()), scratch = device(list_->scratch_bytes()),
               status = device(words.size());
    stream_->fill(destination.bytes(), kBefore);
    stream_->fill(status.bytes(), kBefore);
    stream_->copy(on_device.bytes(), image.bytes());
    const std::size_t status_bytes = std::size_t{4} * list_->count();
    target_.decoder->enqueue(*stream_, *list_,
                             {source, destination.bytes(), scratch.bytes().first(list_->scratch_bytes()),
                              on_device.bytes().first(list_->image_bytes()), status.bytes().first(status_bytes)});
    stream_->copy(output.bytes(), destination.bytes());
    stream_->copy(words.bytes(), status.bytes());
    ASSERT_TRUE(stream_->record().wait());
  }

  static Outcome collect(const std::vector<Packed>& wave, const std::vector<GpuFrame>& frames,
                         const std::vector<std::uint32_t>& indices, const HostBuffer& output, const HostBuffer& words) {
    Outcome outcome;
    for (std::size_t i = 0; i < wave.size(); ++i) {
      const auto bytes = output.bytes().subspan(frames[i].dst_offset, frames[i].dst_size);
      outcome.bytes.emplace_back(bytes.begin(), bytes.end());
      outcome.verdicts.emplace_back();
      const std::size_t end = frames[i].dst_offset + frames[i].dst_size;
      const auto between = output.bytes().subspan(end, (i + 1 < wave.size() ? frames[i + 1].dst_offset : end) - end);
      if (std::ranges::any_of(between, [](std::byte b) { return b != kBefore; })) outcome.kept_between = false;
      if (indices[i] == FrameList::kHost) continue;
      std::uint32_t word = 0;
      std::memcpy(&word, words.data() + std::size_t{4} * indices[i], 4);
      outcome.verdicts.back() = verdict_of(word);
    }
    return outcome;
  }
};

TYPED_TEST_SUITE_P(StreamDecoderSuite);

TYPED_TEST_P(StreamDecoderSuite, frames_of_all_codecs_come_out_whole) {
  Random random(1);
  for (int round = 0; round < 3; ++round) {
    std::vector<Packed> wave;
    for (int i = 0; i < 60; ++i) wave.push_back(random_packed(random, 1 + random() % (i % 8 == 0 ? 300000 : 5000)));
    const Outcome outcome = this->decode(wave);
    EXPECT_TRUE(outcome.kept_between);
    for (std::size_t i = 0; i < wave.size(); ++i) {
      ASSERT_TRUE(this->is_good(outcome.verdicts[i])) << i;
      ASSERT_EQ(outcome.bytes[i], wave[i].content) << i;
    }
  }
}

TYPED_TEST_P(StreamDecoderSuite, a_damaged_frame_is_not_good_and_its_neighbours_are) {
  Random random(2);
  const Bytes content = gpu::testing::microscopy(random, 6000);
  std::vector<Packed> wave(3);
  for (Packed& packed : wave) {
    packed.content = content;
    gpu::testing::ZstdWriter{3, 0, true, true}.append(content, packed.encoded);
  }
  wave[1].encoded.back() ^= std::byte{1};  // of the checksum
  const Outcome outcome = this->decode(wave);
  EXPECT_FALSE(this->is_good(outcome.verdicts[1]));
  for (const int neighbour : {0, 2}) EXPECT_TRUE(this->is_good(outcome.verdicts[neighbour]));
}

TYPED_TEST_P(StreamDecoderSuite, bytes_that_are_not_needed_may_be_missing) {
  Random random(3);
  std::vector<Packed> wave(1);
  wave[0].content = gpu::testing::microscopy(random, 500000);
  gpu::testing::ZstdWriter{}.append(wave[0].content, wave[0].encoded);
  wave[0].needed_end = 70000;
  const Outcome outcome = this->decode(wave);
  ASSERT_TRUE(this->is_good(outcome.verdicts[0]));
  EXPECT_TRUE(std::equal(wave[0].content.begin(), wave[0].content.begin() + 70000, outcome.bytes[0].begin()));
}

TYPED_TEST_P(StreamDecoderSuite, frames_of_a_chunk_may_be_added_together) {
  Random random(6);
  std::vector<Packed> wave;
  for (int i = 0; i < 40; ++i) wave.push_back(random_packed(random, 1 + random() % 3000));
  const Outcome outcome = this->decode(wave, TestFixture::Added::together);
  for (std::size_t i = 0; i < wave.size(); ++i) {
    ASSERT_TRUE(this->is_good(outcome.verdicts[i])) << i;
    ASSERT_EQ(outcome.bytes[i], wave[i].content) << i;
  }
}

TYPED_TEST_P(StreamDecoderSuite, described_frames_come_out_as_frames_that_are_scanned) {
  Random random(9);
  int described = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<Packed> wave;
    for (int i = 0; i < 60; ++i) {
      wave.push_back(random_packed(random, 1 + random() % (i % 8 == 0 ? 300000 : 5000)));
      if (wave.back().codec == GpuCodec::zstd && i % 3 == 0)
        wave.back().needed_end = 1 + random() % wave.back().content.size();
    }
    const Outcome outcome = this->decode(wave, TestFixture::Added::from_descriptions);
    EXPECT_TRUE(outcome.kept_between);
    for (std::size_t i = 0; i < wave.size(); ++i) {
      if (!outcome.verdicts[i]) continue;
      ++described;
      if (outcome.verdicts[i]->ask_host) continue;
      const std::uint64_t needed = wave[i].needed_end == 0 ? wave[i].content.size() : wave[i].needed_end;
      ASSERT_TRUE(outcome.verdicts[i]->result.ok()) << i;
      ASSERT_TRUE(std::equal(wave[i].content.begin(), wave[i].content.begin() + static_cast<std::ptrdiff_t>(needed),
                             outcome.bytes[i].begin()))
          << i;
    }
  }
  EXPECT_GE(described, TypeParam::kDescribes ? 150 : 0);
}

TYPED_TEST_P(StreamDecoderSuite, a_malformed_frame_is_reported_and_the_host_decodes_the_chunk) {
  Random random(7);
  const Bytes content = gpu::testing::microscopy(random, 3000);
  Bytes chunk;
  std::vector<GpuFrame> frames;
  for (int i = 0; i < 20; ++i) {
    const std::size_t begin = chunk.size();
    gpu::testing::ZstdWriter{}.append(content, chunk);
    if (i == 17) chunk[begin] ^= std::byte{1};
    frames.push_back({begin, chunk.size() - begin, static_cast<std::uint64_t>(i) * 3000, 3000, GpuCodec::zstd, 0});
  }
  std::vector<std::uint32_t> indices(frames.size());
  const DecodeResult result = this->list_->add_chunk(chunk, 0, frames, indices);
  if (!TypeParam::kScans) {
    EXPECT_TRUE(result.ok());
  } else {
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(indices[17], FrameList::kHost);
    EXPECT_EQ(indices[19], FrameList::kHost);
  }
}

TYPED_TEST_P(StreamDecoderSuite, frames_beyond_a_limit_are_left_to_the_host) {
  const std::uint64_t kScratch = std::uint64_t{64} << 20;
  for (const FrameLimits limits : {FrameLimits{.scratch_bytes = kScratch, .frames = 3},
                                   FrameLimits{.scratch_bytes = kScratch, .image_bytes = 4096}}) {
    const auto list = this->target_.decoder->make_list(limits);
    const Bytes content(64, std::byte{5});
    EXPECT_EQ(list->fill(), 0);
    std::uint32_t index = 0, taken = 0;
    for (; taken < 1000; ++taken) {
      ASSERT_TRUE(list->add(content, {0, 64, std::uint64_t{64} * taken, 64, GpuCodec::raw, 0}, index).ok());
      if (index == FrameList::kHost) break;
      EXPECT_EQ(index, taken);
    }
    EXPECT_EQ(index, FrameList::kHost);
    EXPECT_EQ(list->count(), taken);
    EXPECT_GT(taken, 2u);
    EXPECT_LE(taken, limits.frames);
    EXPECT_LE(list->image_bytes() + 4 * list->count(), limits.image_bytes);
    EXPECT_GT(list->fill(), 0.9);
    EXPECT_LE(list->fill(), 1);
    list->clear();
    EXPECT_EQ(list->fill(), 0);
  }
}

TYPED_TEST_P(StreamDecoderSuite, many_threads_add_frames_to_one_list) {
  constexpr std::size_t kThreads = 4, kEach = 50;
  const Bytes content(64, std::byte{5});
  std::vector<std::uint32_t> indices(kThreads * kEach, FrameList::kHost);
  {
    std::vector<std::jthread> threads;
    for (std::size_t t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t] {
        for (std::size_t i = t * kEach; i < (t + 1) * kEach; ++i)
          EXPECT_TRUE(this->list_->add(content, {0, 64, 64 * i, 64, GpuCodec::raw, 0}, indices[i]).ok());
      });
  }
  EXPECT_EQ(this->list_->count(), kThreads * kEach);
  const std::set<std::uint32_t> distinct(indices.begin(), indices.end());
  EXPECT_EQ(distinct.size(), kThreads * kEach);
  EXPECT_EQ(*distinct.rbegin(), kThreads * kEach - 1);
}

TYPED_TEST_P(StreamDecoderSuite, an_empty_list_is_no_work) {
  this->list_->clear();
  EXPECT_EQ(this->list_->count(), 0u);
  this->target_.decoder->enqueue(*this->stream_, *this->list_, {});
  EXPECT_TRUE(this->stream_->record().wait());
}

REGISTER_TYPED_TEST_SUITE_P(StreamDecoderSuite, frames_of_all_codecs_come_out_whole,
                            a_damaged_frame_is_not_good_and_its_neighbours_are,
                            bytes_that_are_not_needed_may_be_missing, frames_of_a_chunk_may_be_added_together,
                            described_frames_come_out_as_frames_that_are_scanned,
                            a_malformed_frame_is_reported_and_the_host_decodes_the_chunk,
                            frames_beyond_a_limit_are_left_to_the_host, many_threads_add_frames_to_one_list,
                            an_empty_list_is_no_work);

}  // namespace damacy
