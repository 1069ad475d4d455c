// Reads a file into memory of a GPU, or of the host if there is none: many small reads under way at once, then the
// whole file. Prints a checksum of the bytes.
//   file_to_gpu PATH
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <damacy/file.h>

namespace {

constexpr std::uint64_t kPiece = 64 << 10;

// FNV-1a, to compare the bytes of two runs.
std::uint64_t checksum(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const std::byte b : bytes) sum = (sum ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
  return sum;
}

int read(const char* path) {
  const std::uint64_t size = std::filesystem::file_size(path);
  damacy::make_primary_current(0);  // a CUDA context for this thread, unless it has one or there is no GPU
  const damacy::BoundDevice bound = damacy::bind_device({});  // the context's GPU, else the host
  damacy::Device& device = *bound.device;
  const damacy::HostBuffer buffer(device.device_memory(), std::max<std::uint64_t>(size, 1));
  // Bound once: parts of it cost no call of the driver.
  const damacy::FileMemory memory =
      device.is_host() ? damacy::host_memory(buffer.bytes().first(size)) : damacy::device_memory(buffer.data(), size);
  damacy::CuFile file(path);
  std::vector<damacy::IOFuture> pieces;
  for (std::uint64_t at = 0; at < size; at += kPiece)
    pieces.push_back(file.pread(damacy::part_of(memory, at, std::min(kPiece, size - at)), at));
  std::uint64_t bytes = 0;
  for (const damacy::IOFuture& piece : pieces) bytes += piece.get();

  file.read(memory, 0, {.exact = true});  // the same by one request, in parts for several threads
  std::vector<std::byte> host(size);
  const auto stream = device.make_stream();
  stream->copy(host, buffer.bytes().first(size));
  stream->record().wait();
  std::printf("%llu bytes to %s, checksum %016llx\n", static_cast<unsigned long long>(bytes), device.name().c_str(),
              static_cast<unsigned long long>(checksum(host)));
  return bytes == size ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s PATH\n", argv[0]);
    return 2;
  }
  try {
    return read(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
