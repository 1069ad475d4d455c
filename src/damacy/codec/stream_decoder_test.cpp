// The rules of stream decoders, on a host device and, where there is one, on a GPU.
#include "damacy/codec/stream_decoder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "damacy/codec/gpu_zstd/test_frames.h"
#include "damacy/codec/nvcomp/library.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"
#include "fakes/nvcomp/fake_nvcomp.h"

namespace damacy {
namespace {

using gpu::testing::Bytes;
using gpu::testing::Random;

struct Target {
  std::shared_ptr<Device> device;
  std::unique_ptr<StreamDecoder> decoder;
};

Target host_target() {
  return {make_host_device({.kind = HostOrder::Kind::lazy}), make_host_stream_decoder()};
}

Target cuda_target() {
  if (probe_cuda().state != CudaState::usable) return {};
  return {bind_primary_context(0), make_cuda_stream_decoder()};
}

// On host memory, by a library that plays nvCOMP.
Target nvcomp_target() {
  const std::string file = fakes::nvcomp_file("6");
  return {make_host_device({.kind = HostOrder::Kind::lazy}),
          make_nvcomp_stream_decoder(NvcompLibrary::open({&file, 1}))};
}

struct Maker {
  const char* name;
  Target (*make)();
  bool takes_all = true;  // else it leaves what it does not do well to the host
};

struct Packed {
  Bytes encoded, content;
  GpuCodec codec = GpuCodec::zstd;
  std::uint64_t needed_end = 0;
};

Packed random_packed(Random& random, std::size_t size) {
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
};

class StreamDecoderRules : public ::testing::TestWithParam<Maker> {
 protected:
  void SetUp() override {
    target_ = GetParam().make();
    if (target_.device == nullptr) GTEST_SKIP() << probe_cuda().why;
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
  Outcome decode(const std::vector<Packed>& wave, bool together = false) {
    list_->clear();
    std::vector<GpuFrame> frames = place(wave);
    std::vector<std::uint32_t> indices(wave.size());
    const std::size_t source_bytes = frames.back().src_offset + frames.back().src_size;
    const std::size_t output_bytes = frames.back().dst_offset + frames.back().dst_size;
    HostBuffer packed = pinned(source_bytes), output = pinned(output_bytes);
    for (std::size_t i = 0; i < wave.size(); ++i)
      std::memcpy(packed.data() + frames[i].src_offset, wave[i].encoded.data(), wave[i].encoded.size());
    EXPECT_TRUE(!together || list_->add_chunk(packed.bytes(), 0, frames, indices).ok());
    for (std::size_t i = 0; i < wave.size() && !together; ++i)
      EXPECT_TRUE(list_->add(wave[i].encoded, frames[i], indices[i]).ok()) << i;
    HostBuffer image = pinned(list_->image_bytes()), words = pinned(std::size_t{4} * list_->count());
    list_->write_image(image.bytes().first(list_->image_bytes()));
    run(packed, image, output, words);
    return collect(wave, frames, indices, output, words);
  }

  Target target_;
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

  void run(const HostBuffer& packed, const HostBuffer& image, const HostBuffer& output, const HostBuffer& words) {
    HostBuffer source = device(packed.size() + WaveBuffers::kSourcePadding), on_device = device(image.size());
    HostBuffer destination = device(output.size()), scratch = device(list_->scratch_bytes()),
               status = device(words.size());
    stream_->fill(destination.bytes(), std::byte{0xab});
    stream_->copy(source.bytes().first(packed.size()), packed.bytes());
    stream_->copy(on_device.bytes(), image.bytes());
    const std::size_t status_bytes = std::size_t{4} * list_->count();
    target_.decoder->enqueue(
        *stream_, *list_,
        {source.bytes().first(packed.size()), destination.bytes(), scratch.bytes().first(list_->scratch_bytes()),
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
      if (indices[i] == FrameList::kHost) continue;
      std::uint32_t word = 0;
      std::memcpy(&word, words.data() + std::size_t{4} * indices[i], 4);
      outcome.verdicts.back() = verdict_of(word);
    }
    return outcome;
  }
};

bool is_good(const std::optional<GpuVerdict>& verdict) {
  return verdict && verdict->result.ok() && !verdict->ask_host;
}

bool is_left(const std::optional<GpuVerdict>& verdict) {
  return !verdict && !StreamDecoderRules::GetParam().takes_all;
}

TEST_P(StreamDecoderRules, frames_of_all_codecs_come_out_whole) {
  Random random(1);
  for (int round = 0; round < 3; ++round) {
    std::vector<Packed> wave;
    for (int i = 0; i < 60; ++i) wave.push_back(random_packed(random, 1 + random() % (i % 8 == 0 ? 300000 : 5000)));
    const Outcome outcome = decode(wave);
    for (std::size_t i = 0; i < wave.size(); ++i) {
      if (is_left(outcome.verdicts[i])) continue;
      ASSERT_TRUE(is_good(outcome.verdicts[i])) << i;
      ASSERT_EQ(outcome.bytes[i], wave[i].content) << i;
    }
  }
}

TEST_P(StreamDecoderRules, a_damaged_frame_is_not_good_and_its_neighbours_are) {
  Random random(2);
  const Bytes content = gpu::testing::microscopy(random, 6000);
  std::vector<Packed> wave(3);
  for (Packed& packed : wave) {
    packed.content = content;
    gpu::testing::ZstdWriter{3, 0, true, true}.append(content, packed.encoded);
  }
  wave[1].encoded.back() ^= std::byte{1};  // of the checksum
  const Outcome outcome = decode(wave);
  EXPECT_FALSE(is_good(outcome.verdicts[1]));
  for (const int neighbour : {0, 2})
    EXPECT_TRUE(is_good(outcome.verdicts[neighbour]) || is_left(outcome.verdicts[neighbour]));
}

TEST_P(StreamDecoderRules, bytes_that_are_not_needed_may_be_missing) {
  Random random(3);
  std::vector<Packed> wave(1);
  wave[0].content = gpu::testing::microscopy(random, 500000);
  gpu::testing::ZstdWriter{}.append(wave[0].content, wave[0].encoded);
  wave[0].needed_end = 70000;
  const Outcome outcome = decode(wave);
  ASSERT_TRUE(is_good(outcome.verdicts[0]));
  EXPECT_TRUE(std::equal(wave[0].content.begin(), wave[0].content.begin() + 70000, outcome.bytes[0].begin()));
}

TEST_P(StreamDecoderRules, frames_of_a_chunk_may_be_added_together) {
  Random random(6);
  std::vector<Packed> wave;
  for (int i = 0; i < 40; ++i) {
    Packed packed = random_packed(random, 1 + random() % 3000);
    if (packed.codec == GpuCodec::zstd) {  // what every decoder takes
      packed.encoded.clear();
      gpu::testing::ZstdWriter{}.append(packed.content, packed.encoded);
    }
    wave.push_back(std::move(packed));
  }
  const Outcome outcome = decode(wave, /*together=*/true);
  for (std::size_t i = 0; i < wave.size(); ++i) {
    ASSERT_TRUE(is_good(outcome.verdicts[i])) << i;
    ASSERT_EQ(outcome.bytes[i], wave[i].content) << i;
  }
}

TEST_P(StreamDecoderRules, a_malformed_frame_is_reported_and_the_host_decodes_the_chunk) {
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
  const DecodeResult result = list_->add_chunk(chunk, 0, frames, indices);
  if (std::string_view(GetParam().name) == "host") {
    EXPECT_TRUE(result.ok());  // it looks at nothing before it decodes
  } else {
    EXPECT_FALSE(result.ok());
    EXPECT_EQ(indices[17], FrameList::kHost);
    EXPECT_EQ(indices[19], FrameList::kHost);
  }
}

TEST_P(StreamDecoderRules, frames_beyond_a_limit_are_left_to_the_host) {
  const std::uint64_t kScratch = std::uint64_t{64} << 20;
  for (const FrameLimits limits : {FrameLimits{.scratch_bytes = kScratch, .frames = 3},
                                   FrameLimits{.scratch_bytes = kScratch, .image_bytes = 4096}}) {
    const auto list = target_.decoder->make_list(limits);
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

TEST_P(StreamDecoderRules, an_empty_list_is_no_work) {
  list_->clear();
  EXPECT_EQ(list_->count(), 0u);
  target_.decoder->enqueue(*stream_, *list_, {});
  EXPECT_TRUE(stream_->record().wait());
}

INSTANTIATE_TEST_SUITE_P(Devices, StreamDecoderRules,
                         ::testing::Values(Maker{"host", host_target}, Maker{"cuda", cuda_target},
                                           Maker{"nvcomp", nvcomp_target, false}),
                         [](const auto& made) { return std::string(made.param.name); });

TEST(CudaFrames, that_do_not_fit_the_scratch_are_left_to_the_host) {
  if (probe_cuda().state == CudaState::built_without) GTEST_SKIP() << probe_cuda().why;
  Random random(4);
  const Bytes content = gpu::testing::microscopy(random, 100000);
  Bytes encoded;
  gpu::testing::ZstdWriter{}.append(content, encoded);
  const auto list = make_cuda_stream_decoder()->make_list({.scratch_bytes = std::uint64_t{1} << 17});
  const GpuFrame frame{0, encoded.size(), 0, content.size(), GpuCodec::zstd, 0};
  std::uint32_t index = 0;
  for (std::uint32_t taken = 0; index != FrameList::kHost; ++taken) {
    ASSERT_LT(taken, 10u);
    ASSERT_TRUE(list->add(encoded, frame, index).ok());
    EXPECT_LE(list->scratch_bytes(), std::uint64_t{1} << 17);
  }
}

}  // namespace
}  // namespace damacy
