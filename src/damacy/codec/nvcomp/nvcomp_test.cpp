// nvCOMP behind the seam, with a library that plays it: which library is taken, which frames it is given, what becomes
// of those it does badly.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "damacy/codec/lz4.h"
#include "damacy/codec/nvcomp/frames.h"
#include "damacy/core/error.h"
#include "damacy/device/host_device.h"
#include "fakes/nvcomp/fake_nvcomp.h"
#include "support/zstd_frames.h"

namespace damacy::nvcomp {
namespace {

using gpu::testing::Bytes;
using gpu::testing::Random;

std::shared_ptr<const NvcompLibrary> open(const std::vector<std::string>& files) {
  return NvcompLibrary::open(files);
}
std::shared_ptr<const NvcompLibrary> fake(const std::string& which) {
  return open({fakes::nvcomp_file(which)});
}

std::string refusal(const std::vector<std::string>& files) {
  try {
    open(files);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), Status::inval);
    EXPECT_EQ(error.where().reason, "arguments");
    return error.message();
  }
  return "";
}

TEST(NvcompLibrary, versions_5_and_6_open_and_say_who_they_are) {
  EXPECT_EQ(fake("5")->version(), "5.2.0");
  EXPECT_EQ(fake("6")->version(), "6.0.0");
}

TEST(NvcompLibrary, takes_the_first_file_that_is_there) {
  EXPECT_EQ(open({"/nowhere/libnvcomp.so.6", fakes::nvcomp_file("5"), fakes::nvcomp_file("6")})->version(), "5.2.0");
}

TEST(NvcompLibrary, a_missing_one_is_refused_with_the_package_to_install) {
  const std::string why = refusal({"/nowhere/libnvcomp.so.6"});
  if (why.empty()) GTEST_SKIP() << "this machine's loader has one";
  for (const char* part :
       {"gpu_decoder='nvcomp'", "libnvcomp.so.5", "libnvcomp.so.6", "damacy[nvcomp]", "nvidia-libnvcomp-cu13"})
    EXPECT_NE(why.find(part), std::string::npos) << part << " in " << why;
}

TEST(NvcompLibrary, another_version_is_refused_by_its_number) {
  const std::string why = refusal({fakes::nvcomp_file("4")});
  EXPECT_NE(why.find("nvCOMP 4.1.0, needed is 5 or 6"), std::string::npos) << why;
  EXPECT_NE(why.find("damacy[nvcomp]"), std::string::npos) << why;
}

TEST(NvcompLibrary, one_without_its_functions_is_refused) {
  const std::string why = refusal({fakes::nvcomp_file("hollow")});
  EXPECT_NE(why.find("nvCOMP 5.1.0 lacks functions"), std::string::npos) << why;
}

TEST(NvcompLibrary, both_versions_report_their_temporary_memory) {
  for (const char* which : {"5", "6"})
    EXPECT_EQ(fake(which)->temp_bytes(GpuCodec::zstd, 2, 1000, 1500), 4500u) << which;
}

TEST(Lz4Check, accepts_good_blocks_and_nothing_that_the_host_refuses) {
  Random random(11);
  int good = 0;
  for (int round = 0; round < 3000; ++round) {
    const Bytes content = gpu::testing::random_content(random, 1 + random() % 3000);
    Bytes block = gpu::testing::random_lz4(random, content);
    if (round % 4 != 0) gpu::testing::mutate(random, block);
    if (block.empty()) continue;
    Bytes out(content.size());
    const bool accepted = is_good_lz4(block, content.size());
    EXPECT_TRUE(!accepted || decode_lz4_block(block, out).ok()) << round;
    EXPECT_TRUE(accepted || round % 4 != 0) << round;
    good += accepted ? 1 : 0;
  }
  EXPECT_GT(good, 700);
}

// A wave by itself on a host device.
class NvcompWave : public ::testing::Test {
 protected:
  struct Piece {
    Bytes encoded, content;
    GpuCodec codec = GpuCodec::zstd;
    std::uint32_t index = FrameList::kHost;
    std::uint64_t at = 0;
  };

  void make(std::uint64_t scratch_limit = std::uint64_t{64} << 20) {
    decoder_ = make_nvcomp_stream_decoder(fake("5"));
    list_ = decoder_->make_list({.scratch_bytes = scratch_limit});
  }

  Piece packed(std::size_t size, gpu::testing::ZstdWriter writer = {}) {
    Piece piece;
    piece.content = gpu::testing::microscopy(random_, size);
    writer.append(piece.content, piece.encoded);
    return piece;
  }

  DecodeResult add(Piece& piece) {
    piece.at = output_bytes_;
    const GpuFrame frame{source_.size(), piece.encoded.size(), piece.at, piece.content.size(), piece.codec, 0};
    source_.insert(source_.end(), piece.encoded.begin(), piece.encoded.end());
    output_bytes_ += piece.content.size();
    return list_->add(piece.encoded, frame, piece.index);
  }

  // Decodes what was added. Scratch has a guard behind.
  void run() {
    const HostBuffer image(device_->pinned_memory(), list_->image_bytes() + 1);
    output_ = HostBuffer(device_->device_memory(), output_bytes_);
    status_ = HostBuffer(device_->device_memory(), 4 * list_->count() + 4);
    const std::size_t scratch_bytes = list_->scratch_bytes();
    const HostBuffer scratch(device_->device_memory(), scratch_bytes + 64);
    std::memset(scratch.data(), 0x77, scratch.size());
    std::memset(output_.data(), 0xab, output_bytes_);
    list_->write_image(image.bytes().first(list_->image_bytes()));
    const auto stream = device_->make_stream();
    decoder_->enqueue(*stream, *list_,
                      {source_, output_.bytes(), scratch.bytes().first(scratch_bytes),
                       image.bytes().first(list_->image_bytes()), status_.bytes().first(4 * list_->count())});
    ASSERT_TRUE(stream->record().wait());
    for (const std::byte guard : scratch.bytes().subspan(scratch_bytes)) ASSERT_EQ(guard, std::byte{0x77});
  }

  bool is_good(const Piece& piece) const {
    std::uint32_t word = 0;
    std::memcpy(&word, status_.data() + 4 * piece.index, 4);
    const GpuVerdict verdict = verdict_of(word);
    return verdict.result.ok() && !verdict.ask_host;
  }
  bool is_whole(const Piece& piece) const {
    return std::memcmp(output_.data() + piece.at, piece.content.data(), piece.content.size()) == 0;
  }

  Random random_{5};
  fakes::NvcompKnobs knobs_{"5"};
  std::shared_ptr<Device> device_ = make_host_device({.kind = HostOrder::Kind::lazy});
  std::unique_ptr<StreamDecoder> decoder_;
  std::unique_ptr<FrameList> list_;
  Bytes source_;
  std::size_t output_bytes_ = 0;
  HostBuffer output_, status_;
};

TEST_F(NvcompWave, plain_frames_of_all_codecs_are_decoded) {
  make();
  std::vector<Piece> pieces;
  for (int i = 0; i < 20; ++i) {
    Piece piece = packed(1000 + random_() % 5000);
    if (i % 3 == 1) piece.codec = GpuCodec::lz4, piece.encoded = gpu::testing::random_lz4(random_, piece.content);
    if (i % 3 == 2) piece.codec = GpuCodec::raw, piece.encoded = piece.content;
    ASSERT_TRUE(add(piece).ok());
    ASSERT_NE(piece.index, FrameList::kHost) << i;
    pieces.push_back(std::move(piece));
  }
  run();
  for (const Piece& piece : pieces) EXPECT_TRUE(is_good(piece) && is_whole(piece));
  EXPECT_EQ(knobs_.get("calls"), 2);
}

TEST_F(NvcompWave, what_nvcomp_does_wrong_silently_is_left_to_the_host) {
  make();
  Piece checksum = packed(3000, {3, 0, true, true});
  Piece two = packed(2000);
  const Piece second = packed(2500);
  two.encoded.insert(two.encoded.end(), second.encoded.begin(), second.encoded.end());
  two.content.insert(two.content.end(), second.content.begin(), second.content.end());
  Piece skippable = packed(2000);
  const Bytes empty_skippable{std::byte{0x50}, std::byte{0x2a}, std::byte{0x4d}, std::byte{0x18},
                              std::byte{0},    std::byte{0},    std::byte{0},    std::byte{0}};
  Piece behind = skippable;
  skippable.encoded.insert(skippable.encoded.begin(), empty_skippable.begin(), empty_skippable.end());
  behind.encoded.insert(behind.encoded.end(), empty_skippable.begin(), empty_skippable.end());
  Piece unsized = packed(3000, {3, 0, false, false});
  for (Piece* piece : {&checksum, &two, &skippable, &behind, &unsized}) {
    ASSERT_TRUE(add(*piece).ok());
    EXPECT_EQ(piece->index, FrameList::kHost) << piece - &checksum;
  }
  EXPECT_EQ(list_->count(), 0u);
}

TEST_F(NvcompWave, a_malformed_header_is_an_error_and_bad_lz4_is_the_hosts) {
  make();
  Piece zstd = packed(3000);
  zstd.encoded.resize(zstd.encoded.size() / 2);
  EXPECT_FALSE(add(zstd).ok());
  Piece lz4 = packed(3000);
  lz4.codec = GpuCodec::lz4;
  lz4.encoded = gpu::testing::random_lz4(random_, lz4.content);
  lz4.encoded.resize(lz4.encoded.size() - 1);
  EXPECT_TRUE(add(lz4).ok());
  EXPECT_EQ(lz4.index, FrameList::kHost);
}

TEST_F(NvcompWave, a_success_that_wrote_only_half_is_decoded_on_the_host) {
  make();
  Piece piece = packed(5000);
  ASSERT_TRUE(add(piece).ok());
  knobs_.set("half", 1);
  run();
  EXPECT_FALSE(is_good(piece));
}

TEST_F(NvcompWave, a_call_that_is_refused_leaves_its_frames_to_the_host) {
  make();
  Piece piece = packed(5000);
  ASSERT_TRUE(add(piece).ok());
  knobs_.set("refuse", 1);
  run();
  EXPECT_FALSE(is_good(piece));
}

TEST_F(NvcompWave, scratch_that_is_short_makes_several_calls_and_never_more_memory) {
  constexpr std::uint64_t kLimit = 100000;
  make(kLimit);
  std::vector<Piece> pieces;
  for (int i = 0; i < 24; ++i) {
    pieces.push_back(packed(i == 7 ? 60000 : 4000));  // the large one does not fit alone
    ASSERT_TRUE(add(pieces.back()).ok());
    EXPECT_EQ(pieces.back().index == FrameList::kHost, i == 7) << i;
    EXPECT_LE(list_->scratch_bytes(), kLimit);
  }
  run();
  EXPECT_GT(knobs_.get("calls"), 2);
  for (const Piece& piece : pieces) EXPECT_TRUE(piece.index == FrameList::kHost || (is_good(piece) && is_whole(piece)));
}

TEST_F(NvcompWave, frames_that_are_not_aligned_as_the_library_wants_go_to_the_host) {
  knobs_.set("alignment", 8);
  make();
  source_.resize(4);
  Piece piece = packed(5000);
  ASSERT_TRUE(add(piece).ok());
  EXPECT_EQ(piece.index, FrameList::kHost);
}

TEST_F(NvcompWave, a_list_is_used_again) {
  make();
  for (int round = 0; round < 2; ++round) {
    list_->clear();
    source_.clear();
    output_bytes_ = 0;
    Piece piece = packed(5000);
    ASSERT_TRUE(add(piece).ok());
    run();
    EXPECT_TRUE(is_good(piece) && is_whole(piece));
  }
}

}  // namespace
}  // namespace damacy::nvcomp
