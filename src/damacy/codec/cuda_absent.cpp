// Stands in for cuda/ in a build without CUDA.
#include "damacy/codec/nvcomp/wave.h"
#include "damacy/codec/stream_decoder.h"
#include "damacy/core/error.h"

namespace damacy {

std::unique_ptr<StreamDecoder> make_cuda_stream_decoder() {
  throw Error(Status::cuda, "built without CUDA", "no-device");
}

namespace nvcomp {

constexpr int kNotSupported = 801;  // CUDA's own word for it

int launch_prepare(const View&, u64) {
  return kNotSupported;
}
int launch_conclude(const View&, u64) {
  return kNotSupported;
}

}  // namespace nvcomp
}  // namespace damacy
