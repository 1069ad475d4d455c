// Reads a selection of a zarr array with two or more axes as float: every other index of the last axis but one, and the
// last axis backwards. Into memory of a GPU as well, if there is one. Prints the shape and the sum, and the first and
// the last element of the array.
//   read_selection URI
#include <cstdio>
#include <numeric>
#include <vector>

#include <damacy/array.h>
#include <damacy/damacy.h>

namespace {

using damacy::Ellipsis;
using damacy::Slice;

// What the read into a GPU's memory gives; the same as on the host.
std::vector<float> by_gpu(std::shared_ptr<const damacy::Array> array, const damacy::Selection& what, std::size_t count,
                          damacy::Device& gpu) {
  const damacy::HostBuffer memory(gpu.device_memory(), count * sizeof(float));
  const auto out = damacy::ReadOutput::device(memory.data(), memory.size(), damacy::Dtype::f32);
  auto read = damacy::begin_read(std::move(array), what, out);  // other work may go on meanwhile
  read.get();
  std::vector<float> elements(count);
  const auto stream = gpu.make_stream();
  stream->copy(std::as_writable_bytes(std::span(elements)), memory.bytes());
  stream->record().wait();
  return elements;
}

int read(const std::string& uri) {
  const auto array = damacy::open_array(uri, damacy::make_file_store(damacy::path_of_uri(uri), 16));
  const damacy::Selection what{Ellipsis{}, Slice{.step = 2}, Slice{.step = -1}};
  const std::vector<float> elements = array->read_as<float>(what);
  damacy::make_primary_current(0);  // a CUDA context for this thread, unless it has one or there is no GPU
  const damacy::BoundDevice bound = damacy::bind_device({});
  bool equal = true;
  if (!bound.device->is_host()) equal = by_gpu(array, what, elements.size(), *bound.device) == elements;
  std::printf("shape %s, sum %.1f, %s\n", damacy::tuple_text(what.shape_in(array->shape()).span()).c_str(),
              std::accumulate(elements.begin(), elements.end(), 0.0),
              bound.device->is_host() ? "no GPU"
              : equal                 ? "the same on the GPU"
                                      : "NOT the same on the GPU");
  const damacy::PointSelection corners(std::vector<std::vector<std::int64_t>>(array->rank(), {0, -1}));
  const std::vector<float> ends = array->read_as<float>(corners);
  std::printf("first %.1f, last %.1f\n", static_cast<double>(ends[0]), static_cast<double>(ends[1]));
  return equal ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s URI\n", argv[0]);
    return 2;
  }
  try {
    return read(argv[1]);
  } catch (const damacy::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
