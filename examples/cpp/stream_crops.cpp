// Streams random crops of one zarr array and prints a checksum of all their bytes.
//   stream_crops URI [EXTENT] [BATCHES]
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include <damacy/damacy.h>

namespace {

// FNV-1a, to compare the bytes of two runs.
std::uint64_t add_to_checksum(std::uint64_t sum, std::span<const std::byte> bytes) {
  for (const std::byte b : bytes) sum = (sum ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
  return sum;
}

damacy::Sample random_crop(const damacy::ArrayInfo& array, std::int64_t extent, std::mt19937_64& random) {
  damacy::Sample sample{array.uri, {}};
  for (const std::int64_t size : array.shape) {
    const std::int64_t wanted = std::min(extent, size);
    const auto start = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(size - wanted + 1));
    sample.aabb.push_back({start, start + wanted});
  }
  return sample;
}

int stream(const std::string& uri, std::int64_t extent, int batches) {
  const damacy::ArrayInfo array = damacy::array_info(uri);
  damacy::Config config;
  config.batch_size = 4;
  config.host_buffer_bytes = config.device_buffer_bytes = std::int64_t{256} << 20;
  config.device.kind = damacy::DeviceChoice::Kind::cpu;

  std::mt19937_64 random(1234);
  std::vector<damacy::Sample> samples;
  for (int i = 0; i < batches * config.batch_size; ++i) samples.push_back(random_crop(array, extent, random));

  damacy::Pipeline pipeline(config);
  pipeline.push(std::move(samples));
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (int i = 0; i < batches; ++i) sum = add_to_checksum(sum, pipeline.pop().bytes());
  std::printf("%d batches of %lld crops, checksum %016llx\n", batches, static_cast<long long>(config.batch_size),
              static_cast<unsigned long long>(sum));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s URI [EXTENT] [BATCHES]\n", argv[0]);
    return 2;
  }
  try {
    return stream(argv[1], argc > 2 ? std::atoll(argv[2]) : 64, argc > 3 ? std::atoi(argv[3]) : 4);
  } catch (const damacy::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
