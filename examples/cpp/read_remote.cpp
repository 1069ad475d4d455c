// Reads the array at a uri, and its document as a file of bytes. Prints the shape, the sum of the elements, and the
// size and the first byte of the document.
//   read_remote URI [DIRECTORY]
// URI is http(s)://…, s3://BUCKET/PATH with the credentials of the environment, or store://local/PATH, which is below
// DIRECTORY and needs no network. The array has version 3 of zarr.
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include <damacy/array.h>
#include <damacy/file.h>
#include <damacy/remote.h>

namespace {

int read(const std::string& uri) {
  const auto array = damacy::open_array(uri, damacy::store_of_uri(uri));
  const std::vector<float> elements = array->read_as<float>(damacy::Selection{damacy::Ellipsis{}});
  std::printf("shape %s, sum %.1f\n", damacy::tuple_text(array->shape().span()).c_str(),
              std::accumulate(elements.begin(), elements.end(), 0.0));

  const auto file = damacy::RemoteFile::open(uri + "/zarr.json");
  std::vector<std::byte> document(file->bytes());
  damacy::RemoteRead whole{.ranges = {{.memory = {damacy::host_memory(document)}}}, .exact = true};
  const damacy::IOFuture future(file->begin_read(std::move(whole)), {});  // other work may go on meanwhile
  const std::uint64_t count = future.get();
  std::printf("document of %llu bytes, begins with %c\n", static_cast<unsigned long long>(count),
              static_cast<char>(document.front()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: %s URI [DIRECTORY]\n", argv[0]);
    return 2;
  }
  try {
    if (argc == 3) damacy::mount("store://local/", damacy::make_file_store(argv[2], /*max_open_files=*/16));
    return read(argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
