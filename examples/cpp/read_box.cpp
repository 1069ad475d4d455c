// Reads the first element of each axis' range of one zarr array and prints its bytes.
//   read_box URI
#include <cstdio>
#include <vector>

#include <damacy/array.h>

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s URI\n", argv[0]);
    return 2;
  }
  try {
    const auto array = damacy::open_array(argv[1], damacy::make_file_store(damacy::path_of_uri(argv[1]), 16));
    const damacy::Dims zero(array->rank(), 0), one(array->rank(), 1);
    std::vector<std::byte> element(damacy::size_of(array->dtype()));
    array->read({zero, one}, element);
    std::printf("shape %s, first element", damacy::tuple_text(array->shape().span()).c_str());
    for (const std::byte b : element) std::printf(" %02x", std::to_integer<unsigned>(b));
    std::printf("\n");
    return 0;
  } catch (const damacy::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
