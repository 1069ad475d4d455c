// BloscLZ blocks, as blosc chunks hold them. Stateless. Written from the format, for what older arrays hold; not for
// speed.
#pragma once

#include "damacy/codec/bytes.h"
#include "damacy/codec/status.h"

namespace damacy {

// One block that uses up `encoded` and gives exactly out.size() bytes.
[[nodiscard]] DecodeResult decode_blosclz(detail::ByteSpan encoded, detail::MutableByteSpan out) noexcept;

}  // namespace damacy
