// The stream decoders under their contract: the host's, the reference of the kernels, and CUDA's where
// there is a GPU.
#include "damacy/codec/stream_decoder.h"

#include "conformance/stream_decoder_suite.h"
#include "damacy/device/cuda_device.h"
#include "damacy/device/host_device.h"
#include "stages/reference_stream_decoder.h"

namespace damacy {
namespace {

template <HostOrder::Kind kind>
std::shared_ptr<Device> host_device() {
  return make_host_device({.kind = kind, .seed = 5, .guard = true});
}

template <HostOrder::Kind kind>
struct HostFixture {
  static constexpr bool kScans = false, kDescribes = true;
  static TestedDecoder make() { return {host_device<kind>(), make_host_stream_decoder()}; }
};

struct ReferenceFixture {
  static constexpr bool kScans = true, kDescribes = false;
  static TestedDecoder make() {
    return {host_device<HostOrder::Kind::lazy>(), std::make_unique<stages::ReferenceStreamDecoder>()};
  }
};

struct GpuFixture {
  static constexpr bool kScans = true, kDescribes = true;
  static TestedDecoder make() {
    if (probe_cuda().state != CudaState::usable) return {};
    return {bind_primary_context(0), make_cuda_stream_decoder()};
  }
};

INSTANTIATE_TYPED_TEST_SUITE_P(HostEager, StreamDecoderSuite, HostFixture<HostOrder::Kind::eager>);
INSTANTIATE_TYPED_TEST_SUITE_P(HostLazy, StreamDecoderSuite, HostFixture<HostOrder::Kind::lazy>);
INSTANTIATE_TYPED_TEST_SUITE_P(HostRandom, StreamDecoderSuite, HostFixture<HostOrder::Kind::random>);
INSTANTIATE_TYPED_TEST_SUITE_P(Reference, StreamDecoderSuite, ReferenceFixture);
INSTANTIATE_TYPED_TEST_SUITE_P(Gpu, StreamDecoderSuite, GpuFixture);

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
