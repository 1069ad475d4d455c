// Reads a file in parallel parts and prints a checksum of its bytes.
//   read_file PATH
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <vector>

#include <damacy/file.h>
#include <fcntl.h>

namespace {

// FNV-1a, to compare the bytes of two runs.
std::uint64_t checksum(const std::vector<std::byte>& bytes) {
  std::uint64_t sum = 0xcbf29ce484222325u;
  for (const std::byte b : bytes) sum = (sum ^ static_cast<std::uint64_t>(b)) * 0x100000001b3u;
  return sum;
}

std::vector<std::byte> read(const char* path) {
  std::vector<std::byte> bytes(std::filesystem::file_size(path));
  damacy::FileRequest request;
  request.file = damacy::File::open({path, AT_FDCWD}, damacy::OpenFlags::parse("r"));
  request.memory = {{bytes.data(), bytes.size(), nullptr}};
  request.options.exact = true;
  const auto operation = damacy::begin_request(std::move(request));
  operation->run_all({});
  operation->wait({});
  if (const auto error = operation->error()) std::rethrow_exception(error);
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s PATH\n", argv[0]);
    return 2;
  }
  try {
    const std::vector<std::byte> bytes = read(argv[1]);
    std::printf("%zu bytes, checksum %016llx\n", bytes.size(), static_cast<unsigned long long>(checksum(bytes)));
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
