// Stands in for cuda/ in a build without CUDA.
#include "damacy/codec/stream_decoder.h"
#include "damacy/core/error.h"

namespace damacy {

std::unique_ptr<StreamDecoder> make_cuda_stream_decoder() {
  throw Error(Status::cuda, "built without CUDA", "no-device");
}

}  // namespace damacy
