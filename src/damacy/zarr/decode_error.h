// What a decoder said, as an Error: its words and its class.
#pragma once

#include "damacy/codec/status.h"
#include "damacy/core/error.h"

namespace damacy {

[[nodiscard]] Error decode_error(const DecodeResult& result) noexcept;

}  // namespace damacy
