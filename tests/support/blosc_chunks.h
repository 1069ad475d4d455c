// Encoded chunks for tests outside of the layer that encodes them: what a writer of blosc makes, byte by byte.
#pragma once

#include "support/encoders.h"

namespace damacy::testing {

using codec_test::append;
using codec_test::blosc_header;
using codec_test::blosc_packed;
using codec_test::BloscWriter;
using codec_test::image;
using codec_test::noise;
using ChunkBytes = codec_test::Bytes;

}  // namespace damacy::testing
